"""The HTTP API below /api/v1/: the methods of the service's table as verbs and paths, in JSON.

Invariants: every method of the table is served alike, and nothing else; the caller is looked up
when the whole request is there, of an upload before it; a token comes in the header
`authorization`, so that no page of another site can use one, and no such page can make its reader's
browser call anything but a read; no answer is kept by anybody; streams are lines of JSON.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from deepsea_arena.service.errors import Kind, ServiceError
from deepsea_arena.service.table import Flow, Method
from deepsea_arena.wire import messages
from deepsea_arena.wire.json import json_text
from deepsea_referee.timing.clock import time_limit
from deepsea_web.remote.front import Front, refused
from deepsea_web.remote.uploads import Part, Parts
from deepsea_web.site.access import Access
from deepsea_web.site.accounts.forms import is_foreign
from deepsea_web.site.errors import STATUS

ROOT: Final = "/api/v1"
CODES: Final = {
    Kind.UNAUTHENTICATED: "UNAUTHENTICATED",
    Kind.DENIED: "PERMISSION_DENIED",
    Kind.NOT_FOUND: "NOT_FOUND",
    Kind.INVALID: "INVALID_ARGUMENT",
    Kind.NOT_NOW: "FAILED_PRECONDITION",
    Kind.EXHAUSTED: "RESOURCE_EXHAUSTED",
    Kind.UNAVAILABLE: "UNAVAILABLE",
    Kind.INTERNAL: "INTERNAL",
}
"""As in gRPC."""
SHA256: Final = "x-content-sha256"
KEY: Final = "idempotency-key"
MOST_BODY: Final = 64 * 1024
"""Bytes of a request that is no upload."""
BODY_US: Final = 10_000_000
"""How long it may take to come."""
PATIENCE_US: Final = 30_000_000
"""How long a reader may take for one part of a stream."""
BEAT_US: Final = 15_000_000
"""After so long without news a stream has an empty line, so that no proxy ends it."""
_NO_BODY: Final = ("GET", "DELETE")
_HEADERS: Final = {"Cache-Control": "no-store"}
_LINES: Final = "application/x-ndjson"
_ZIP: Final = "application/zip"
FOREIGN: Final = "pages of other sites may read here, and nothing else"
NO_ROUTE: Final = "there is no such address below /api/v1/; see docs/api.md"


def http_api(front: Front, access: Access) -> ASGIApp:
    """The application; paths are below ROOT, and `client` in its scope is who asks."""
    routes = [
        Route(method.path, _endpoint(front, access, method), methods=[method.verb])
        for method in front.service.methods.values()
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _no_such_route})
    app.router.redirect_slashes = False
    return app


def _endpoint(
    front: Front, access: Access, method: Method
) -> Callable[[Request], Awaitable[ASGIApp]]:
    name = method.name

    async def respond(request: Request) -> ASGIApp:
        try:
            if method.verb != "GET" and is_foreign(request, access):
                raise ServiceError(Kind.DENIED, FOREIGN)
            address = request.client.host if request.client else ""
            body = await _body(front, request, method)
            who = await front.who(
                request.headers.getlist("authorization"),
                address,
                secret=access.keeps_secrets(address),
            )
            front.allowed(who, name)
            if method.flow is Flow.UPLOAD:
                return await _Stream.begun(front, front.upload(who, name, _parts(request)), name)
            fields = _fields(method, request, body)
            if method.flow is Flow.ONE:
                answer = await front.one(who, name, fields)
                return Response(json_text(answer), 200, _HEADERS, "application/json")
            return await _Stream.begun(front, front.stream(who, name, fields), name)
        except Exception as error:  # noqa: BLE001  (every error has its status)
            return _refuse(request, error)

    return respond


def _fields(method: Method, request: Request, body: bytes) -> dict[str, Any]:
    """The fields of a request: of its path, and of its query or its body."""
    path = {name: [str(value)] for name, value in request.path_params.items()}
    if method.verb in _NO_BODY:
        texts = dict(path)
        for name, value in request.query_params.multi_items():
            if name in path:
                raise messages.MessageError(f"{name} is given twice")
            texts.setdefault(name, []).append(value)
        return messages.request_from_texts(method.name, texts)
    if request.url.query:
        raise messages.MessageError("what is asked stands in the body, not in the address")
    document = _document(body)
    if set(document) & set(path):
        raise messages.MessageError(f"{min(set(document) & set(path))} is given twice")
    return messages.request_from_json(
        method.name, {**document, **{name: value for name, (value,) in path.items()}}
    )


async def _body(front: Front, request: Request, method: Method) -> bytes:
    body = b""
    if method.verb in _NO_BODY or method.flow is Flow.UPLOAD:
        return body
    try:
        async with time_limit(front.clock, BODY_US):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MOST_BODY:
                    raise messages.MessageError(f"the body has more than {MOST_BODY} bytes")
    except (TimeoutError, ClientDisconnect):
        raise messages.MessageError("the body did not come in time") from None
    return body


def _document(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError):
        raise messages.MessageError("the body is no JSON") from None
    if not isinstance(found, dict):
        raise messages.MessageError("the body is no JSON object")
    return found


def _parts(request: Request) -> Parts:
    """An upload: its header from the request's headers, then the body as it comes."""
    texts = dict(request.path_params)
    chunks = request.stream()
    given = False

    async def read() -> Part | None:
        nonlocal given
        if not given:
            given = True
            return _header(request, texts)
        try:
            async for chunk in chunks:
                if chunk:
                    return chunk
        except ClientDisconnect:
            raise ServiceError(Kind.INVALID, "the upload broke off") from None
        return None

    return read


def _header(request: Request, path: Mapping[str, str]) -> dict[str, Any]:
    if request.url.query:
        raise messages.MessageError("an upload has its bot's name in the path, and no parameters")
    size = request.headers.get("content-length", "")
    if not (size.isascii() and size.isdecimal() and len(size) < 16):
        raise messages.MessageError("an upload has the header content-length")
    return {
        **path,
        "size": int(size),
        "sha256": request.headers.get(SHA256, ""),
        "key": request.headers.get(KEY, ""),
    }


class _Stream:
    """A stream of answers as the body of a response, until it ends or the reader has left."""

    def __init__(
        self, front: Front, answers: AsyncGenerator[list[Any]], first: list[Any] | None, name: str
    ) -> None:
        self._front = front
        self._answers = answers
        self._first = first
        self._is_file = messages.answers_by_bytes(name)
        self._sent_us = front.clock.now_us()

    @classmethod
    async def begun(cls, front: Front, answers: AsyncGenerator[list[Any]], name: str) -> _Stream:
        """A response with the first answers there, so that a refusal still has a status."""
        return cls(front, answers, await anext(answers, None), name)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = _ZIP if self._is_file else _LINES
        headers = {**_HEADERS, "Content-Type": kind}
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        left = asyncio.create_task(_left(receive))
        try:
            async with aclosing(self._answers):
                await send({"type": "http.response.start", "status": 200, "headers": raw})
                await self._send_all(send, left)
        finally:
            left.cancel()

    async def _send_all(self, send: Send, left: asyncio.Task[None]) -> None:
        batch = self._first
        try:
            while batch is not None:
                await self._part(send, b"".join(map(self._body, batch)))
                step = asyncio.ensure_future(anext(self._answers, None))
                await asyncio.wait({step, left}, return_when=asyncio.FIRST_COMPLETED)
                if not step.done():
                    step.cancel()
                    await asyncio.wait({step})
                    return
                batch = step.result()
        except TimeoutError:
            return  # it is not being read
        except Exception as error:  # noqa: BLE001  (every error has its line)
            found = refused(error)
            if self._is_file:
                return  # the server hangs up, so that nobody takes a part for the whole
            await self._part(send, _json(_error(found)))
        await send({"type": "http.response.body", "body": b""})

    async def _part(self, send: Send, body: bytes) -> None:
        now = self._front.clock.now_us()
        if not body and not self._is_file and now - self._sent_us >= BEAT_US:
            body = b"\n"
        if body:
            self._sent_us = now
            async with time_limit(self._front.clock, PATIENCE_US):
                await send({"type": "http.response.body", "body": body, "more_body": True})

    def _body(self, answer: Any) -> bytes:
        return answer.chunk if self._is_file else json_text(answer).encode()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _error(found: ServiceError) -> dict[str, Any]:
    error: dict[str, Any] = {"code": CODES[found.kind], "message": str(found)}
    if found.retry_after is not None:
        error["retry_after"] = found.retry_after
    return {"error": error}


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode() + b"\n"


def _refuse(request: Request, error: Exception) -> Response:
    found = refused(error)
    headers = dict(_HEADERS)
    if found.retry_after is not None:
        headers["Retry-After"] = str(found.retry_after)
    if found.kind is Kind.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(_json(_error(found)), STATUS[found.kind], headers, "application/json")


async def _no_such_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = "this address does not take that verb" if error.status_code == 405 else NO_ROUTE
    document = {"error": {"code": "UNIMPLEMENTED", "message": sentence}}
    headers = {**_HEADERS, **(error.headers or {})}
    return Response(_json(document), error.status_code, headers, "application/json")
