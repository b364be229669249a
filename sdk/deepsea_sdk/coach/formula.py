"""The formula: a quick estimate of the placement score that a position leads to; and sums of luck.

`formula` estimates the scores of positions. `chance_sum` says how far chance moved the lead of two
seats in finished games, by an evaluation such as the formula.

Invariants of the formula: it needs no roll-outs. It reads what everybody sees and the values that
are passed in, and no other. No weight was fitted to games. Other constants need another version,
because sums of luck depend on them. For a game that is over it is exact for each pair of seats: one
of them is ahead, or they are tied, and unknown values are dealt from the remaining values of their
level, without replacement. Forfeits are ignored.

A diver comes home with its cargo, or does not. The chance to come home is the chance to swim the
way in the turns that the air leaves, with the unit that the diver may take now or without it,
whichever brings more. The chance that a seat ends ahead of another is a mean over the four cases of
the two; in each of them the lead counts by a logistic curve that is steeper the later it is.

Invariants of the sums: a chance event is a roll, with its five sums, or the value of one chip, with
the values that no bot had seen. It counts as the evaluation after it, less the mean of the
evaluations over all possible outcomes; so its mean is 0, whatever the evaluation and the bots are.
It is scaled by a factor that is fixed before chance decides, so that the sum stays on its side of a
bound and its mean stays 0. There are two sums, one with a bound above and one with a bound below: a
bet on a lead only needs a bound on how large its luck may be, and a bet against it on how small. A
sum with one bound removes more luck than a sum with two.

Games of one seed have the same dice and values, and their luck nearly cancels where bots play
alike. So they are walked through together: a roll, or a value, is one event of all games. Where
games differ in which seat rolls first, one of them needs a roll earlier than another. Then a part
of the room below the bound is reserved for the later game, whose factor so depends on nothing that
has happened since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import exp, inf, sqrt
from typing import NamedTuple, TypeAlias

from deepsea_rules.actions import LEVEL_OF, LEVELS, values_of_level
from deepsea_rules.game import Game
from deepsea_rules.ruleset import DIVES, FULL_AIR, HOME
from deepsea_rules.scoring import final_result
from deepsea_rules.state import GameState
from deepsea_rules.view import unseen_values
from deepsea_sdk.policies import MANY_TURNS, MEAN_VALUES, home_chances

from .decisions import Evaluation, Outlook, Step, game_steps, rolls

VERSION = "formula-2"
"""Name and version of the formula, for results that depend on it."""

SPREAD = {1: 16.0, 2: 12.0}
"""The points of a lead that wins 73 of 100 games when all divers are home, by dive."""
LAST_SPREAD = (1.5, 3.0, 6.0)
"""The same as `SPREAD` in the last dive: without air, with half of it, and with all of it."""
LEAST_CHANCE = 0.01
"""Least chance to come home, and to drown: a diver may still take more or drop something."""
HOPE = 3.0
"""Points that a diver on its way down without cargo is expected to find."""
DOUBT = 4.0
"""Addition to the square of a spread for cargo that comes home.

It may be other cargo by then.
"""
PER_CHIP = 0.38
"""Addition to the square of a spread for a chip of unknown value in a bank.

The variance of its value is 1.25.
"""


class _Prospect(NamedTuple):
    """Cargo that a seat may still bring home in this dive."""

    chance: float
    """The chance that it comes home with it."""
    points: float
    """The mean worth of the cargo."""
    variance: float
    """Addition to the square of the spread of leads if it comes home."""


_NOTHING = _Prospect(0.0, 0.0, 0.0)


def formula(outlooks: Sequence[Outlook]) -> list[list[float]]:
    """Return the expected placement scores of all seats, for each outcome of one chance event.

    outlooks  the outcomes; they differ only in the place of the seat that rolled, or in the values
              that are known
    """
    # Outcomes that differ only in the place of the seat that rolled share one cache.
    cache_by_key: dict[tuple[object, ...], _CachedScores] = {}
    scores = []
    for state, known in outlooks:
        if state.phase == "over" or (state.phase == "order" and state.dive == DIVES):
            scores.append(final_scores(state, known))
            continue
        # The outcomes of a roll have one and the same dictionary `known`, so its identity will do.
        # The outcomes of a reveal have one each.
        key = id(known), state.dive, state.phase
        if key not in cache_by_key:
            cache_by_key[key] = _CachedScores(state, known)
        scores.append(cache_by_key[key].scores(state))
    return scores


class _CachedScores:
    """Scores of positions that differ only in the place of the seat to move, with a cache."""

    def __init__(self, state: GameState, known: Mapping[int, int]) -> None:
        self._worth = _worths(known)
        self._banks = [sum([self._worth[chip] for chip in bank]) for bank in state.bank]
        unknown_counts = [sum([chip not in known for chip in bank]) for bank in state.bank]
        self._bank_variances = [PER_CHIP * count for count in unknown_counts]
        self._variance = _spread(state) ** 2
        self._prospects: dict[int, _Prospect] = {}
        self._pairs: dict[tuple[int, int], float] = {}

    def scores(self, state: GameState) -> list[float]:
        """Return the placement score that each seat may expect.

        It is the sum, over all other seats, of the chance to end ahead of them, in parts of 1.
        """
        # Only the seat that has just moved differs from call to call; all else comes from the
        # caches, after it was computed once.
        mover = state.to_move if state.phase == "search" else -1
        prospects, pairs, variances = self._prospects, self._pairs, self._bank_variances
        if mover >= 0:
            prospects[mover] = _prospect(state, mover, self._worth)
        players = state.players
        scores = [0.0] * players
        share = 1 / (players - 1)  # the score for being ahead of one other seat
        for seat in range(players):
            if seat not in prospects:
                prospects[seat] = _prospect(state, seat, self._worth)
            for other in range(seat):
                pair = seat, other
                if seat == mover or other == mover or pair not in pairs:
                    pairs[pair] = share * _chance_ahead(
                        lead=self._banks[seat] - self._banks[other],
                        variance=self._variance + variances[seat] + variances[other],
                        first=prospects[seat],
                        second=prospects[other],
                    )
                score_of_pair = pairs[pair]
                scores[seat] += score_of_pair
                scores[other] += share - score_of_pair
        return scores


def _chance_ahead(lead: float, variance: float, first: _Prospect, second: _Prospect) -> float:
    """Return the chance that the first of two seats ends ahead of the second one.

    It is a mean over four cases: each of the two brings its cargo home, or loses it. In each case
    the chance is the logistic function of the lead, divided by its spread.

    lead           points that the first seat's bank is ahead of the second one's
    variance       square of the spread of that lead, if both lose their cargo
    first, second  what the seats may still bring home
    """
    first_chance, first_points, first_variance = first
    second_chance, second_points, second_variance = second
    first_loses, second_loses = 1 - first_chance, 1 - second_chance
    # Both lose their cargo.
    chance_ahead = first_loses * second_loses * _logistic(lead / sqrt(variance))
    if second_chance:  # the second seat alone brings cargo home, which makes the lead smaller
        spread = sqrt(variance + second_variance)
        chance_ahead += first_loses * second_chance * _logistic((lead - second_points) / spread)
    if first_chance:  # the first seat alone brings cargo home
        lead += first_points
        variance += first_variance
        chance_ahead += first_chance * second_loses * _logistic(lead / sqrt(variance))
        if second_chance:  # both bring cargo home
            spread = sqrt(variance + second_variance)
            chance_if_both = _logistic((lead - second_points) / spread)
            chance_ahead += first_chance * second_chance * chance_if_both
    return chance_ahead


def _logistic(x: float) -> float:
    """Return the logistic function; far from 0 it is 0 or 1, since exp would overflow."""
    return 1 / (1 + exp(-x)) if -30 < x < 30 else float(x > 0)


def _spread(state: GameState) -> float:
    """Return how many points a bank must be ahead to win 73 of 100 games.

    That depends on the dive and, in the last dive, on the air.
    """
    # A dive that has ended (phase "order") counts as the start of the next one, with full air.
    dive = state.dive + (state.phase == "order")
    if dive < DIVES:
        return SPREAD[dive]
    without_air, half_air, full_air = LAST_SPREAD
    # Between the three given values, the spread grows by equal factors for equal amounts of air.
    air_share = 1.0 if state.phase == "order" else max(state.air, 0) / FULL_AIR
    if air_share < 0.5:
        return float(without_air * (half_air / without_air) ** (2 * air_share))
    return float(half_air * (full_air / half_air) ** (2 * air_share - 1))


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
    """Return the air that all divers use in a round, and what they use before this seat's turn.

    A round begins with the next turn; a diver at home uses no air.
    """
    players, place, cargo = state.players, state.place, state.cargo
    # In phase "search" the seat to move has breathed already, so the next seat begins.
    first_seat = state.to_move + (state.phase == "search")
    total = before_seat = 0
    for step in range(players):
        other = (first_seat + step) % players
        if other == seat:
            before_seat = total
        if place[other] != HOME:
            total += len(cargo[other])
    return total, before_seat


def _worths(known: Mapping[int, int]) -> Sequence[float]:
    """Return the mean worth of each chip, by its id.

    A chip of unknown value counts as the mean of the values of its level that are not known.

    known  the known values, by chip id
    """
    if not known:
        return MEAN_VALUES
    # By level; no chip has level 0.
    unseen_sum = [0.0] * (LEVELS[-1] + 1)
    unseen_count = [0] * (LEVELS[-1] + 1)
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

    Chips of unknown value may have each of the values of their level that are not known.

    known  the known values, by chip id
    """
    players = state.players
    unseen_by_level = {level: tuple(unseen_values(level, known)) for level in LEVELS}
    known_points = [sum([known[chip] for chip in bank if chip in known]) for bank in state.bank]
    unknown_levels = [[LEVEL_OF[chip] for chip in bank if chip not in known] for bank in state.bank]
    scores = [0.0] * players
    share = 1 / (players - 1)  # the score for being ahead of one other seat
    for seat in range(1, players):
        for other in range(seat):
            chance = _ahead(
                state,
                (seat, other),
                lead=known_points[seat] - known_points[other],
                first_levels=unknown_levels[seat],
                second_levels=unknown_levels[other],
                unseen_by_level=unseen_by_level,
            )
            scores[seat] += share * chance
            scores[other] += share * (1 - chance)
    return scores


def _ahead(
    state: GameState,
    seats: tuple[int, int],
    lead: int,
    first_levels: list[int],
    second_levels: list[int],
    unseen_by_level: Mapping[int, tuple[int, ...]],
) -> float:
    """Return the chance that the first of two seats is ahead; a tie of them counts half.

    Here a tie is one that the rules do not break.

    lead             points that the first seat is ahead by known values
    first_levels     levels of the first seat's chips of unknown value
    second_levels    levels of the second seat's chips of unknown value
    unseen_by_level  ascending values of each level that are not known
    """
    lowest, highest = lead, lead
    for sign, levels in ((1, first_levels), (-1, second_levels)):
        for level in levels:
            unseen = unseen_by_level[level]
            low, high = sign * unseen[0], sign * unseen[-1]
            lowest += min(low, high)
            highest += max(low, high)
    if lowest > 0 or highest < 0:  # no deal of the unknown values changes who is ahead
        return float(lowest > 0)
    leads: Spread = {lead: 1.0}
    for level in {*first_levels, *second_levels}:
        differences = _difference(
            unseen_by_level[level], first_levels.count(level), second_levels.count(level)
        )
        leads = _spread_of_sums(leads, differences)
    chance_ahead = sum([chance for final_lead, chance in leads.items() if final_lead > 0])
    chance_tied = leads.get(0, 0.0)
    if not chance_tied:
        return chance_ahead
    return chance_ahead + chance_tied * _tiebreak_score(state, *seats)


def _spread_of_sums(first: Spread, second: Spread) -> Spread:
    """Return the probability of each sum of two leads that do not depend on each other.

    first, second  the probability of each lead
    """
    sums: dict[int, float] = {}
    for first_lead, first_chance in first.items():
        for second_lead, second_chance in second.items():
            total = first_lead + second_lead
            sums[total] = sums.get(total, 0.0) + first_chance * second_chance
    return sums


@lru_cache(maxsize=4096)
def _difference(unseen: tuple[int, ...], first_chips: int, second_chips: int) -> Spread:
    """Return the probability of each difference of two seats' points in unknown chips of one level.

    unseen                     the values of the level from which the chips are dealt
    first_chips, second_chips  how many of the chips each of the two seats has
    """
    if not first_chips and not second_chips:
        return {0: 1.0}
    # How many ways there are to deal the values so far, by the chips of the first seat that have
    # one, the chips of the second seat that have one, and the difference of the points.
    ways: dict[tuple[int, int, int], int] = {(0, 0, 0): 1}
    for value in unseen:
        extended = dict(ways)  # the value goes to neither seat
        for (first_count, second_count, difference), count in ways.items():
            if first_count < first_chips:
                key = first_count + 1, second_count, difference + value
                extended[key] = extended.get(key, 0) + count
            if second_count < second_chips:
                key = first_count, second_count + 1, difference - value
                extended[key] = extended.get(key, 0) + count
        ways = extended
    complete = {
        difference: count
        for (first_count, second_count, difference), count in ways.items()
        if (first_count, second_count) == (first_chips, second_chips)
    }
    all_ways = sum(complete.values())
    return {difference: count / all_ways for difference, count in complete.items()}


def _tiebreak_score(state: GameState, seat: int, other: int) -> float:
    """Return 1 if `seat` wins a tie in points with `other`, 0 if it loses it, and 0.5 for neither.

    Ties are broken by the levels of the chips, which everybody knows. A third seat with the same
    points is ignored.
    """
    banks = [state.bank[seat], state.bank[other]]
    # The result of a game of these two seats in which all chips have the value 0: both have 0
    # points, so the levels of their chips alone decide.
    zero_values = (0,) * len(state.values)
    result = final_result(state.rules.tiebreak, banks, zero_values)
    placement, other_placement = result.placements
    if placement == other_placement:
        return 0.5
    return 1.0 if placement < other_placement else 0.0  # placement 1 is the best


# ----- Sums of luck

LuckSums: TypeAlias = tuple[float, float]
"""Two sums of how far chance moved a lead.

The first is never above the bound, the second never below minus the bound.
"""


def chance_sum(
    games: Sequence[tuple[Game, Sequence[float]]], bound: float, evaluate: Evaluation
) -> LuckSums:
    """Return by how much chance moved a lead, summed over games of one seed.

    A lead is a weighted sum of the seats' scores.

    games     the games, each with its weights by seat; such as 1 and -1 for a seat's lead over
              another one
    bound     the first sum is at most this, the second one at least minus this
    evaluate  function that estimates the scores after each outcome of a chance event
    """
    walks = [_Walk(game, weights, evaluate) for game, weights in games]
    total = _BoundedSums(bound)
    rolled: set[_RollKey] = set()
    revealed: dict[int, int] = {}
    while unfinished := [walk for walk in walks if walk.step is not None]:
        next_walk = min(unfinished, key=lambda walk: walk.sort_key)
        roll_key = next_walk.roll_key
        if roll_key is None:
            _add_reveals(next_walk, unfinished, revealed, total)
            next_walk.advance()
        elif roll_key in rolled:
            total.add_late((next_walk, roll_key), next_walk.roll())
            next_walk.advance()
        else:
            rolled.add(roll_key)
            walks_at_roll = [walk for walk in unfinished if walk.roll_key == roll_key]
            # Games that come to the same roll later have to count it by what is known now.
            later_games = [
                (walk, roll_key)
                for walk in unfinished
                if walk.roll_key != roll_key and walk.may_need(roll_key)
            ]
            for walk, _ in later_games:
                walk.store_known_for(roll_key)
            total.add(_sum([walk.roll() for walk in walks_at_roll]), later_games)
            for walk in walks_at_roll:
                walk.advance()
        total.release()
    return total.luck


def _add_reveals(
    revealing: _Walk, unfinished: Sequence[_Walk], revealed: dict[int, int], total: _BoundedSums
) -> None:
    """Add the luck of the chip values that one game reveals in its next step.

    Each value is one chance event of all games in which a seat has the chip, because all games of
    one seed have the same values. A value that another game has revealed before is not counted.

    revealing   the game whose next step is the reveal
    unfinished  all games that are not over
    revealed    the values that any game has revealed, by chip id; extended here
    total       the sums to which the luck is added
    """
    assert revealing.step is not None
    values = revealing.step.after.known
    for chip in sorted(values.keys() - revealing.known.keys()):
        value = values[chip]
        if chip not in revealed:
            walks_with_chip = [
                walk for walk in unfinished if walk is revealing or walk.has_chip(chip)
            ]
            total.add(_reveal_event(walks_with_chip, chip, value, revealed))
            revealed[chip] = value
            for walk in walks_with_chip:
                walk.known[chip] = value
        revealing.known[chip] = value


def _reveal_event(
    walks: Sequence[_Walk], chip: int, value: int, revealed: Mapping[int, int]
) -> _Event:
    """Return the reveal of a chip's value in some games as one chance event.

    Its cases are the values of the chip's level that no game has revealed yet. Two chips of a level
    may have the same value, which then has two ways.
    """
    unseen = unseen_values(LEVEL_OF[chip], revealed)
    cases = sorted(set(unseen))
    ways = [unseen.count(case) for case in cases]
    outcome = cases.index(value)
    return _sum([(walk.leads_with(chip, cases), ways, outcome) for walk in walks])


_RollKey: TypeAlias = tuple[int, int, int]
"""Names a roll in all games: its dive, its seat, and how many rolls the seat had before, plus 1."""
_LaterRoll: TypeAlias = tuple["_Walk", _RollKey]
"""A roll that a game comes to later than another game."""
_Event: TypeAlias = tuple[Sequence[float], Sequence[int], int]
"""A chance event: the leads after its cases, their numbers of ways, and the outcome.

The outcome is the index of the case that came.
"""


def _sum(events: Sequence[_Event]) -> _Event:
    """Return one event whose leads are the sums over several games with the same cases."""
    _, ways, outcome = events[0]
    by_game = [leads for leads, _, _ in events]
    return [sum(leads) for leads in zip(*by_game, strict=True)], ways, outcome


class _BoundedSums:
    """A sum of luck that is never above a bound, and one that is never below minus the bound.

    Each event is scaled down if it could pass the bound.
    """

    def __init__(self, bound: float) -> None:
        self._bound = bound
        self._sums = [0.0, 0.0]
        """The upper sum, and the lower one with its sign changed."""
        self._reserved: tuple[dict[_LaterRoll, float], ...] = ({}, {})
        """The room that each sum reserves for rolls in games that come to them later."""

    @property
    def luck(self) -> LuckSums:
        """Both sums. Rounded sums could pass the bound by their last bits, so they are cut."""
        up, down = self._sums
        return min(self._bound, up), max(-self._bound, -down)

    def add(self, event: _Event, later_games: Sequence[_LaterRoll] = ()) -> None:
        """Add the luck of an event to both sums, scaled down so that no sum can pass its bound.

        The event may use the room that is left below the bound. If other games come to the same
        roll later, it is shared equally with them, and their parts are reserved.

        later_games  these games, each with the roll
        """
        # The second sum is kept with its sign changed, so both have an upper bound.
        for number, (move, largest_move) in enumerate(_lead_moves(event)):
            reserved = self._reserved[number]
            room = max(0.0, self._bound - self._sums[number] - sum(reserved.values()))
            room_for_each = room / (1 + len(later_games))
            for later_game in later_games:
                reserved[later_game] = room_for_each
            self._sums[number] += _scaled(move, largest_move, room_for_each)

    def add_late(self, later_roll: _LaterRoll, event: _Event) -> None:
        """Add the luck of a roll that another game came to first, in the room reserved for it."""
        for number, (move, largest_move) in enumerate(_lead_moves(event)):
            room = self._reserved[number].pop(later_roll, 0.0)
            self._sums[number] += _scaled(move, largest_move, room)

    def release(self) -> None:
        """Release the room for rolls that games no longer need."""
        for reserved in self._reserved:
            unneeded = [(walk, roll) for walk, roll in reserved if not walk.may_need(roll)]
            for later_roll in unneeded:
                del reserved[later_roll]


def _lead_moves(event: _Event) -> tuple[tuple[float, float], ...]:
    """Return, for each of the two sums of luck, how far an event moved a lead and could move it.

    A move is the lead after the event, less the mean over its cases. The first pair has the move
    that came and the largest one upward. The second pair has the same with all signs changed, as
    the second sum is counted.
    """
    leads, ways, outcome = event
    weighted_leads = [way * lead for way, lead in zip(ways, leads, strict=True)]
    mean = sum(weighted_leads) / sum(ways)
    moves = [lead - mean for lead in leads]
    return (moves[outcome], max(moves)), (-moves[outcome], -min(moves))


def _scaled(move: float, largest_move: float, room: float) -> float:
    """Return the move, scaled down by the factor with which the largest one fits in the room."""
    return move if largest_move <= room else move * (room / largest_move)


class _Walk:
    """A game that is gone through from one chance event to the next."""

    def __init__(self, game: Game, weights: Sequence[float], evaluate: Evaluation) -> None:
        self._steps = game_steps(game)
        self._weights = weights
        self._evaluate = evaluate
        self._dive = self._starter = 0
        self._roll_counts: list[int] = []
        """The number of rolls of each seat in this dive before the next step."""
        self.known: dict[int, int] = {}
        """Values that the evaluation knows, by chip.

        They include those of this game's chips that another game revealed.
        """
        self._known_at_roll: dict[_RollKey, dict[int, int]] = {}
        """The values that were known when another game came to a roll first, by roll."""
        self.step: Step | None = None
        """The next roll or reveal; None at the end of the game."""
        self.roll_key: _RollKey | None = None
        """The roll of this step; None if it is a reveal."""
        self.sort_key: tuple[float, ...] = ()
        """Place of the step in the order of the steps of all games."""
        self.advance()

    def advance(self) -> None:
        """Go to the next roll or reveal of the game, and set `step`, `roll_key` and `sort_key`.

        `step` is None at the end of the game, and `roll_key` is None for a reveal.
        """
        if self.roll_key is not None:
            _, last_seat, _ = self.roll_key
            self._roll_counts[last_seat] += 1
        self.roll_key = None
        self.step = self._next_chance_step()
        if self.step is None:
            return
        if self.step.seat is not None:
            self._set_roll_keys(self.step, self.step.seat)
            return
        # A reveal at the end of a dive comes after all rolls of the dive. Any other reveal shows
        # chips to their owner, who has just come home with them: it belongs to the roll before it,
        # so it keeps the sort key of that roll.
        state = self.step.before.state
        is_end_of_dive = state.dive > self.step.dive or state.phase in ("order", "over")
        if is_end_of_dive:
            self.sort_key = self.step.dive, inf

    def _set_roll_keys(self, step: Step, seat: int) -> None:
        """Set `roll_key` and `sort_key` for a step in which this seat rolls.

        Rolls are sorted by dive, then by the number of the seat's roll in the dive, then by the
        order of turns, which begins with the seat that begins the dive.
        """
        players = step.before.state.players
        if step.dive != self._dive:  # the first roll of a dive
            self._dive = step.dive
            self._starter = seat
            self._roll_counts = [0] * players
        roll_number = self._roll_counts[seat] + 1
        self.roll_key = step.dive, seat, roll_number
        self.sort_key = step.dive, roll_number, (seat - self._starter) % players

    def _next_chance_step(self) -> Step | None:
        """Return the next roll or reveal; None at the end of the game."""
        for step in self._steps:
            if step.kind in ("roll", "reveal"):
                return step
        return None

    def may_need(self, roll_key: _RollKey) -> bool:
        """Return True if this roll may still come in the game, as far as is known now."""
        dive, seat, roll_number = roll_key
        is_after_last_roll = self.sort_key[1] == inf
        if self.step is None or self._dive != dive or is_after_last_roll:
            return False
        is_home = self.step.before.state.place[seat] == HOME
        return self._roll_counts[seat] < roll_number and not is_home

    def store_known_for(self, roll_key: _RollKey) -> None:
        """Store the known chip values for a roll that another game has come to first.

        The dice of the roll decide which values other games reveal after it. So when this game
        comes to the roll, it has to count it by the values that were known before.
        """
        self._known_at_roll[roll_key] = self.known.copy()

    def has_chip(self, chip: int) -> bool:
        """Return True if a seat has brought this chip home or carries it."""
        assert self.step is not None
        state = self.step.before.state
        return any(chip in bank for bank in state.bank) or any(
            chip in unit for cargo in state.cargo for unit in cargo
        )

    def roll(self) -> _Event:
        """Return the next step, which must be a roll, as a chance event.

        Its five cases are the sums of two dice, 2 to 6.
        """
        assert self.step is not None
        assert self.step.dice is not None
        sums_of_dice, ways, outlooks = zip(*rolls(self.step.before), strict=True)
        outcome = sums_of_dice.index(sum(self.step.dice))
        states = [outlook.state for outlook in outlooks]
        is_without_effect = all(
            state.place == states[0].place and state.dive == states[0].dive for state in states
        )
        if is_without_effect:
            # The diver carries so much that it stays where it is, or the dive ends anyway.
            return [0.0] * len(states), ways, outcome
        known = self.known
        if self.roll_key in self._known_at_roll:
            # Another game came to this roll first: use no value that was revealed since, but for
            # those that this game has shown itself.
            known = {**self._known_at_roll[self.roll_key], **self.step.before.known}
        leads = self._leads([Outlook(state, known) for state in states])
        return leads, ways, outcome

    def leads_with(self, chip: int, values: Sequence[int]) -> list[float]:
        """Return the lead if the chip has each of these values."""
        assert self.step is not None
        state = self.step.before.state
        return self._leads([Outlook(state, {**self.known, chip: value}) for value in values])

    def _leads(self, outlooks: Sequence[Outlook]) -> list[float]:
        """Return the lead in each outlook: the sum of the seats' scores times their weights."""
        leads = []
        for scores in self._evaluate(outlooks):
            weighted = [weight * score for weight, score in zip(self._weights, scores, strict=True)]
            leads.append(float(sum(weighted)))
        return leads
