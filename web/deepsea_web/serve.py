"""Serves a ladder: the site and the HTTP API as one application, and the runner beside them.

Invariants: the API is below ROOT of the public address and nowhere else, with the gate and the
headers of the site; readers on this machine are not counted, since that may be everybody; nothing
listens that is not safe; at a signal streams end at once and answers within PATIENCE_S, and the
runner hands its games back.

The runner beside a server: a process of its own, which plays and checks bots.

Invariants: it inherits no open file but the terminal's error output, and no token or address of a
key from the environment; it ends with the server, however that ends; when it ends by itself or
cannot be started, it is started again, later each time until it has lived for a while.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from deepsea_arena.api.ladder_api import ROOT
from deepsea_arena.api.service import LadderService
from deepsea_ladder.store import Store
from deepsea_referee.clock import Clock, SystemClock, time_limit
from deepsea_referee.errors import UserError
from deepsea_referee.system import open_many_files
from deepsea_sdk.entropy import fresh_seed
from deepsea_web.access import (
    BACKLOG,
    LOOPBACK,
    Access,
    Certificate,
    Connection,
    Gate,
    access,
    listen,
)
from deepsea_web.gateway import Gateway
from deepsea_web.http_api import http_api, monitored
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


FIRST_PAUSE_S = 2
LONGEST_PAUSE_S = 60
HEALTHY_S = 300
"""The time after which a runner that ends is started again as soon as the first time."""
PATIENCE_US = 10_000_000
"""The time that it may take to hand its games back."""
STORE = "DEEPSEA_LADDER"
"""The variable that tells it the store: other users of the machine can read command lines."""
SECRET = frozenset({"DEEPSEA_LADDER_TOKEN", "DEEPSEA_TOKEN"})
_CHILD = Path(__file__).with_name("runner_child.py")
_log = logging.getLogger(__name__)


def runner_command(workers: int, until: str | None = None) -> list[str]:
    """The command of a runner for everything that a ladder has to play, until `settled` or a time
    if one is given."""
    return [
        sys.executable,
        *("-m", "deepsea_cli", "ladder", "run", "--forever", "--workers", str(workers)),
        *(() if until is None else ("--until", until)),
    ]


class RunnerProcess:
    """A command that runs beside a server until `stop`; one event loop uses it.

    store  the ladder, as --store takes it
    """

    def __init__(self, command: Sequence[str], store: str, clock: Clock) -> None:
        self._command = command
        self._environment = _environment(os.environ, store)
        self._clock = clock
        self.ended = asyncio.Event()
        """Set each time it has ended or could not be started."""
        self._ending = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Its process; None if it is not running at this moment."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Start it; called in the main thread, whose end is its end."""
        await self._begin()
        self._task = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """Let it give its games back, and end it."""
        self._ending.set()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.terminate()
        if self._task is not None:
            try:
                async with time_limit(self._clock, PATIENCE_US):
                    await asyncio.shield(self._task)
            except TimeoutError:
                self.kill()
                await self._task

    def kill(self) -> None:
        """End it at once; the next run plays its games again."""
        self._ending.set()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def _begin(self) -> None:
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(_CHILD),
                str(os.getpid()),
                *self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=self._environment,
                close_fds=True,
                start_new_session=True,  # Ctrl-C is the server's to pass on
            )
        except OSError as error:  # no file or process is free
            _log.error("the runner cannot be started: %s; another try soon", error.strerror)
            self.ended.set()

    async def _keep(self) -> None:
        pause = FIRST_PAUSE_S
        while True:
            if self._process is not None:
                began_us = self._clock.now_us()
                status = await self._process.wait()
                self._process = None
                if self._clock.now_us() - began_us >= HEALTHY_S * 1_000_000:
                    pause = FIRST_PAUSE_S
                self.ended.set()
                if not self._ending.is_set():
                    _log.warning("the runner has ended with status %d; another starts soon", status)
            with suppress(TimeoutError):
                async with time_limit(self._clock, pause * 1_000_000):
                    await self._ending.wait()
            if self._ending.is_set():
                return
            pause = min(2 * pause, LONGEST_PAUSE_S)
            await self._begin()


def _environment(given: Mapping[str, str], store: str) -> dict[str, str]:
    kept = {name: value for name, value in given.items() if name not in SECRET}
    return {**kept, STORE: store}
