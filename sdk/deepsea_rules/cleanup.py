"""The clean-up between two dives: laying stranded cargo, removing blanks, the next starter.

Invariants: stranded cargo goes past the end of the trail, in piles of up to three items that
continue across divers. Nothing on the trail is ever sorted again. While orders are being chosen
nothing has moved yet, so a position in phase "order" is complete.

Items go one by one on the first pile with room, and a full pile stays full. So while they are laid,
the next pile and the room on it are the whole state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .actions import BLANK, ORDER, Unit, name_of_chips, order_by_name, split_order
from .position import Position
from .ruleset import HOME, PILE_ITEMS, RuleSet

LISTED_ORDERS = 64
"""Most orders that are listed. Six single items never have more; long stacks may."""


class LaidItems(NamedTuple):
    """Items that one stranded diver lays, in its pick-up order, and the piles that they go to."""

    seat: int
    items: tuple[Unit, ...]
    piles: list[int]
    """The pile of each item. Piles count from 0, the nearest one; the older ones come first."""
    first_room: int
    """Room on the first of these piles before the items are laid; see `_pile_after`."""
    older_rooms: Sequence[int]
    """Number of chips that fit on each of the older piles that are topped up."""


def laying_sequence(state: Position) -> list[int]:
    """Return the stranded seats with cargo, in the order in which they lay it."""
    seats = [seat for seat, cargo in enumerate(state.cargo) if cargo]
    farthest_first = state.rules.drop_sequence == "farthest_first"
    return sorted(seats, key=state.place.__getitem__, reverse=farthest_first)


def items_of(rules: RuleSet, cargo: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """Return the items that a stranded diver lays one by one: its units, or their chips."""
    if rules.relost_stack == "unit":
        return cargo
    return tuple([Unit((chip,)) for unit in cargo for chip in unit])


def in_order(state: Position, seat: int, names: Sequence[str]) -> tuple[Unit, ...]:
    """Return a seat's items in the order of these names, which must be the names of its items.

    Of several items with one name, the first in pick-up order comes first.
    """
    remaining_items = list(items_of(state.rules, state.cargo[seat]))
    remaining_names = names_of(remaining_items)
    ordered = []
    for name in names:
        index = remaining_names.index(name)
        del remaining_names[index]
        ordered.append(remaining_items.pop(index))
    return tuple(ordered)


def is_order(action: str, items: Iterable[Unit]) -> bool:
    """Return True if an action lays each of these items once, in any order."""
    return action.startswith(ORDER) and sorted(split_order(action)) == sorted(names_of(items))


def names_of(items: Iterable[Unit]) -> list[str]:
    """Return the items' names."""
    return [*map(name_of_chips, items)]


def has_choice(state: Position, seat: int) -> bool:
    """Return True if the rules let the seat choose an order, and orders lead to different piles."""
    return state.rules.drop_order == "owner_choice" and any(
        laid.seat == seat and _orders_differ(laid) for laid in stranded_items(state)
    )


def next_choice(
    state: Position, stranded: Sequence[LaidItems], after: int | None = None
) -> LaidItems | None:
    """Return the items of the next stranded seat that may choose an order; None if there is none.

    stranded  the items of all stranded seats, in the order in which the seats lay them
    after     the seat that has just chosen; None if no seat has chosen yet
    """
    if state.rules.drop_order != "owner_choice":
        return None
    is_past_chosen = after is None
    for laid in stranded:
        if is_past_chosen and _orders_differ(laid):
            return laid
        if laid.seat == after:
            is_past_chosen = True
    return None


def _orders_differ(laid: LaidItems) -> bool:
    """Return True if a diver's choice of order changes the piles that come out."""
    begins_on_older_pile = laid.piles[0] < len(laid.older_rooms)  # the older piles come first
    has_stack = any(len(item) > 1 for item in laid.items)
    if begins_on_older_pile and has_stack:
        # There a stack takes more room than a chip, so the order decides what fits: try it out.
        return len(listed_orders(laid)) > 1
    # Otherwise each item takes the same room. Orders differ if there are two piles, and two kinds
    # of items that could change places between them.
    has_several_piles = laid.piles[0] != laid.piles[-1]
    return has_several_piles and len(set(names_of(laid.items))) > 1


def listed_orders(laid: LaidItems) -> tuple[str, ...]:
    """Return actions that lead to different piles, pick-up order first; at most `LISTED_ORDERS`.

    There is one for every way in which the piles can come out. Within a new pile, items are laid in
    the order in which their names first appear in the cargo, so that not all permutations have to
    be tried. On an older pile, which has room for two chips at most, any order is tried, since a
    stack fits only if it comes last.
    """
    names = names_of(laid.items)
    kinds = list(dict.fromkeys(names))
    # By kind: how many items are still to be laid, and one of them
    remaining_counts = [names.count(name) for name in kinds]
    item_of_kind = [laid.items[names.index(name)] for name in kinds]
    # The order that is being tried, as the pile and the kind of each item that is laid
    trial: list[tuple[int, int]] = []
    orders: list[list[tuple[int, int]]] = []
    # An outcome has the kinds of items on each pile, whatever their order there.
    pickup_outcome = sorted(zip(laid.piles, map(kinds.index, names), strict=True))
    outcomes = [pickup_outcome]

    def try_remaining(pile: int, room: int) -> None:
        """Try all ways to lay the remaining items, the next of which goes to this pile.

        The items that are laid already are in `trial`. Each order with a new outcome is added to
        `orders`.

        room  the room on the pile before the next item
        """
        if len(trial) == len(names):  # all items are laid
            outcome = sorted(trial)
            if outcome not in outcomes:
                outcomes.append(outcome)
                orders.append(trial.copy())
            return
        first_kind = 0
        if trial:
            last_pile, last_kind = trial[-1]
            # Items on the same new pile come in order of their kinds: others give the same pile.
            if last_pile == pile and pile >= len(laid.older_rooms):
                first_kind = last_kind
        for kind in range(first_kind, len(kinds)):
            if remaining_counts[kind] and len(outcomes) < LISTED_ORDERS:
                remaining_counts[kind] -= 1
                trial.append((pile, kind))
                next_pile, next_room = _pile_after(laid.older_rooms, pile, room, item_of_kind[kind])
                try_remaining(next_pile, next_room)
                # Take the item back, to try the next kind in its place.
                trial.pop()
                remaining_counts[kind] += 1

    try_remaining(laid.piles[0], laid.first_room)
    return (
        order_by_name(names),
        *[order_by_name([kinds[kind] for _, kind in order]) for order in orders],
    )


def next_starter(state: Position) -> int:
    """Return the seat that begins the next dive: the farthest diver, or the last one to come home.

    The rules say which of the two it is if there are both.
    """
    seats_out = [seat for seat, place in enumerate(state.place) if place != HOME]
    prefers_home = state.rules.starter == "last_home_else_farthest"
    if not seats_out or (prefers_home and state.home_order):
        return state.home_order[-1]
    return max(seats_out, key=lambda seat: state.place[seat])


def stranded_items(state: Position) -> list[LaidItems]:
    """Return the items of all stranded divers, and the piles that they go to in pick-up order.

    The divers come in the order in which they lay their items.
    """
    older_rooms = [PILE_ITEMS - len(unit) for unit in _tail_piles(state)]
    pile, room = _first_pile_with_room(older_rooms, 0)
    stranded = []
    for seat in laying_sequence(state):
        items = items_of(state.rules, state.cargo[seat])
        first_room = room
        piles = []
        for item in items:
            piles.append(pile)
            pile, room = _pile_after(older_rooms, pile, room, item)
        stranded.append(LaidItems(seat, items, piles, first_room, older_rooms))
    return stranded


def _pile_after(older_rooms: Sequence[int], pile: int, room: int, item: Unit) -> tuple[int, int]:
    """Return the pile that the next item goes to, and its room, after `item` is laid on `pile`.

    Piles are numbered, the older ones first. The room of an older pile is a number of chips, that
    of a new one is a number of items.

    older_rooms  the room of each older pile at first
    room         the room of `pile` before
    """
    is_older_pile = pile < len(older_rooms)
    room -= len(item) if is_older_pile else 1
    if room > 0:
        return pile, room
    return _first_pile_with_room(older_rooms, pile + 1)


def _first_pile_with_room(older_rooms: Sequence[int], pile: int) -> tuple[int, int]:
    """Return the first pile with room, from this one on, and its room.

    Older piles may be full; the piles after them are new, and have room for PILE_ITEMS items.
    """
    while pile < len(older_rooms):
        if older_rooms[pile] > 0:
            return pile, older_rooms[pile]
        pile += 1
    return pile, PILE_ITEMS


def lay_and_close_gaps(state: Position, stranded: Sequence[LaidItems]) -> None:
    """Lay all stranded cargo at the end of the trail, remove the blanks and close the gaps."""
    tail = _tail_piles(state)
    # The piles at the end of the trail, as chips: the older ones are topped up, others are new.
    piles: list[tuple[int, ...]] = [*tail]
    for laid in stranded:
        for pile, item in zip(laid.piles, laid.items, strict=True):
            if pile == len(piles):
                piles.append(item)
            else:
                piles[pile] += item
    laid_units = [Unit(pile) for pile in piles]
    units = [unit for unit in state.trail if unit]
    units_before_tail = units[: len(units) - len(tail)]
    # Index 0 of a trail is the submarine, where nothing lies.
    state.trail = [BLANK, *units_before_tail, *laid_units]
    state.laid = state.laid.difference(tail).union(laid_units)


def _tail_piles(state: Position) -> list[Unit]:
    """Return the older piles that are topped up; none if the rules do not top up piles.

    They are piles of stranded cargo from earlier dives, at the end of the trail: blanks may lie
    between them, but no other units.
    """
    tail: list[Unit] = []
    if state.rules.top_up_tail_piles:
        for unit in reversed(state.trail):
            if unit in state.laid:
                tail.append(unit)
            elif unit:
                break
    return tail[::-1]
