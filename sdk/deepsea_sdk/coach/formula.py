"""The formula: a quick guess, without roll-outs, of the placement score that a position leads to.

Invariants: it reads what everybody sees and the values that are passed in, and no other; it has no
weights that were fitted to games; of a finished game whose values are known it says the result;
other numbers are another version, because sums of luck depend on them.

A seat is worth its bank, and its cargo times the chance to get home with the turns that the air
leaves; where it may take a unit, with that unit or without, whichever is more. A lead over another
seat counts by a logistic curve that is steeper the later it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, sqrt
from typing import Final

from deepsea_rules.actions import TAKE
from deepsea_rules.constants import DIVES, FULL_AIR
from deepsea_rules.state import GameState
from deepsea_rules.units import CHIPS, LEVEL_OF, LEVELS, Unit, values_of_level
from deepsea_sdk.steady import home_chances

from .common_luck import halves
from .course import Outlook

VERSION: Final = "formula-1"
"""The name and version of the formula, for results that depend on it."""

SPREAD: Final = {1: 16.0, 2: 12.0}
"""By dive, the points of a lead that is worth a placement score of 0.73."""
LAST_SPREAD: Final = (3.0, 8.0)
"""The same in the last dive, without air and with all of it,"""
END_SPREAD: Final = 0.3
"""and when nothing is unknown any more but the values of some chips,"""
_PER_CHIP: Final = 0.38
"""each of which adds this to the square: its variance is 1.25."""
_OPENING_MEANS: Final = tuple([4 * LEVEL_OF[chip] - 2.5 for chip in (0, *CHIPS)])


def formula(outlooks: Sequence[Outlook]) -> list[list[float]]:
    """For each outlook the placement score that each seat is expected to reach."""
    return [_scores(state, known) for state, known in outlooks]


def _scores(state: GameState, known: Mapping[int, int]) -> list[float]:
    players = state.players
    worth = _worths(known) if known else _OPENING_MEANS
    points = [sum([worth[chip] for chip in bank]) for bank in state.bank]
    if state.phase == "over":
        unknown = [sum([chip not in known for chip in bank]) for bank in state.bank]
        if not any(unknown):
            return [half / (2 * (players - 1)) for half in halves(state)]
        spread = sqrt(END_SPREAD**2 + _PER_CHIP * sum(unknown))
    else:
        air = max(state.air, 0)
        for seat, cargo in enumerate(state.cargo):
            points[seat] += _expected(state, seat, cargo, air, worth)
        if state.dive < DIVES:
            spread = SPREAD[state.dive]
        else:
            least, most = LAST_SPREAD
            spread = least + (most - least) * air / FULL_AIR
    scores = [0.0] * players
    share = 1 / (players - 1)
    for seat in range(1, players):
        own = points[seat]
        for other in range(seat):
            ahead = share / (1 + exp((points[other] - own) / spread))
            scores[seat] += ahead
            scores[other] += share - ahead
    return scores


def _expected(
    state: GameState, seat: int, cargo: tuple[Unit, ...], air: int, worth: Sequence[float]
) -> float:
    """The points that a seat gets home from its cargo, and from a unit that it may take now."""
    takes = state.phase == "search" and seat == state.to_move and TAKE in state.legal
    if not cargo and not takes:
        return 0.0
    homes = home_chances()
    load, place = len(cargo), state.place[seat]
    breath = sum(map(len, state.cargo))
    carried = sum([worth[chip] for unit in cargo for chip in unit])
    expected = homes[load][-(-air // breath)][place] * carried if load else 0.0
    if takes:
        more = carried + sum([worth[chip] for chip in state.trail[place]])
        expected = max(expected, homes[load + 1][-(-air // (breath + 1))][place] * more)
    return expected


def _worths(known: Mapping[int, int]) -> Sequence[float]:
    """What each chip is worth on average, by its id."""
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
