"""Trials: positions that a seat could be in, played on to the end of their dive by `steady`.

Invariants: a trial's luck follows from its stream's label and its number alone. A roll belongs to a
seat's turn in a dive, so that positions differ in what was done, not in who rolls what. Scores are
whole numbers, and the same with numpy and without it.

A lead at the end of a dive counts by how often steady divers win from there. That says the same as
playing on to the end of the game, with a third to a half of the noise (docs/dev/field.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import shake_256
from math import exp
from struct import unpack
from typing import NamedTuple, TypeAlias

from deepsea_rules.actions import LEVELS, values_of_level
from deepsea_rules.scoring import final_result, halves_ahead
from deepsea_rules.state import GameState
from deepsea_rules.view import View
from deepsea_sdk.policies import STEADY_VERSION, dice_length, dice_of, play_on, steady

COACH_VERSION = f"{STEADY_VERSION}-leads-1"
"""Version of the coach's numbers.

They depend on the policy of the trials, and on the worth of leads at a dive's end.
"""
ONE = 1_000_000
"""Score for being ahead of one other seat."""


class Trials(NamedTuple):
    """Positions with the same rules and seats that are to be tried out with common luck."""

    view: View
    """The view that the trials start from: hidden values are dealt anew in each trial."""
    stream: LuckSource
    """Source of the trials' luck."""
    numbers: range
    """Numbers of the trials in the stream."""
    states: Sequence[GameState]
    """Positions to play on; they are not changed, and their own values do not matter."""
    dive: int
    """The dive with which a trial ends."""


Scores: TypeAlias = Sequence[Sequence[Sequence[int]]]
"""Scores by state, seat and trial; a seat scores `ONE` for each other seat that it is ahead of."""


def one_by_one(trials: Trials) -> Scores:
    """Return the scores of trials by state, seat and trial, played one by one without numpy."""
    by_trial = []
    for number in trials.numbers:
        luck = trials.stream.luck(number)
        values = trials.view.sample(luck).values
        by_state = []
        # All states are played on with the same chip values and dice, so that they can be compared.
        for position in trials.states:
            state = position.clone()
            state.values = values
            play_on(state, luck.dice, steady, trials.dive)
            by_state.append(_scores_at_dive_end(state, trials.dive))
        by_trial.append(by_state)
    # From [trial][state][seat] to [state][seat][trial]
    return [
        [[by_state[state][seat] for by_state in by_trial] for seat in range(trials.view.players)]
        for state in range(len(trials.states))
    ]


def _scores_at_dive_end(state: GameState, dive: int) -> list[int]:
    """Return the score of each seat by its leads over the other seats.

    state  at the start of the next dive, or over
    dive   the dive that has ended
    """
    if state.phase == "over":
        return [seat_halves * (ONE // 2) for seat_halves in halves(state)]
    players = state.players
    shares = lead_shares(players, dive)
    # The place of each seat in the order of turns of the next dive
    turns = [(seat - state.to_move) % players for seat in range(players)]
    points = state.points()
    scores = []
    for own_turn, own_points in zip(turns, points, strict=True):
        total = 0
        for other_turn, other_points in zip(turns, points, strict=True):
            total += shares[own_turn - other_turn][own_points - other_points]
        # The seat itself is among the others, and counts half a win.
        scores.append(total - ONE // 2)
    return scores


def halves(state: GameState) -> Sequence[int]:
    """Return for each seat of a finished game how many seats it is ahead of, counted in halves.

    A seat has 2 for each seat that it is ahead of, and 1 for each that it is tied with. Forfeits
    are not considered, because in roll-outs all seats play to the end.
    """
    points = state.points()
    ascending = sorted(points)
    if len(set(ascending)) == len(ascending):  # no ties
        return [2 * ascending.index(own_points) for own_points in points]
    return halves_ahead(final_result(state.rules.tiebreak, state.bank, state.values).placements)


# What a lead at the end of a dive is worth


class LeadWorth(NamedTuple):
    """Worth of a lead over one other seat, fitted to games of the policy (bench/leads.py)."""

    spread: float
    """Points of a lead that wins 73 of 100 games."""
    turn: float
    """Points that it costs to move one turn later in the next dive."""


LEADS: Mapping[int, tuple[LeadWorth, LeadWorth]] = {
    2: (LeadWorth(8.8, 0.6), LeadWorth(6.2, 0.1)),
    3: (LeadWorth(7.0, 0.6), LeadWorth(5.3, 1.6)),
    4: (LeadWorth(6.7, 1.0), LeadWorth(5.2, 1.3)),
    5: (LeadWorth(6.7, 0.6), LeadWorth(5.3, 0.6)),
    6: (LeadWorth(5.9, -0.2), LeadWorth(4.6, -0.2)),
}
"""The worth of leads after the first dive and after the second, by the number of seats."""


@cache
def lead_shares(players: int, dive: int) -> Sequence[Sequence[int]]:
    """Return a table of how often a seat ends ahead of another one, by its lead after a dive.

    The first index says by how many turns the seat moves later than the other one in the next dive,
    the second index is its lead in points. Both may be negative. An entry is between 0, which is
    never, and `ONE`, which is always.
    """
    highest_points = sum(map(sum, map(values_of_level, LEVELS)))
    spread, points_per_turn = LEADS[players][dive - 1]
    # Negative numbers come after the others, since index -1 is the last entry of a list.
    leads = (*range(highest_points + 1), *range(-highest_points, 0))
    turns = (*range(players), *range(1 - players, 0))
    # The logistic curve of the lead
    return [
        [round(ONE / (1 + exp(-(lead - points_per_turn * later) / spread))) for lead in leads]
        for later in turns
    ]


# Luck

DRAWS = 28
"""Numbers to deal the chips: seven for the eight chips of each of the four levels."""


class TrialLuck:
    """Luck of one trial: a source of numbers for a deal, and `dice` for `play_on`."""

    __slots__ = ("_numbers", "dice")

    def __init__(self, digest: bytes) -> None:
        self._numbers: Iterator[int] = iter(unpack(f"<{DRAWS}I", digest[: 4 * DRAWS]))
        self.dice = dice_of(digest[4 * DRAWS :])

    def random(self) -> float:
        """Return the next number, from 0 up to but not including 1.

        There are enough for one deal.
        """
        return next(self._numbers) / 2**32


class LuckSource:
    """Source of the luck of trials under a label, for a number of players."""

    def __init__(self, label: str, players: int) -> None:
        self._hash = shake_256(f"{label}:".encode())
        self._length = 4 * DRAWS + dice_length(players)

    def digest(self, number: int) -> bytes:
        """Return the random bytes of a trial, by its number."""
        hashed = self._hash.copy()
        hashed.update(b"%d" % number)
        return hashed.digest(self._length)

    def luck(self, number: int) -> TrialLuck:
        """Return the luck of a trial, by its number."""
        return TrialLuck(self.digest(number))
