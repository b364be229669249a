"""Serves a ladder: the site and the HTTP API as one application, and the runner beside them.

Invariants: the API is below ROOT of the public address and nowhere else, with the gate and the
headers of the site; readers on this machine are not counted, since that may be everybody; nothing
listens that is not safe; at a signal streams end at once and answers within PATIENCE_S, and the
runner hands its games back.
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
from starlette.types import ASGIApp, Receive, Scope, Send

from deepsea_arena.api.ladder_api import ROOT
from deepsea_arena.api.service import LadderService
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from deepsea_referee.system import open_many_files
from deepsea_referee.timing.clock import SystemClock
from deepsea_sdk.entropy import fresh_seed
from deepsea_web.server.access import LOOPBACK, Access, Gate, access
from deepsea_web.server.connections import BACKLOG, Certificate, Connection, listen
from deepsea_web.server.gateway import Gateway
from deepsea_web.server.http_api import http_api
from deepsea_web.server.monitoring import monitored
from deepsea_web.server.runner_process import RunnerProcess, runner_command
from deepsea_web.site.app import Site
from deepsea_web.site.pages import ENDPOINTS, MEMBERS, PAGES

PATIENCE_S = 1
"""The time that answers have to end, once a signal has come."""
HSTS = ("Strict-Transport-Security", f"max-age={365 * 86_400}")
"""For a year browsers that trust the certificate ask for this name by TLS alone."""


def with_api(site: ASGIApp, api: ASGIApp, access: Access) -> ASGIApp:
    """The site's application, which guards itself, and the API's at its address."""
    root = f"{access.prefix}{ROOT}"
    guarded = Gate(api, access)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(f"{root}/"):
            await guarded({**scope, "root_path": root}, receive, send)
        else:
            await site(scope, receive, send)

    return app


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    host: str = "127.0.0.1"
    port: int = 8080
    """0: one of the system's choice."""
    public_url: str | None = None
    trusted_proxies: Sequence[str] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    private: bool = False
    install: str = ""
    """The line that installs the program for authors; "": from the package index."""
    workers: int = 1
    """Of the runner; 0: no runner is started."""
    until: str | None = None
    """When it pauses: `settled` or a time."""


def serve(target: str, options: ServeOptions, announce: Callable[[str], object]) -> None:
    """Serve a ladder until Ctrl-C or SIGTERM; `announce` gets its address when it listens.

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
    # What is not safe is refused before anybody can connect.
    is_local = reached(options.port).is_local
    with (
        Store.open(target) as store,
        closing(listen(host, options.port)) as listening,
    ):
        if not is_local:
            _check_isolation(store)
        service = LadderService(
            store,
            entropy=fresh_seed,
            private=options.private,
            install=options.install,
            is_local=is_local,
        )
        open_many_files()
        reach = reached(listening.getsockname()[1])
        with closing(Gateway(service, SystemClock())) as gateway:
            service.url = f"{reach.origin}{reach.prefix}/"
            command = runner_command(options.workers, options.until)
            runner = RunnerProcess(command, target, gateway.clock) if options.workers else None
            config = partial(_http_config, gateway, reach, options, certificate, runner)
            asyncio.run(_serve(config, listening, gateway, runner, announce))


async def _serve(
    config: Callable[[], uvicorn.Config],
    listening: socket.socket,
    gateway: Gateway,
    runner: RunnerProcess | None,
    announce: Callable[[str], object],
) -> None:
    """Serve until a signal comes; the runner ends with it."""
    try:
        if runner is not None:
            await runner.start()
        following = asyncio.create_task(gateway.follow_settings())
        server = _Server(config())
        loop = asyncio.get_running_loop()

        def end() -> None:
            gateway.closing.set()
            if server.should_exit:  # the second time without waiting for answers
                server.force_exit = True
                if runner is not None:
                    runner.kill()
            server.should_exit = True

        signals = (signal.SIGINT, signal.SIGTERM)
        for one in signals:
            loop.add_signal_handler(one, end)
        try:
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            announce(gateway.service.url)
            await serving
        finally:
            following.cancel()
            for one in signals:
                loop.remove_signal_handler(one)
    finally:
        gateway.closing.set()
        if runner is not None:
            await runner.stop()


def _http_config(
    gateway: Gateway,
    access: Access,
    options: ServeOptions,
    certificate: Certificate | None,
    runner: RunnerProcess | None,
) -> uvicorn.Config:
    site = Site(gateway, access, PAGES, ENDPOINTS, MEMBERS)
    app = with_api(site.app, http_api(gateway, access), access)
    # Not for the names of this machine, whose other ports are other programs'.
    pinned = certificate is not None and access.hosts != frozenset(LOOPBACK)
    config = uvicorn.Config(
        monitored(app, gateway, access, lambda: runner is not None and runner.pid is not None),
        http=partial(  # type: ignore[arg-type]
            Connection, access=access, limits=lambda: gateway.service.limits, opened=Counter()
        ),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # what strangers send is no news
        access_log=False,
        server_header=False,
        headers=[HSTS] if pinned else None,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=PATIENCE_S,
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
    )
    if certificate is not None:
        config.load()
        config.ssl = certificate.context()
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
        if stored.closed_at is None and stored.settings.isolation == "process":
            raise UserError(
                f"season {stored.name!r} plays bots without a sandbox, so it cannot be served to "
                "other machines, whose users may upload bots: close it, or serve on 127.0.0.1 "
                "without --trusted-proxy and --public-url"
            )
