"""Column types that know which values they allow, and the packing of records.

Invariants: `allowed_values_sql` alone decides which values a column may have; databases refuse
others (CHECK, and STRICT tables in SQLite), and `find_damage` finds them in a file that another
program has changed. Rows have members of enums, not their texts. SQLite returns a damaged value as
it stands in the file; reading one raises `StoreDamaged`, so that no code outside the store meets
it. Records are stored with zlib and a dictionary, and are read back to the byte. The dictionary is
a part of the format and never changes: zlib cannot unpack a record that was packed with another
one.
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

_Member = TypeVar("_Member", bound=Enum)
IS_UTF_8 = "is_utf_8"
"""The name of an SQL function on connections to SQLite: true if a blob is UTF-8."""
LAST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999: the largest number that any column may have."""
_NO_COLUMN = ("", "")
"""The names of table and column in a type that belongs to no column."""
_LINE_CHARACTERS = 200
"""Characters of the message on a damaged value."""


# SQLite's STRICT tables know only these names of types.
@compiles(BigInteger, "sqlite")
@compiles(Boolean, "sqlite")
def _integer_in_sqlite(*_: Any, **__: Any) -> str:
    return "INTEGER"


@compiles(String, "sqlite")
def _text_in_sqlite(*_: Any, **__: Any) -> str:
    return "TEXT"


class Choice(TypeDecorator[_Member]):
    """A member of an enum, stored as a text."""

    impl = String(32)
    cache_ok = True

    def __init__(
        self, kind: type[_Member], text: Callable[[_Member], str] = attrgetter("value")
    ) -> None:
        """Make the type for an enum; `text` returns the stored text of a member."""
        super().__init__()
        self.kind, self.text = kind, text
        self.texts = {member: text(member) for member in kind}
        """The stored texts of all members."""
        self._members = {text: member for member, text in self.texts.items()}

    def process_bind_param(self, value: _Member | None, dialect: Dialect) -> str | None:
        """Return the text to store for a member."""
        return None if value is None else self.texts[value]

    def process_result_value(self, value: Any, dialect: Dialect) -> _Member | None:
        """Return the member of the enum that a stored text stands for.

        Raises `StoreDamaged` if there is no such member.
        """
        if value is None:
            return None
        try:
            return self._members[value]
        except KeyError:
            raise _damage_of(self, value) from None


class StateOfKind(Choice[TaskState]):
    """The state of a task. The column "kind" of its row decides which states are allowed."""

    cache_ok = True

    def __init__(self) -> None:
        super().__init__(TaskState)


class Scopes(TypeDecorator[str]):
    """The scopes of a token, in the form of `scopes_text`."""

    impl = String(64)
    cache_ok = True


class HexFloat(TypeDecorator[str]):
    """A float in the form of `float.hex`, which stays a text in rows."""

    impl = String(32)
    cache_ok = True

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        """Return the stored text of a float unchanged, once it is known to be one.

        Raises `StoreDamaged` if it is not in the form of `float.hex`, such as 0x1.8p+1.
        """
        if value is None:
            return None
        try:
            float.fromhex(value)
        except (TypeError, ValueError, OverflowError):
            raise _damage_of(self, value) from None
        # `fromhex` takes a decimal number as well, but reads its digits as hexadecimal ones.
        is_hexadecimal = "p" in value
        if not is_hexadecimal:
            raise _damage_of(self, value)
        return str(value)


def allowed_values_sql(column: Column[Any], table: str = "") -> str:
    """Return the SQL condition that all values of a column meet; "" if only their type matters.

    table  a prefix of the column's name, for statements that read several tables: the table's name
           and a dot
    """
    name = f'{table}"{column.name}"'
    match column.type:
        case StateOfKind():
            conditions = (
                f"{table}\"kind\" = '{kind}' AND {name} IN ({_literals(rules.states)})"
                for kind, rules in KINDS.items()
            )
            return f"({' OR '.join(conditions)})"
        case Choice() as choice:
            return f"{name} IN ({_literals(choice.texts.values())})"
        case Scopes():  # the texts of all sets of scopes
            texts = [
                scopes_text(subset)
                for size in range(len(Scope) + 1)
                for subset in combinations(Scope, size)
            ]
            return f"{name} IN ({_literals(texts)})"
        case HexFloat():
            return f"{name} LIKE '%0x%.%p%'"  # such as 0x1.8p+1
    return ""


def forbidden_value_sql(column: Column[Any], table: str = "") -> str:
    """Return the SQL condition, for SQLite, that a row has a value that the column forbids.

    That is a NULL where none may be, a value of another type, or one that the column excludes.

    table  a prefix of the column's name, for statements that read several tables: the table's name
           and a dot
    """
    name = f'{table}"{column.name}"'
    stored_type = _stored_type(column.type)
    is_allowed = allowed_values_sql(column, table)
    if stored_type == "integer":
        largest = 1 if isinstance(column.type, Boolean) else LAST_MS
        is_allowed = f"{name} BETWEEN 0 AND {largest}"
    elif isinstance(column.type, Record):
        is_allowed = f"substr({name}, 1, 1) = x'{START.hex()}'"
    elif stored_type == "text" and not is_allowed:
        # As a blob, since Python could not even take a damaged text as an argument.
        is_allowed = f"{IS_UTF_8}(CAST({name} AS BLOB))"
    is_forbidden = f"typeof({name}) <> '{stored_type}'"
    if is_allowed:
        is_forbidden += f" OR NOT {is_allowed}"
    is_missing = "" if column.nullable else f"{name} IS NULL OR "
    return f"({is_missing}{name} IS NOT NULL AND ({is_forbidden}))"


def _stored_type(kind: TypeEngine[Any]) -> str:
    """Return the result of SQLite's `typeof` for the values of a column type."""
    if isinstance(kind, Integer | Boolean):
        return "integer"
    impl = kind.impl_instance if isinstance(kind, TypeDecorator) else kind
    return "text" if isinstance(impl, String) else "blob"


def _literals(texts: Iterable[str]) -> str:
    """Return texts as a list of SQL literals. They are constants without a quote in them."""
    return ", ".join(f"'{text}'" for text in texts)


def _damage_of(column_type: TypeEngine[Any], value: object) -> StoreDamaged:
    """Return the error for a value that the column of this type does not allow."""
    table, column = getattr(column_type, "place", _NO_COLUMN)
    message = f"table {table}: {column} is {value!r}"
    return StoreDamaged(printable(message, _LINE_CHARACTERS), table, column)


def _checked_type(
    kind: type[TypeEngine[Any]], accepts: Callable[[Any], bool]
) -> type[TypeEngine[Any]]:
    """Return a subclass of a column type that raises `StoreDamaged` for a value not accepted.

    None is always accepted. Only results of SQLite are checked, since it returns whatever stands in
    its file; other databases store no values of another type.
    """

    class Checked(kind):  # type: ignore[misc, valid-type]
        place = _NO_COLUMN

        def result_processor(self, dialect: Dialect, coltype: object) -> Any:
            """Return the function that converts each value which is read; None if none is needed.

            On SQLite the function first raises `StoreDamaged` for a value that is not accepted.
            """
            convert = super().result_processor(dialect, coltype)
            if dialect.name != "sqlite":
                return convert

            def check_and_convert(value: Any) -> Any:
                if value is not None and not accepts(value):
                    raise _damage_of(self, value)
                return value if convert is None else convert(value)

            return check_and_convert

        def adapt(self, cls: type[TypeEngine[Any]], **keywords: Any) -> Any:
            # Each dialect reads with a copy of the type, which needs the names as well.
            copy = super().adapt(cls, **keywords)
            copy.place = self.place
            return copy

    return Checked


def _is_text(value: object) -> bool:
    return type(value) is str


def _is_number(value: Any) -> bool:
    # Expressions use the type of their column, too: a mean has a fraction, a difference a sign.
    return type(value) in (int, float) and value <= LAST_MS


_CHECKED_TYPES: dict[type[Any], type[TypeEngine[Any]]] = {
    **{kind: _checked_type(kind, _is_text) for kind in (String, Text)},
    **{kind: _checked_type(kind, _is_number) for kind in (Integer, BigInteger, Boolean)},
    LargeBinary: _checked_type(LargeBinary, lambda value: type(value) is bytes),
}


def forbid_other_values(metadata: MetaData) -> None:
    """Let every table of a schema refuse values that its columns do not allow.

    Databases refuse to store them, and reading one from a damaged file raises `StoreDamaged`.
    """
    for table in metadata.tables.values():
        table.dialect_options["sqlite"]["strict"] = True
        for column in table.columns:
            # Each column gets a type object of its own, since that keeps the names of table and
            # column for the message on a damaged value.
            checked_type = _CHECKED_TYPES.get(type(column.type))
            if checked_type is not None:
                column.type = column.type.adapt(checked_type)
            elif isinstance(column.type, TypeDecorator):
                column.type = column.type.copy()
            column.type.place = (table.name, column.name)  # type: ignore[attr-defined]
            is_allowed = allowed_values_sql(column)
            if is_allowed:
                table.append_constraint(CheckConstraint(is_allowed, name=column.name))


# Records

START = b"\x78"
"""The first byte of every output of zlib."""
_COMPRESSION_LEVEL = 9


@cache
def _dictionary() -> bytes:
    """Return the dictionary for zlib: texts that are in many records."""
    return Path(__file__).with_name("record-dictionary-1.txt").read_bytes()


def packed(record: bytes) -> bytes:
    """Return the stored form of a record."""
    compressor = zlib.compressobj(_COMPRESSION_LEVEL, zdict=_dictionary())
    return compressor.compress(record) + compressor.flush()


def unpacked(stored: bytes) -> str:
    """Return the text of a stored record. Raises `StoreDamaged` if it cannot be unpacked."""
    decompressor = zlib.decompressobj(zdict=_dictionary())
    try:
        text = decompressor.decompress(stored).decode()
    except (zlib.error, UnicodeDecodeError, TypeError) as error:
        raise StoreDamaged(f"a record is damaged: {error}") from None
    is_complete = decompressor.eof
    if not is_complete:
        raise StoreDamaged("a record is damaged: its end is missing")
    return text


class Record(TypeDecorator[str]):
    """A column of packed records. Equal texts have equal bytes."""

    impl = LargeBinary
    cache_ok = True
    place = _NO_COLUMN
    """The names of the table and the column."""

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:
        """Pack a record that is written."""
        if value is None:
            return None
        return packed(value.encode())

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> str | None:
        """Unpack a record that is read from the column.

        Raises `StoreDamaged`, with the names of table and column, if it cannot be unpacked.
        """
        if value is None:
            return None
        try:
            return unpacked(value)
        except StoreDamaged as damage:
            table, column = self.place
            raise StoreDamaged(f"table {table}: {damage}", table, column) from None
