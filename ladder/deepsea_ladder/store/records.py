"""Records as the store keeps them: zlib with a dictionary, or the text itself, as it was before.

Invariants: what is read is the text that was written, to the byte; the dictionary is part of the
format, so it is never changed: zlib refuses what was written with another one.
"""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path

from sqlalchemy import Dialect, LargeBinary, Text
from sqlalchemy.types import TypeDecorator, TypeEngine

from deepsea_ladder.errors import StoreDamaged

START = b"\x78"
"""How zlib begins, and no JSON."""
_LEVEL = 9


@cache
def _dictionary() -> bytes:
    """What many records have: names, rules, faults, and the decisions of each seat."""
    return Path(__file__).with_name("record-dictionary-1.txt").read_bytes()


class Record(TypeDecorator[str]):
    """A column of records; SQLite keeps bytes in a column of text, too."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[str] | TypeEngine[bytes]:
        """Bytes, where the type of a column matters."""
        return Text() if dialect.name == "sqlite" else LargeBinary()

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | bytes | None:
        """Pack what is written; no text is no text, since it is compared with."""
        if not value:
            return value if value is None or dialect.name == "sqlite" else b""
        packer = zlib.compressobj(_LEVEL, zdict=_dictionary())
        return packer.compress(value.encode()) + packer.flush()

    def process_result_value(self, value: str | bytes | None, dialect: Dialect) -> str | None:
        """Unpack what is read."""
        if value is None or isinstance(value, str):
            return value
        try:
            if not value.startswith(START):
                return value.decode()
            unpacker = zlib.decompressobj(zdict=_dictionary())
            text = unpacker.decompress(value).decode()
        except (zlib.error, UnicodeDecodeError) as damage:
            raise StoreDamaged(f"a record is damaged: {damage}") from None
        if not unpacker.eof:
            raise StoreDamaged("a record is damaged: its end is missing")
        return text
