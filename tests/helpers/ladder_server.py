"""A ladder's HTTP API on a port of this machine, with a clock and secrets of the test's own.

Invariant: what the server is made of is known by `application` and `methods`, and by nothing else.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from starlette.types import ASGIApp, Receive, Scope, Send

from deepsea_ladder.limits import USUAL_LIMITS, RemoteLimits
from deepsea_ladder.store import Store

from .listening import listening
from .manual_clock import ManualClock
from .remote import no_page

EACH_US: Final = 1_000_000
"""How far the clock goes on with each request: slow enough for all limits but those of a test."""


@dataclass(frozen=True, kw_only=True)
class Serving:
    """How a ladder is served."""

    limits: RemoteLimits = USUAL_LIMITS
    private: bool = False
    proxy: bool = False
    """Whether requests come through a proxy on this machine, over plain HTTP."""


USUAL: Final = Serving()


class Application(NamedTuple):
    """What answers."""

    app: ASGIApp
    end: Callable[[], object]
    """Ends streams; called in the event loop."""
    close: Callable[[], object]
    """Ends threads, once nothing is asked any more."""


def application(store: Store, clock: ManualClock, how: Serving) -> Application:
    """The HTTP API of a ladder, as `ladder serve` makes it."""
    from deepsea_arena.api.service import LadderService
    from deepsea_web.access import access
    from deepsea_web.gateway import Gateway
    from deepsea_web.http_api import http_api
    from deepsea_web.serve import with_api

    numbers = itertools.count()
    service = LadderService(
        store,
        entropy=lambda: hashlib.sha256(f"entropy {next(numbers)}".encode()).digest(),
        private=how.private,
        limits=how.limits,
        clock=clock,
    )
    service.url = "http://ladder.example/"
    reached = access("127.0.0.1", 80, proxies=["127.0.0.1"] if how.proxy else [])
    gateway = Gateway(service, clock)
    app = with_api(no_page, http_api(gateway, reached), reached)
    return Application(app, gateway.closing.set, gateway.close)


def methods() -> set[str]:
    """The methods of the API, each as its verb and its path below /api/v1."""
    from deepsea_arena.api.ladder_api import METHODS

    return {f"{method.verb} {method.path}" for method in METHODS.values()}


class LadderServer:
    """Listens, and serves one ladder after another."""

    def __init__(self) -> None:
        self.port = 0
        self._app: ASGIApp = no_page
        self._clock = ManualClock()
        self._loop: asyncio.AbstractEventLoop
        self._asked: set[asyncio.Task[Any]] = set()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Answer by a thread."""
        with listening(lambda _: self) as found:
            self.port, self._loop = found
            yield

    @contextmanager
    def serving(self, file: Path, how: Serving = USUAL) -> Iterator[None]:
        """Serve the ladder in this file."""
        with Store.open(file) as store:
            self._clock = ManualClock()
            found = application(store, self._clock, how)
            self._app = found.app
            try:
                yield
            finally:
                self._app = no_page
                asyncio.run_coroutine_threadsafe(self._end(found), self._loop).result()
                found.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._asked.add(task)
        try:
            self._clock.jump(EACH_US)
            await self._app(scope, receive, send)
        finally:
            self._asked.discard(task)

    async def _end(self, found: Application) -> None:
        found.end()
        if self._asked:
            await asyncio.wait(self._asked)
