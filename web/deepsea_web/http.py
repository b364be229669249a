"""HTTP for all served pages: numbers in addresses, bodies of requests, forms, and streams.

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
"""Maximum bytes of the body of a request that is no upload."""
SMALL_BODY_US = 10_000_000
"""Time within which the body of a request that is no upload has to arrive."""
_FORM = "application/x-www-form-urlencoded"
_NO_FILE_NAME = re.compile(r"[^A-Za-z0-9._-]+")
MOST_DIGITS = 15
"""Maximum digits of a number, which every JSON reader keeps exactly."""
EVENT_STREAM = "text/event-stream"
PATIENCE_US = 30_000_000
"""Time within which a reader of a stream has to take PART_BYTES."""
PART_BYTES = 16 * 1024
"""Maximum bytes of a stream sent at a time; readers at half a kilobyte a second can follow."""
BEAT_US = 15_000_000
"""Time without a part after which a stream gets a comment, so that no proxy closes it."""


def whole_number(text: str) -> int | None:
    """Return the number of a text of decimal digits; None for other or for too long texts."""
    is_number = len(text) <= MOST_DIGITS and text.isascii() and text.isdecimal()
    return int(text) if is_number else None


def attachment(name: str) -> dict[str, str]:
    """Return the header that makes a browser save a response as a file of about that name.

    Runs of characters that would need quoting become dashes.
    """
    file_name = _NO_FILE_NAME.sub("-", name).strip("-.")
    return {"Content-Disposition": f'attachment; filename="{file_name}"'}


class BodyTooLong(Exception):
    """The body of a request has more bytes than are allowed."""


async def body_parts(
    request: Request, clock: Clock, allowed_us: Callable[[int], int]
) -> AsyncGenerator[bytes]:
    """Yield the body of a request in parts, as they arrive.

    allowed_us  takes the number of bytes that have arrived, and returns the time within which the
                next part has to arrive, counted from the beginning of the body
    Raises TimeoutError if a part is late, and ClientDisconnect if the sender has left.
    """
    began_us = clock.now_us()
    received_bytes = 0
    has_more = True
    while has_more:
        deadline_us = began_us + allowed_us(received_bytes)
        async with time_limit(clock, max(0, deadline_us - clock.now_us())):
            message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        has_more = message.get("more_body", False)
        part = message.get("body", b"")
        received_bytes += len(part)
        yield part


async def at_most(parts: AsyncIterable[bytes], max_bytes: int) -> AsyncGenerator[bytes]:
    """Yield the parts as they are. Raises BodyTooLong once they have more than `max_bytes`."""
    received = 0
    async for part in parts:
        received += len(part)
        if received > max_bytes:
            raise BodyTooLong
        yield part


async def small_body(request: Request, clock: Clock) -> bytes:
    """Return the whole body of a request that may have only a small one, such as a form.

    Raises BodyTooLong beyond SMALL_BODY bytes, TimeoutError if the body has not arrived within
    SMALL_BODY_US, and ClientDisconnect if the sender has left.
    """
    parts = body_parts(request, clock, allowed_us=lambda received_bytes: SMALL_BODY_US)
    return b"".join([part async for part in at_most(parts, SMALL_BODY)])


async def read_fields(request: Request, clock: Clock) -> list[tuple[str, str]]:
    """Return the fields of a form as pairs of name and value, in their order.

    Raises UserError or HTTPException for a body that is no form, or too long or too slow.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != _FORM:
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
    """Return the last event that a reader of a stream has seen, as its request says; "" if none.

    A browser that reconnects sends a header; other readers give the parameter `after`.
    """
    return request.headers.get("last-event-id", request.query_params.get("after", ""))


class StreamedResponse:
    """A response of parts that come one by one, until they end or the reader has left.

    An event stream gets a comment after BEAT_US without a part, so that no proxy ends it. For a
    reader who does not take PART_BYTES within PATIENCE_US the response breaks off after `cut`,
    which says so. Starlette's own streaming response notices only at the next part that the reader
    has left, and would hold its place among the open streams until then.
    """

    def __init__(
        self,
        first: bytes | None,
        parts: AsyncGenerator[bytes],
        clock: Clock,
        media_type: str,
        cut: bytes = b"",
    ) -> None:
        """Prepare the response to send `first` and then `parts`; None as `first` is the end."""
        self.headers = {**NO_STORE, "Content-Type": media_type}
        self._first = first
        self._parts = parts
        self._clock = clock
        self._last_bytes_if_slow = cut
        self._has_beats = media_type == EVENT_STREAM

    @classmethod
    async def begin(
        cls, parts: AsyncGenerator[bytes], clock: Clock, media_type: str, cut: bytes = b""
    ) -> StreamedResponse:
        """Wait for the first part of a body, and return the response that sends all parts.

        If the first part raises an error, so does this: nothing has been sent by then, and the
        error can become a response with a status of its own.

        cut  the bytes that are sent last to a reader who is too slow
        """
        first = await anext(parts, None)
        return cls(first, parts, clock, media_type, cut)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response as an ASGI application; return early if the reader has left."""
        async with aclosing(self._parts):
            sending = asyncio.create_task(self._send_all(send))
            reader_left = asyncio.create_task(disconnected(receive))
            # When the reader leaves, that task ends and this cancels the sending.
            reader_left.add_done_callback(lambda _: sending.cancel())
            try:
                await sending
            except asyncio.CancelledError:
                # If the reader is still there, the server has cancelled this response.
                if not reader_left.done():
                    raise
            finally:
                reader_left.cancel()

    async def _send_all(self, send: Send) -> None:
        """Send the headers and the body.

        If the body breaks off, the message that ends a response is left out. The server then hangs
        up, so that no reader takes the response for complete. A reader who was too slow is sent an
        error before that, if there is one for this kind of response.
        """
        headers = [(name.lower().encode(), value.encode()) for name, value in self.headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            await self._send_body(send)
        except StreamCut:
            return
        except TimeoutError:
            # The reader was too slow to take a piece in time. It may still read what is under way,
            # so the reason is sent after it. If that takes too long as well, it is left out.
            with suppress(TimeoutError):
                await self._send_piece(send, self._last_bytes_if_slow)
            return
        await send({"type": "http.response.body", "body": b""})

    async def _send_body(self, send: Send) -> None:
        """Send all parts in pieces of at most PART_BYTES.

        An empty part says that there is nothing new. If only such parts have come for BEAT_US, a
        comment is sent, so that the reader sees that the stream goes on. Raises TimeoutError if the
        reader does not take a piece in time.
        """
        last_sent_us = self._clock.now_us()
        part = self._first
        while part is not None:
            now_us = self._clock.now_us()
            if not part and self._has_beats and now_us - last_sent_us >= BEAT_US:
                part = b": still here\n\n"
            if part:
                last_sent_us = now_us
                for start in range(0, len(part), PART_BYTES):
                    await self._send_piece(send, part[start : start + PART_BYTES])
            part = await anext(self._parts, None)

    async def _send_piece(self, send: Send, piece: bytes) -> None:
        """Send some bytes. Raises TimeoutError if the reader does not take them in time."""
        async with time_limit(self._clock, PATIENCE_US):
            await send({"type": "http.response.body", "body": piece, "more_body": True})


class StreamCut(Exception):
    """A stream has to end before its end, so that the reader does not take it for complete."""


async def disconnected(receive: Receive) -> None:
    """Return when the reader has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
