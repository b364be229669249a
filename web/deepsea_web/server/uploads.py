"""Uploads: the archive of a bot that arrives over the API or with a form of the pages.

Invariants: the bytes lie in a temporary file, so that many uploads at once take little memory;
nothing in them is read as an archive here; one that is too slow, too long or not what its header
says is refused, and leaves nothing behind.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Iterator
from functools import partial
from typing import IO

from starlette.requests import Request

from deepsea_arena.api.errors import ApiError, Kind
from deepsea_arena.api.submissions import Archive
from deepsea_ladder.limits import RemoteLimits
from deepsea_referee.timing.clock import Clock
from deepsea_web.http import body_parts

PART = 256 * 1024
"""Bytes of a part as it is stored, and bytes of an upload that stay in memory."""
_START_US = 10_000_000
"""Time that an upload has before its speed counts."""


async def upload_parts(
    request: Request, limits: RemoteLimits, clock: Clock
) -> AsyncGenerator[bytes]:
    """The body of an upload in parts, as they come.

    Raises ApiError if it is too slow, ClientDisconnect if its sender has left.
    """

    def allowed_us(received: int) -> int:
        pace = _START_US + 1_000_000 * received // limits.upload_bytes_per_second
        return min(1_000_000 * limits.upload_seconds, pace)

    try:
        async for part in body_parts(request, clock, allowed_us):
            yield part
    except TimeoutError:
        raise ApiError(
            Kind.EXHAUSTED,
            f"the upload is too slow: it may take {limits.upload_seconds} seconds, and "
            f"{limits.upload_bytes_per_second} bytes a second are the least",
            1,
        ) from None


def archive_in(file: IO[bytes], bot: str, key: str) -> Archive:
    """The archive that has arrived in a file, which stays open until the archive is stored."""
    digest, size, parts = hashlib.sha256(), 0, partial(_parts, file)
    for part in parts():
        digest.update(part)
        size += len(part)
    return Archive(bot=bot, key=key, size=size, sha256=digest.hexdigest(), parts=parts)


def check_arrived(archive: Archive, announced: Archive) -> None:
    """Raise ApiError unless an archive has the size and the digest that its header says."""
    if archive.size != announced.size:
        raise ApiError(
            Kind.INVALID,
            f"the upload ended after {archive.size} of {announced.size} bytes; send it again with "
            "the same key",
        )
    if archive.sha256 != announced.sha256:
        raise ApiError(
            Kind.INVALID,
            f"the archive's SHA-256 is {archive.sha256}, and the header says {announced.sha256}",
        )


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while part := file.read(PART):
        yield part
