"""Trials: positions that a seat could be in, played on to the end of their dive by `steady`.

Invariants: a trial's luck follows from its stream's label and its number alone, and a roll of it
belongs to a seat's turn in a dive, so that positions differ in what was done, not in who rolls
what; scores are whole numbers; with numpy and without it they are the same ones.

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
"""The policy of the trials and the worth of leads at a dive's end, with their versions."""
ONE = 1_000_000
"""The score of being ahead of one other seat."""


class Trials(NamedTuple):
    """Positions of one rule set and number of seats that are to be tried out on common luck."""

    view: View
    """What is known: the rest is dealt anew in each trial."""
    stream: Stream
    numbers: range
    states: Sequence[GameState]
    """Not to be changed; their own values do not matter."""
    dive: int
    """The dive with which a trial ends."""


Scores: TypeAlias = Sequence[Sequence[Sequence[int]]]
"""By state, by seat, by trial: for each other seat that it is ahead of `ONE`."""


def one_by_one(trials: Trials) -> Scores:
    """The scores of trials without numpy."""
    by_trial = []
    for number in trials.numbers:
        luck = trials.stream.luck(number)
        values = trials.view.sample(luck).values
        row = []
        for untried in trials.states:
            state = untried.clone()
            state.values = values
            play_on(state, luck.dice, steady, trials.dive)
            row.append(_scores(state, trials.dive))
        by_trial.append(row)
    return [
        [[row[state][seat] for row in by_trial] for seat in range(trials.view.players)]
        for state in range(len(trials.states))
    ]


def _scores(state: GameState, dive: int) -> list[int]:
    """The score of each seat at the end of a dive."""
    if state.phase == "over":
        return [half * (ONE // 2) for half in halves(state)]
    players = state.players
    shares = lead_shares(players, dive)
    turns = [(seat - state.to_move) % players for seat in range(players)]
    seats = list(zip(turns, state.points(), strict=True))
    return [
        sum([shares[turn - other][own - their] for other, their in seats]) - ONE // 2
        for turn, own in seats
    ]


def halves(state: GameState) -> Sequence[int]:
    """For each seat of a finished game a 2 for every seat that it is ahead of, a 1 for a tie.

    Nobody has forfeited: in a future that was tried out all play to the end.
    """
    points = state.points()
    order = sorted(points)
    if len(set(order)) == len(order):
        return [2 * order.index(own) for own in points]
    return halves_ahead(final_result(state.rules.tiebreak, state.bank, state.values).placements)


# What a lead at the end of a dive is worth


class Lead(NamedTuple):
    """Points of a lead over one other seat, fitted to games of the policy (bench/leads.py)."""

    spread: float
    """A lead of so many wins 73 of 100 games."""
    turn: float
    """What it costs to move one turn later in the next dive."""


LEADS: Mapping[int, tuple[Lead, Lead]] = {
    2: (Lead(8.8, 0.6), Lead(6.2, 0.1)),
    3: (Lead(7.0, 0.6), Lead(5.3, 1.6)),
    4: (Lead(6.7, 1.0), Lead(5.2, 1.3)),
    5: (Lead(6.7, 0.6), Lead(5.3, 0.6)),
    6: (Lead(5.9, -0.2), Lead(4.6, -0.2)),
}
"""By the number of seats, after the first dive and after the second."""


@cache
def lead_shares(players: int, dive: int) -> Sequence[Sequence[int]]:
    """How often a seat is ahead of another one in the end, in parts of `ONE`.

    By how many turns later it moves in the next dive, and by its lead; of both a negative number
    counts from the end.
    """
    most = sum(map(sum, map(values_of_level, LEVELS)))
    spread, turn = LEADS[players][dive - 1]
    leads = (*range(most + 1), *range(-most, 0))
    return [
        [round(ONE / (1 + exp(-(lead - turn * later) / spread))) for lead in leads]
        for later in (*range(players), *range(1 - players, 0))
    ]


# Luck

DRAWS = 28
"""To deal eight chips takes seven numbers, and there are four levels."""


class Luck:
    """The luck of one trial: a source of numbers to deal with, and `dice` for `play_on`."""

    __slots__ = ("_numbers", "dice")

    def __init__(self, digest: bytes) -> None:
        self._numbers: Iterator[int] = iter(unpack(f"<{DRAWS}I", digest[: 4 * DRAWS]))
        self.dice = dice_of(digest[4 * DRAWS :])

    def random(self) -> float:
        """A number from 0 up to, but not including, 1; enough of them for one deal."""
        return next(self._numbers) / 2**32


class Stream:
    """The luck of trials under a label, for a number of players."""

    def __init__(self, label: str, players: int) -> None:
        self._hash = shake_256(f"{label}:".encode())
        self._length = 4 * DRAWS + dice_length(players)

    def digest(self, number: int) -> bytes:
        """The random bytes of a trial, by its number."""
        hashed = self._hash.copy()
        hashed.update(b"%d" % number)
        return hashed.digest(self._length)

    def luck(self, number: int) -> Luck:
        """The luck of a trial, by its number."""
        return Luck(self.digest(number))
