"""Documents: structs as JSON and CSV, alike for the command line, the pages and the API.

Start reading at `to_json`, `read_json` and `csv_lines`. `TableColumn` describes the columns that
the terminal and the pages draw of the same structs.

Invariants: a struct, dataclass or named tuple is an object with all of its fields, by their names,
empty ones too; a time is RFC 3339 in UTC with milliseconds; every number is finite and survives a
reader that has doubles only (an `Int64` is a string, any other integer lies below 2^53); a value of
any other type raises TypeError. Reading skips keys that a struct does not have, fills in the
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
"""The largest integer up to which every integer is a double."""
LARGEST_INT64 = 2**63 - 1
DIGITS = 20
"""Largest length of a number that is written as text."""
_FORMULA_STARTS = tuple("=+-@\t\r\n \uff1d\uff0b\uff0d\uff20")
"""First characters with which a spreadsheet takes a cell for a formula, full-width ones too."""


def to_json(value: object) -> Json:
    """Return a value as JSON data: None, a boolean, a number, a text, a list or a dictionary.

    Structs, dataclasses and named tuples become dictionaries with all of their fields. Raises
    TypeError for a value of any other type, ValueError for a number or a time that JSON cannot
    have.
    """
    match value:
        case None | bool():
            return value
        case str():
            return str(value)  # a plain text, also for a member of an enum
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
    """Return the JSON of a struct as a dictionary, to which other keys can be added.

    Raises TypeError for a value whose JSON is no object.
    """
    document = to_json(value)
    if not isinstance(document, dict):
        raise TypeError(f"{type(value).__name__} is no JSON object")
    return document


def json_text(value: object) -> str:
    """Return a struct as a JSON document in one line."""
    return json.dumps(to_json(value)) + "\n"


def _number(value: float) -> Json:
    """Return the JSON of a number. Raises ValueError if a double cannot hold it."""
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
    """Return a time in UTC with milliseconds. Raises ValueError for one without a time zone."""
    if value.tzinfo is None:
        raise ValueError(f"{value} is in no time zone")
    text = value.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z"


def _key(name: object) -> str:
    """Return a key of an object as text. Raises TypeError for anything else than text."""
    if not isinstance(name, str):
        raise TypeError(f"a key of a JSON object is a text, not {name!r}")
    return str(name)


# --------------------------------------------------------------------------------------- reading


class DocumentError(ValueError):
    """A document that cannot be read. Its message is one line, with the path to the mistake."""


_reading_lock = RLock()
"""Lock that is held while a document is read.

msgspec inspects a type when it is first read. If two threads do that at the same moment, the
process crashes.
"""


def read_json(kind: type[T], text: str | bytes | bytearray) -> T:
    """Read JSON text as a value of the type `kind`, such as a struct.

    Raises DocumentError if the text is not the JSON of such a value.
    """
    try:
        with _reading_lock:
            document: T = msgspec.json.decode(text, type=kind, dec_hook=_decode_int64)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise _document_error(error) from None
    return document


def convert(kind: Any, value: object, *, strict: bool = True) -> Any:
    """Return a value of the type `kind`, such as a struct, from JSON data that was parsed already.

    strict  False also takes texts for numbers and booleans, as they are in an address

    Raises DocumentError if the data does not fit the type.
    """
    try:
        with _reading_lock:
            return msgspec.convert(value, kind, strict=strict, dec_hook=_decode_int64)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _document_error(error) from None


_TYPE_WORDS = {int: "a whole number", bool: "0 or 1"}


def parameter(kind: Any, name: str, value: object, *, is_text: bool) -> Any:
    """Return a parameter of a request as a value of its declared type `kind`.

    name     the name of the parameter, for messages
    is_text  True for a parameter of an address or a form, where numbers and booleans are texts

    Raises UserError if the value does not fit the type.
    """
    # Refused before it is read, since reading a long number takes time.
    if is_text and kind is not str and isinstance(value, str) and len(value) > DIGITS:
        raise UserError(f"{name}: {quoted(value, 40)} is too long")
    try:
        converted = convert(kind, value, strict=not is_text)
    except DocumentError as error:
        if is_text and kind in _TYPE_WORDS:
            raise UserError(
                f"{name} is {_TYPE_WORDS[kind]}, not {quoted(str(value), 40)}"
            ) from None
        raise UserError(f"{name}: {error}") from None
    if isinstance(converted, int) and abs(converted) > LARGEST_INT64:  # a database cannot store it
        raise UserError(f"{name}: {converted} is too large")
    return converted


def _decode_int64(kind: type, value: object) -> object:
    """Return an `Int64` from its JSON, which is a string of digits or a whole number.

    msgspec calls this for each type that it does not know.
    """
    if kind is not Int64:
        raise NotImplementedError(kind)
    if isinstance(value, str) and len(value) <= DIGITS and value.removeprefix("-").isdecimal():
        value = int(value)
    if type(value) is not int or abs(value) > LARGEST_INT64:
        raise ValueError("Expected a whole number of 64 bits")
    return Int64(value)


def _document_error(error: Exception) -> DocumentError:
    """Return an error whose message is that of another one, in a line of at most 200 characters."""
    return DocumentError(one_line(str(error), 200))


# ---------------------------------------------------------------------------------------- tables


class TableColumn(NamedTuple):
    """A column of a table of structs, alike in the terminal, on the page and in the docs."""

    head: str
    """The heading in the terminal and in the docs; the page has it with a capital letter."""
    field: str
    """The field of the struct that a cell shows."""
    form: Literal["", "text", "note", "percent", "change"] = ""
    """The form of the cells.

    ""       values as the field's type is written
    text     texts that may be shortened
    note     sentences, which get lines of their own below the row where the table is too wide
    percent  shares in percent
    change   numbers with their sign
    """
    digits: int = 1
    """Number of digits behind the point, for numbers that are not whole."""
    spare: int = 0
    """Order in which a narrow terminal leaves columns out, the highest first; 0 always stays."""
    title: str = ""
    """The heading on the page; "" takes `head`."""
    on_page: bool = True
    """False if the page has no such column, since another one shows it or there is no room."""
    beside: tuple[str, ...] = ()
    """Other fields that a cell may show, too. The docs name them with this column."""
    meaning: str = ""
    """The explanation in the docs."""


# ------------------------------------------------------------------------------------------- CSV


def csv_lines(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> Iterator[str]:
    """Yield the header, even if there are no rows, and then a line of CSV for each row."""
    yield _csv_line(columns)
    for row in rows:
        yield _csv_line([_cell(to_json(row[column])) for column in columns])


def _csv_line(cells: Sequence[object]) -> str:
    """Return cells as one line of CSV, with its end."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(cells)
    return text.getvalue()


def _cell(value: Json) -> object:
    """Return a JSON value as the content of a cell of CSV; lists and objects as JSON text.

    A text that a spreadsheet would run as a formula gets an apostrophe, which prevents that.
    """
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return json.dumps(value)
    return value
