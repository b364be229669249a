"""Uploads as they come in: parts are fed to an `Upload`, which checks them, as soon as they come.

Invariants: what does not come in time is given up; at most one part is in memory; what breaks off
leaves nothing behind.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

from deepsea_arena.api.uploads import Upload
from deepsea_referee.timing.clock import Clock, time_limit

Part = dict[str, Any] | bytes
Parts = Callable[[], Awaitable[Part | None]]
"""Reads the next part of an upload: the fields of its header, bytes, or None at its end."""
InThread = Callable[[Callable[[], object]], Awaitable[object]]


class Beginning:
    """Begins an upload in a thread, and closes it even if nobody waits for it any more."""

    def __init__(self, begin: Callable[[], Upload]) -> None:
        self._begin = begin
        self._upload: Upload | None = None
        self._ended = False
        self._lock = threading.Lock()

    def __call__(self) -> Upload:
        """The upload; may raise what the beginning raises."""
        upload = self._begin()
        with self._lock:
            self._upload = upload
            if self._ended:
                upload.close()
        return upload

    def close(self) -> None:
        """Close the upload, now or as soon as it has begun."""
        with self._lock:
            self._ended = True
            if self._upload is not None:
                self._upload.close()


async def receive(upload: Upload, parts: Parts, in_thread: InThread, clock: Clock) -> None:
    """Feed an upload with all of its parts. Raises ApiError if it is refused."""
    while (part := await _in_time(upload, parts, clock)) is not None:
        await in_thread(_taking(upload, part))
    await in_thread(upload.finish)


async def _in_time(upload: Upload, parts: Parts, clock: Clock) -> Part | None:
    try:
        async with time_limit(clock, max(int(upload.left() * 1_000_000), 0)):
            return await parts()
    except TimeoutError:
        raise upload.too_slow() from None


def _taking(upload: Upload, part: Part) -> Callable[[], None]:
    if isinstance(part, bytes):
        return lambda: upload.chunk(part)
    return lambda: upload.header(**part)
