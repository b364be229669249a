"""A server of a ladder: the site and the HTTP API as one application, and the runner beside them.

Start reading at `serve`. The runner is a process of its own, which plays games and checks bots.

Invariants: the API is below ROOT of the public address and nowhere else, with the gate and the
headers of the site; readers on this machine are not counted, since that may be everybody; nothing
listens that is not safe; at a signal streams end at once and responses within PATIENCE_S, and the
runner gives its games back; the runner inherits no open file but the terminal's error output, and
no secret from the environment; it ends with the server, however that ends; when it ends by itself
or cannot be started, it is started again, after a longer pause each time until it has run for
HEALTHY_S.
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
"""Seconds that responses have to end, once a signal has come."""
HSTS = ("Strict-Transport-Security", f"max-age={365 * 86_400}")
"""The header after which browsers that trust the certificate use only TLS for a year."""


def with_api(site: ASGIApp, api: ASGIApp, access: Access) -> ASGIApp:
    """Return an application with the API below ROOT and the site at all other addresses.

    The API gets a Gate here; the site is expected to have one.
    """
    root = f"{access.prefix}{ROOT}"
    guarded_api = Gate(api, access)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(f"{root}/"):
            await guarded_api({**scope, "root_path": root}, receive, send)
        else:
            await site(scope, receive, send)

    return app


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """The options of `deepsea-referee ladder serve`."""

    host: str = "127.0.0.1"
    """The address to listen at."""
    port: int = 8080
    """The port to listen at; 0: one that the system chooses."""
    public_url: str | None = None
    """The address that clients use; None: where the server listens."""
    trusted_proxies: Sequence[str] = ()
    """The IP addresses of proxies in front of the server."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    private: bool = False
    """True if visitors may read nothing."""
    install: str = ""
    """The line that installs the program for authors; "": from the package index."""
    workers: int = 1
    """Number of workers of the runner; 0: no runner is started."""
    until: str | None = None
    """The time after which the runner pauses, or `settled`; None: never."""


def serve(target: str, options: ServeOptions, announce: Callable[[str], object]) -> None:
    """Serve a ladder until Ctrl-C or SIGTERM.

    target    the ladder, as --store takes it
    announce  called with the ladder's address once the server listens
    Raises UserError if it cannot be served with these options.
    """
    certificate = _certificate_of(options)
    host = "127.0.0.1" if options.host == "localhost" else options.host
    access_at_port = partial(
        access,
        host,
        public_url=options.public_url,
        proxies=options.trusted_proxies,
        tls=certificate is not None,
    )
    # Checks that the options are safe, before anybody can connect.
    is_local = access_at_port(options.port).is_local
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
        bound_port = listening.getsockname()[1]  # the system's choice for port 0
        site_access = access_at_port(bound_port)
        with closing(Gateway(service, SystemClock())) as gateway:
            service.url = f"{site_access.origin}{site_access.prefix}/"
            command = runner_command(options.workers, options.until)
            runner = RunnerProcess(command, target, gateway.clock) if options.workers else None
            make_config = partial(_http_config, gateway, site_access, options, certificate, runner)
            asyncio.run(_serve(make_config, listening, gateway, runner, announce))


async def _serve(
    make_config: Callable[[], uvicorn.Config],
    listening: socket.socket,
    gateway: Gateway,
    runner: RunnerProcess | None,
    announce: Callable[[str], object],
) -> None:
    """Run the server and the runner until a signal comes.

    At a first signal streams end, and responses have PATIENCE_S to end; at a second one everything
    ends at once.

    make_config  returns uvicorn's settings; called within the event loop
    """
    try:
        if runner is not None:
            await runner.start()
        following_settings = asyncio.create_task(gateway.follow_settings())
        server = _Server(make_config())
        loop = asyncio.get_running_loop()

        def end() -> None:
            """Begin to end the server at a first signal, and end it at once at a second one."""
            gateway.closing.set()
            is_second_signal = server.should_exit
            if is_second_signal:
                server.force_exit = True
                if runner is not None:
                    runner.kill()
            server.should_exit = True

        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, end)
        try:
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            announce(gateway.service.url)
            await serving
        finally:
            following_settings.cancel()
            for number in signals:
                loop.remove_signal_handler(number)
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
    """Return uvicorn's settings for the site and the API as one application."""
    site = Site(gateway, access, PAGES, ENDPOINTS, MEMBERS)
    app = with_api(site.app, http_api(gateway, access), access)
    # Not for the names of this machine, where other ports belong to other programs.
    has_hsts = certificate is not None and access.hosts != frozenset(LOOPBACK)

    def has_runner() -> bool:
        return runner is not None and runner.pid is not None

    config = uvicorn.Config(
        monitored(app, gateway, access, has_runner),
        http=partial(  # type: ignore[arg-type]
            Connection, access=access, limits=lambda: gateway.service.limits, opened=Counter()
        ),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # no warnings, since strangers cause them with malformed requests
        access_log=False,
        server_header=False,
        headers=[HSTS] if has_hsts else None,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=PATIENCE_S,
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
    )
    if certificate is not None:  # instead of uvicorn's own, which reads the files only once
        config.load()
        config.ssl = certificate.context()
    return config


class _Server(uvicorn.Server):
    """A server that leaves signals to `_serve`; uvicorn would raise them again at its end."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _certificate_of(options: ServeOptions) -> Certificate | None:
    """Return the certificate that the options name; None to serve without TLS.

    Raises UserError if only one of certificate and key is given, or if they cannot be used.
    """
    if options.tls_cert is None and options.tls_key is None:
        return None
    if options.tls_cert is None or options.tls_key is None:
        raise UserError("--tls-cert and --tls-key are given together")
    return Certificate(options.tls_cert, options.tls_key)


def _check_isolation(store: Store) -> None:
    """Raise UserError if an open season plays bots without a sandbox.

    Call it for a ladder that other machines reach, where strangers may upload bots.
    """
    for season in store.seasons.all():
        if season.closed_at is None and season.settings.isolation == "process":
            raise UserError(
                f"season {season.name!r} plays bots without a sandbox, so it cannot be served to "
                "other machines, whose users may upload bots: close it, or serve on 127.0.0.1 "
                "without --trusted-proxy and --public-url"
            )


# -------------------------------------------------------------------------------------- the runner

FIRST_PAUSE_S = 2
"""Seconds before a runner that has ended is started again the first time; then they double."""
LONGEST_PAUSE_S = 60
HEALTHY_S = 300
"""Seconds of running after which the pause is the first one again."""
PATIENCE_US = 10_000_000
"""The time that the runner may take to give its games back."""
STORE = "DEEPSEA_LADDER"
"""The variable that names the store to the runner; a command line could be read by other users."""
SECRET = frozenset({"DEEPSEA_LADDER_TOKEN", "DEEPSEA_TOKEN"})
"""Variables that the runner does not inherit."""
_CHILD = Path(__file__).with_name("runner_child.py")
_log = logging.getLogger(__name__)


def runner_command(workers: int, until: str | None = None) -> list[str]:
    """Return the command of a runner that plays everything that a ladder has to play.

    until  the time after which the runner pauses, or "settled" to pause once the order of the bots
           is settled; None never to pause
    """
    return [
        sys.executable,
        *("-m", "deepsea_cli", "ladder", "run", "--forever", "--workers", str(workers)),
        *(() if until is None else ("--until", until)),
    ]


class RunnerProcess:
    """A command that runs beside a server until `stop`, and is started again when it ends.

    One event loop uses it.

    command  the program and its arguments
    store    the ladder, as --store takes it
    """

    def __init__(self, command: Sequence[str], store: str, clock: Clock) -> None:
        """Prepare the command, with an environment of its own; `start` starts it."""
        self._command = command
        self._environment = _runner_environment(os.environ, store)
        self._clock = clock
        self.ended = asyncio.Event()
        """Set each time the process has ended or could not be started."""
        self._stopping = asyncio.Event()
        """Set by `stop` and `kill`: the process is not started again."""
        self._process: asyncio.subprocess.Process | None = None
        """The running process; None between its end and the next start."""
        self._restarting: asyncio.Task[None] | None = None
        """Waits for the process and starts it again; None before `start`."""

    @property
    def pid(self) -> int | None:
        """The id of the process; None if it is not running at this moment."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Start the process; call it in the main thread, with which the process ends."""
        await self._start_process()
        self._restarting = asyncio.create_task(self._restart_until_stopped())

    async def stop(self) -> None:
        """Ask the process to end, and wait for its end. Kill it after PATIENCE_US.

        A process that ends in time gives the games that it plays back to the ladder.
        """
        self._stopping.set()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.terminate()
        if self._restarting is not None:  # this task returns at the end of the process
            try:
                async with time_limit(self._clock, PATIENCE_US):
                    await asyncio.shield(self._restarting)
            except TimeoutError:
                self.kill()
                await self._restarting

    def kill(self) -> None:
        """Kill the process at once; the next runner plays its games again."""
        self._stopping.set()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def _start_process(self) -> None:
        """Start the process. If the system refuses that, log why: `_process` then stays None."""
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
                start_new_session=True,  # Ctrl-C in the terminal reaches only the server
            )
        except OSError as error:  # such as too many open files or processes
            _log.error("the runner cannot be started: %s; another try soon", error.strerror)
            self.ended.set()

    async def _wait_for_end(self, process: asyncio.subprocess.Process) -> bool:
        """Wait until the process ends, and return True if it has run for HEALTHY_S.

        Log a warning about its end, unless it was to be stopped.
        """
        began_us = self._clock.now_us()
        status = await process.wait()
        self._process = None
        was_healthy = self._clock.now_us() - began_us >= HEALTHY_S * 1_000_000
        self.ended.set()
        if not self._stopping.is_set():
            _log.warning("the runner has ended with status %d; another starts soon", status)
        return was_healthy

    async def _restart_until_stopped(self) -> None:
        """Start the process again, after a pause, whenever it has ended, until `stop` or `kill`.

        Each pause is twice as long as the last one, up to LONGEST_PAUSE_S. Once a process has run
        for HEALTHY_S, the pauses begin with FIRST_PAUSE_S again.
        """
        pause_s = FIRST_PAUSE_S
        while True:
            if self._process is not None:  # else it could not be started
                was_healthy = await self._wait_for_end(self._process)
                if was_healthy:
                    pause_s = FIRST_PAUSE_S
            # Pause, but end the pause at once when the process is to be stopped.
            with suppress(TimeoutError):
                async with time_limit(self._clock, pause_s * 1_000_000):
                    await self._stopping.wait()
            if self._stopping.is_set():
                return
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            await self._start_process()


def _runner_environment(server_environment: Mapping[str, str], store: str) -> dict[str, str]:
    """Return the runner's environment: that of the server without secrets, and the store."""
    public = {name: value for name, value in server_environment.items() if name not in SECRET}
    return {**public, STORE: store}
