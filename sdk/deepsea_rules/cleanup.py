"""The clean-up between two dives: laying stranded cargo, removing blanks, the next starter.

Invariants: stranded cargo goes past the end of the trail, in piles of up to three items that
continue across divers; nothing on the trail is ever re-sorted; while orders are being chosen
nothing has moved yet, so a position in phase "order" is complete.

Items go one by one on the first pile with room, and a full pile stays full: so while they are laid,
the next pile and the room on it are the whole state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .actions import BLANK, ORDER, Unit, name_of_chips, order_by_name, split_order
from .position import Position
from .ruleset import HOME, PILE_ITEMS, RuleSet

LISTED_ORDERS = 64
"""How many orders are listed at most; six single items never have more, long stacks may."""


class Laid(NamedTuple):
    """What one stranded diver lays where, in its pick-up order."""

    seat: int
    items: tuple[Unit, ...]
    piles: list[int]
    """Which pile each item goes to; piles count from 0, the nearest one."""
    room: int
    """How much room the first of these piles had: see `_after`."""
    rooms: Sequence[int]
    """How many chips each of the older piles took that are topped up: the first piles of all."""


def laying_sequence(state: Position) -> list[int]:
    """The stranded seats with cargo, in the order in which they lay it."""
    seats = [seat for seat, cargo in enumerate(state.cargo) if cargo]
    farthest_first = state.rules.drop_sequence == "farthest_first"
    return sorted(seats, key=state.place.__getitem__, reverse=farthest_first)


def items_of(rules: RuleSet, cargo: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """What a stranded diver lays one by one: its units, or the chips of its units."""
    if rules.relost_stack == "unit":
        return cargo
    return tuple([Unit((chip,)) for unit in cargo for chip in unit])


def in_order(state: Position, seat: int, names: Sequence[str]) -> tuple[Unit, ...]:
    """The seat's items in the order of these names; a name means the first such item."""
    items = list(items_of(state.rules, state.cargo[seat]))
    left = names_of(items)
    ordered = []
    for name in names:
        index = left.index(name)
        del left[index]
        ordered.append(items.pop(index))
    return tuple(ordered)


def is_order(action: str, items: Iterable[Unit]) -> bool:
    """Whether an action lays all of these items, in any order."""
    return action.startswith(ORDER) and sorted(split_order(action)) == sorted(names_of(items))


def names_of(items: Iterable[Unit]) -> list[str]:
    return [*map(name_of_chips, items)]


def has_choice(state: Position, seat: int) -> bool:
    """Whether the seat is asked: only if the rules let it and orders lead to different piles."""
    return state.rules.drop_order == "owner_choice" and any(
        part.seat == seat and _orders_differ(part) for part in laying(state)
    )


def next_choice(state: Position, laid: Sequence[Laid], after: int | None = None) -> Laid | None:
    """The part of the next seat that has a choice, after that of the one that just made its own."""
    if state.rules.drop_order == "owner_choice":
        for part in laid:
            if after is None and _orders_differ(part):
                return part
            if after == part.seat:
                after = None
    return None


def _orders_differ(part: Laid) -> bool:
    """Whether orders lead to different piles.

    They do as soon as there are two kinds of items and two piles to lay them on: some two items of
    different kinds lie on different piles, and could change places. Where a stack is laid on an
    older pile, which has room for chips, the order also decides how many piles there are.
    """
    if part.piles[0] < len(part.rooms) and any(len(item) > 1 for item in part.items):
        return len(listed_orders(part)) > 1
    return part.piles[0] != part.piles[-1] and len(set(names_of(part.items))) > 1


def listed_orders(part: Laid) -> tuple[str, ...]:
    """Actions that lead to different piles, pick-up order first; at most `LISTED_ORDERS`.

    One for every way in which the piles can come out: within a pile items are taken in the order of
    their names' first appearance in the cargo, so that all permutations need not be tried. On an
    older pile any order is tried, since a stack fits only if it comes last; it has room for two.
    """
    names = names_of(part.items)
    kinds = list(dict.fromkeys(names))
    left = [names.count(name) for name in kinds]
    items = [part.items[names.index(name)] for name in kinds]
    course: list[tuple[int, int]] = []
    default = sorted(zip(part.piles, map(kinds.index, names), strict=True))
    ways: list[list[tuple[int, int]]] = []
    found = [default]

    def extend(pile: int, room: int) -> None:
        """Find all ways to go on from here, as the pile and the kind of each item."""
        if len(course) == len(names):
            if (way := sorted(course)) not in found:
                found.append(way)
                ways.append(course.copy())
            return
        same_pile = bool(course) and course[-1][0] == pile and pile >= len(part.rooms)
        first = course[-1][1] if same_pile else 0
        for kind in range(first, len(kinds)):
            if left[kind] and len(found) < LISTED_ORDERS:
                left[kind] -= 1
                course.append((pile, kind))
                extend(*_after(part.rooms, pile, room, items[kind]))
                course.pop()
                left[kind] += 1

    extend(part.piles[0], part.room)
    return (
        order_by_name(names),
        *[order_by_name([kinds[kind] for _, kind in way]) for way in ways],
    )


def next_starter(state: Position) -> int:
    """The seat that begins the next dive: the farthest stranded, or who came home last."""
    out = [seat for seat, place in enumerate(state.place) if place != HOME]
    if not out or (state.home_order and state.rules.starter == "last_home_else_farthest"):
        return state.home_order[-1]
    return max(out, key=state.place.__getitem__)


def laying(state: Position) -> list[Laid]:
    """What the stranded divers lay where, one after the other, each in its pick-up order."""
    rooms = [PILE_ITEMS - len(unit) for unit in _tail_piles(state)]
    pile, room = _with_room(rooms, 0)
    found = []
    for seat in laying_sequence(state):
        items = items_of(state.rules, state.cargo[seat])
        room_before = room
        piles = []
        for item in items:
            piles.append(pile)
            pile, room = _after(rooms, pile, room, item)
        found.append(Laid(seat, items, piles, room_before, rooms))
    return found


def _after(rooms: Sequence[int], pile: int, room: int, item: Unit) -> tuple[int, int]:
    """The pile that is next, and its room, when an item is laid on this one with this room.

    Room counts items, but chips on the older piles, whose rooms come first.
    """
    room -= len(item) if pile < len(rooms) else 1
    return (pile, room) if room > 0 else _with_room(rooms, pile + 1)


def _with_room(rooms: Sequence[int], pile: int) -> tuple[int, int]:
    """The first pile from this one on that has room, and how much."""
    while pile < len(rooms):
        if rooms[pile] > 0:
            return pile, rooms[pile]
        pile += 1
    return pile, PILE_ITEMS


def lay_and_close_gaps(state: Position, laid: Sequence[Laid]) -> None:
    """Lay all stranded cargo, remove the blanks and close the gaps."""
    tail = _tail_piles(state)
    piles: list[tuple[int, ...]] = [*tail]
    for part in laid:
        for pile, item in zip(part.piles, part.items, strict=True):
            if pile == len(piles):
                piles.append(item)
            else:
                piles[pile] += item
    kept = [*filter(None, state.trail)]
    new = [Unit(pile) for pile in piles]
    state.trail = [BLANK, *kept[: len(kept) - len(tail)], *new]
    state.laid = state.laid.difference(tail).union(new)


def _tail_piles(state: Position) -> list[Unit]:
    """The older piles that are topped up: those with only blanks and such piles after them."""
    tail: list[Unit] = []
    if state.rules.top_up_tail_piles:
        for unit in reversed(state.trail):
            if unit in state.laid:
                tail.append(unit)
            elif unit:
                break
    return tail[::-1]
