"""Messages that wait to be written to a bot's stream."""

from __future__ import annotations

import asyncio
from typing import Final

from deepsea_referee.transport.stream import MESSAGE_BYTES
from deepsea_sdk.clock import TimeLeft

HELD_BYTES: Final = MESSAGE_BYTES // 2
"""Messages without a request that wait for a frozen bot; more are sent, and it is thawed."""


class Outbox:
    """A queue of messages, with the ids and times of those that are requests, for one writer."""

    def __init__(self) -> None:
        self._messages: list[tuple[bytes, tuple[int, TimeLeft] | None]] = []
        self._bytes = 0
        self._cuts: list[int] = []
        """The numbers of messages after which another message of the stream begins."""
        self._wake: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def writer_waits(self) -> bool:
        """Whether the writer is in `wait`, and nothing has woken it."""
        return self._wake is not None and not self._wake.done()

    @property
    def can_be_held(self) -> bool:
        """Whether it can wait until the bot is asked: there is no request, and not much else."""
        return self._bytes < HELD_BYTES and all(request is None for _, request in self._messages)

    def put(self, message: bytes, request: tuple[int, TimeLeft] | None = None) -> None:
        self._messages.append((message, request))
        self._bytes += len(message)

    def cut(self) -> None:
        """Keep what is put later out of the message with what waits now."""
        self._cuts.append(len(self._messages))

    def first_after(self, request_id: int) -> tuple[int, TimeLeft] | None:
        """The first request that waits with a higher id; ids rise in the order of the queue."""
        waiting = (one for _, one in self._messages if one is not None and one[0] > request_id)
        return next(waiting, None)

    def clear(self) -> None:
        """Drop every message."""
        self._messages.clear()
        self._bytes = 0

    async def wait(self) -> None:
        """Wait until something has changed."""
        self._wake = asyncio.get_running_loop().create_future()
        await self._wake

    def wake(self) -> None:
        """Wake the writer: it may be able to write now."""
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def take(self) -> tuple[bytes, list[tuple[int, TimeLeft]]]:
        """Take messages up to the length of one: protobuf messages merge when they are joined."""
        batch = self._messages
        if self._bytes <= MESSAGE_BYTES and not self._cuts:
            self._messages = []
        else:
            size = count = 0
            for data, _ in batch[: self._cuts[0] if self._cuts else None]:
                size += len(data)
                if count and size > MESSAGE_BYTES:
                    break
                count += 1
            self._messages = batch[count:]
            del batch[count:]
            self._cuts = [cut - count for cut in self._cuts if cut > count]
        message = b"".join([data for data, _ in batch])
        self._bytes -= len(message)
        return message, [request for _, request in batch if request is not None]
