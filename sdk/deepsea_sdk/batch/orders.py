"""Orders of stranded divers' items, for many games: who is asked, and what an answer leads to.

Invariants: a diver is asked if orders lead to different piles, as `cleanup.has_choice` says; of
items with one name the one that was picked up first is laid first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from deepsea_rules.cleanup import has_choice
from deepsea_rules.errors import IllegalAction
from deepsea_rules.ruleset import PILE_ITEMS, SEAT_LETTERS, RuleSet
from deepsea_rules.state import GameState

from .clean_up import WIDTH, Stranded, older_rooms
from .units import Array, checked, unpack, unpack_trail


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
