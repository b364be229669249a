"""The features of many views at once, from the games of a batch: the numbers of `features`.

Invariants: a row is what `features` makes of the seat's view, to the bit; `values` of chips that
the seat does not know change nothing; places in a row are those of `features`.
"""

from __future__ import annotations

import numpy as np

from deepsea_rules.actions import CHIPS_PER_LEVEL, LEVELS, values_of_level
from deepsea_rules.ruleset import HOME, MAX_PLAYERS

from .batch.engine import Batch, points_of
from .batch.policies import first_of_name
from .batch.units import CHIP_BITS, LAID, Array, levels
from .features import DROPS, HEAD, LENGTH, PER_DIVER, PER_SPACE, SPACES, WORDS, Features

__all__ = ["DECLARE", "NOTHING", "SEARCH", "TURN_ACTIONS", "features_many", "masks_many"]

NOTHING = 0
"""The seat to move is not asked."""
DECLARE = 1
"""It is to declare."""
SEARCH = 2
"""It is to search."""
TURN_ACTIONS = len(WORDS) + DROPS
"""The actions of turns have the first numbers; those of orders come after them."""

_TOTALS = np.array([sum(values_of_level(level)) for level in LEVELS], np.float32)
_SPACE_NUMBERS = np.arange(1, SPACES + 1)


def features_many(
    batch: Batch, games: Array, seats: Array, kind: Array, out: Features | None = None
) -> Features:
    """Views of some games as numbers, [games, LENGTH]: of each that of one seat.

    kind  what the seat to move is to decide: NOTHING, DECLARE or SEARCH
    out   an array to write into: all of it zeros, or of rows that were made with it before
    """
    players, count = batch.players, len(games)
    wrong = np.flatnonzero((seats < 0) | (seats >= players))
    if len(wrong):
        raise ValueError(f"game {games[wrong[0]]} has no seat {seats[wrong[0]]}")
    x = np.zeros((count, LENGTH), np.float32) if out is None else out
    ring = (seats[:, None] + np.arange(players)) % players
    banks = batch.by_seat(batch.bank).take(games, axis=0)
    banks = np.take_along_axis(banks, ring, 1)
    known = batch.known(games)
    if batch.rules.owner_peek == "on_return":
        known = known | banks[:, 0]
    values = batch.values[games]
    x[:, 0] = batch.dive[games]
    x[:, 1] = batch.air[games]
    x[:, 2] = players
    x[:, 3] = batch.quiet[games]
    x[:, 4] = seats
    x[:, 5] = batch.to_move[games] == seats
    x[:, 6] = kind == DECLARE
    x[:, 7] = kind == SEARCH
    x[:, 8:HEAD] = _unknown_means(known, values)
    units = batch.trail.take(games, axis=0)[:, 1:]
    space = x[:, HEAD : HEAD + SPACES * PER_SPACE].reshape(count, SPACES, PER_SPACE)
    space[:, :, 0] = batch.last[games][:, None] >= _SPACE_NUMBERS
    space[:, :, 1] = (units & LAID) != 0
    space[:, :, 2:] = levels(units & CHIP_BITS)
    diver = games[:, None] * players + ring
    place = batch.place.take(diver)
    row = x[:, HEAD + SPACES * PER_SPACE :].reshape(count, MAX_PLAYERS, PER_DIVER)[:, :players]
    row[:, :, 0] = 1
    row[:, :, 1] = np.maximum(place, 0)
    row[:, :, 2] = batch.homeward.take(diver)
    row[:, :, 3] = place == HOME
    row[:, :, 4] = batch.barred.take(diver)
    row[:, :, 5] = batch.load.take(diver)
    row[:, :, 6:10] = levels(batch.carried.take(diver) & CHIP_BITS)
    row[:, :, 10:14] = levels(banks)
    row[:, :, 14] = points_of(banks & known[:, None], values)
    return x


def _unknown_means(known: Array, values: Array) -> Array:
    """The mean value of an unknown chip of each level; 0 where none is unknown."""
    octets = known.astype("<u4")[:, None].view(np.uint8)
    bits = np.unpackbits(octets, axis=1, bitorder="little")
    per_level = (len(known), len(LEVELS), CHIPS_PER_LEVEL)
    left = CHIPS_PER_LEVEL - levels(known).astype(np.float32)
    total = _TOTALS - (bits * values).reshape(per_level).sum(axis=2, dtype=np.float32)
    means: Array = np.divide(total, left, out=np.zeros_like(total), where=left > 0)
    return means


def masks_many(batch: Batch, games: Array, kind: Array) -> Array:
    """Which actions of its turn the seat to move has, [games, TURN_ACTIONS], as `features.mask`."""
    legal = np.zeros((len(games), TURN_ACTIONS), np.int8)
    down, back, leave, take = range(len(WORDS))
    turn = batch.turn(games)
    declares = (kind == DECLARE) & ~turn.homeward
    must = batch.must_turn_back(turn)
    legal[declares & ~must, down] = 1
    legal[declares & (must | batch.may_declare(turn)), back] = 1
    units = batch.units_here(turn)
    searches = (kind == SEARCH) & (turn.place > 0)
    legal[searches, leave] = 1
    legal[searches & (units != 0), take] = 1
    drops = np.flatnonzero(searches & batch.may_drop(turn, units))
    legal[drops, len(WORDS) :] = first_of_name(batch, turn.part(drops))
    return legal
