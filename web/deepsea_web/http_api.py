"""The HTTP API below /api/v1/: the declared methods as verbs and paths, in JSON.

Invariants: every declared method is served alike, and nothing else; the caller is looked up when
the request is there as a whole; a token comes in the header `authorization`, so that no page of
another site can use one, and no such page can make its reader's browser call anything but a read;
no answer is kept by anybody, but for the description of the API, whose bytes are made once and
counted as a visit; a refusal has a status, a word and a sentence, in whatever form.

Answers for an operator's programs: the server lives, it is ready, its metrics.

Invariants: /healthz reads nothing; /readyz asks the store at most once in READY_US, however often
it is asked; /metrics is for admins' tokens, and no label of it has the name of a person or a bot;
what is counted here are requests by the paths of routes, never by those of requests.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import cache, partial
from hashlib import sha256
from typing import Any, get_origin

from msgspec.structs import asdict
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepsea_arena.api.declarations import MEDIA_TYPES, Flow, Method
from deepsea_arena.api.errors import STATUS, ApiError, RefusalKind
from deepsea_arena.api.ladder_api import KEY, METHODS, ROOT, SHA256
from deepsea_arena.api.local import check_call
from deepsea_arena.api.openapi import openapi
from deepsea_arena.api.submissions import Archive
from deepsea_arena.documents import json_text, parameter
from deepsea_arena.status import not_ready
from deepsea_ladder.accounts import Scope as TokenScope
from deepsea_ladder.model import LadderCounts
from deepsea_referee.clock import time_limit
from deepsea_rules.printable import one_line, quoted
from deepsea_web.access import Access, Gate, check_address, check_texts, is_foreign
from deepsea_web.gateway import ROUTE, Batch, Gateway, name_routes, refused
from deepsea_web.http import (
    NO_STORE,
    SMALL_BODY,
    BodyTooLong,
    StreamCut,
    StreamedResponse,
    small_body,
)

_IN_ADDRESS = ("GET", "DELETE")
DESCRIPTION = "/openapi.json"
FOREIGN = "pages of other sites may read here, and nothing else"
TOO_SLOW = ApiError(
    RefusalKind.UNAVAILABLE, "this is not all: what was sent was not read in time; ask again", 1
)
NO_ROUTE = "there is no such address below /api/v1/; see docs/api.md"


def http_api(gateway: Gateway, access: Access) -> ASGIApp:
    """The application; paths are below ROOT, and `client` in its scope is who asks."""
    routes = [
        Route(method.path, _endpoint(gateway, access, method), methods=[method.verb])
        for method in METHODS.values()
    ]
    routes.append(Route(DESCRIPTION, partial(_describe, gateway)))
    name_routes(routes, ROOT)
    app = Starlette(routes=routes, exception_handlers={HTTPException: _no_such_route})
    app.router.redirect_slashes = False
    return app


async def _describe(gateway: Gateway, request: Request) -> Response:
    """The OpenAPI document, for everybody, on a private ladder too."""
    try:
        gateway.count_visit(request.client.host if request.client else "")
    except ApiError as error:
        return refuse(error)
    body, tag = _description()
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if tag in request.headers.get("if-none-match", ""):  # in a list, or marked as weak by a proxy
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=MEDIA_TYPES[Flow.ONE])


@cache
def _description() -> tuple[bytes, str]:
    """The document, and its ETag."""
    body = json_text(openapi()).encode()
    return body, f'"{sha256(body).hexdigest()[:24]}"'


def _endpoint(
    gateway: Gateway, access: Access, method: Method
) -> Callable[[Request], Awaitable[ASGIApp]]:
    async def respond(request: Request) -> ASGIApp:
        try:
            if method.changes and is_foreign(request, access):
                raise ApiError(RefusalKind.DENIED, FOREIGN)
            body = await _body(gateway, request) if method.verb == "POST" else b""
            address = request.client.host if request.client else ""
            caller = await gateway.caller(
                request.headers.getlist("authorization"),
                address,
                secret=access.keeps_secrets(address),
            )
            check_address(request.scope)
            if method.verb == "PUT":
                answers = gateway.upload(caller, _announced(request), request)
                return await answer_stream(gateway, answers, method.flow, _writer(method))
            check_call(gateway.service, caller, method)
            fields = _fields(method, request, body)
            if method.flow is Flow.ONE:
                answer = await gateway.one(caller, method, fields)
                text = json_text(method.document_of(answer))
                return Response(text, 200, NO_STORE, MEDIA_TYPES[Flow.ONE])
            answers = gateway.stream(caller, method, fields)
            return await answer_stream(gateway, answers, method.flow, _writer(method))
        except Exception as error:  # noqa: BLE001  (every error has its status)
            return refuse(error)

    return respond


# --------------------------------------------------------------------------------------- requests


def _fields(method: Method, request: Request, body: bytes) -> dict[str, Any]:
    """The arguments of a call: of the path, and of the query or the body."""
    given: dict[str, Any] = dict(request.path_params)
    in_address = method.verb in _IN_ADDRESS
    if request.url.query and not in_address:
        raise ApiError(RefusalKind.INVALID, "parameters stand in the body, not in the address")
    stated = request.query_params.multi_items() if in_address else _document(body).items()
    for name, value in stated:
        declared = method.parameters.get(name)
        is_list = declared is not None and get_origin(declared.annotation) is Sequence
        if in_address and is_list:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise ApiError(RefusalKind.INVALID, f"{one_line(name, 40)} is given twice")
        else:
            given[name] = value
    if method.is_endless and (seen := request.headers.get("last-event-id")):
        given["after"] = seen  # a browser that comes back
    return {name: _value(method, name, value, request) for name, value in given.items()}


def _value(method: Method, name: str, value: object, request: Request) -> object:
    declared = method.parameters.get(name)
    if declared is None:
        raise ApiError(RefusalKind.INVALID, f"there is no parameter {quoted(name, 40)}")
    is_text = name in request.path_params or method.verb in _IN_ADDRESS
    return parameter(declared.annotation, name, value, is_text=is_text)


def _document(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError):
        raise ApiError(RefusalKind.INVALID, "the body is no JSON") from None
    if not isinstance(found, dict):
        raise ApiError(RefusalKind.INVALID, "the body is no JSON object")
    check_texts("the body", found)
    return found


async def _body(gateway: Gateway, request: Request) -> bytes:
    try:
        return await small_body(request, gateway.clock)
    except BodyTooLong:
        raise ApiError(RefusalKind.INVALID, f"the body has more than {SMALL_BODY} bytes") from None
    except (TimeoutError, ClientDisconnect):
        raise ApiError(RefusalKind.INVALID, "the body did not come in time") from None


def _announced(request: Request) -> Archive:
    """The archive that an upload's header says."""
    if request.url.query:
        raise ApiError(
            RefusalKind.INVALID, "an upload has its bot's name in the path, and no parameters"
        )
    size = request.headers.get("content-length", "")
    if not (size.isascii() and size.isdecimal() and len(size) < 16):
        raise ApiError(RefusalKind.INVALID, "an upload has the header content-length")
    return Archive(
        **request.path_params,
        size=int(size),
        sha256=request.headers.get(SHA256, ""),
        key=request.headers.get(KEY, ""),
    )


# -------------------------------------------------------------------------------------- responses


def _writer(method: Method) -> Callable[[Any], str | bytes]:
    """The function that writes an answer of a stream as a part of the body."""

    def line(answer: object) -> str:
        return json_text(method.document_of(answer))

    def event(answer: Any) -> str:
        # A game has its number, to resume after it.
        number = f"id: {int(answer.seq)}\n" if method.is_endless else ""
        return f"{number}data: {line(answer)}\n"

    writers: Mapping[Flow, Callable[[Any], str | bytes]]
    writers = {Flow.EVENTS: event, Flow.LINES: line, Flow.FILE: bytes}
    return writers[method.flow]


async def answer_stream(
    gateway: Gateway,
    answers: AsyncGenerator[Batch],
    flow: Flow,
    write: Callable[[Any], str | bytes],
) -> StreamedResponse:
    """The response of a stream of answers. Raises what is refused at its beginning."""
    parts = _parts(answers, flow, write)
    cut = (
        b"" if flow is Flow.FILE else b"\n\n" + _stream_error(TOO_SLOW, flow)
    )  # in the middle of a line
    return await StreamedResponse.begun(parts, gateway.clock, MEDIA_TYPES[flow], cut)


async def _parts(
    answers: AsyncGenerator[Batch], flow: Flow, write: Callable[[Any], str | bytes]
) -> AsyncGenerator[bytes]:
    """The answers as they are sent; a refusal after the first of them is the last part."""
    has_begun = False
    try:
        async with aclosing(answers):
            async for batch in answers:
                yield b"".join(_encoded(write(answer)) for answer in batch.answers)
                has_begun = True
    except Exception as error:
        if not has_begun:
            raise
        refusal = refused(error)
        if flow is Flow.FILE:
            raise StreamCut from None  # so that nobody takes a part for the whole
        yield _stream_error(refusal, flow)


def _stream_error(refusal: ApiError, flow: Flow) -> bytes:
    """A refusal as the last part of a stream."""
    name = b"event: error\ndata: " if flow is Flow.EVENTS else b""
    return name + _refusal(refusal) + b"\n"


def _encoded(written: str | bytes) -> bytes:
    return written if isinstance(written, bytes) else written.encode()


def _refusal(found: ApiError) -> bytes:
    error: dict[str, Any] = {"code": found.kind, "message": str(found)}
    if found.retry_after is not None:
        error["retry_after"] = found.retry_after
    return json.dumps({"error": error}).encode() + b"\n"


def refuse(error: Exception, status: int | None = None) -> Response:
    """The response for what was refused."""
    found = refused(error)
    headers = dict(NO_STORE)
    if found.retry_after is not None:
        headers["Retry-After"] = str(found.retry_after)
    if found.kind is RefusalKind.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(_refusal(found), status or STATUS[found.kind], headers, MEDIA_TYPES[Flow.ONE])


async def _no_such_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = "this address does not take that verb" if error.status_code == 405 else NO_ROUTE
    answer = refuse(ApiError(RefusalKind.NO_METHOD, sentence), error.status_code)
    answer.headers.update(error.headers or {})
    return answer


READY_US = 5_000_000
"""The time for which an answer about readiness holds, and that which it may take."""
METRICS = replace(METHODS["status"], scope=TokenScope.READ)
"""The right to read metrics: an admin's, also by a token that cannot change anything."""
_COUNTERS = ("games", "lost_attempts", "faults", "forfeits", "requests", "refusals")
_LABELS: dict[str, Sequence[str]] = {
    "lost_attempts": ["ended"],
    **{key: ["queue"] for key in ("waiting", "leased", "expired", "oldest_wait_seconds")},
    "recent_submissions": ["state"],
    "recent_faults": ["kind"],
    "recent_decision_seconds": ["quantile"],
    "requests": ["route", "status"],
    "refusals": ["limit"],
    "streams": ["kind"],
}


class Monitor:
    """Answers an operator's programs; one event loop uses it.

    has_runner  whether the process of a runner runs beside this one
    """

    paths = ("/healthz", "/readyz", "/metrics")

    def __init__(self, gateway: Gateway, access: Access, has_runner: Callable[[], bool]) -> None:
        self._gateway = gateway
        self._access = access
        self._has_runner = has_runner
        self._asked_us = 0
        self._asking: asyncio.Task[str | None] | None = None
        answers = (_health, self._ready, self._metrics)
        routes = [Route(path, answer) for path, answer in zip(self.paths, answers, strict=True)]
        name_routes(routes)
        self.app: ASGIApp = Starlette(routes=routes)

    async def _ready(self, request: Request) -> Response:
        clock, asking = self._gateway.clock, self._asking
        now = clock.now_us()
        if asking is None or (asking.done() and now - self._asked_us >= READY_US):
            store, has_runner = self._gateway.service.store, self._has_runner()
            ask = self._gateway.in_thread(lambda: not_ready(store, has_runner=has_runner))
            self._asked_us, self._asking = now, (asking := asyncio.create_task(ask))
        with suppress(TimeoutError):
            async with time_limit(clock, READY_US):
                await asyncio.wait({asking})
        failed = not asking.done() or asking.exception()
        reason = "the server is busy" if failed else asking.result()
        return PlainTextResponse(f"{reason or 'ready'}\n", 503 if reason else 200, NO_STORE)

    async def _metrics(self, request: Request) -> Response:
        gateway, address = self._gateway, request.client.host if request.client else ""
        store, secret = gateway.service.store, self._access.keeps_secrets(address)
        try:
            given = request.headers.getlist("authorization")
            caller = await gateway.caller(given, address, secret=secret)
            check_call(gateway.service, caller, METRICS)
            counts = await gateway.in_thread(store.counts.read)
        except Exception as error:  # noqa: BLE001  (every error has its status)
            return refuse(error)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collected(metrics(counts, gateway)))
        ProcessCollector(registry=registry)
        return Response(generate_latest(registry), 200, NO_STORE, CONTENT_TYPE_LATEST)


async def _health(request: Request) -> Response:
    return PlainTextResponse("healthy\n", 200, NO_STORE)


def monitored(
    app: ASGIApp, gateway: Gateway, access: Access, has_runner: Callable[[], bool]
) -> ASGIApp:
    """The same application, whose answers are counted, with the addresses of a `Monitor`."""
    monitor = Monitor(gateway, access, has_runner)
    monitoring = Gate(monitor.app, access)
    paths = [f"{access.prefix}{path}" for path in monitor.paths]

    async def counted(scope: Scope, receive: Receive, send: Send) -> None:
        routes: list[str] = []

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                gateway.requests[routes[0] if routes else "other", str(message["status"])] += 1
            await send(message)

        if scope.get("path") in paths:
            await monitoring({**scope, ROUTE: routes, "root_path": access.prefix}, receive, sent)
        else:
            await app({**scope, ROUTE: routes}, receive, sent)

    return counted


class _Collected(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def metrics(counts: LadderCounts, gateway: Gateway) -> Iterator[Metric]:
    """The numbers of the store, and of this server since it was started."""
    limits = {
        "calls_per_minute": gateway.calls.refused,
        "pages_per_minute": gateway.visits.refused,
        "streams": gateway.streams.refused,
        "heavy": gateway.heavy.refused,
    }
    values = asdict(counts) | {
        "damage": len(counts.damage),
        "resting_runners": len(counts.resting_runners),
        "requests": gateway.requests,
        "refusals": limits,
        "streams": {"events": gateway.streams.open, "downloads": gateway.heavy.open},
    }
    for name, value in values.items():
        family = CounterMetricFamily if name in _COUNTERS else GaugeMetricFamily
        labels = _LABELS.get(name, ())
        made = family(f"deepsea_{name}", name.replace("_", " "), labels=labels)
        if not labels and value is not None:
            made.add_metric([], value)
        for key, number in value.items() if labels else ():
            made.add_metric([key] if len(labels) == 1 else key, number)
        yield made
