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
    """The pile of each item; piles count from 0, the nearest one."""
    room: int
    """Room on the first of these piles before; see `_pile_after`."""
    rooms: Sequence[int]
    """Rooms for chips on the older piles that are topped up, which are the first piles."""


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
    """Return the seat's items in the order of these names; a name means the first item with it."""
    items = list(items_of(state.rules, state.cargo[seat]))
    remaining_names = names_of(items)
    ordered = []
    for name in names:
        index = remaining_names.index(name)
        del remaining_names[index]
        ordered.append(items.pop(index))
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
        part.seat == seat and _orders_differ(part) for part in laying(state)
    )


def next_choice(
    state: Position, laid: Sequence[LaidItems], after: int | None = None
) -> LaidItems | None:
    """Return the part of the next seat that has a choice of orders; None if there is no other.

    laid   the parts of all stranded seats, in the order in which they lay
    after  the seat that has just chosen; None to begin with the first one
    """
    if state.rules.drop_order == "owner_choice":
        for part in laid:
            if after is None and _orders_differ(part):
                return part
            if after == part.seat:
                after = None  # the seats after this one are still to choose
    return None


def _orders_differ(part: LaidItems) -> bool:
    """Return True if orders of a diver's items lead to different piles.

    They do as soon as there are two kinds of items and two piles to lay them on: some two items of
    different kinds lie on different piles, and could change places. Where a stack is laid on an
    older pile, which has room for chips, the order also decides how many piles there are.
    """
    if part.piles[0] < len(part.rooms) and any(len(item) > 1 for item in part.items):
        return len(listed_orders(part)) > 1
    return part.piles[0] != part.piles[-1] and len(set(names_of(part.items))) > 1


def listed_orders(part: LaidItems) -> tuple[str, ...]:
    """Return actions that lead to different piles, pick-up order first; at most `LISTED_ORDERS`.

    There is one for every way in which the piles can come out. Within a pile, items are taken in
    the order in which their names first appear in the cargo, so that not all permutations have to
    be tried. On an older pile any order is tried, since a stack fits only if it comes last; it has
    room for two.
    """
    names = names_of(part.items)
    kinds = list(dict.fromkeys(names))
    remaining = [names.count(name) for name in kinds]
    items = [part.items[names.index(name)] for name in kinds]
    placed: list[tuple[int, int]] = []
    pickup_outcome = sorted(zip(part.piles, map(kinds.index, names), strict=True))
    orders: list[list[tuple[int, int]]] = []
    outcomes = [pickup_outcome]

    def extend(pile: int, room: int) -> None:
        """Place one more item, and all others after it; `placed` has pile and kind of each."""
        if len(placed) == len(names):
            outcome = sorted(placed)
            if outcome not in outcomes:
                outcomes.append(outcome)
                orders.append(placed.copy())
            return
        # Within a new pile only ascending kinds: other orders give the same pile.
        is_same_new_pile = bool(placed) and placed[-1][0] == pile and pile >= len(part.rooms)
        first = placed[-1][1] if is_same_new_pile else 0
        for kind in range(first, len(kinds)):
            if remaining[kind] and len(outcomes) < LISTED_ORDERS:
                remaining[kind] -= 1
                placed.append((pile, kind))
                extend(*_pile_after(part.rooms, pile, room, items[kind]))
                placed.pop()
                remaining[kind] += 1

    extend(part.piles[0], part.room)
    return (
        order_by_name(names),
        *[order_by_name([kinds[kind] for _, kind in placed]) for placed in orders],
    )


def next_starter(state: Position) -> int:
    """Return the seat that begins the next dive: the farthest diver, or the last one to come home.

    The rules say which of the two it is if there are both.
    """
    seats_out = [seat for seat, place in enumerate(state.place) if place != HOME]
    if not seats_out or (state.home_order and state.rules.starter == "last_home_else_farthest"):
        return state.home_order[-1]
    return max(seats_out, key=state.place.__getitem__)


def laying(state: Position) -> list[LaidItems]:
    """Return the stranded divers' items with the piles that they go to, in order of laying."""
    rooms = [PILE_ITEMS - len(unit) for unit in _tail_piles(state)]
    pile, room = _first_pile_with_room(rooms, 0)
    parts = []
    for seat in laying_sequence(state):
        items = items_of(state.rules, state.cargo[seat])
        room_before = room
        piles = []
        for item in items:
            piles.append(pile)
            pile, room = _pile_after(rooms, pile, room, item)
        parts.append(LaidItems(seat, items, piles, room_before, rooms))
    return parts


def _pile_after(rooms: Sequence[int], pile: int, room: int, item: Unit) -> tuple[int, int]:
    """Return the next pile and its room, after an item is laid on this pile with this room.

    Room counts items, but chips on the older piles, whose rooms come first.
    """
    room -= len(item) if pile < len(rooms) else 1
    return (pile, room) if room > 0 else _first_pile_with_room(rooms, pile + 1)


def _first_pile_with_room(rooms: Sequence[int], pile: int) -> tuple[int, int]:
    """Return the first pile from this one on that has room, and its room."""
    while pile < len(rooms):
        if rooms[pile] > 0:
            return pile, rooms[pile]
        pile += 1
    return pile, PILE_ITEMS


def lay_and_close_gaps(state: Position, laid: Sequence[LaidItems]) -> None:
    """Lay all stranded cargo, remove the blanks and close the gaps."""
    tail = _tail_piles(state)
    piles: list[tuple[int, ...]] = [*tail]
    for part in laid:
        for pile, item in zip(part.piles, part.items, strict=True):
            if pile == len(piles):
                piles.append(item)
            else:
                piles[pile] += item
    units = [*filter(None, state.trail)]
    new = [Unit(pile) for pile in piles]
    state.trail = [BLANK, *units[: len(units) - len(tail)], *new]
    state.laid = state.laid.difference(tail).union(new)


def _tail_piles(state: Position) -> list[Unit]:
    """Return the older piles that are topped up: laid piles with no other unit after them."""
    tail: list[Unit] = []
    if state.rules.top_up_tail_piles:
        for unit in reversed(state.trail):
            if unit in state.laid:
                tail.append(unit)
            elif unit:
                break
    return tail[::-1]
