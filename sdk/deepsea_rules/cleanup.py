"""What happens between two dives: who lays what where, and who begins the next one.

Laws: stranded cargo goes past the end of the trail, in piles of up to three items that continue
across divers; nothing on the trail is ever re-sorted; while orders are being chosen nothing has
moved yet, so a position in phase "order" says all there is to know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from .constants import HOME, PILE_ITEMS
from .ruleset import RuleSet
from .units import BLANK, Unit

if TYPE_CHECKING:
    from .state import GameState

LISTED_ORDERS: Final = 64
"""How many orders are listed at most; six single items never have more, long stacks may."""


@dataclass(slots=True)
class Pile:
    """A pile that items are laid on."""

    chips: tuple[int, ...]
    items: int
    topped_up: bool
    """An older pile: it takes items while it has fewer than three chips."""

    def has_room(self) -> bool:
        """Whether the next item goes here."""
        return (len(self.chips) if self.topped_up else self.items) < PILE_ITEMS


def laying_sequence(state: GameState) -> list[int]:
    """The stranded seats with cargo, in the order in which they lay it."""
    seats = [seat for seat in range(state.players) if state.cargo[seat]]
    farthest_first = state.rules.drop_sequence == "farthest_first"
    return sorted(seats, key=lambda seat: state.place[seat], reverse=farthest_first)


def items_of(rules: RuleSet, cargo: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """What a stranded diver lays one by one: its units, or the chips of its units."""
    if rules.relost_stack == "unit":
        return cargo
    return tuple(Unit((chip,)) for unit in cargo for chip in unit)


def in_order(state: GameState, seat: int, names: Sequence[str]) -> tuple[Unit, ...]:
    """The seat's items in the order of these names; a name means the first such item."""
    items = list(items_of(state.rules, state.cargo[seat]))
    ordered = []
    for name in names:
        item = next(item for item in items if item.name == name)
        items.remove(item)
        ordered.append(item)
    return tuple(ordered)


def has_choice(state: GameState, seat: int) -> bool:
    """Whether the seat is asked: only if the rules let it and orders lead to different piles.

    They do as soon as there are two kinds of items and two piles to lay them on: some two items of
    different kinds lie on different piles, and could change places.
    """
    if state.rules.drop_order == "pickup_order":
        return False
    items = items_of(state.rules, state.cargo[seat])
    if len({item.name for item in items}) < 2:
        return False
    return len(set(_lay(_piles_before(state, seat), items))) > 1


def listed_orders(state: GameState, seat: int) -> list[tuple[Unit, ...]]:
    """Orders that lead to different piles, pick-up order first; at most `LISTED_ORDERS`."""
    items = items_of(state.rules, state.cargo[seat])
    piles = _piles_before(state, seat)
    default = _outcome(piles, items)
    others = (
        ordered for ordered in _different_orders(state, seat) if _outcome(piles, ordered) != default
    )
    return [items, *islice(others, LISTED_ORDERS - 1)]


def next_starter(state: GameState) -> int:
    """The seat that begins the next dive: the farthest stranded, or who came home last."""
    out = [seat for seat in range(state.players) if state.place[seat] != HOME]
    if not out or (state.home_order and state.rules.starter == "last_home_else_farthest"):
        return state.home_order[-1]
    return max(out, key=lambda seat: state.place[seat])


def lay_and_close_gaps(state: GameState) -> None:
    """Lay all stranded cargo, remove the blanks and close the gaps."""
    tail = _tail_piles(state)
    piles = [*tail]
    for seat in laying_sequence(state):
        _lay(piles, items_of(state.rules, state.cargo[seat]))
    kept = [unit for unit in state.trail if unit]
    laid = [Unit(pile.chips) for pile in piles]
    state.trail = [BLANK, *kept[: len(kept) - len(tail)], *laid]
    state.laid = frozenset(state.laid.intersection(state.trail).union(laid))


def _tail_piles(state: GameState) -> list[Pile]:
    """The older piles that are topped up: those with only blanks and such piles after them."""
    tail: list[Pile] = []
    if state.rules.top_up_tail_piles:
        for unit in reversed(state.trail):
            if unit in state.laid:
                tail.append(Pile(unit, 1, topped_up=True))
            elif unit:
                break
    return tail[::-1]


def _piles_before(state: GameState, seat: int) -> list[Pile]:
    """The piles as they are when this seat begins to lay."""
    piles = _tail_piles(state)
    for other in laying_sequence(state):
        if other == seat:
            break
        _lay(piles, items_of(state.rules, state.cargo[other]))
    return piles


def _lay(piles: list[Pile], items: Sequence[Unit]) -> list[int]:
    """Lay items one by one on the first pile with room; returns which pile each went to."""
    return [_lay_one(piles, item) for item in items]


def _lay_one(piles: list[Pile], item: Unit) -> int:
    index = next((i for i, pile in enumerate(piles) if pile.has_room()), len(piles))
    if index == len(piles):
        piles.append(Pile((), 0, topped_up=False))
    piles[index].chips += item
    piles[index].items += 1
    return index


def _copy(piles: Sequence[Pile]) -> list[Pile]:
    return [Pile(pile.chips, pile.items, pile.topped_up) for pile in piles]


def _outcome(piles: Sequence[Pile], items: Sequence[Unit]) -> list[tuple[int, str]]:
    """Which pile gets which kinds of items; equal where nobody could tell the piles apart."""
    indices = _lay(_copy(piles), items)
    return sorted((index, item.name) for index, item in zip(indices, items, strict=True))


def _different_orders(state: GameState, seat: int) -> Iterator[tuple[Unit, ...]]:
    """One order for every way in which the piles can come out.

    Within a pile items are taken in the order of their names' first appearance in the cargo, so
    that each filling is made once, without trying all permutations.
    """
    by_name: dict[str, list[Unit]] = {}
    for item in items_of(state.rules, state.cargo[seat]):
        by_name.setdefault(item.name, []).append(item)
    kinds = list(by_name.values())

    def extend(
        done: tuple[Unit, ...], used: tuple[int, ...], piles: list[Pile], pile: int, rank: int
    ) -> Iterator[tuple[Unit, ...]]:
        if sum(used) == sum(map(len, kinds)):
            yield done
            return
        for kind, items in enumerate(kinds):
            if used[kind] == len(items):
                continue
            item = items[used[kind]]
            grown = _copy(piles)
            index = _lay_one(grown, item)
            if index == pile and kind < rank:
                continue
            now_used = (*used[:kind], used[kind] + 1, *used[kind + 1 :])
            yield from extend((*done, item), now_used, grown, index, kind)

    yield from extend((), (0,) * len(kinds), _piles_before(state, seat), -1, 0)
