"""The ladder's site on a port of this machine, for tests that need a socket."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from deepsea_web.site.app import Site


@contextmanager
def serving(site: Site) -> Iterator[str]:
    """Serve a site by a thread; its address without a slash at the end."""
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listening:
        config = uvicorn.Config(
            site.app, http="h11", ws="none", lifespan="off", log_config=None, access_log=False
        )
        server = uvicorn.Server(config)
        loop = asyncio.new_event_loop()
        thread = threading.Thread(
            target=loop.run_until_complete, args=(server.serve(sockets=[listening]),)
        )
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:

            def end() -> None:
                site.gateway.closing.set()
                server.should_exit = True

            loop.call_soon_threadsafe(end)
            thread.join()
            loop.close()
            site.gateway.close()
