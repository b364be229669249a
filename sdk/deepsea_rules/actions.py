"""Actions in step notation.

Invariants: an action *is* its step notation, the same text in the engine, on the wire, in records
and in bots; equal names mean units that look the same, and the first such unit is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Literal

from .errors import InvalidAction
from .printable import quoted
from .units import Unit

Kind = Literal["declare", "search", "order"]

DOWN: Final = "down"
"""Go on down, or keep facing home: what `Bot.turn_back` means by False."""
BACK: Final = "back"
"""Turn back, once in a dive."""
LEAVE: Final = "leave"
"""Leave the space as it is."""
TAKE: Final = "take"
"""Take the unit that lies on the space."""
DROP: Final = "drop:"
ORDER: Final = "order:"

_ITEM = r"(?:[1-4]|\[[1-4]{2,}\])"
_DROP = re.compile(rf"drop:{_ITEM}\Z")
_ORDER = re.compile(rf"order:{_ITEM}(?:,{_ITEM})*\Z")


@lru_cache(maxsize=4096)
def drop(unit: Unit) -> str:
    """The action that lays down this unit, or one with the same name; see `view.droppable`."""
    return DROP + unit.name


def order(items: Iterable[Unit]) -> str:
    """The action that lays the items of a stranded diver in this order, the first one nearest."""
    return order_by_name(item.name for item in items)


def order_by_name(names: Iterable[str]) -> str:
    """The action that lays the items with these names in this order."""
    return ORDER + ",".join(names)


def kind_of(action: str) -> Kind:
    """The kind of decision that the action answers; raises `InvalidAction` if it is none."""
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
    """The names of the items in an `order:` action."""
    return action.removeprefix(ORDER).split(",")
