"""Records as the store keeps them: zlib with a dictionary.

Invariants: what is read is the text that was written, to the byte; the dictionary is part of the
format, so it is never changed: zlib refuses what was written with another one.
"""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path

from sqlalchemy import Dialect, LargeBinary
from sqlalchemy.types import TypeDecorator

from deepsea_ladder.errors import StoreDamaged

START = b"\x78"
"""The first byte of all that zlib makes."""
_LEVEL = 9


@cache
def _dictionary() -> bytes:
    """What many records have: names, rules, faults, and the decisions of each seat."""
    return Path(__file__).with_name("record-dictionary-1.txt").read_bytes()


def packed(record: bytes) -> bytes:
    """A record as it is stored."""
    packer = zlib.compressobj(_LEVEL, zdict=_dictionary())
    return packer.compress(record) + packer.flush()


class Record(TypeDecorator[str]):
    """A column of records. Equal texts are equal bytes."""

    impl = LargeBinary
    cache_ok = True

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
            unpacker = zlib.decompressobj(zdict=_dictionary())
            text = unpacker.decompress(value).decode()
        except (zlib.error, UnicodeDecodeError, TypeError) as damage:
            raise StoreDamaged(f"a record is damaged: {damage}") from None
        if not unpacker.eof:
            raise StoreDamaged("a record is damaged: its end is missing")
        return text
