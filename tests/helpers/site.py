"""The ladder's site in this process: requests by hand, without a socket."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from starlette.datastructures import Headers

from deepsea_arena.api.service import LadderService
from deepsea_ladder.store import Store
from deepsea_referee.clock import Clock, SystemClock
from deepsea_sdk.entropy import fresh_seed
from deepsea_web.access import Access
from deepsea_web.gateway import Gateway
from deepsea_web.site.app import Site
from deepsea_web.site.pages import ENDPOINTS, MEMBERS, PAGES

LOCAL = Access("http://127.0.0.1:8080")


@dataclass(frozen=True)
class Answer:
    """An answer, whole."""

    status: int
    headers: Headers
    body: bytes

    @property
    def text(self) -> str:
        """The body as text, unpacked."""
        packed = self.headers.get("content-encoding") == "gzip"
        return (gzip.decompress(self.body) if packed else self.body).decode()


def a_site(
    ladder: Store | LadderService,
    access: Access = LOCAL,
    clock: Clock | None = None,
    kept_us: int = 0,
) -> Site:
    """The site of a ladder, which makes a page anew for each request that comes after it."""
    if isinstance(ladder, Store):
        ladder = LadderService(ladder, entropy=fresh_seed)
    gateway = Gateway(ladder, clock or SystemClock())
    return Site(gateway, access, PAGES, ENDPOINTS, MEMBERS, kept_us)


def get(site: Site, url: str, method: str = "GET", **given: Any) -> Answer:
    """The answer to one request; `given` as for `ask`."""
    return asyncio.run(ask(site, url, method, **given))


def scope_of(
    url: str,
    method: str = "GET",
    *,
    headers: Mapping[str, str] | None = None,
    host: str = "127.0.0.1:8080",
    client: str = "127.0.0.1",
) -> dict[str, Any]:
    """A request without its body, as a server hands it to an application."""
    path, _, query = url.partition("?")
    raw = [(b"host", host.encode())]
    raw += [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    return {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": raw,
        "client": (client, 50000),
        "server": ("127.0.0.1", 8080),
    }


async def ask(
    site: Site,
    url: str,
    method: str = "GET",
    *,
    body: bytes | Iterable[bytes | None] = b"",
    whole: bool = True,
    noted: Callable[[Any], object] = lambda message: None,
    **said: Any,
) -> Answer:
    """The answer to one request, in a running loop; `said` as for `scope_of`.

    body   in one part or in several, each of which is asked for when the one before is read; at
           None the client leaves
    whole  whether the client sends all of it; else it stops after these parts
    noted  called with each message of the answer
    """
    coming = _coming(body, whole=whole)
    scope = scope_of(url, method, **said)
    sent: list[Any] = []

    async def receive() -> Any:
        part, more = next(coming, (None, False))
        if part is None and more:
            return {"type": "http.disconnect"}
        if part is None:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": part, "more_body": more}

    async def send(message: Any) -> None:
        sent.append(message)
        noted(message)

    await site.app(scope, receive, send)
    start, *rest = sent
    body = b"".join(message.get("body", b"") for message in rest)
    assert HTTPStatus(start["status"])
    return Answer(start["status"], Headers(raw=start["headers"]), body)


def _coming(
    body: bytes | Iterable[bytes | None], *, whole: bool
) -> Iterator[tuple[bytes | None, bool]]:
    """The parts of a body as they are asked for, and whether there is more."""
    if isinstance(body, bytes):
        yield body, not whole
        return
    for part in body:
        yield part, True
    if whole:
        yield b"", False
