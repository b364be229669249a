"""The clean-up between two dives, for many games: `deepsea_rules.cleanup` on arrays.

Invariants: arrays have a row for each game; stranded cargo is a flat array of items in the order in
which they are laid, all of one game before those of the next.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from deepsea_rules.actions import CHIPS
from deepsea_rules.ruleset import PILE_ITEMS, RuleSet

from .units import CHIP_BITS, LAID, U64, Array, apart, joined

SLOTS = 8
"""Places for carried units; with six of them a diver does not move any more."""
WIDTH = 1 + len(CHIPS)
"""Of a trail: the submarine and 32 spaces."""
BELOW = np.arange(SLOTS) < np.arange(SLOTS + 1)[:, None]
"""By load: which places for units are filled."""
_SPACES = np.arange(WIDTH)
_UP_TO = (_SPACES > 0) & (_SPACES[:, None] >= _SPACES)


class Stranded(NamedTuple):
    """What stranded divers lay, item by item."""

    items: Array
    diver: Array
    """Whose it is: row × seats + seat."""
    counts: Array
    """Items of each game."""


def stranded(rules: RuleSet, place: Array, load: Array, cargo: Array, by_chip: bool) -> Stranded:
    """The items of the divers that carry something, in the order in which they are laid.

    place, load  [games, seats]
    cargo        [games, seats, SLOTS]
    """
    games, players = load.shape
    row, seat = load.nonzero()
    where = place[row, seat].astype(np.int64)
    if rules.drop_sequence == "farthest_first":
        where = -where
    turn = (row * 2 * WIDTH + where).argsort()
    row, seat = row[turn], seat[turn]
    loads = load[row, seat]
    items = cargo[row, seat][BELOW[loads]]
    diver = (row * players + seat).repeat(loads)
    if by_chip:
        items, sizes = apart(items)
        diver = diver.repeat(sizes)
    return Stranded(items, diver, np.bincount(diver // players, minlength=games))


def lay_and_close_gaps(
    rules: RuleSet, trail: Array, items: Array, counts: Array, by_chip: bool
) -> tuple[Array, Array]:
    """The trails [games, WIDTH] without blanks and with these items; and their last spaces."""
    kept = trail != 0
    length = kept.sum(axis=1)
    new = np.zeros_like(trail)
    full = _UP_TO[length]
    new[full] = trail[kept]
    if rules.top_up_tail_piles:
        return _top_up(new, length, items, counts, by_chip)
    piles = (counts + PILE_ITEMS - 1) // PILE_ITEMS
    last = length + piles
    some = np.flatnonzero(counts)
    sizes = np.full(int(piles.sum()), PILE_ITEMS)
    sizes[np.cumsum(piles[some]) - 1] += counts[some] - PILE_ITEMS * piles[some]
    groups = np.zeros((len(sizes), PILE_ITEMS), U64)
    groups[BELOW[sizes, :PILE_ITEMS]] = items
    pile = groups[:, 0]
    for i in range(1, PILE_ITEMS):
        pile = joined(pile, groups[:, i], by_chip)
    new[_UP_TO[last] ^ full] = pile | LAID
    return new, last


def _top_up(
    trail: Array, length: Array, items: Array, counts: Array, by_chip: bool
) -> tuple[Array, Array]:
    """Lay the items one by one, each on the first pile with room; see `cleanup`."""
    room = np.where(length[:, None] < _SPACES, PILE_ITEMS, older_rooms(trail))
    first = counts.cumsum() - counts
    for k in range(counts.max(initial=0)):
        row = np.flatnonzero(counts > k)
        item = items[first[row] + k]
        space = (room[row] > 0).argmax(axis=1)
        # Room counts items, but chips on the older piles.
        chips = np.bitwise_count(item & CHIP_BITS)
        room[row, space] -= np.where(space <= length[row], chips, 1)
        trail[row, space] = joined(trail[row, space], item, by_chip) | LAID
    return trail, (trail != 0).sum(axis=1)


def older_rooms(trail: Array) -> Array:
    """By space, the room for chips on the older piles that are topped up; else 0."""
    laid = (trail & LAID) != 0
    fixed = np.where((trail != 0) & ~laid, _SPACES, 0).max(axis=1)
    chips = np.bitwise_count(trail & CHIP_BITS).astype(np.int64)
    room: Array = np.where(laid & (fixed[:, None] < _SPACES), PILE_ITEMS - chips, 0)
    return np.maximum(room, 0)


def next_starters(rules: RuleSet, place: Array, home_rank: Array) -> Array:
    """The seats that begin the next dives; home_rank [games, seats] as in `Batch`."""
    starter: Array = place.argmax(axis=1)
    home = home_rank > 0
    last_home = home.any(axis=1) if rules.starter == "last_home_else_farthest" else home.all(axis=1)
    return np.where(last_home, home_rank.argmax(axis=1), starter)
