"""HTTP for all served pages: numbers, bodies, forms, streams.

Invariant: a stream ends when its reader has left or its parts have ended.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import aclosing, suppress
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from deepsea_referee.clock import Clock, time_limit
from deepsea_referee.errors import UserError

NO_STORE = {"Cache-Control": "no-store"}
FILE_KINDS = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""The media types of files by their endings."""
SMALL_BODY = 64 * 1024
"""Bytes of a request that is no upload."""
SMALL_BODY_US = 10_000_000
"""Time that it may take to come."""
_FORM = "application/x-www-form-urlencoded"
_NO_FILE_NAME = re.compile(r"[^A-Za-z0-9._-]+")
MOST_DIGITS = 15
"""Digits of a number that every JSON reader has exactly."""
EVENT_STREAM = "text/event-stream"
PATIENCE_US = 30_000_000
"""Time that a reader may take for PART_BYTES of a stream."""
PART_BYTES = 16 * 1024
"""The most bytes of a stream that are sent at a time, few enough for half a kilobyte a second."""
BEAT_US = 15_000_000
"""Time without news after which a stream has a comment, so that no proxy ends it."""


def whole_number(text: str) -> int | None:
    """The number of these decimal digits; None for any other text, and for too many of them."""
    return int(text) if len(text) <= MOST_DIGITS and text.isascii() and text.isdecimal() else None


def attachment(name: str) -> dict[str, str]:
    """The header by which a browser saves an answer as a file of that name, without characters that
    need quoting."""
    plain = _NO_FILE_NAME.sub("-", name).strip("-.")
    return {"Content-Disposition": f'attachment; filename="{plain}"'}


class BodyTooLong(Exception):
    """The body of a request has more bytes than are taken."""


async def body_parts(
    request: Request, clock: Clock, allowed_us: Callable[[int], int]
) -> AsyncGenerator[bytes]:
    """The body of a request in parts, as they come.

    allowed_us  the time that it may have taken until more comes, by the bytes that have come
    Raises TimeoutError, and ClientDisconnect if the sender has left.
    """
    began_us, received, is_more = clock.now_us(), 0, True
    while is_more:
        left_us = began_us + allowed_us(received) - clock.now_us()
        async with time_limit(clock, max(0, left_us)):
            message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        is_more = message.get("more_body", False)
        part = message.get("body", b"")
        received += len(part)
        yield part


async def at_most(parts: AsyncIterable[bytes], most: int) -> AsyncGenerator[bytes]:
    """The same parts, of so many bytes together. Raises BodyTooLong."""
    received = 0
    async for part in parts:
        received += len(part)
        if received > most:
            raise BodyTooLong
        yield part


async def small_body(request: Request, clock: Clock) -> bytes:
    """The body of a request that is no upload.

    Raises BodyTooLong, TimeoutError, and ClientDisconnect if the sender has left.
    """
    parts = body_parts(request, clock, lambda received: SMALL_BODY_US)
    return b"".join([part async for part in at_most(parts, SMALL_BODY)])


async def read_fields(request: Request, clock: Clock) -> list[tuple[str, str]]:
    """The fields of a form; raises UserError or HTTPException for what is no small form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM:
        raise HTTPException(415, f"A form is sent as {_FORM}.")
    try:
        body = await small_body(request, clock)
    except BodyTooLong:
        raise HTTPException(413, f"A form is at most {SMALL_BODY // 1024} KiB long.") from None
    except (TimeoutError, ClientDisconnect):
        raise HTTPException(408, "The form did not arrive in time.") from None
    try:
        return parse_qsl(
            body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=100
        )
    except ValueError:
        raise UserError("the form cannot be read") from None


def last_event(request: Request) -> str:
    """The place of a reader of a stream, as its browser or its address says it."""
    return request.headers.get("last-event-id", request.query_params.get("after", ""))


class StreamedResponse:
    """The response of parts that come by and by, until they end or the reader has left.

    An event stream has a comment after BEAT_US without a part, so that no proxy ends it; a reader
    who does not take PART_BYTES within PATIENCE_US gets no more but `cut`, which says so, and no
    end. Starlette's streaming response notices
    only at the next part that a reader has left, and its stream keeps its place until then.
    """

    def __init__(
        self,
        first: bytes | None,
        parts: AsyncGenerator[bytes],
        clock: Clock,
        media_type: str,
        cut: bytes = b"",
    ) -> None:
        self.headers = {**NO_STORE, "Content-Type": media_type}
        self._first = first
        self._parts = parts
        self._clock = clock
        self._cut = cut
        self._has_beats = media_type == EVENT_STREAM

    @classmethod
    async def begun(
        cls, parts: AsyncGenerator[bytes], clock: Clock, media_type: str, cut: bytes = b""
    ) -> StreamedResponse:
        """A response with the first part there, so that what is refused still has a status."""
        return cls(await anext(parts, None), parts, clock, media_type, cut)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._parts):
            sending = asyncio.create_task(self._send_all(send))
            left = asyncio.create_task(disconnected(receive))
            left.add_done_callback(lambda _: sending.cancel())
            try:
                await sending
            except asyncio.CancelledError:
                if not left.done():
                    raise
            finally:
                left.cancel()

    async def _send_all(self, send: Send) -> None:
        raw = [(name.lower().encode(), value.encode()) for name, value in self.headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})
        part, sent_us = self._first, self._clock.now_us()
        try:
            while part is not None:
                now = self._clock.now_us()
                if not part and self._has_beats and now - sent_us >= BEAT_US:
                    part = b": still here\n\n"
                if part:
                    sent_us = now
                    for start in range(0, len(part), PART_BYTES):
                        await self._send_part(send, part[start : start + PART_BYTES])
                part = await anext(self._parts, None)
        except StreamCut:
            return  # it must not be taken for the whole: the server hangs up
        except TimeoutError:
            with suppress(TimeoutError):  # behind what waits to be read
                await self._send_part(send, self._cut)
            return
        await send({"type": "http.response.body", "body": b""})

    async def _send_part(self, send: Send, part: bytes) -> None:
        """Send some bytes. Raises TimeoutError if the reader does not take them."""
        async with time_limit(self._clock, PATIENCE_US):
            await send({"type": "http.response.body", "body": part, "more_body": True})


class StreamCut(Exception):
    """A stream ends in its middle."""


async def disconnected(receive: Receive) -> None:
    """Return when the reader has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
