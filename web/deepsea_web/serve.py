"""The site and the HTTP API as one application, with the rate at which an address may ask.

Invariants: the API is below ROOT of the public address and nowhere else, with the gate and the
headers of the site; whoever is on this machine is not counted, since that may be everybody.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvicorn
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from deepsea_arena.api.errors import ApiError
from deepsea_arena.api.ladder_api import ROOT
from deepsea_arena.api.service import LadderService
from deepsea_arena.api.uploads import Uploads
from deepsea_ladder.accounts import is_loopback
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from deepsea_referee.timing.clock import SystemClock
from deepsea_sdk.entropy import fresh_seed
from deepsea_web.http import Guarded
from deepsea_web.server.access import Access, Gate, access
from deepsea_web.server.connections import BACKLOG, Certificate, Connection, listen, open_many_files
from deepsea_web.server.gateway import Gateway
from deepsea_web.server.http_api import http_api
from deepsea_web.server.runner_process import RunnerProcess, runner_command
from deepsea_web.site.app import Site
from deepsea_web.site.pages import ENDPOINTS, MEMBERS, PAGES
from deepsea_web.site.rendering import Refusal, refusal

_FREE = "/static/"
"""What browsers keep for ever; a page asks for several of them."""
PATIENCE_S = 1
"""How long answers may take to end, once a signal has come."""


class WithApi:
    """The site's application, which guards itself, and the API's at its address.

    gateway  counts the pages that an address asks for
    """

    def __init__(self, site: ASGIApp, api: ASGIApp, access: Access, gateway: Gateway) -> None:
        self._access = access
        self._root = f"{access.prefix}{ROOT}"
        self._free = f"{access.prefix}{_FREE}"
        self._site = site
        self._api = Guarded(Gate(api, access), access.hosts)
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._site(scope, receive, send)
        elif scope["path"].startswith(f"{self._root}/"):
            await self._api({**scope, "root_path": self._root}, receive, send)
        elif refusal := self._refusal(scope):
            headers = {**refusal.headers, "Cache-Control": "no-store"}
            refused = PlainTextResponse(f"{refusal.sentence}\n", refusal.status, headers)
            await Guarded(refused, self._access.hosts)(scope, receive, send)
        else:
            await self._site(scope, receive, send)

    def _refusal(self, scope: Scope) -> Refusal | None:
        """Why the reader has to wait, if it has asked for too many pages; this one is counted."""
        if scope["path"].startswith(self._free):
            return None
        peer, _ = scope.get("client") or ("", 0)
        client = self._access.client(peer, Headers(scope=scope).getlist("x-forwarded-for"))
        try:
            if client is not None:
                self._gateway.count_visit(client)
        except ApiError as error:
            return refusal(error)
        return None


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Where and how to serve."""

    host: str = "127.0.0.1"
    port: int = 8080
    """0: one of the system's choice."""
    public_url: str | None = None
    trusted_proxies: Sequence[str] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    private: bool = False
    workers: int = 1
    """Of the runner; 0: no runner is started."""


@dataclass(frozen=True)
class Served:
    """Where the ladder is reached."""

    url: str
    workers: int
    """Of the runner; 0 without one."""


def serve(target: str, options: ServeOptions, announce: Callable[[Served], object]) -> None:
    """Serve a ladder until Ctrl-C or SIGTERM; `announce` is called when it listens.

    target  the ladder, as --store takes it

    Raises UserError if it cannot be served like that.
    """
    certificate = _certificate(options)
    host = "127.0.0.1" if options.host == "localhost" else options.host
    reached = partial(
        access,
        host,
        public_url=options.public_url,
        proxies=options.trusted_proxies,
        tls=certificate is not None,
    )
    reached(options.port)  # what is not safe is refused before anybody can connect
    local = is_loopback(host) and not options.trusted_proxies
    with (
        Store.open(target) as store,
        Store.open(target, read_only=True, public=True) as public,
        closing(listen(host, options.port)) as listening,
    ):
        if not local:
            _check_isolation(store)
        service = LadderService(
            store,
            public,
            entropy=fresh_seed,
            private=options.private,
            uploads=Uploads(SystemClock(), local=local),
        )
        open_many_files()
        port = listening.getsockname()[1]
        serving = _Serving(service, reached(port), options, certificate)
        try:
            asyncio.run(serving.run(listening, target, announce))
        finally:
            serving.close()


class _Serving:
    """The parts of the server, for one event loop."""

    def __init__(
        self,
        service: LadderService,
        access: Access,
        options: ServeOptions,
        certificate: Certificate | None,
    ) -> None:
        self._access = access
        self._options = options
        self._certificate = certificate
        self._gateway = Gateway(service, SystemClock())
        self._site = Site(self._gateway, access, PAGES, ENDPOINTS, MEMBERS)

    def close(self) -> None:
        """End the threads."""
        self._gateway.close()

    async def run(
        self, listening: socket.socket, target: str, announce: Callable[[Served], object]
    ) -> None:
        """Serve until a signal comes."""
        url = f"{self._access.origin}{self._access.prefix}/"
        self._gateway.service.url = url
        command = runner_command(self._options.workers)
        runner = RunnerProcess(command, target, self._gateway.clock)
        try:
            if self._options.workers:
                await runner.start()
            served = Served(url, self._options.workers)
            await self._serve_http(listening, runner, lambda: announce(served))
        finally:
            self._gateway.closing.set()
            await runner.stop()

    async def _serve_http(
        self, listening: socket.socket, runner: RunnerProcess, announce: Callable[[], object]
    ) -> None:
        server = _Server(self._http_config())
        loop = asyncio.get_running_loop()

        def end() -> None:
            self._gateway.closing.set()
            if server.should_exit:  # the second time without waiting for answers
                server.force_exit = True
                runner.kill()
            server.should_exit = True

        signals = (signal.SIGINT, signal.SIGTERM)
        for one in signals:
            loop.add_signal_handler(one, end)
        try:
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            announce()
            await serving
        finally:
            for one in signals:
                loop.remove_signal_handler(one)

    def _http_config(self) -> uvicorn.Config:
        api = http_api(self._gateway, self._access)
        config = uvicorn.Config(
            WithApi(self._site.app, api, self._access, self._gateway),
            http=partial(  # type: ignore[arg-type]
                Connection,
                access=self._access,
                limits=self._gateway.service.limits,
                opened=Counter(),
            ),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",  # what strangers send is no news
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=PATIENCE_S,
            ssl_certfile=self._options.tls_cert,
            ssl_keyfile=self._options.tls_key,
        )
        if self._certificate is not None:
            config.load()
            config.ssl = self._certificate.context()
        return config


class _Server(uvicorn.Server):
    """A server that leaves signals to this module: uvicorn's would be raised again at the end."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _certificate(options: ServeOptions) -> Certificate | None:
    if options.tls_cert is None and options.tls_key is None:
        return None
    if options.tls_cert is None or options.tls_key is None:
        raise UserError("--tls-cert and --tls-key are given together")
    return Certificate(options.tls_cert, options.tls_key)


def _check_isolation(store: Store) -> None:
    """Raise UserError if strangers' bots would be played without a sandbox."""
    for stored in store.seasons.all():
        if stored.closed_at is None and stored.season.isolation == "process":
            raise UserError(
                f"season {stored.name!r} plays bots without a sandbox, so it cannot be served to "
                "other machines, whose users may upload bots: close it, or serve on 127.0.0.1 "
                "without --trusted-proxy"
            )
