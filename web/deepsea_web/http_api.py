"""The HTTP API below /api/v1/, and the addresses for an operator's programs.

The API serves the declared methods as verbs and paths, in JSON: start reading at `http_api`. An
operator's programs ask whether the server lives and is ready, and for its metrics: see Monitor.

Invariants: every declared method is served in the same way, and nothing else; the caller is looked
up once the whole request has arrived; a token comes in the header `authorization`, so that no page
of another site can use one, and no such page can make its reader's browser change anything; no
response may be cached but the description of the API, whose bytes are made once; a refusal has a
status, a code and a sentence, in every form of response; /healthz reads nothing; /readyz asks the
store at most once in READY_US, however often it is called; /metrics needs an admin's token, and no
label of it has the name of a person or a bot; requests are counted by the paths of routes, never by
their own paths.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
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
from deepsea_ladder.accounts import Caller
from deepsea_ladder.accounts import Scope as TokenScope
from deepsea_ladder.model import LadderCounts
from deepsea_referee.clock import time_limit
from deepsea_rules.printable import one_line, quoted
from deepsea_web.access import Access, Gate, check_address, check_texts, is_foreign
from deepsea_web.gateway import ROUTE, Batch, Gateway, logged_refusal, name_routes
from deepsea_web.http import (
    NO_STORE,
    SMALL_BODY,
    BodyTooLong,
    StreamCut,
    StreamedResponse,
    small_body,
    whole_number,
)

_IN_ADDRESS = ("GET", "DELETE")
"""The verbs whose parameters stand in the address."""
DESCRIPTION = "/openapi.json"
FOREIGN = "pages of other sites may read here, and nothing else"
TOO_SLOW = ApiError(
    RefusalKind.UNAVAILABLE,
    "this is not all: what was sent was not read in time; ask again",
    retry_after=1,
)
"""The last part of a stream whose reader does not keep up."""
NO_ROUTE = "there is no such address below /api/v1/; see docs/api.md"


def http_api(gateway: Gateway, access: Access) -> ASGIApp:
    """Return the ASGI application of the API, which answers the paths below ROOT.

    It takes the caller's address from `client` in the scope, which a Gate has set.
    """
    routes = [
        Route(method.path, _endpoint(gateway, access, method), methods=[method.verb])
        for method in METHODS.values()
    ]
    routes.append(Route(DESCRIPTION, partial(_respond_with_openapi, gateway)))
    name_routes(routes, ROOT)
    app = Starlette(routes=routes, exception_handlers={HTTPException: _no_such_route})
    app.router.redirect_slashes = False  # a path with a slash too many has no route
    return app


async def _respond_with_openapi(gateway: Gateway, request: Request) -> Response:
    """Respond with the OpenAPI document, also to visitors of a private ladder."""
    try:
        gateway.count_visit(request.client.host if request.client else "")
    except ApiError as error:
        return refuse(error)
    body, etag = _description()
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    # The header may be a list of ETags, and a proxy may have marked them as weak.
    known_etags = request.headers.get("if-none-match", "")
    if etag in known_etags:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=MEDIA_TYPES[Flow.ONE])


@cache
def _description() -> tuple[bytes, str]:
    """Return the OpenAPI document as JSON, and its ETag."""
    body = json_text(openapi()).encode()
    return body, f'"{sha256(body).hexdigest()[:24]}"'


def _endpoint(
    gateway: Gateway, access: Access, method: Method
) -> Callable[[Request], Awaitable[ASGIApp]]:
    """Return the function that responds to requests of a method.

    The whole request is received before its caller is looked up and counted in a rate; only then
    are its arguments read.
    """

    async def respond(request: Request) -> ASGIApp:
        """Respond to a request with the answer of the method, or with the refusal for an error."""
        try:
            return await _call_method(gateway, access, method, request)
        except Exception as error:  # noqa: BLE001  (every error has its status)
            return refuse(error)

    return respond


async def _call_method(
    gateway: Gateway, access: Access, method: Method, request: Request
) -> ASGIApp:
    """Call a method with the arguments of a request, and return the response with its answer.

    An upload is passed on before its body has been read; any other body is read here.
    """
    if method.changes and is_foreign(request, access):
        raise ApiError(RefusalKind.DENIED, FOREIGN)
    body = await _read_body(gateway, request) if method.verb == "POST" else b""
    caller = await _caller_of(gateway, access, request)
    check_address(request.scope)
    if method.verb == "PUT":  # an upload
        answers = gateway.upload(caller, _announced_archive(request), request)
        return await answer_stream(gateway, answers, method.flow, _answer_writer(method))
    check_call(gateway.service, caller, method)
    fields = _arguments(method, request, body)
    if method.flow is Flow.ONE:
        answer = await gateway.answer(caller, method, fields)
        text = json_text(method.document_of(answer))
        return Response(text, 200, NO_STORE, MEDIA_TYPES[Flow.ONE])
    answers = gateway.stream(caller, method, fields)
    return await answer_stream(gateway, answers, method.flow, _answer_writer(method))


async def _caller_of(gateway: Gateway, access: Access, request: Request) -> Caller:
    """Return the caller who sends a request, by its token and address, and count the call.

    Raises ApiError for a token that is not valid, and for a caller who calls too often.
    """
    address = request.client.host if request.client else ""
    return await gateway.caller(
        request.headers.getlist("authorization"), address, secret=access.keeps_secrets(address)
    )


# --------------------------------------------------------------------------------------- requests


def _arguments(method: Method, request: Request, body: bytes) -> dict[str, Any]:
    """Return the arguments of a call: those in the path, and in the query or the body.

    Raises ApiError for an unknown, repeated or misplaced parameter, or a value of a wrong type.
    """
    values: dict[str, Any] = dict(request.path_params)
    arguments: Iterable[tuple[str, Any]]
    has_query = method.verb in _IN_ADDRESS
    if has_query:
        arguments = request.query_params.multi_items()
    elif request.url.query:
        raise ApiError(RefusalKind.INVALID, "parameters stand in the body, not in the address")
    else:
        arguments = _json_object(body).items()
    for name, value in arguments:
        if has_query and _takes_list(method, name):  # the query repeats it for each item
            values.setdefault(name, []).append(value)
        elif name in values:
            raise ApiError(RefusalKind.INVALID, f"{one_line(name, 40)} is given twice")
        else:
            values[name] = value
    if method.is_endless:
        # A browser that connects again sends the id of the last event that it has received.
        last_event_id = request.headers.get("last-event-id")
        if last_event_id:
            values["after"] = last_event_id
    return {name: _argument(method, name, value, request) for name, value in values.items()}


def _takes_list(method: Method, name: str) -> bool:
    """Return True if a method has a parameter with this name whose value is a list."""
    declared = method.parameters.get(name)
    return declared is not None and get_origin(declared.annotation) is Sequence


def _argument(method: Method, name: str, value: object, request: Request) -> object:
    """Return the value of a parameter with its declared type.

    A value in the address is a text, which is parsed; a value in the body has a type of its own.
    """
    declared = method.parameters.get(name)
    if declared is None:
        raise ApiError(RefusalKind.INVALID, f"there is no parameter {quoted(name, 40)}")
    is_text = name in request.path_params or method.verb in _IN_ADDRESS
    return parameter(declared.annotation, name, value, is_text=is_text)


def _json_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in the body of a request; an empty body is an empty object."""
    try:
        document = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError):
        raise ApiError(RefusalKind.INVALID, "the body is no JSON") from None
    if not isinstance(document, dict):
        raise ApiError(RefusalKind.INVALID, "the body is no JSON object")
    check_texts("the body", document)
    return document


async def _read_body(gateway: Gateway, request: Request) -> bytes:
    """Return the body of a request that is no upload. Raises ApiError if it is too long or slow."""
    try:
        return await small_body(request, gateway.clock)
    except BodyTooLong:
        raise ApiError(RefusalKind.INVALID, f"the body has more than {SMALL_BODY} bytes") from None
    except (TimeoutError, ClientDisconnect):
        raise ApiError(RefusalKind.INVALID, "the body did not come in time") from None


def _announced_archive(request: Request) -> Archive:
    """Return the archive that the path and the headers of an upload announce.

    Raises ApiError for a wrong header, or if the address has parameters.
    """
    if request.url.query:
        raise ApiError(
            RefusalKind.INVALID, "an upload has its bot's name in the path, and no parameters"
        )
    size = request.headers.get("content-length", "")
    if whole_number(size) is None:
        raise ApiError(RefusalKind.INVALID, "an upload has the header content-length")
    return Archive(
        **request.path_params,  # the bot's name
        size=int(size),
        sha256=request.headers.get(SHA256, ""),
        key=request.headers.get(KEY, ""),
    )


# -------------------------------------------------------------------------------------- responses


def _answer_writer(method: Method) -> Callable[[Any], str | bytes]:
    """Return the function that writes an answer of a method's stream as a part of the body.

    An answer is written as a line of JSON, as a server-sent event, or in a file as it is.
    """

    def line(answer: object) -> str:
        return json_text(method.document_of(answer))

    def event(answer: Any) -> str:
        # The id of a game of the feed is its sequence number, so that a reader can resume after it.
        event_id = f"id: {int(answer.seq)}\n" if method.is_endless else ""
        return f"{event_id}data: {line(answer)}\n"

    if method.flow is Flow.FILE:
        return bytes
    return event if method.flow is Flow.EVENTS else line


async def answer_stream(
    gateway: Gateway,
    answers: AsyncGenerator[Batch],
    flow: Flow,
    write: Callable[[Any], str | bytes],
) -> StreamedResponse:
    """Wait for the first answers of a stream, and return the response that sends all answers.

    Raises the error of a stream that is refused before its first answer.

    write  returns an answer in the form in which the body has it
    """
    parts = _body_parts(answers, flow, write)
    # To a reader who is too slow, lines and events end with an error; a file just breaks off. The
    # newlines are there because the stream may break off in the middle of a line.
    cut = b"" if flow is Flow.FILE else b"\n\n" + _stream_error(TOO_SLOW, flow)
    return await StreamedResponse.begin(parts, gateway.clock, MEDIA_TYPES[flow], cut)


async def _body_parts(
    answers: AsyncGenerator[Batch], flow: Flow, write: Callable[[Any], str | bytes]
) -> AsyncGenerator[bytes]:
    """Yield the body of a response with a stream of answers, a part for each batch.

    An error before the first part is raised. A later one becomes the last part; in a file, which
    has no place for an error, StreamCut is raised instead.
    """
    has_begun = False
    try:
        async with aclosing(answers):
            async for batch in answers:
                yield b"".join(_encoded(write(answer)) for answer in batch.answers)
                has_begun = True
    except Exception as error:
        if not has_begun:
            raise
        refusal = logged_refusal(error)
        if flow is Flow.FILE:
            raise StreamCut from None  # so that nobody takes a part of the file for all of it
        yield _stream_error(refusal, flow)


def _stream_error(refusal: ApiError, flow: Flow) -> bytes:
    """Return a refusal as the last part of a stream of lines or events."""
    prefix = b"event: error\ndata: " if flow is Flow.EVENTS else b""
    return prefix + _refusal_json(refusal) + b"\n"


def _encoded(part: str | bytes) -> bytes:
    """Return a part of a body as bytes."""
    return part if isinstance(part, bytes) else part.encode()


def _refusal_json(refusal: ApiError) -> bytes:
    """Return the JSON of a refusal, one line with its newline."""
    error: dict[str, Any] = {"code": refusal.kind, "message": str(refusal)}
    if refusal.retry_after is not None:
        error["retry_after"] = refusal.retry_after
    return json.dumps({"error": error}).encode() + b"\n"


def refuse(error: Exception, status: int | None = None) -> Response:
    """Return the response for an error; without `status` its status follows from its kind."""
    refusal = logged_refusal(error)
    headers = dict(NO_STORE)
    if refusal.retry_after is not None:
        headers["Retry-After"] = str(refusal.retry_after)
    if refusal.kind is RefusalKind.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = "Bearer"
    status = status or STATUS[refusal.kind]
    return Response(_refusal_json(refusal), status, headers, MEDIA_TYPES[Flow.ONE])


async def _no_such_route(request: Request, error: Exception) -> Response:
    """Respond to a request that no route of the API takes, with the status of Starlette's error.

    That is 405 if only the verb is wrong, else 404.
    """
    assert isinstance(error, HTTPException)
    sentence = "this address does not take that verb" if error.status_code == 405 else NO_ROUTE
    response = refuse(ApiError(RefusalKind.NO_METHOD, sentence), error.status_code)
    response.headers.update(error.headers or {})  # such as the verbs that are allowed
    return response


# ----------------------------------------------------------------------------- operator's programs

READY_US = 5_000_000
"""The time for which an answer about readiness is reused, and within which it has to come."""
METRICS = replace(METHODS["status"], scope=TokenScope.READ)
"""The right to read metrics: a token of an admin, also one that cannot change anything."""
_COUNTERS = ("games", "lost_attempts", "faults", "forfeits", "requests", "refusals")
"""Names of the metrics that only grow; all others are gauges."""
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
    """The ASGI application for an operator's programs. One event loop uses it.

    has_runner  returns True if the process of a runner runs beside this one
    """

    paths = ("/healthz", "/readyz", "/metrics")

    def __init__(self, gateway: Gateway, access: Access, has_runner: Callable[[], bool]) -> None:
        """Make the application with a route for each of `paths`; nothing is read yet."""
        self._gateway = gateway
        self._access = access
        self._has_runner = has_runner
        self._readiness_us = 0
        """The time when the last check of the readiness began."""
        self._readiness: asyncio.Task[str | None] | None = None
        """The last check of the readiness; its result is the reason against it, or None."""
        endpoints = (_health, self._ready, self._metrics)
        routes = [Route(path, respond) for path, respond in zip(self.paths, endpoints, strict=True)]
        name_routes(routes)
        self.app: ASGIApp = Starlette(routes=routes)

    async def _ready(self, request: Request) -> Response:
        """Respond with 200 if the server is ready, else with 503 and the reason."""
        check = self._readiness_check()
        with suppress(TimeoutError):
            async with time_limit(self._gateway.clock, READY_US):
                # Unlike awaiting the task, this does not cancel it for others if it takes too long.
                await asyncio.wait({check})
        has_result = check.done() and not check.exception()
        reason = check.result() if has_result else "the server is busy"
        if reason is None:
            return PlainTextResponse("ready\n", 200, NO_STORE)
        return PlainTextResponse(f"{reason}\n", 503, NO_STORE)

    def _readiness_check(self) -> asyncio.Task[str | None]:
        """Return the task of the last check of the store, or begin one if that is too old.

        All requests share one check. Its result is the reason why the server is not ready, or None.
        """
        check, now_us = self._readiness, self._gateway.clock.now_us()
        is_too_old = now_us - self._readiness_us >= READY_US
        if check is None or (check.done() and is_too_old):
            store, has_runner = self._gateway.service.store, self._has_runner()
            reading = self._gateway.in_thread(lambda: not_ready(store, has_runner=has_runner))
            check = asyncio.create_task(reading)
            self._readiness_us, self._readiness = now_us, check
        return check

    async def _metrics(self, request: Request) -> Response:
        """Respond with the metrics, for the token of an admin."""
        gateway = self._gateway
        try:
            caller = await _caller_of(gateway, self._access, request)
            check_call(gateway.service, caller, METRICS)
            counts = await gateway.in_thread(gateway.service.store.counts.read)
        except Exception as error:  # noqa: BLE001  (every error has its status)
            return refuse(error)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_MetricsOnce(metrics(counts, gateway)))
        ProcessCollector(registry=registry)
        return Response(generate_latest(registry), 200, NO_STORE, CONTENT_TYPE_LATEST)


async def _health(request: Request) -> Response:
    """Respond with 200, which shows that the server answers at all."""
    return PlainTextResponse("healthy\n", 200, NO_STORE)


def monitored(
    app: ASGIApp, gateway: Gateway, access: Access, has_runner: Callable[[], bool]
) -> ASGIApp:
    """Return an application that adds the addresses of a Monitor and counts all responses.

    app         the application for all other addresses
    has_runner  returns True if the process of a runner runs beside this one
    """
    monitor = Monitor(gateway, access, has_runner)
    guarded_monitor = Gate(monitor.app, access)
    monitor_paths = [f"{access.prefix}{path}" for path in monitor.paths]

    async def counted(scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the monitor or the application, and count its response."""
        # The route that takes the request adds its name to this list (see `name_routes`).
        route_names: list[str] = []
        scope = {**scope, ROUTE: route_names}
        counting_send = _counting_send(send, route_names, gateway.requests)
        if scope.get("path") in monitor_paths:
            scope["root_path"] = access.prefix
            await guarded_monitor(scope, receive, counting_send)
        else:
            await app(scope, receive, counting_send)

    return counted


def _counting_send(
    send: Send, route_names: Sequence[str], requests: Counter[tuple[str, str]]
) -> Send:
    """Return a `send` that counts the response to a request by its route and status.

    route_names  has the name of the request's route when the response begins, if it has a route
    """

    async def count_and_send(message: Message) -> None:
        if message["type"] == "http.response.start":
            route = route_names[0] if route_names else "other"
            requests[route, str(message["status"])] += 1
        await send(message)

    return count_and_send


class _MetricsOnce(Collector):
    """A collector of metrics that have been read already, for one response."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def metrics(counts: LadderCounts, gateway: Gateway) -> Iterator[Metric]:
    """Yield the metrics of the store, and those of this server since its start.

    counts  the numbers that were read from the store
    """
    refusals = {
        "calls_per_minute": gateway.calls.refused,
        "pages_per_minute": gateway.visits.refused,
        "streams": gateway.streams.refused,
        "heavy": gateway.heavy.refused,
    }
    values = asdict(counts) | {
        "damage": len(counts.damage),
        "resting_runners": len(counts.resting_runners),
        "requests": gateway.requests,
        "refusals": refusals,
        "streams": {"events": gateway.streams.open, "downloads": gateway.heavy.open},
    }
    for name, value in values.items():
        yield _metric(name, value)


def _metric(name: str, value: Any) -> Metric:
    """Return the metric with a name of LadderCounts, or of this server.

    value  a number, or None if there is none at the moment; of a metric with labels a mapping from
           the label, or from a tuple of several labels, to the number
    """
    family = CounterMetricFamily if name in _COUNTERS else GaugeMetricFamily
    labels = _LABELS.get(name, ())
    metric = family(f"deepsea_{name}", name.replace("_", " "), labels=labels)
    if labels:
        for key, number in value.items():
            metric.add_metric([key] if len(labels) == 1 else key, number)
    elif value is not None:
        metric.add_metric([], value)
    return metric
