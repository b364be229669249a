"""An application on a port of this machine, for tests that need a socket: one way for all."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

import uvicorn
from starlette.types import ASGIApp

from deepsea_web.site.app import Site


class Listening(NamedTuple):
    """What listens."""

    port: int
    loop: asyncio.AbstractEventLoop


@contextmanager
def listening(
    app: Callable[[int], ASGIApp], end: Callable[[], object] = lambda: None
) -> Iterator[Listening]:
    """Serve what `app` makes for a port by a thread; `end` ends its streams, in the loop."""
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as opened:
        # As `ladder serve` does: else a connection's second answer waits for 40 ms.
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        port = opened.getsockname()[1]
        config = uvicorn.Config(
            app(port),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
        )
        server = uvicorn.Server(config)
        loop = asyncio.new_event_loop()
        serving = server.serve(sockets=[opened])
        thread = threading.Thread(target=loop.run_until_complete, args=(serving,))
        thread.start()
        try:
            yield Listening(port, loop)
        finally:

            def stop() -> None:
                end()
                server.should_exit = True

            loop.call_soon_threadsafe(stop)
            thread.join()
            loop.close()


@contextmanager
def site_at(site: Site) -> Iterator[str]:
    """Serve a site; its address without a slash at the end."""
    with (
        closing(site.gateway),
        listening(lambda _: site.app, site.gateway.closing.set) as found,
    ):
        yield f"http://127.0.0.1:{found.port}"
