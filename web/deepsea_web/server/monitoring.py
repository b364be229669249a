"""Answers for an operator's programs: the server lives, it is ready, its metrics.

Invariants: /healthz reads nothing; /readyz asks the store at most once in READY_US, however often
it is asked; /metrics is for admins' tokens, and no label of it has the name of a person or a bot;
what is counted here are requests by the paths of routes, never by those of requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from msgspec.structs import asdict
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepsea_arena.api.ladder_api import METHODS
from deepsea_arena.api.local import check_call
from deepsea_arena.reports.status import not_ready
from deepsea_ladder.accounts import Scope as TokenScope
from deepsea_ladder.model import LadderCounts
from deepsea_referee.timing.clock import time_limit
from deepsea_web.http import NO_STORE
from deepsea_web.server.access import Access, Gate
from deepsea_web.server.gateway import ROUTE, Gateway, name_routes
from deepsea_web.server.http_api import refuse

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
