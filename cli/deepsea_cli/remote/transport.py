"""How a ladder is asked: over gRPC or over its HTTP API, with the same messages as JSON.

Invariants: an answer is at most LARGEST bytes and MOST_ITEMS items, a line of a stream at most
LARGEST_PART; whoever answers too slowly is given up; nobody is followed elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Final, Protocol

from deepsea_rules.printable import one_line

Document = Mapping[str, Any]
Answers = Generator[Document, None, None]
"""The answers of a stream, which may be closed before its end."""
Sent = Callable[[int], object]
"""Called with the number of bytes of an upload that were sent since the last call."""

LARGEST: Final = 8 << 20
LARGEST_MESSAGE: Final = 4 << 20
"""Over gRPC, whose messages are denser."""
MOST_ITEMS: Final = 100_000
"""Of all lists of an answer: a few bytes each on the way, and hundreds in memory."""
LARGEST_PART: Final = 1 << 20
DEADLINE_S: Final = 30.0
"""How long an answer may take in all."""
SILENCE_S: Final = 120.0
"""How long a stream may say nothing, not even that there is nothing new."""
CHUNK: Final = 32 << 10
"""Bytes of an upload that are sent at a time."""
_LONGEST_SENTENCE: Final = 300


class Transport(Protocol):
    """Asks a ladder by the names of the methods of deepsea.ladder.v1.LadderService.

    All methods raise Refused, Unreachable, BadServer, or UserError for a certificate.
    """

    def ask(self, name: str, fields: Document) -> Document:
        """The answer of a method that has one."""

    def follow(self, name: str, fields: Document) -> Answers:
        """The answers of a method as they come."""

    def upload(self, header: Document, archive: bytes, sent: Sent) -> Answers:
        """Submit a bot; the answers as they come."""

    def close(self) -> None:
        """End what is open."""


def sentence(text: object) -> str:
    """A stranger's reason, safe to print."""
    return one_line(text if isinstance(text, str) else "", _LONGEST_SENTENCE)


def pieces(archive: bytes, sent: Sent) -> Iterator[bytes]:
    """The chunks of an archive; each counts as sent when the next one is taken."""
    for start in range(0, len(archive), CHUNK):
        chunk = archive[start : start + CHUNK]
        yield chunk
        sent(len(chunk))
