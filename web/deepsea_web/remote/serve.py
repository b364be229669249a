"""The process of the site: listens with HTTP and gRPC, and serves until a signal ends it.

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
from urllib.parse import urlsplit

import uvicorn

from deepsea_arena.service.methods import METHODS
from deepsea_arena.service.service import LadderService, ServerAddress
from deepsea_arena.service.upload import Uploads
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from deepsea_referee.timing.clock import SystemClock
from deepsea_sdk.entropy import fresh_seed
from deepsea_web.remote.application import WithApi
from deepsea_web.remote.certificate import Certificate
from deepsea_web.remote.front import Front
from deepsea_web.remote.http_api import http_api
from deepsea_web.remote.listening import BACKLOG, listen, open_many_files
from deepsea_web.remote.rpc import RpcServer
from deepsea_web.remote.runner_process import RunnerProcess, runner_command
from deepsea_web.site.access import Access, access, is_loopback
from deepsea_web.site.app import Site
from deepsea_web.site.connection import Connection
from deepsea_web.site.pages import ENDPOINTS, PAGES, members

PATIENCE_S: Final = 1
"""How long answers may take to end, once a signal has come."""
LAST_PORT: Final = 65535


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Where and how to serve."""

    host: str = "127.0.0.1"
    port: int = 8080
    """0: one of the system's choice."""
    grpc_port: int | None = None
    """0: none; None: the one after `port`."""
    public_url: str | None = None
    public_grpc: str | None = None
    """HOST:PORT that clients use for gRPC; None: as the server itself is reached."""
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
    grpc: str
    """HOST:PORT; "" if there is none."""
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
            METHODS,
            entropy=fresh_seed,
            private=options.private,
            uploads=Uploads(SystemClock(), local=local),
        )
        open_many_files()
        port = listening.getsockname()[1]
        serving = _Serving(service, reached(port), options, host, port, certificate)
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
        host: str,
        port: int,
        certificate: Certificate | None,
    ) -> None:
        self._service = service
        self._access = access
        self._options = options
        self._host = host
        self._port = port
        self._certificate = certificate
        clock = SystemClock()
        self._site = Site(service.public, access, PAGES, ENDPOINTS, clock, members(service))
        self._front = Front(service, clock, self._site.closing)
        self._rpc = RpcServer(self._front, access)
        self._clock = clock

    def close(self) -> None:
        """End the threads."""
        self._front.close()
        self._site.close()

    async def run(
        self, listening: socket.socket, target: str, announce: Callable[[Served], object]
    ) -> None:
        """Serve until a signal comes."""
        grpc = await self._start_rpc()
        url = f"{self._access.origin}{self._access.prefix}/"
        self._service.address = ServerAddress(url, grpc)
        runner = RunnerProcess(runner_command(self._options.workers), target, self._clock)
        try:
            if self._options.workers:
                await runner.start()
            served = Served(url, grpc, self._options.workers)
            await self._serve_http(listening, runner, lambda: announce(served))
        finally:
            self._site.closing.set()
            await asyncio.gather(self._rpc.stop(), runner.stop())

    async def _start_rpc(self) -> str:
        """Listen with gRPC, if it is wanted; returns the address that clients use."""
        wanted = self._options.grpc_port
        if wanted == 0:
            return ""
        if wanted is None:
            wanted = self._port + 1 if self._options.port else 0
        if wanted > LAST_PORT:
            raise UserError(f"there is no port {wanted} for gRPC: choose one with --grpc-port")
        credentials = None if self._certificate is None else self._certificate.credentials()
        port = await self._rpc.start(_at(self._host, wanted), credentials)
        if self._options.public_grpc is not None:
            return self._options.public_grpc
        if self._options.public_url is None:
            return _at(self._host, port)
        # Behind a proxy only the operator knows where it is.
        name = urlsplit(self._access.origin).hostname or ""
        return "" if self._certificate is None else _at(name, port)

    async def _serve_http(
        self, listening: socket.socket, runner: RunnerProcess, announce: Callable[[], object]
    ) -> None:
        server = _Server(self._http_config())
        loop = asyncio.get_running_loop()

        def end() -> None:
            self._site.closing.set()
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
        api = http_api(self._front, self._access)
        config = uvicorn.Config(
            WithApi(self._site.app, api, self._access, self._front.visits),
            http=partial(  # type: ignore[arg-type]
                Connection,
                access=self._access,
                limits=self._service.limits,
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


def _at(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
