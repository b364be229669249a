"""The process of the site: listens, and serves until a signal ends it.

Invariants: what is wrong with addresses or certificates is said before anything is served; Ctrl-C
and SIGTERM end it within a second or so, whatever is being read or watched.
"""

from __future__ import annotations

import asyncio
import errno
import resource
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvicorn

from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from deepsea_web.site.access import access
from deepsea_web.site.app import Site
from deepsea_web.site.connection import Connection
from deepsea_web.site.pages import ENDPOINTS, PAGES

BACKLOG: Final = 2048
MOST_OPEN: Final = 8192
"""Open files that are asked of the system: one for each reader."""
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


def serve(store: Store, options: ServeOptions, announce: Callable[[str], object]) -> None:
    """Serve the ladder until Ctrl-C or SIGTERM; `announce` gets the address, when it listens.

    Raises UserError if it cannot be served like that.
    """
    tls = _check_tls(options)
    host = "127.0.0.1" if options.host == "localhost" else options.host

    def reached(port: int) -> Site:
        found = access(
            host,
            port,
            public_url=options.public_url,
            proxies=options.trusted_proxies,
            tls=tls,
        )
        return Site(store, found, PAGES, ENDPOINTS)

    reached(options.port).close()  # what is not safe is refused before anybody can connect
    with closing(_listen(host, options.port)) as listening:
        site = reached(listening.getsockname()[1])
        config = uvicorn.Config(
            site.app,
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",  # what strangers send is no news
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=PATIENCE_S,
            ssl_certfile=options.tls_cert,
            ssl_keyfile=options.tls_key,
        )
        _open_many_files()
        address = site.access.origin + site.access.prefix
        try:
            asyncio.run(_serve(_Server(config), site, listening, lambda: announce(f"{address}/")))
        finally:
            site.close()


class _Server(uvicorn.Server):
    """A server that leaves signals to this module: uvicorn's would be raised again at the end."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(
    server: _Server, site: Site, listening: socket.socket, announce: Callable[[], object]
) -> None:
    loop = asyncio.get_running_loop()

    def end() -> None:
        site.closing.set()
        # The second time without waiting for answers.
        server.force_exit = server.should_exit
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


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        code = getattr(error, "errno", None)
        if code == errno.EADDRINUSE:
            raise UserError(
                f"port {port} of {host} is in use: choose another one with --port"
            ) from None
        if code == errno.EACCES:
            raise UserError(f"port {port} needs more rights: choose one above 1023") from None
        words = getattr(error, "strerror", None) or error
        raise UserError(f"--host {host} --port {port}: {words}") from None

    # For all that connect: asyncio does it by itself only for sockets that name their protocol, and
    # else a page of two parts waits 40 ms for the reader's word on the first.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _check_tls(options: ServeOptions) -> bool:
    """Whether there is TLS; raises UserError if its files cannot be used."""
    if options.tls_cert is None and options.tls_key is None:
        return False
    if options.tls_cert is None or options.tls_key is None:
        raise UserError("--tls-cert and --tls-key are given together")
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
            options.tls_cert,
            options.tls_key,
            password=lambda: "",  # else it would be asked for on the terminal
        )
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or error
        raise UserError(
            f"--tls-cert {options.tls_cert} --tls-key {options.tls_key}: {words}"
        ) from None
    return True


def _open_many_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_OPEN if hard == resource.RLIM_INFINITY else min(MOST_OPEN, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
