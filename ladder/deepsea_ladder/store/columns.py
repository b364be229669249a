"""Column types that say which values they allow, and how records are packed.

Invariants: `allowed` is the one place that says what a column may have; a database refuses other
values (CHECK, and STRICT tables in SQLite), and the look for damage finds them in a file that was
changed by something else. A row has the enum itself, not its text. A value of another kind than its
column's, which SQLite gives out as it stands in a damaged file, is a `StoreDamaged` where it is
read, so that nothing behind the store meets it. A record that is read is the text that was written,
to the byte: zlib with a dictionary, which is part of the format and never changed, since zlib
refuses what was written with another one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache
from itertools import combinations
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Dialect,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.types import TypeDecorator, TypeEngine

from deepsea_ladder.accounts import Scope, scopes_text
from deepsea_ladder.errors import StoreDamaged
from deepsea_ladder.model import KINDS, TaskState
from deepsea_rules.printable import printable

_E = TypeVar("_E", bound=Enum)
IS_UTF_8 = "is_utf_8"
"""The function that connections to SQLite have for texts, which it takes and gives out as bytes."""
LATEST = 253_402_300_799_999
"""The largest number of all: the last millisecond of the year 9999."""
_NOWHERE = ("", "")
"""The table and the column of a type that is no column's."""
_LONGEST = 200
"""Characters of the words on a value that is damaged."""


# STRICT tables know these names of types alone.
@compiles(BigInteger, "sqlite")
@compiles(Boolean, "sqlite")
def _integer_in_sqlite(*_: Any, **__: Any) -> str:
    return "INTEGER"


@compiles(String, "sqlite")
def _text_in_sqlite(*_: Any, **__: Any) -> str:
    return "TEXT"


class Choice(TypeDecorator[_E]):
    """A member of an enum, stored as a text."""

    impl = String(32)
    cache_ok = True

    def __init__(self, kind: type[_E], text: Callable[[_E], str] = attrgetter("value")) -> None:
        super().__init__()
        self.kind, self.text = kind, text
        self.texts = {member: text(member) for member in kind}
        """The stored texts of all members."""
        self._members = {text: member for member, text in self.texts.items()}

    def process_bind_param(self, value: _E | None, dialect: Dialect) -> str | None:
        """Write the text of a member."""
        return None if value is None else self.texts[value]

    def process_result_value(self, value: Any, dialect: Dialect) -> _E | None:
        """Read a member."""
        if value is None:
            return None
        try:
            return self._members[value]
        except KeyError:
            raise _wrong(self, value) from None


class StateOfKind(Choice[TaskState]):
    """The state of a task: one of those of its kind, which is in the column "kind"."""

    cache_ok = True

    def __init__(self) -> None:
        super().__init__(TaskState)


class Scopes(TypeDecorator[str]):
    """The scopes of a token, as `scopes_text` writes them."""

    impl = String(64)
    cache_ok = True


class HexFloat(TypeDecorator[str]):
    """A float, as `float.hex` writes it."""

    impl = String(32)
    cache_ok = True

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        """Read the text of a float."""
        if value is None:
            return None
        try:
            float.fromhex(value)
        except (TypeError, ValueError, OverflowError):
            raise _wrong(self, value) from None
        if "p" not in value:  # a decimal number would be read as another one
            raise _wrong(self, value)
        return str(value)


def allowed(column: Column[Any], table: str = "") -> str:
    """The condition in SQL that a column's values meet, besides their type; "" for none.

    table  its name and a dot, where the statement reads several
    """
    name = f'{table}"{column.name}"'
    match column.type:
        case StateOfKind():
            of_kinds = (
                f"{table}\"kind\" = '{kind}' AND {name} IN ({_literals(rules.states)})"
                for kind, rules in KINDS.items()
            )
            return f"({' OR '.join(of_kinds)})"
        case Choice() as choice:
            return f"{name} IN ({_literals(choice.texts.values())})"
        case Scopes():
            chosen = (some for size in range(len(Scope) + 1) for some in combinations(Scope, size))
            return f"{name} IN ({_literals(map(scopes_text, chosen))})"
        case HexFloat():
            return f"{name} LIKE '%0x%.%p%'"
    return ""


def is_wrong(column: Column[Any], table: str = "") -> str:
    """The condition in SQL, for SQLite, that a column has a value that its type forbids."""
    name, condition = f'{table}"{column.name}"', allowed(column, table)
    kind = _stored_type(column.type)
    if kind == "text" and not condition:
        condition = f"{IS_UTF_8}(CAST({name} AS BLOB))"
    if kind == "integer":
        latest = 1 if isinstance(column.type, Boolean) else LATEST
        condition = f"{name} BETWEEN 0 AND {latest}"
    elif isinstance(column.type, Record):
        condition = f"substr({name}, 1, 1) = x'{START.hex()}'"
    wrong = f"typeof({name}) <> '{kind}'"
    if condition:
        wrong += f" OR NOT {condition}"
    missing = "" if column.nullable else f"{name} IS NULL OR "
    return f"({missing}{name} IS NOT NULL AND ({wrong}))"


def _stored_type(kind: TypeEngine[Any]) -> str:
    if isinstance(kind, Integer | Boolean):
        return "integer"
    impl = kind.impl_instance if isinstance(kind, TypeDecorator) else kind
    return "text" if isinstance(impl, String) else "blob"


def _literals(texts: Iterable[str]) -> str:
    return ", ".join(f"'{text}'" for text in texts)


def _wrong(kind: TypeEngine[Any], value: object) -> StoreDamaged:
    table, column = getattr(kind, "place", _NOWHERE)
    words = f"table {table}: {column} is {value!r}"
    return StoreDamaged(printable(words, _LONGEST), table, column)


def _checked(kind: type[TypeEngine[Any]], accepts: Callable[[Any], bool]) -> type[TypeEngine[Any]]:
    """The type of a column that raises `StoreDamaged` for a value, unless it is None or accepted.

    SQLite gives out whatever stands in a file; other databases have values of a column's type.
    """

    class Checked(kind):  # type: ignore[misc, valid-type]
        place = _NOWHERE

        def result_processor(self, dialect: Dialect, coltype: object) -> Any:
            process = super().result_processor(dialect, coltype)
            if dialect.name != "sqlite":
                return process

            def read(value: Any) -> Any:
                if value is not None and not accepts(value):
                    raise _wrong(self, value)
                return value if process is None else process(value)

            return read

        def adapt(self, cls: type[TypeEngine[Any]], **more: Any) -> Any:
            copy = super().adapt(cls, **more)  # a dialect reads by a copy of the type
            copy.place = self.place
            return copy

    return Checked


def _is_text(value: object) -> bool:
    return type(value) is str


def _is_number(value: Any) -> bool:
    # Of expressions, too: a mean has a fraction, a difference a sign.
    return type(value) in (int, float) and value <= LATEST


_CHECKED: dict[type[Any], type[TypeEngine[Any]]] = {
    **{kind: _checked(kind, _is_text) for kind in (String, Text)},
    **{kind: _checked(kind, _is_number) for kind in (Integer, BigInteger, Boolean)},
    LargeBinary: _checked(LargeBinary, lambda value: type(value) is bytes),
}


def forbid_other_values(metadata: MetaData) -> None:
    """Let every table of a schema refuse values that its columns do not allow, written or read."""
    for table in metadata.tables.values():
        table.dialect_options["sqlite"]["strict"] = True
        for column in table.columns:
            checked = _CHECKED.get(type(column.type))
            if checked is not None:
                column.type = column.type.adapt(checked)
            elif isinstance(column.type, TypeDecorator):
                column.type = column.type.copy()
            column.type.place = (table.name, column.name)  # type: ignore[attr-defined]
            if condition := allowed(column):
                table.append_constraint(CheckConstraint(condition, name=column.name))


# Records

START = b"\x78"
"""The first byte of all that zlib makes."""
_LEVEL = 9


@cache
def _dictionary() -> bytes:
    """Texts of many records: names, rules, faults, and the decisions of each seat."""
    return Path(__file__).with_name("record-dictionary-1.txt").read_bytes()


def packed(record: bytes) -> bytes:
    """A record as it is stored."""
    packer = zlib.compressobj(_LEVEL, zdict=_dictionary())
    return packer.compress(record) + packer.flush()


def unpacked(stored: bytes) -> str:
    """The record that is stored so. Raises `StoreDamaged`."""
    try:
        unpacker = zlib.decompressobj(zdict=_dictionary())
        text = unpacker.decompress(stored).decode()
    except (zlib.error, UnicodeDecodeError, TypeError) as damage:
        raise StoreDamaged(f"a record is damaged: {damage}") from None
    if not unpacker.eof:
        raise StoreDamaged("a record is damaged: its end is missing")
    return text


class Record(TypeDecorator[str]):
    """A column of records. Equal texts are equal bytes."""

    impl = LargeBinary
    cache_ok = True
    place = _NOWHERE
    """The table and the name of the column."""

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:
        """Pack what is written."""
        if value is None:
            return None
        return packed(value.encode())

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> str | None:
        """Unpack what is read."""
        if value is None:
            return None
        try:
            return unpacked(value)
        except StoreDamaged as damage:
            table, column = self.place
            raise StoreDamaged(f"table {table}: {damage}", table, column) from None
