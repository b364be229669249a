"""The process of the site: listens with HTTP, and serves until a signal ends it.

Invariants: what is wrong with addresses, certificates or seasons is said before anything is served;
Ctrl-C and SIGTERM end it within a second or so, whatever is being read or watched, and the runner
that it has started; a second one waits for nobody. This process starts no bot.
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
from typing import Final

import uvicorn

from deepsea_arena.api.service import LadderService
from deepsea_arena.api.uploads import Uploads
from deepsea_ladder.accounts import is_loopback
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from deepsea_referee.timing.clock import SystemClock
from deepsea_sdk.entropy import fresh_seed
from deepsea_web.application import WithApi
from deepsea_web.remote.certificate import Certificate
from deepsea_web.remote.listening import BACKLOG, listen, open_many_files
from deepsea_web.server.access import Access, access
from deepsea_web.server.connections import Connection
from deepsea_web.server.gateway import Gateway
from deepsea_web.server.http_api import http_api
from deepsea_web.server.runner_process import RunnerProcess, runner_command
from deepsea_web.site.app import Site
from deepsea_web.site.pages import ENDPOINTS, MEMBERS, PAGES

PATIENCE_S: Final = 1
"""How long answers may take to end, once a signal has come."""


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
