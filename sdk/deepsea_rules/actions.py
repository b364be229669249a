"""Chips, units, and the actions that name them, in step notation.

Invariants: a chip is its id, 1 to 32, which is its place on the opening trail. Its level follows
from the id, its value never does. An action *is* its step notation, the same text in the engine, on
the wire, in records and in bots. Units with equal names look the same; an action means the first of
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Literal

from .errors import InvalidAction
from .printable import quoted

LEVELS = (1, 2, 3, 4)
CHIPS_PER_LEVEL = 8
CHIPS = range(1, 33)
LEVEL_OF = (0, *((chip - 1) // CHIPS_PER_LEVEL + 1 for chip in CHIPS))
"""Level of each chip, indexed by chip id; index 0 is no chip."""


def level_of(chip: int) -> int:
    """Return the level of a chip, 1 to 4."""
    return LEVEL_OF[chip]


@cache
def values_of_level(level: int) -> tuple[int, ...]:
    """Return the eight values of a level, ascending: two each of 4(L-1) to 4(L-1)+3."""
    lowest = 4 * (level - 1)
    return tuple(value for value in range(lowest, lowest + 4) for _ in range(2))


class Unit(tuple[int, ...]):
    """Ids of the chips that count as one: one for a chip, several for a stack, none for a blank.

    A unit is immutable and its chips are unique in a game, so positions and views share it.
    """

    __slots__ = ()

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels of its chips, in their order."""
        return tuple(LEVEL_OF[chip] for chip in self)

    @property
    def name(self) -> str:
        """The name in step notation: "2" for a chip, "[12]" for a stack, "x" for a blank."""
        return name_of_chips(self)

    def __repr__(self) -> str:
        return f"Unit({', '.join(map(str, self))})"


BLANK = Unit()
"""Empty space of the trail: a unit without chips."""


@lru_cache(maxsize=4096)
def name_of_chips(chips: tuple[int, ...]) -> str:
    """Return the name of the unit with these chips; units that look the same have the same name."""
    if not chips:
        return "x"
    digits = "".join(str(LEVEL_OF[chip]) for chip in chips)
    return digits if len(chips) == 1 else f"[{digits}]"


def count_levels(chips: Iterable[int]) -> tuple[int, int, int, int]:
    """Return how many of the chips are of level 1, 2, 3 and 4."""
    counts = [0, 0, 0, 0, 0]
    for chip in chips:
        counts[LEVEL_OF[chip]] += 1
    return counts[1], counts[2], counts[3], counts[4]


# Actions

Kind = Literal["declare", "search", "order"]

DOWN = "down"
"""Go on down, or keep the way home: `Bot.turn_back` returned False."""
BACK = "back"
"""Turn back, once in a dive."""
LEAVE = "leave"
"""Leave the space as it is."""
TAKE = "take"
"""Take the unit that lies on the space."""
DROP = "drop:"
ORDER = "order:"

_ITEM = r"(?:[1-4]|\[[1-4]{2,}\])"
_DROP = re.compile(rf"drop:{_ITEM}\Z")
_ORDER = re.compile(rf"order:{_ITEM}(?:,{_ITEM})*\Z")


@lru_cache(maxsize=4096)
def drop(unit: Unit) -> str:
    """Return the action that drops this unit, or one with its name; see `view.droppable`."""
    return DROP + unit.name


def order(items: Iterable[Unit]) -> str:
    """Return the action that lays a stranded diver's items in this order, the nearest first."""
    return order_by_name(item.name for item in items)


def order_by_name(names: Iterable[str]) -> str:
    """Return the action that lays the items with these names in this order."""
    return ORDER + ",".join(names)


def kind_of(action: str) -> Kind:
    """Return the kind of decision that an action answers.

    Raise `InvalidAction` for any other text.
    """
    if action in (DOWN, BACK):
        return "declare"
    if action in (LEAVE, TAKE) or _DROP.match(action):
        return "search"
    if _ORDER.match(action):
        return "order"
    raise InvalidAction(
        f"{quoted(action)} is no action; there are down, back, leave, take, drop:UNIT, "
        "order:ITEM,ITEM,..."
    )


def split_order(action: str) -> list[str]:
    """Return the names of the items in an `order:` action."""
    return action.removeprefix(ORDER).split(",")
