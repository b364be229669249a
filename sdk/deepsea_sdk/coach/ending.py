"""The end of a game: what each seat scores on average while the values of some chips are unknown.

Invariants: it is exact for each pair of seats, of which one is ahead or the other; values that are
not known are dealt from those that are left of their level, without replacement; forfeits are not
looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from deepsea_rules.actions import LEVEL_OF, LEVELS, values_of_level
from deepsea_rules.scoring import final_result
from deepsea_rules.state import GameState

Spread: TypeAlias = Mapping[int, float]
"""The probability of each lead in points."""

_CERTAIN: Final = {0: 1.0}


def final_scores(state: GameState, known: Mapping[int, int]) -> list[float]:
    """The placement score that each seat is expected to have if the banks stay as they are."""
    players = state.players
    left = {level: list(values_of_level(level)) for level in LEVELS}
    for chip, value in known.items():
        left[LEVEL_OF[chip]].remove(value)
    pools = {level: tuple(values) for level, values in left.items()}
    points = [sum([known[chip] for chip in bank if chip in known]) for bank in state.bank]
    unknown = [[LEVEL_OF[chip] for chip in bank if chip not in known] for bank in state.bank]
    scores = [0.0] * players
    share = 1 / (players - 1)
    for seat in range(1, players):
        for other in range(seat):
            lead = points[seat] - points[other]
            ahead = _ahead(state, (seat, other), lead, unknown[seat], unknown[other], pools)
            scores[seat] += share * ahead
            scores[other] += share * (1 - ahead)
    return scores


def _ahead(
    state: GameState,
    seats: tuple[int, int],
    lead: int,
    ours: list[int],
    theirs: list[int],
    pools: Mapping[int, tuple[int, ...]],
) -> float:
    """The chance that the first seat is ahead; a tie that stays one is half of it."""
    least, most = lead, lead
    for sign, levels in ((1, ours), (-1, theirs)):
        for level in levels:
            low, high = sign * pools[level][0], sign * pools[level][-1]
            least += min(low, high)
            most += max(low, high)
    if least > 0 or most < 0:
        return float(least > 0)
    leads: Spread = {lead: 1.0}
    for level in {*ours, *theirs}:
        more = _difference(pools[level], ours.count(level), theirs.count(level))
        sums: dict[int, float] = {}
        for one, chance in leads.items():
            for other, weight in more.items():
                sums[one + other] = sums.get(one + other, 0.0) + chance * weight
        leads = sums
    ahead = sum([chance for one, chance in leads.items() if one > 0])
    tied = leads.get(0, 0.0)
    return ahead + tied * _tie(state, *seats) if tied else ahead


@lru_cache(maxsize=4096)
def _difference(pool: tuple[int, ...], ours: int, theirs: int) -> Spread:
    """The sum of some chips less that of some others, all of one level with these values left."""
    if not ours and not theirs:
        return _CERTAIN
    ways: dict[tuple[int, int, int], int] = {(0, 0, 0): 1}
    for value in pool:
        more = dict(ways)
        for (one, other, total), count in ways.items():
            for key in ((one + 1, other, total + value), (one, other + 1, total - value)):
                if key[0] <= ours and key[1] <= theirs:
                    more[key] = more.get(key, 0) + count
        ways = more
    found = {total: n for (one, other, total), n in ways.items() if (one, other) == (ours, theirs)}
    every = sum(found.values())
    return {total: n / every for total, n in found.items()}


def _tie(state: GameState, seat: int, other: int) -> float:
    """1 if the first of two seats with the same points is ahead, 0 behind, 0.5 if they stay tied.

    Chips break ties by their levels, which everybody knows; a third seat with the same points is
    not looked at.
    """
    banks = [state.bank[seat], state.bank[other]]
    first, second = final_result(state.rules.tiebreak, banks, (0,) * len(state.values)).placements
    return 0.5 if first == second else float(first < second)
