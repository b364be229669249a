"""Uploads as they come in: parts are fed to an `Upload`, which checks them, as soon as they come.

Invariants: what does not come in time is given up; at most one part is in memory; what breaks off
leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from deepsea_arena.service.upload import Upload
from deepsea_referee.timing.clock import Clock, time_limit

Part = dict[str, Any] | bytes
Parts = Callable[[], Awaitable[Part | None]]
"""Reads the next part of an upload: the fields of its header, bytes, or None at its end."""
InThread = Callable[[Callable[[], object]], Awaitable[object]]


async def receive(upload: Upload, parts: Parts, in_thread: InThread, clock: Clock) -> None:
    """Feed an upload with all of its parts. Raises ServiceError if it is refused."""
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
