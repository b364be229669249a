"""HTTP for all served pages: headers and hosts of every response, numbers, forms, streams.

Invariants: every status has the policy, errors too; a request for another host's name is refused,
so that no foreign page can reach this one by a name of its own (DNS rebinding), and one with two
lengths, which a proxy and this server may cut differently (request smuggling); a stream ends when
its reader has left or its source is closed.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from typing import Generic, TypeVar
from urllib.parse import parse_qsl

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepsea_referee.errors import UserError
from deepsea_referee.timing.clock import Clock, time_limit

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With "no-referrer" browsers would send forms with "Origin: null".
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
NO_STORE = {"Cache-Control": "no-store"}
FILE_KINDS = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""The media types of files by their endings."""
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_PORT = re.compile(r":[0-9]*\Z")
SMALL_BODY = 64 * 1024
"""Bytes of a request that is no upload."""
SMALL_BODY_US = 10_000_000
"""Time that it may take to come."""
_FORM = "application/x-www-form-urlencoded"
MOST_DIGITS = 20
LARGEST = 2**53 - 1
"""The largest number that every JSON reader has exactly."""
T = TypeVar("T")


class Guarded:
    """An application with the headers above, for requests to one of the hosts."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        app, given = self._app, Headers(scope=scope)
        hosts = given.getlist("host")
        if "content-length" in given and "transfer-encoding" in given:
            closing = {"Connection": "close"}
            app = PlainTextResponse("a request has one length, not two\n", 400, closing)
        elif len(hosts) != 1 or host_name(hosts[0]) not in self._hosts:
            app = PlainTextResponse("this host is not served here\n", 421)
        await app(scope, receive, guarded)


ROUTE = "deepsea.route"
"""Where the scope of a request has a list, to which its route is added."""


def name_routes(routes: Iterable[BaseRoute], root: str = "") -> None:
    """Let each route say its path, with the names of parameters, to whoever counts requests."""
    for route in routes:
        if isinstance(route, Route):
            route.app = partial(_named, route.app, f"{root}{route.path}")


async def _named(app: ASGIApp, path: str, scope: Scope, receive: Receive, send: Send) -> None:
    scope.get(ROUTE, []).append(path)
    await app(scope, receive, send)


def host_name(host: str) -> str:
    """The host of a `Host` header without its port, in lower case; an IPv6 address in brackets."""
    return _PORT.sub("", host).lower()


def whole_number(text: str, least: int = 0, most: int = LARGEST) -> int | None:
    """The number of these decimal digits; None for any other text, and beyond the bounds."""
    if len(text) > MOST_DIGITS or not (text.isascii() and text.isdecimal()):
        return None
    number = int(text)
    return number if least <= number <= most else None


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


class Source(Generic[T]):
    """The source of streams, and their readers; `T` is a reader's place in it.

    Invariant: it may change, and end, in any thread; readers are woken in their event loop.
    """

    def __init__(self) -> None:
        self.closed = False
        """Whether there will be nothing new any more."""
        self.readers = 0
        self.on_readers: Callable[[], object] = lambda: None
        """Called in the event loop when their number has changed."""
        self._wakes: list[Callable[[], object]] = []
        self._waking = threading.Lock()

    def since(self, has: T) -> tuple[T, str]:
        """A reader's place after these events, and the events: "" for none."""
        raise NotImplementedError

    def changed(self) -> None:
        """Wake everybody: something is new."""
        with self._waking, suppress(RuntimeError):  # the loop of a reader has ended
            for wake in self._wakes:
                wake()

    def close(self) -> None:
        """End all streams."""
        self.closed = True
        self.changed()

    @contextmanager
    def waking(self, wake: Callable[[], object]) -> Iterator[None]:
        """Have a function called with each change; called in an event loop, as that is."""
        later = partial(asyncio.get_running_loop().call_soon_threadsafe, wake)
        with self._waking:
            self._wakes.append(later)
        try:
            yield
        finally:
            with self._waking:
                self._wakes.remove(later)

    @contextmanager
    def watching(self, wake: Callable[[], object]) -> Iterator[None]:
        """Count a reader, who is woken when something is new."""
        with self.waking(wake):
            self.readers += 1
            self.on_readers()
            try:
                yield
            finally:
                self.readers -= 1
                self.on_readers()


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
            left = asyncio.create_task(disconnected(receive))
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


async def disconnected(receive: Receive) -> None:
    """Return when the reader has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
