"""Dataclasses from the JSON that `wire.json` makes of them, as a stranger may send it.

Invariants: every value has the type that the field says, and every number is finite, else
DocumentError; what is missing is empty: None, 0, false, "", or no items; keys that the dataclass
does not have are ignored, and texts of a closed set that is not known yet are taken as they are:
a newer program may have sent them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from deepsea_arena.wire.json import LARGEST_EXACT

T = TypeVar("T")
_LARGEST = 2**63 - 1


class DocumentError(ValueError):
    """A document that is not what it should be: one line that says where."""


def from_json(kind: type[T], document: object) -> T:
    """A dataclass or named tuple from its JSON. Raises DocumentError."""
    found: T = _record(kind, document, kind.__name__)
    return found


def _record(kind: Any, document: object, where: str) -> Any:
    if not isinstance(document, Mapping):
        raise DocumentError(f"{where} is no object")
    return kind(
        **{
            name: _value(hint, document.get(name), f"{where}.{name}")
            for name, hint in _hints(kind).items()
        }
    )


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields
    return {name: hints[name] for name in names}


def _value(hint: Any, value: object, where: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        (inner,) = (one for one in arguments if one is not NoneType)
        # As a message a time is a text, and no time the empty one.
        missing = value is None or (inner is datetime and value == "")
        return None if missing else _value(inner, value, where)
    if origin is Literal:
        return _leaf(str, value, where)
    if origin is tuple or origin is list or origin is Sequence:
        return _items(arguments[0], value, where)
    if hint is datetime:
        return _time(value, where)
    if isinstance(hint, type) and issubclass(hint, Enum):
        text = _leaf(str, value, where)
        return hint(text) if text in {one.value for one in hint} else text
    if is_dataclass(hint) or hasattr(hint, "_fields"):
        return _record(hint, value, where)
    return _leaf(hint, value, where)


def _items(hint: Any, value: object, where: str) -> tuple[Any, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise DocumentError(f"{where} is no list")
    return tuple(_value(hint, item, f"{where}[{index}]") for index, item in enumerate(value))


def _leaf(hint: Any, value: object, where: str) -> Any:
    if value is None:
        return hint()
    if hint is bool or hint is str:
        if isinstance(value, hint):
            return value
    elif hint is float:
        if (number := _number(value)) is not None:
            return number
    elif isinstance(hint, type) and issubclass(hint, int):
        if (whole := _integer(value, text=hint is not int)) is not None:
            return hint(whole)
    else:
        raise TypeError(f"{where}: {hint} cannot be read from JSON")
    raise DocumentError(f"{where} is no {getattr(hint, '__name__', hint)}")


def _number(value: object) -> float | None:
    """A finite number; a larger integer than a double can count is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int) and abs(value) > LARGEST_EXACT:
        return None
    return float(value) if isfinite(value) else None


def _integer(value: object, *, text: bool) -> int | None:
    """A whole number; as a text, too, if it may be a large one."""
    if text and isinstance(value, str) and len(value) <= 20:
        try:
            number = int(value)
        except ValueError:
            return None
        return number if abs(number) <= _LARGEST else None
    found = _number(value)
    return int(found) if found is not None and found.is_integer() else None


def _time(value: object, where: str) -> datetime:
    try:
        time = datetime.fromisoformat(_leaf(str, value, where))
    except ValueError:
        raise DocumentError(f"{where} is no time") from None
    if time.tzinfo is None:
        raise DocumentError(f"{where} is no time with its offset")
    return time
