"""The formula: a quick guess, without roll-outs, of the placement score that a position leads to.

Invariants: it reads what everybody sees and the values that are passed in, and no other; it has no
weights that were fitted to games; other numbers are another version, because sums of luck depend on
them. Of a game that is over it is exact for each pair of seats, of which one is ahead or the other:
values that are not known are dealt from those that are left of their level, without replacement;
forfeits are not looked at.

A diver comes home with its cargo, or does not; the chance is that to swim the way in the turns that
the air leaves, with the unit that it may take now or without, whichever brings more. Whether a seat
ends ahead of another is a mean over the four cases of the two; in each of them the lead counts by a
logistic curve that is steeper the later it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import exp, sqrt
from typing import NamedTuple, TypeAlias

from deepsea_rules.actions import LEVEL_OF, LEVELS, values_of_level
from deepsea_rules.ruleset import DIVES, FULL_AIR, HOME
from deepsea_rules.scoring import final_result
from deepsea_rules.state import GameState
from deepsea_rules.view import unseen_values
from deepsea_sdk.policies import MANY_TURNS, MEAN_VALUES, home_chances

from .luck import Outlook

VERSION = "formula-2"
"""The name and version of the formula, for results that depend on it."""

SPREAD = {1: 16.0, 2: 12.0}
"""By dive, the points of a lead that wins 73 of 100 games when all divers are home,"""
LAST_SPREAD = (1.5, 3.0, 6.0)
"""and the same in the last dive: without air, with half of it, with all."""
LEAST_CHANCE = 0.01
"""No diver is as good as home or lost as the dice alone say: it may take more, or drop some."""
HOPE = 3.0
"""The points that a diver that comes down with no cargo will find from there on."""
DOUBT = 4.0
"""What cargo that comes home adds to the square of a spread: it may be other cargo by then."""
PER_CHIP = 0.38
"""What a chip of unknown value in a bank adds: its variance is 1.25."""


class _Prospect(NamedTuple):
    """What a seat may still bring home in this dive: with which chance, how much, how surely."""

    chance: float
    points: float
    doubt: float


_NOTHING = _Prospect(0.0, 0.0, 0.0)


def formula(outlooks: Sequence[Outlook]) -> list[list[float]]:
    """For each outcome of one chance event the placement score that each seat is expected to reach.

    outlooks  they differ by where the seat is that rolled, or by known values
    """
    # What does not depend on the roll is the same for all sums of one: it is kept for this call.
    kept: dict[tuple[object, ...], _Kept] = {}
    found = []
    for state, known in outlooks:
        if state.phase == "over" or (state.phase == "order" and state.dive == DIVES):
            found.append(final_scores(state, known))
            continue
        key = id(known), state.dive, state.phase
        if key not in kept:
            kept[key] = _Kept(state, known)
        found.append(kept[key].scores(state))
    return found


class _Kept:
    """The scores of positions that differ only by where the seat to move is."""

    def __init__(self, state: GameState, known: Mapping[int, int]) -> None:
        self._worth = _worths(known)
        self._banks = [sum([self._worth[chip] for chip in bank]) for bank in state.bank]
        self._doubts = [PER_CHIP * sum([c not in known for c in bank]) for bank in state.bank]
        self._square = _spread(state) ** 2
        self._prospects: dict[int, _Prospect] = {}
        self._pairs: dict[tuple[int, int], float] = {}

    def scores(self, state: GameState) -> list[float]:
        """The placement score that each seat is expected to reach."""
        moves = state.to_move if state.phase == "search" else -1
        prospects, pairs = self._prospects, self._pairs
        if moves >= 0:
            prospects[moves] = _prospect(state, moves, self._worth)
        players = state.players
        scores = [0.0] * players
        share = 1 / (players - 1)
        for seat in range(players):
            if seat not in prospects:
                prospects[seat] = _prospect(state, seat, self._worth)
            for other in range(seat):
                pair = seat, other
                if seat == moves or other == moves or pair not in pairs:
                    pairs[pair] = share * _chance_ahead(
                        self._banks[seat] - self._banks[other],
                        self._square + self._doubts[seat] + self._doubts[other],
                        prospects[seat],
                        prospects[other],
                    )
                ahead = pairs[pair]
                scores[seat] += ahead
                scores[other] += share - ahead
        return scores


def _chance_ahead(lead: float, square: float, ours: _Prospect, theirs: _Prospect) -> float:
    """The chance to be ahead, over the cases in which each of two divers comes home or does not."""
    chance, points, doubt = ours
    their_chance, their_points, their_doubt = theirs
    total = 0.0
    for weight, lead_then, square_then in (
        (1 - chance, lead, square),
        (chance, lead + points, square + doubt),
    ):
        if weight:
            total += weight * (1 - their_chance) * _logistic(lead_then / sqrt(square_then))
            if their_chance:
                root = sqrt(square_then + their_doubt)
                total += weight * their_chance * _logistic((lead_then - their_points) / root)
    return total


def _logistic(x: float) -> float:
    return 1 / (1 + exp(-x)) if -30 < x < 30 else float(x > 0)


def _spread(state: GameState) -> float:
    # The banks of a dive that is being cleaned up are those with which the next one begins.
    dive = state.dive + (state.phase == "order")
    if dive < DIVES:
        return SPREAD[dive]
    none, half, full = LAST_SPREAD
    x = 1.0 if state.phase == "order" else max(state.air, 0) / FULL_AIR
    if x < 0.5:
        return float(none * (half / none) ** (2 * x))
    return float(half * (full / half) ** (2 * x - 1))


def _prospect(state: GameState, seat: int, worth: Sequence[float]) -> _Prospect:
    place = state.place
    space = place[seat]
    if space == HOME or state.phase == "order":
        return _NOTHING
    moves = state.to_move if state.phase == "search" else -1
    cargo = state.cargo[seat]
    load = len(cargo)
    # Spaces of other divers are skipped; only where the one is that has just rolled is left out,
    # so that what the others may bring home is the same for all that it may roll.
    way = space
    for other, at in enumerate(place):
        if 0 < at < space and other != moves:
            way -= 1
    breath, before = _breath(state, seat)
    left = max(max(state.air, 0) - before, 0)
    points = sum([worth[chip] for unit in cargo for chip in unit])
    homes = home_chances()
    turns = min(-(-left // breath), MANY_TURNS) if breath else MANY_TURNS
    chance = homes[load][turns][way] if load else 1.0
    if seat == moves and (unit := state.trail[space]):
        more = points + sum([worth[chip] for chip in unit])
        turns = min(-(-left // (breath + 1)), MANY_TURNS)
        with_it = homes[load + 1][turns][way]
        if with_it * more > chance * points:
            chance, points = with_it, more
    if not load and not state.homeward[seat]:
        points += HOPE
    return _Prospect(min(max(chance, LEAST_CHANCE), 1 - LEAST_CHANCE), points, DOUBT)


def _breath(state: GameState, seat: int) -> tuple[int, int]:
    """What all breathe in a round, and the part of it that comes before this seat's next turn."""
    players, place, cargo = state.players, state.place, state.cargo
    first = state.to_move + (state.phase == "search")
    total = before = 0
    for step in range(players):
        other = (first + step) % players
        if other == seat:
            before = total
        if place[other] != HOME:
            total += len(cargo[other])
    return total, before


def _worths(known: Mapping[int, int]) -> Sequence[float]:
    """What each chip is worth on average, by its id."""
    if not known:
        return MEAN_VALUES
    left, count = [0.0] * (LEVELS[-1] + 1), [0] * (LEVELS[-1] + 1)
    for level in LEVELS:
        values = values_of_level(level)
        left[level], count[level] = float(sum(values)), len(values)
    for chip, value in known.items():
        left[LEVEL_OF[chip]] -= value
        count[LEVEL_OF[chip]] -= 1
    means = [total / many if many else 0.0 for total, many in zip(left, count, strict=True)]
    worth = [means[level] for level in LEVEL_OF]
    for chip, value in known.items():
        worth[chip] = value
    return worth


# The end of a game, where the values of some chips are unknown

Spread: TypeAlias = Mapping[int, float]
"""The probability of each lead in points."""


def final_scores(state: GameState, known: Mapping[int, int]) -> list[float]:
    """The placement score that each seat is expected to have if the banks stay as they are."""
    players = state.players
    pools = {level: tuple(unseen_values(level, known)) for level in LEVELS}
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
        return {0: 1.0}
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
