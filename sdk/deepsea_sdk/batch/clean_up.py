"""The clean-up between two dives, for many games: `deepsea_rules.cleanup` on arrays.

Invariants: arrays have a row for each game; stranded cargo is a flat array of items in the order in
which they are laid, all of one game before those of the next; a diver is asked for an order if
orders lead to different piles, as `cleanup.has_choice` says; of items with one name the one that
was picked up first is laid first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from deepsea_rules.actions import CHIPS
from deepsea_rules.cleanup import has_choice
from deepsea_rules.errors import IllegalAction
from deepsea_rules.ruleset import PILE_ITEMS, SEAT_LETTERS, RuleSet
from deepsea_rules.state import GameState

from .units import CHIP_BITS, LAID, U64, Array, apart, checked, joined, unpack, unpack_trail

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


# Orders of stranded divers' items


class Orders(NamedTuple):
    """Stranded divers that are asked for an order; arrays have a row for each of them."""

    games: Array
    diver: Array
    """Game × seats + seat."""
    items: Array
    """[divers, most] in pick-up order, 0 beyond `sizes`."""
    sizes: Array

    def inside(self) -> Array:
        """Which places have items."""
        return np.arange(self.items.shape[1]) < self.sizes[:, None]


class Runs(NamedTuple):
    """The items of each diver, as a run in those of all."""

    first: Array
    sizes: Array
    diver: Array
    turn: Array
    """0 for the first diver of a game that lays, 1 for the second, ..."""

    def part(self, rows: Array) -> Runs:
        """Some of them, by their indices."""
        return Runs(self.first[rows], self.sizes[rows], self.diver[rows], self.turn[rows])


def runs_of(laid: Stranded, players: int) -> Runs:
    """The runs of some games that have items."""
    first = np.flatnonzero(np.diff(laid.diver, prepend=-1))
    diver = laid.diver[first]
    games = diver // players
    sizes = np.diff(first, append=len(laid.diver))
    return Runs(first, sizes, diver, np.arange(len(first)) - np.searchsorted(games, games))


def asked_at_once(rules: RuleSet, trail: Array, laid: Stranded, runs: Runs, name: Array) -> Array:
    """The runs of all who are asked, where an item fits on any pile with room."""
    row = np.repeat(np.arange(len(laid.counts)), laid.counts)
    pile = np.arange(len(row)) - (laid.counts.cumsum() - laid.counts)[row]
    if rules.top_up_tail_piles:
        upto = older_rooms(trail).cumsum(axis=1)[row]
        beyond = pile - upto[:, -1]
        older = (upto <= pile[:, None]).sum(axis=1)
        pile = np.where(beyond < 0, older, WIDTH + beyond // PILE_ITEMS)
    else:
        pile //= PILE_ITEMS
    several = pile[runs.first] != pile[runs.first + runs.sizes - 1]
    kinds = np.minimum.reduceat(name, runs.first) != np.maximum.reduceat(name, runs.first)
    return np.flatnonzero(several & kinds)


def asked_in_turn(rules: RuleSet, trail: Array, place: Array, laid: Stranded, runs: Runs) -> Array:
    """Those of these runs that are asked, where the order of stacks decides on what piles they fit.

    trail [games, WIDTH] and place [games, seats] are those of the games; the answers of those whose
    turn was before are in `laid`.
    """
    players = place.shape[1]
    asked = []
    for run, diver in enumerate(runs.diver.tolist()):
        game, seat = divmod(diver, players)
        state = GameState(rules, (), players)
        state.trail, state.laid = unpack_trail(trail[game], by_chip=False)
        state.place = place[game].tolist()
        own = laid.diver == game * players + np.arange(players)[:, None]
        state.cargo = [tuple(unpack(n, False) for n in laid.items[of].tolist()) for of in own]
        if has_choice(state, seat):
            asked.append(run)
    return np.array(asked, np.int64)


def check_orders(orders: Orders, chosen: Array, players: int) -> None:
    """Raise unless each diver's items are chosen once each."""
    checked(chosen, orders.items, "i", "what the policy orders is")
    places = np.arange(chosen.shape[1])
    found = np.sort(np.where(orders.inside(), chosen, places), axis=1)
    wrong = np.flatnonzero((found != places).any(axis=1))
    if len(wrong):
        row = int(wrong[0])
        items = chosen[row, : orders.sizes[row]].tolist()
        raise IllegalAction(
            f"game {orders.games[row]}: seat {SEAT_LETTERS[int(orders.diver[row]) % players]} "
            f"cannot lay its {len(items)} items in the order {items}"
        )


def in_order(orders: Orders, chosen: Array, names: Array) -> Array:
    """The items as they are laid; a chosen item stands for the first one with its name."""
    inside = orders.inside()
    chosen = np.where(inside, chosen, np.arange(inside.shape[1]))
    # What lies beyond the items stays there: no name is as large.
    names = np.where(inside, names, ~names.dtype.type(0))
    by_name = names.argsort(axis=1, kind="stable")
    places = np.take_along_axis(names, chosen, 1).argsort(axis=1, kind="stable")
    laid = np.empty_like(chosen)
    np.put_along_axis(laid, places, by_name, 1)
    return np.take_along_axis(orders.items, laid, 1)
