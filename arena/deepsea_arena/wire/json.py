"""JSON of what the arena returns, the same for the command line, web pages and network services.

Invariants: a dataclass or named tuple is an object with all of its fields, by their names, empty
ones too; a time is RFC 3339 in UTC with milliseconds; every number is finite and survives a reader
that has doubles only (an `Int64` is a string, any other integer lies below 2^53); what is not
mentioned here raises TypeError.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Final

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

LARGEST_EXACT: Final = 2**53 - 1
"""The largest integer below which every integer is a double."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Int64(int):
    """An integer that may use 64 bits, such as a number that a database gives; JSON has a text."""


def utc_time(ms: int) -> datetime:
    """A time that is given in milliseconds since 1970, as the store has it."""
    return _EPOCH + timedelta(milliseconds=ms)


def milliseconds(time: datetime) -> int:
    """A time in milliseconds since 1970, as the store has it."""
    return (time - _EPOCH) // timedelta(milliseconds=1)


def to_json(value: object) -> Json:
    """What `json.dumps` writes for `value`. Raises TypeError or ValueError if it has no JSON."""
    match value:
        case None | bool():
            return value
        case str():
            return str(value)  # an enum's value
        case Int64():
            return str(int(value))
        case int():
            if abs(value) > LARGEST_EXACT:
                raise ValueError(f"{value} is too large for a JSON number: make it an Int64")
            return int(value)
        case float():
            if not isfinite(value):
                raise ValueError(f"JSON has no {value}")
            return value
        case datetime():
            return _time(value)
        case tuple() if hasattr(value, "_asdict"):
            return {name: to_json(item) for name, item in value._asdict().items()}
        case list() | tuple():
            return [to_json(item) for item in value]
        case Mapping():
            return {_key(name): to_json(item) for name, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    raise TypeError(f"{type(value).__name__} has no JSON")


def to_object(value: object) -> dict[str, Json]:
    """The JSON of a dataclass, to be extended or written as a row."""
    document = to_json(value)
    if not isinstance(document, dict):
        raise TypeError(f"{type(value).__name__} is no JSON object")
    return document


def json_text(value: object) -> str:
    """A dataclass as one JSON document: a line."""
    return json.dumps(to_json(value)) + "\n"


def _time(value: datetime) -> str:
    if value.tzinfo is None:
        raise ValueError(f"{value} is in no time zone")
    text = value.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z"


def _key(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a key of a JSON object is a text, not {name!r}")
    return str(name)
