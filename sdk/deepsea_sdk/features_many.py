"""Features of many views at once, from the games of a batch: the numbers of `features`.

Invariants: a row equals what `features` returns for the seat's view, to the bit. `values` of chips
that the seat does not know change nothing. Columns are those of `features`.
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
"""Kind of decision: the seat to move is not asked."""
DECLARE = 1
"""Kind of decision: the seat to move is to declare."""
SEARCH = 2
"""Kind of decision: the seat to move is to search."""
TURN_ACTIONS = len(WORDS) + DROPS
"""Number of the actions in turns. They have the first numbers; orders come after them."""

_TOTALS = np.array([sum(values_of_level(level)) for level in LEVELS], np.float32)
_SPACE_NUMBERS = np.arange(1, SPACES + 1)


def features_many(
    batch: Batch, games: Array, seats: Array, kind: Array, out: Features | None = None
) -> Features:
    """Return the views of one seat of each game as numbers, [games, LENGTH].

    seats  [games] the seat whose view it is
    kind   [games] the decision of the seat to move: NOTHING, DECLARE or SEARCH
    out    array to write into: all zeros, or an array from an earlier call
    """
    players, count = batch.players, len(games)
    invalid = np.flatnonzero((seats < 0) | (seats >= players))
    if len(invalid):
        raise ValueError(f"game {games[invalid[0]]} has no seat {seats[invalid[0]]}")
    rows = np.zeros((count, LENGTH), np.float32) if out is None else out
    # [games, seats]: all seats, from the viewer on
    ring = (seats[:, None] + np.arange(players)) % players
    banks = batch.by_seat(batch.bank).take(games, axis=0)
    banks = np.take_along_axis(banks, ring, 1)
    known = batch.known(games)
    if batch.rules.owner_peek == "on_return":
        known = known | banks[:, 0]
    values = batch.values[games]
    rows[:, 0] = batch.dive[games]
    rows[:, 1] = batch.air[games]
    rows[:, 2] = players
    rows[:, 3] = batch.quiet_turns[games]
    rows[:, 4] = seats
    rows[:, 5] = batch.to_move[games] == seats
    rows[:, 6] = kind == DECLARE
    rows[:, 7] = kind == SEARCH
    rows[:, 8:HEAD] = _unknown_means(known, values)
    units = batch.trail.take(games, axis=0)[:, 1:]
    space_rows = rows[:, HEAD : HEAD + SPACES * PER_SPACE].reshape(count, SPACES, PER_SPACE)
    space_rows[:, :, 0] = batch.last[games][:, None] >= _SPACE_NUMBERS
    space_rows[:, :, 1] = (units & LAID) != 0
    space_rows[:, :, 2:] = levels(units & CHIP_BITS)
    diver = games[:, None] * players + ring
    place = batch.place.take(diver)
    # One block for each seat; those of seats that the game does not have stay 0.
    diver_rows = rows[:, HEAD + SPACES * PER_SPACE :].reshape(count, MAX_PLAYERS, PER_DIVER)[
        :, :players
    ]
    diver_rows[:, :, 0] = 1
    diver_rows[:, :, 1] = np.maximum(place, 0)
    diver_rows[:, :, 2] = batch.homeward.take(diver)
    diver_rows[:, :, 3] = place == HOME
    diver_rows[:, :, 4] = batch.barred.take(diver)
    diver_rows[:, :, 5] = batch.load.take(diver)
    diver_rows[:, :, 6:10] = levels(batch.carried.take(diver) & CHIP_BITS)
    diver_rows[:, :, 10:14] = levels(banks)
    diver_rows[:, :, 14] = points_of(banks & known[:, None], values)
    return rows


def _unknown_means(known: Array, values: Array) -> Array:
    """Return [games, levels] the mean value of the unknown chips; 0 for a level without any.

    known   [games] the known chips, a bit for each of the 32 chips
    values  [games, 32] the values of all chips, of which only the known ones are used
    """
    # The four bytes of a number, then their bits: [games, 32], 1 for each known chip
    octets = known.astype("<u4")[:, None].view(np.uint8)
    is_known = np.unpackbits(octets, axis=1, bitorder="little")
    # Chips of a level are side by side.
    per_level = (len(known), len(LEVELS), CHIPS_PER_LEVEL)
    known_sum = (is_known * values).reshape(per_level).sum(axis=2, dtype=np.float32)
    unknown_sum = _TOTALS - known_sum
    unknown_count = CHIPS_PER_LEVEL - levels(known).astype(np.float32)
    means: Array = np.divide(
        unknown_sum, unknown_count, out=np.zeros_like(unknown_sum), where=unknown_count > 0
    )
    return means


def masks_many(batch: Batch, games: Array, kind: Array) -> Array:
    """Return [games, TURN_ACTIONS] the legal actions of the seat to move: 1, else 0.

    A row is the beginning of what `features.mask` returns for the seat's view.

    kind  [games] the decision of the seat to move: NOTHING, DECLARE or SEARCH
    """
    legal = np.zeros((len(games), TURN_ACTIONS), np.int8)
    down, back, leave, take = range(len(WORDS))  # the columns of these actions
    turn = batch.turn(games)  # the divers to move, one for each game
    # Divers that have turned back cannot turn again: they declare nothing.
    declares = (kind == DECLARE) & ~turn.homeward
    must_turn_back = batch.must_turn_back(turn)
    may_turn_back = must_turn_back | batch.may_declare(turn)
    legal[declares & ~must_turn_back, down] = 1
    legal[declares & may_turn_back, back] = 1
    # There is nothing to search in the submarine, which is space 0.
    units = batch.units_here(turn)
    searches = (kind == SEARCH) & (turn.place > 0)
    legal[searches, leave] = 1
    legal[searches & (units != 0), take] = 1
    # The last columns are drops, one for each place of the cargo.
    dropping = np.flatnonzero(searches & batch.may_drop(turn, units))
    legal[dropping, len(WORDS) :] = first_of_name(batch, turn.part(dropping))
    return legal
