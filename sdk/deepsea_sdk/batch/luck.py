"""Deals and dice for many games, drawn or given.

Invariants: values are [games, 32], chip 1 first; given rolls belong to a seat's turn in a dive, as
`deepsea_sdk.policies.play_on` reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cache
from itertools import permutations
from typing import NamedTuple

import numpy as np

from deepsea_rules.actions import CHIPS, LEVEL_OF, LEVELS, values_of_level
from deepsea_rules.ruleset import FACES
from deepsea_rules.state import GameState
from deepsea_rules.view import View
from deepsea_sdk.policies import TURNS, dice_length

from .engine import Batch, Turn
from .units import Array

_SUMS = np.array([d1 + d2 for d1 in FACES for d2 in FACES], np.int8)
"""Of the nine rolls."""
_DRAWN = 64
"""Turns whose dice are drawn at once."""


_LOWEST = np.array([[values_of_level(level)[0]] for level in LEVELS], np.uint8)
"""Of the values of a level."""


@cache
def _deals_of_level() -> Array:
    """The 2,520 ways in which the values of level 1 lie on its eight chips."""
    return np.array(sorted(set(permutations(values_of_level(1)))), np.uint8)


def deal_many(rng: np.random.Generator, games: int) -> Array:
    """The values of the chips, at random."""
    ways = _deals_of_level()
    dealt = ways.take(rng.integers(0, len(ways), (games, len(LEVELS))), axis=0)
    return (dealt + _LOWEST).reshape(games, len(CHIPS))


def deal_unseen(view: View, rng: np.random.Generator, trials: int) -> Array:
    """What a view knows and the rest at random, for some trials, as `view.sample` deals it."""
    values = np.zeros((trials, len(CHIPS)), np.uint8)
    for level in LEVELS:
        hidden = [chip - 1 for chip in CHIPS if LEVEL_OF[chip] == level and chip not in view.known]
        if hidden:
            order = rng.random((trials, len(hidden))).argsort(axis=1)
            values[:, hidden] = np.array(view.unseen(level), np.uint8)[order]
    for chip, value in view.known.items():
        values[:, chip - 1] = value
    return values


def open_random(batch: Batch, games: Array, rng: np.random.Generator) -> None:
    """Begin games anew with deals at random, and starters at random where the rules say so."""
    count = len(games)
    starters = rng.integers(0, batch.players, count)
    if batch.rules.first_player == "seat_a":
        starters[:] = 0
    batch.open(games, deal_many(rng, count), starters)


class RandomDice:
    """Dice that are drawn, many at a time."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._sums = np.zeros(0, np.int8)

    def __call__(self, batch: Batch, turn: Turn) -> Array:
        count = len(turn.diver)
        if len(self._sums) < count:
            self._sums = _SUMS.take(self._rng.integers(0, len(_SUMS), _DRAWN * count, np.uint8))
        sums, self._sums = self._sums[:count], self._sums[count:]
        return sums


class Luck(NamedTuple):
    """The luck of some trials."""

    values: Array
    """[trials, 32]."""
    rolls: Array
    """[trials, length] rolls from 0 to 8, as `dice_of` makes them; what is beyond `length` is 0."""
    length: Array
    """[trials] how many rolls there are; turns beyond repeat them."""


def draw_luck(position: View | GameState, rng: np.random.Generator, trials: int) -> Luck:
    """Dice at random, and deals of what a view does not know; a state's values are as they are."""
    length = dice_length(position.players)
    rolls = rng.integers(0, len(_SUMS), (trials, length), np.uint8)
    if isinstance(position, View):
        values = deal_unseen(position, rng, trials)
    else:
        values = np.tile(np.array(position.values[1:], np.uint8), (trials, 1))
    return Luck(values, rolls, np.full(trials, length))


def given_luck(deals: Sequence[Sequence[int]], dice: Sequence[bytes]) -> Luck:
    """The luck of trials with these deals, as `GameState.values`, and dice, as of `dice_of`."""
    if len(deals) != len(dice):
        raise ValueError(f"{len(deals)} deals and dice for {len(dice)} trials")
    length = np.array([len(rolls) for rolls in dice])
    rolls = np.zeros((len(dice), length.max(initial=0)), np.uint8)
    for row, rolled in zip(rolls, dice, strict=True):
        row[: len(rolled)] = np.frombuffer(rolled, np.uint8)
    return Luck(np.array(deals, np.uint8)[:, 1:], rolls, length)


class GivenDice:
    """The dice of some trials.

    luck    of all trials
    trials  the trial of each game of the batch
    """

    def __init__(self, luck: Luck, trials: Array, players: int) -> None:
        self._rolls = luck.rolls.reshape(-1)
        self.first = trials.astype(np.int64) * luck.rolls.shape[1]
        self.length = luck.length[trials]
        self.made = np.zeros(len(trials) * players, np.int64)
        """Turns of each diver in this dive, from the position on."""

    def __call__(self, batch: Batch, turn: Turn) -> Array:
        made = self.made[turn.diver]
        self.made[turn.diver] = made + 1
        index = turn.of(batch.dive) - np.int64(1)
        index *= batch.players
        index += turn.of(batch.to_move)
        index *= TURNS
        index += made
        index %= turn.of(self.length)
        index += turn.of(self.first)
        return _SUMS.take(self._rolls.take(index))

    def begin_dive(self, batch: Batch, games: Array) -> None:
        """Count turns anew in these games."""
        batch.by_seat(self.made)[games] = 0

    def part(self, batch: Batch, games: Array) -> GivenDice:
        """The dice for `batch.part(games)`."""
        other = copy(self)
        other.first, other.length = self.first[games], self.length[games]
        other.made = batch.by_seat(self.made)[games].reshape(-1)
        return other
