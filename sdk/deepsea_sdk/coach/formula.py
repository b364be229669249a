"""The formula: a quick estimate of the placement score that a position leads to.

Invariants: it needs no roll-outs. It reads what everybody sees and the values that are passed in,
and no other. No weight was fitted to games. Other constants need another version, because sums of
luck depend on them. Of a
game that is over it is exact for each pair of seats, of which one is ahead or the other: unknown
values are dealt from those that are left of their level, without replacement. Forfeits are ignored.

A diver comes home with its cargo, or does not; the chance is that to swim the way in the turns that
the air leaves, with the unit that it may take now or without, whichever brings more. The chance
that a seat ends ahead of another is a mean over the four cases of the two; in each of them the lead
counts by a logistic curve that is steeper the later it is.
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
"""Name and version of the formula, for results that depend on it."""

SPREAD = {1: 16.0, 2: 12.0}
"""By dive, the points of a lead that wins 73 of 100 games when all divers are home."""
LAST_SPREAD = (1.5, 3.0, 6.0)
"""The same as `SPREAD` in the last dive: without air, with half of it, and with all of it."""
LEAST_CHANCE = 0.01
"""Least chance to come home, and to drown: a diver may still take more or drop something."""
HOPE = 3.0
"""Points that a diver on its way down without cargo is expected to find."""
DOUBT = 4.0
"""Addition to the square of a spread for cargo that comes home, because it may be other cargo by
then."""
PER_CHIP = 0.38
"""Addition to the square of a spread for a chip of unknown value in a bank; its variance is
1.25."""


class _Prospect(NamedTuple):
    """Cargo that a seat may still bring home in this dive: chance, points, and doubt."""

    chance: float
    points: float
    doubt: float


_NOTHING = _Prospect(0.0, 0.0, 0.0)


def formula(outlooks: Sequence[Outlook]) -> list[list[float]]:
    """Return for each outcome of one chance event the placement score that each seat may expect.

    outlooks  positions that differ only in the place of the seat that rolled, or in known values
    """
    # Everything that does not depend on the roll is computed once for all sums of it.
    by_position: dict[tuple[object, ...], _CachedScores] = {}
    scores = []
    for state, known in outlooks:
        if state.phase == "over" or (state.phase == "order" and state.dive == DIVES):
            scores.append(final_scores(state, known))
            continue
        # The outcomes of one event share the object `known`, or differ in it.
        key = id(known), state.dive, state.phase
        if key not in by_position:
            by_position[key] = _CachedScores(state, known)
        scores.append(by_position[key].scores(state))
    return scores


class _CachedScores:
    """Scores of positions that differ only in the place of the seat to move, with a cache."""

    def __init__(self, state: GameState, known: Mapping[int, int]) -> None:
        self._worth = _worths(known)
        self._banks = [sum([self._worth[chip] for chip in bank]) for bank in state.bank]
        self._doubts = [PER_CHIP * sum([c not in known for c in bank]) for bank in state.bank]
        self._square = _spread(state) ** 2
        self._prospects: dict[int, _Prospect] = {}
        self._pairs: dict[tuple[int, int], float] = {}

    def scores(self, state: GameState) -> list[float]:
        """Return the placement score that each seat may expect."""
        # Only the seat that has just moved differs from call to call.
        mover = state.to_move if state.phase == "search" else -1
        prospects, pairs = self._prospects, self._pairs
        if mover >= 0:
            prospects[mover] = _prospect(state, mover, self._worth)
        players = state.players
        scores = [0.0] * players
        share = 1 / (players - 1)
        for seat in range(players):
            if seat not in prospects:
                prospects[seat] = _prospect(state, seat, self._worth)
            for other in range(seat):
                pair = seat, other
                if seat == mover or other == mover or pair not in pairs:
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


def _chance_ahead(lead: float, square: float, first: _Prospect, second: _Prospect) -> float:
    """Return the chance that the first of two seats ends ahead, over the cases of who comes home.

    lead    points that the first seat is ahead in its bank
    square  square of the spread of leads
    """
    chance, points, doubt = first
    second_chance, second_points, second_doubt = second
    total = 0.0
    for weight, lead_then, square_then in (
        (1 - chance, lead, square),
        (chance, lead + points, square + doubt),
    ):
        if weight:
            total += weight * (1 - second_chance) * _logistic(lead_then / sqrt(square_then))
            if second_chance:
                root = sqrt(square_then + second_doubt)
                total += weight * second_chance * _logistic((lead_then - second_points) / root)
    return total


def _logistic(x: float) -> float:
    """Return the logistic function; far from 0 it is 0 or 1, since exp would overflow."""
    return 1 / (1 + exp(-x)) if -30 < x < 30 else float(x > 0)


def _spread(state: GameState) -> float:
    """Return the points of a lead that wins 73 of 100 games.

    They depend on the dive and, in the last dive, on the air.
    """
    # During a clean-up, the banks are those with which the next dive begins.
    dive = state.dive + (state.phase == "order")
    if dive < DIVES:
        return SPREAD[dive]
    none, half, full = LAST_SPREAD
    # Between the three given values, the spread grows by equal factors for equal amounts of air.
    air_share = 1.0 if state.phase == "order" else max(state.air, 0) / FULL_AIR
    if air_share < 0.5:
        return float(none * (half / none) ** (2 * air_share))
    return float(half * (full / half) ** (2 * air_share - 1))


def _prospect(state: GameState, seat: int, worth: Sequence[float]) -> _Prospect:
    """Return what a seat may still bring home; the seat that has just moved may also take a unit.

    worth  the mean worth of each chip, by its id
    """
    place = state.place
    space = place[seat]
    if space == HOME or state.phase == "order":
        return _NOTHING
    mover = state.to_move if state.phase == "search" else -1
    cargo = state.cargo[seat]
    load = len(cargo)
    # Spaces of other divers are skipped. That of the diver that has just rolled is not, so that the
    # prospects of the others are the same for all sums of the roll.
    way = space
    for other, other_place in enumerate(place):
        if 0 < other_place < space and other != mover:
            way -= 1
    breath, breath_before = _breath(state, seat)
    air_left = max(max(state.air, 0) - breath_before, 0)
    points = sum([worth[chip] for unit in cargo for chip in unit])
    chances = home_chances()
    # -(-a // b) is a / b, rounded up: the turns that the air leaves.
    turns = min(-(-air_left // breath), MANY_TURNS) if breath else MANY_TURNS
    chance = chances[load][turns][way] if load else 1.0
    if seat == mover and (unit := state.trail[space]):
        points_with_unit = points + sum([worth[chip] for chip in unit])
        turns = min(-(-air_left // (breath + 1)), MANY_TURNS)
        chance_with_unit = chances[load + 1][turns][way]
        if chance_with_unit * points_with_unit > chance * points:
            chance, points = chance_with_unit, points_with_unit
    if not load and not state.homeward[seat]:
        points += HOPE
    return _Prospect(min(max(chance, LEAST_CHANCE), 1 - LEAST_CHANCE), points, DOUBT)


def _breath(state: GameState, seat: int) -> tuple[int, int]:
    """Return the air that all use in a round, and the part used before this seat's next turn."""
    players, place, cargo = state.players, state.place, state.cargo
    next_seat = state.to_move + (state.phase == "search")
    total = before = 0
    for step in range(players):
        other = (next_seat + step) % players
        if other == seat:
            before = total
        if place[other] != HOME:
            total += len(cargo[other])
    return total, before


def _worths(known: Mapping[int, int]) -> Sequence[float]:
    """Return the mean worth of each chip, by its id, if these values are known."""
    if not known:
        return MEAN_VALUES
    unseen_sum, unseen_count = [0.0] * (LEVELS[-1] + 1), [0] * (LEVELS[-1] + 1)
    for level in LEVELS:
        values = values_of_level(level)
        unseen_sum[level], unseen_count[level] = float(sum(values)), len(values)
    for chip, value in known.items():
        unseen_sum[LEVEL_OF[chip]] -= value
        unseen_count[LEVEL_OF[chip]] -= 1
    sums_and_counts = zip(unseen_sum, unseen_count, strict=True)
    means = [total / count if count else 0.0 for total, count in sums_and_counts]
    worth = [means[level] for level in LEVEL_OF]
    for chip, value in known.items():
        worth[chip] = value
    return worth


# The end of a game, where the values of some chips are unknown

Spread: TypeAlias = Mapping[int, float]
"""Probability of each lead in points."""


def final_scores(state: GameState, known: Mapping[int, int]) -> list[float]:
    """Return the placement score that each seat may expect if the banks stay as they are.

    Unknown values are dealt at random from those of their level that are not known.
    """
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
    first_levels: list[int],
    second_levels: list[int],
    pools: Mapping[int, tuple[int, ...]],
) -> float:
    """Return the chance that the first of two seats is ahead; an unbreakable tie counts half.

    lead           points that the first seat is ahead by known values
    first_levels   levels of the first seat's chips of unknown value
    second_levels  levels of the second seat's
    pools          unseen values by level
    """
    lowest, highest = lead, lead
    for sign, levels in ((1, first_levels), (-1, second_levels)):
        for level in levels:
            low, high = sign * pools[level][0], sign * pools[level][-1]
            lowest += min(low, high)
            highest += max(low, high)
    # No deal of the unknown values changes the order of the two.
    if lowest > 0 or highest < 0:
        return float(lowest > 0)
    leads: Spread = {lead: 1.0}
    for level in {*first_levels, *second_levels}:
        differences = _difference(
            pools[level], first_levels.count(level), second_levels.count(level)
        )
        sums: dict[int, float] = {}
        for sum_so_far, chance in leads.items():
            for difference, weight in differences.items():
                sums[sum_so_far + difference] = (
                    sums.get(sum_so_far + difference, 0.0) + chance * weight
                )
        leads = sums
    ahead = sum([chance for sum_so_far, chance in leads.items() if sum_so_far > 0])
    tied = leads.get(0, 0.0)
    return ahead + tied * _tie(state, *seats) if tied else ahead


@lru_cache(maxsize=4096)
def _difference(pool: tuple[int, ...], first_chips: int, second_chips: int) -> Spread:
    """Return the probabilities of the sum of some chips less that of others, all of one level.

    pool                       the unseen values of the level, from which all of these chips are
                               dealt
    first_chips, second_chips  how many chips are in each sum
    """
    if not first_chips and not second_chips:
        return {0: 1.0}
    # The number of ways to deal the values so far: by chips of the first seat, chips of the second,
    # and the difference of their sums. Each value goes to the first, the second, or neither.
    ways: dict[tuple[int, int, int], int] = {(0, 0, 0): 1}
    for value in pool:
        extended = dict(ways)
        for (first_count, second_count, total), count in ways.items():
            for key in (
                (first_count + 1, second_count, total + value),
                (first_count, second_count + 1, total - value),
            ):
                if key[0] <= first_chips and key[1] <= second_chips:
                    extended[key] = extended.get(key, 0) + count
        ways = extended
    counts = {
        total: count
        for (first_count, second_count, total), count in ways.items()
        if (first_count, second_count) == (first_chips, second_chips)
    }
    all_ways = sum(counts.values())
    return {total: count / all_ways for total, count in counts.items()}


def _tie(state: GameState, seat: int, other: int) -> float:
    """Return 1 if the first of two seats with equal points is ahead, 0 if behind, else 0.5.

    Chips break ties by their levels, which everybody knows. A third seat with the same points is
    ignored.
    """
    banks = [state.bank[seat], state.bank[other]]
    first, second = final_result(state.rules.tiebreak, banks, (0,) * len(state.values)).placements
    return 0.5 if first == second else float(first < second)
