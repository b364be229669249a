"""Deals and dice for many games, drawn or given.

Invariants: values are [games, 32], chip 1 first. Given rolls belong to a seat's turn in a dive, as
in `deepsea_sdk.policies.play_on`.
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
"""The sums of two dice for the nine rolls."""
_DRAWN = 64
"""Turns of a batch for which dice are drawn at once."""


_LOWEST = np.array([[values_of_level(level)[0]] for level in LEVELS], np.uint8)
"""[levels, 1] the lowest value of each level."""


@cache
def _deals_of_level() -> Array:
    """Return the 2,520 different deals of the values of level 1 to its eight chips."""
    return np.array(sorted(set(permutations(values_of_level(1)))), np.uint8)


def deal_many(rng: np.random.Generator, games: int) -> Array:
    """Return the values of the chips of so many games, dealt at random: [games, 32]."""
    deals = _deals_of_level()
    dealt = deals.take(rng.integers(0, len(deals), (games, len(LEVELS))), axis=0)
    # The values of a level are those of level 1 plus a constant.
    return (dealt + _LOWEST).reshape(games, len(CHIPS))


def deal_unseen(view: View, rng: np.random.Generator, trials: int) -> Array:
    """Return the values of the chips for so many trials, as `view.sample` deals them: [trials, 32].

    Values that the view knows are the same in all trials; the others are dealt at random within
    their level.
    """
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
    """Begin games anew with random deals, and with random starters where the rules say so."""
    count = len(games)
    starters = rng.integers(0, batch.players, count)
    if batch.rules.first_player == "seat_a":
        starters[:] = 0
    batch.open(games, deal_many(rng, count), starters)


class RandomDice:
    """Dice that are drawn at random, for many turns at once."""

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
    """Deals and dice of some trials."""

    values: Array
    """[trials, 32] values of the chips."""
    rolls: Array
    """[trials, most rolls] numbers of rolls from 0 to 8, as `dice_of` makes them; 0 beyond
    `length`."""
    length: Array
    """[trials] the number of rolls. Turns beyond them use them again from the first one."""


def draw_luck(position: View | GameState, rng: np.random.Generator, trials: int) -> Luck:
    """Return random luck for so many trials of a position.

    Of a view, the hidden values are dealt anew for each trial; of a state, the values stay as they
    are.
    """
    length = dice_length(position.players)
    rolls = rng.integers(0, len(_SUMS), (trials, length), np.uint8)
    if isinstance(position, View):
        values = deal_unseen(position, rng, trials)
    else:
        values = np.tile(np.array(position.values[1:], np.uint8), (trials, 1))
    return Luck(values, rolls, np.full(trials, length))


def given_luck(deals: Sequence[Sequence[int]], dice: Sequence[bytes]) -> Luck:
    """Return the luck of trials from their deals and dice.

    deals  for each trial the values of the chips, as `GameState.values`
    dice   for each trial its rolls, as from `dice_of`
    """
    if len(deals) != len(dice):
        raise ValueError(f"{len(deals)} deals and dice for {len(dice)} trials")
    length = np.array([len(rolls) for rolls in dice])
    rolls = np.zeros((len(dice), length.max(initial=0)), np.uint8)
    for row, rolled in zip(rolls, dice, strict=True):
        row[: len(rolled)] = np.frombuffer(rolled, np.uint8)
    # `GameState.values` begins with a 0, so that chips count from 1.
    return Luck(np.array(deals, np.uint8)[:, 1:], rolls, length)


class GivenDice:
    """Dice of a batch whose games are trials with given luck.

    luck    luck of all trials
    trials  [games] the trial of each game of the batch
    """

    def __init__(self, luck: Luck, trials: Array, players: int) -> None:
        self._rolls = luck.rolls.reshape(-1)
        self.first = trials.astype(np.int64) * luck.rolls.shape[1]
        self.length = luck.length[trials]
        self.turns_made = np.zeros(len(trials) * players, np.int64)
        """Turns of each diver in its game's dive, from the position on."""

    def __call__(self, batch: Batch, turn: Turn) -> Array:
        """Return the sums of two dice for the divers to move, and count their turns."""
        turns_made = self.turns_made[turn.diver]
        self.turns_made[turn.diver] = turns_made + 1
        # A trial's rolls are numbered by dive, then seat, then the seat's turn in the dive.
        index = turn.of(batch.dive) - np.int64(1)
        index *= batch.players
        index += turn.of(batch.to_move)
        index *= TURNS
        index += turns_made
        index %= turn.of(self.length)
        index += turn.of(self.first)
        return _SUMS.take(self._rolls.take(index))

    def begin_dive(self, batch: Batch, games: Array) -> None:
        """Count the turns of these games anew."""
        batch.by_seat(self.turns_made)[games] = 0

    def part(self, batch: Batch, games: Array) -> GivenDice:
        """Return the dice for `batch.part(games)`."""
        other = copy(self)
        other.first, other.length = self.first[games], self.length[games]
        other.turns_made = batch.by_seat(self.turns_made)[games].reshape(-1)
        return other
