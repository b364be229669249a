"""Server-sent events: what is new, until the reader leaves or the server ends.

Invariants: a reader gets the newest state and what it lacks, so nothing is queued for a slow one; a
reader that has left is noticed at once, not with the next event; while nothing is new a stream
costs no time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, Protocol, TypeVar

from starlette.types import Receive, Scope, Send

T = TypeVar("T")


class Source(Protocol[T]):
    """What streams tell; `T` says what a reader has."""

    @property
    def closed(self) -> bool:
        """Whether there will be nothing new any more; then every reader is woken."""

    def watching(self, wake: Callable[[], object]) -> AbstractContextManager[None]:
        """Count a reader, who is woken when something is new."""

    def since(self, has: T) -> tuple[T, str]:
        """What a reader has after this, and the events that bring it there: "" for none."""


class EventStream(Generic[T]):
    """The response to a reader who has something already.

    Starlette's streaming response notices that a reader has left at the next event only, and the
    server has to know when the last one has.
    """

    def __init__(
        self, source: Source[T], has: T, place: AbstractContextManager[object] | None = None
    ) -> None:
        """`place` is held until the stream ends."""
        self._source = source
        self._has = has
        self._place = place or nullcontext()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        woken = asyncio.Event()
        with self._place, self._source.watching(woken.set):
            left = asyncio.create_task(_left(receive))
            left.add_done_callback(lambda _: woken.set())
            try:
                while not (self._source.closed or left.done()):
                    woken.clear()
                    self._has, events = self._source.since(self._has)
                    if events:
                        body = events.encode()
                        await send({"type": "http.response.body", "body": body, "more_body": True})
                    await woken.wait()
            finally:
                left.cancel()
        await send({"type": "http.response.body", "body": b""})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
