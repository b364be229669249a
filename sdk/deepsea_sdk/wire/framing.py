"""Hand-written parts of protobuf's encoding, to join messages from bytes.

Invariants: a message is the bytes of its fields in a row, in any order, so that parts which were
made once are used again; nothing is read here. Tests read everything back with protobuf itself.

Making the nested messages of a request field by field takes more than half as long again
(docs/dev/performance.md).
"""

from __future__ import annotations

from typing import Final

from google.protobuf.descriptor import Descriptor

_NUMBER: Final = 0
"""The wire type of numbers: a varint."""
_NESTED: Final = 2
"""The wire type of messages, bytes and texts: their length, then they themselves."""

_LAST: Final = tuple(bytes((number,)) for number in range(0x80))
_MORE: Final = tuple(bytes((number | 0x80,)) for number in range(0x80))


def varint(number: int) -> bytes:
    """A number from 0 up: seven bits a byte, lowest first, the eighth says that more come."""
    if number < 0x80:
        return _LAST[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    if number < 0x20_0000:
        return bytes((number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, number >> 14))
    return _MORE[number & 0x7F] + varint(number >> 7)


def tag(message: Descriptor, field: str, wire_type: int = _NESTED) -> bytes:
    """What a field of a message begins with."""
    return varint(message.fields_by_name[field].number << 3 | wire_type)


def framed(tag: bytes, content: bytes) -> bytes:
    """A field that is a message, bytes or a text."""
    size = len(content)
    return tag + (_LAST[size] if size < 0x80 else varint(size)) + content


def small_tags(message: Descriptor, *fields: str) -> tuple[int, ...]:
    """What number fields of a message begin with, for `small_fields`."""
    tags = b"".join([tag(message, field, _NUMBER) for field in fields])
    if len(tags) != len(fields):
        raise ValueError(f"a field of {message.name} has too high a number for one byte")
    return tuple(tags)


def small_fields(*tags_and_numbers: int) -> bytes:
    """Number fields in a row, each its tag of one byte and a number from 0 to 127."""
    data = bytes(tags_and_numbers)
    if not data.isascii():
        raise ValueError(f"a number above 127 among {tags_and_numbers}")
    return data


def zigzag(number: int) -> int:
    """A `sint32` as a number from 0 up."""
    return 2 * number if number >= 0 else -2 * number - 1
