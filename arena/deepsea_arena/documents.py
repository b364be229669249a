"""Documents: structs as JSON, the same for the command line, pages and the API, and as CSV; and the
columns of tables that the terminal and pages draw of them.

Invariants: a struct, dataclass or named tuple is an object with all of its fields, by their names,
empty ones too; a time is RFC 3339 in UTC with milliseconds; every number is finite and survives a
reader that has doubles only (an `Int64` is a string, any other integer lies below 2^53); what is
not mentioned here raises TypeError. Reading skips keys that a struct does not have, fills in the
defaults of missing ones, and refuses everything else with the path to the value. In CSV numbers are
not rounded, and a cell that a spreadsheet would run as a formula is marked as text.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from math import isfinite
from threading import RLock
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from deepsea_ladder.model import Int64
from deepsea_referee.errors import UserError
from deepsea_rules.printable import one_line, quoted

T = TypeVar("T")
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
LARGEST_EXACT = 2**53 - 1
"""The largest integer below which every integer is a double."""
LARGEST_INT64 = 2**63 - 1
DIGITS = 20
"""The most digits of a number that is a text."""
_FORMULA = tuple("=+-@\t\r\n \uff1d\uff0b\uff0d\uff20")


def to_json(value: object) -> Json:
    """The JSON of a value. Raises TypeError or ValueError if it has none."""
    match value:
        case None | bool():
            return value
        case str():
            return str(value)  # an enum's value
        case int() | float():
            return _number(value)
        case datetime():
            return _time(value)
        case tuple() if hasattr(value, "_asdict"):
            return {name: to_json(item) for name, item in value._asdict().items()}
        case list() | tuple():
            return [to_json(item) for item in value]
        case Mapping():
            return {_key(name): to_json(item) for name, item in value.items()}
    if isinstance(value, msgspec.Struct):
        return {name: to_json(getattr(value, name)) for name in value.__struct_fields__}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    raise TypeError(f"{type(value).__name__} has no JSON")


def to_object(value: object) -> dict[str, Json]:
    """The JSON of a struct, to be extended or written as a row."""
    document = to_json(value)
    if not isinstance(document, dict):
        raise TypeError(f"{type(value).__name__} is no JSON object")
    return document


def json_text(value: object) -> str:
    """A struct as one JSON document: a line."""
    return json.dumps(to_json(value)) + "\n"


def _number(value: float) -> Json:
    if isinstance(value, Int64):
        return str(int(value))
    if isinstance(value, int):
        if abs(value) > LARGEST_EXACT:
            raise ValueError(f"{value} is too large for a JSON number: make it an Int64")
        return int(value)
    if not isfinite(value):
        raise ValueError(f"JSON has no {value}")
    return value


def _time(value: datetime) -> str:
    if value.tzinfo is None:
        raise ValueError(f"{value} is in no time zone")
    text = value.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z"


def _key(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a key of a JSON object is a text, not {name!r}")
    return str(name)


# --------------------------------------------------------------------------------------- reading


class DocumentError(ValueError):
    """A document that is not what it should be: one line that says where."""


_reading = RLock()
"""Held while something is read: a thread that reads a type which another one begins to read at that
moment, when msgspec looks at it for the first time, ends the process."""


def read_json(kind: type[T], text: str | bytes | bytearray) -> T:
    """The document of that type. Raises DocumentError."""
    try:
        with _reading:
            found: T = msgspec.json.decode(text, type=kind, dec_hook=_decoded)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise _refused(error) from None
    return found


def convert(kind: Any, value: object, *, strict: bool = True) -> Any:
    """A value of that type from JSON that was parsed. Raises DocumentError.

    strict  False: numbers and booleans may be texts, as in an address
    """
    try:
        with _reading:
            return msgspec.convert(value, kind, strict=strict, dec_hook=_decoded)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _refused(error) from None


_WORDS = {int: "a whole number", bool: "0 or 1"}


def parameter(kind: Any, name: str, value: object, *, is_text: bool) -> Any:
    """The value of a parameter, of the type that is declared. Raises UserError with its name.

    is_text  whether it is of an address or a form, where numbers and booleans are texts
    """
    if is_text and kind is not str and isinstance(value, str) and len(value) > DIGITS:
        raise UserError(f"{name}: {quoted(value, 40)} is too long")
    try:
        found = convert(kind, value, strict=not is_text)
    except DocumentError as error:
        if is_text and kind in _WORDS:
            raise UserError(f"{name} is {_WORDS[kind]}, not {quoted(str(value), 40)}") from None
        raise UserError(f"{name}: {error}") from None
    if isinstance(found, int) and abs(found) > LARGEST_INT64:  # no database has it
        raise UserError(f"{name}: {found} is too large")
    return found


def _decoded(kind: type, value: object) -> object:
    if kind is not Int64:
        raise NotImplementedError(kind)
    if isinstance(value, str) and len(value) <= DIGITS and value.removeprefix("-").isdecimal():
        value = int(value)
    if type(value) is not int or abs(value) > LARGEST_INT64:
        raise ValueError("Expected a whole number of 64 bits")
    return Int64(value)


def _refused(error: Exception) -> DocumentError:
    return DocumentError(one_line(str(error), 200))


# ---------------------------------------------------------------------------------------- tables


class TableColumn(NamedTuple):
    """A column of a table of structs: what the terminal, the page and the docs have in common."""

    head: str
    """The heading in the terminal and in the docs, and with a capital letter on the page."""
    field: str
    """The field of the struct that a cell shows."""
    form: Literal["", "text", "note", "percent", "change"] = ""
    """The cells: as its type is written; texts, which may be shortened; sentences, which have lines
    of their own below the row where the table is too wide; shares in percent; numbers with a
    sign."""
    digits: int = 1
    """Behind the point, of a number that is not whole."""
    spare: int = 0
    """0: always there. The higher, the sooner a narrow terminal leaves it out."""
    title: str = ""
    """The heading on the page, if it is another."""
    on_page: bool = True
    """False if the page has no such column, since another one shows it or there is no room."""
    beside: tuple[str, ...] = ()
    """Other fields that belong to it: a cell may show them, too, and the docs name them."""
    meaning: str = ""
    """The text of the docs."""


# ------------------------------------------------------------------------------------------- CSV


def csv_lines(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> Iterator[str]:
    """The names of the columns, also above no rows, and a line for each row."""
    yield _line(columns)
    for row in rows:
        yield _line([_cell(to_json(row[column])) for column in columns])


def _line(cells: Sequence[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(cells)
    return text.getvalue()


def _cell(value: Json) -> object:
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str | int | float | None) else json.dumps(value)
