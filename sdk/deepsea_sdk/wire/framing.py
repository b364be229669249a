"""The little of protobuf's encoding that is written by hand, where messages are put together.

Laws: a message is the bytes of its fields in a row, in any order, so that parts which were made
once are used again; nothing is read here. Tests read everything back with protobuf itself.

Making the nested messages of a question field by field takes more than half as long again
(docs/performance.md).
"""

from __future__ import annotations

from typing import Final

from google.protobuf.descriptor import Descriptor

_NESTED: Final = 2
"""The wire type of messages, bytes and texts: their length, then they themselves."""


_SHORT: Final = tuple(bytes((number,)) for number in range(0x80))


def varint(number: int) -> bytes:
    """A number from 0 up: seven bits a byte, lowest first, the eighth says that more come."""
    if number < 0x80:
        return _SHORT[number]
    data = bytearray()
    while number >= 0x80:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def tag(message: Descriptor, field: str, wire_type: int = _NESTED) -> bytes:
    """What a field of a message begins with."""
    return varint(message.fields_by_name[field].number << 3 | wire_type)


def framed(tag: bytes, content: bytes) -> bytes:
    """A field that is a message, bytes or a text."""
    return tag + varint(len(content)) + content
