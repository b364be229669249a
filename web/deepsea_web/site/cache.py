"""Rendered pages that are kept: the newest, within a bound of bytes.

Invariants: what is kept under a key never changes, since the key names everything that it depends
on; the bound holds whatever is asked for.
"""

from __future__ import annotations

import gzip
from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

MOST_BYTES: Final = 32 * 1024 * 1024
_SMALL: Final = 512
"""What is shorter is not worth packing."""


@dataclass(frozen=True)
class Rendered:
    """The body of a response."""

    body: bytes
    kind: str
    """Its media type."""
    packed: bytes | None = field(repr=False)
    """The body by gzip, for clients that take it."""

    @classmethod
    def of(cls, text: str, kind: str) -> Rendered:
        """The body with this text."""
        # Half a character, as a damaged record may have, becomes a question mark.
        body = text.encode(errors="replace")
        # With a fixed time, so that the same text gives the same bytes.
        return cls(body, kind, gzip.compress(body, 6, mtime=0) if len(body) >= _SMALL else None)

    @property
    def size(self) -> int:
        """The bytes that it takes."""
        return len(self.body) + len(self.packed or b"")


class Cache:
    """Rendered pages by key; threads may share it."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._size = 0
        self._kept: OrderedDict[object, Rendered] = OrderedDict()
        self._lock = Lock()

    def get(self, key: object) -> Rendered | None:
        """What is kept under the key."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def put(self, key: object, rendered: Rendered) -> None:
        """Keep it; what was used longest ago goes."""
        with self._lock:
            if key in self._kept or rendered.size > self._most:
                return
            self._kept[key] = rendered
            self._size += rendered.size
            while self._size > self._most:
                _, gone = self._kept.popitem(last=False)
                self._size -= gone.size
