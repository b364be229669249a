"""The site's application: from a request to a page, its JSON or CSV, or a refusal.

Invariants: every address is in one table of routes, and what is not there is 404; nothing but GET
and HEAD is answered; a page is made in a thread, at most THREADS at a time and once for everybody
who asks for it meanwhile; what waits is bounded; every answer has the policy's headers.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp

from deepsea_arena.wire.csv import csv_lines
from deepsea_arena.wire.json import json_text
from deepsea_ladder.store import Store
from deepsea_ladder.store.revision import Revision
from deepsea_referee.errors import UserError
from deepsea_referee.timing.clock import Clock, SystemClock
from deepsea_rules.printable import one_line, quoted
from deepsea_sdk import __version__
from deepsea_web.policy import Guarded
from deepsea_web.site.access import Access, Gate
from deepsea_web.site.broadcast import Broadcast
from deepsea_web.site.cache import Cache, Rendered
from deepsea_web.site.errors import Refusal, refusal
from deepsea_web.site.formats import KINDS
from deepsea_web.site.look import Look
from deepsea_web.site.page import LONGEST, Page, Query
from deepsea_web.site.static import static_files

THREADS: Final = 3
MOST_WAITING: Final = 64
"""Requests that wait for a thread; what comes then is 503."""
ANYBODY: Final = "anybody"
"""Who looks: everybody sees the same."""
_FOR_EVER: Final = "public, max-age=31536000, immutable"
_AGAIN: Final = "no-cache"  # kept, and asked for every time whether it is still so
_log = logging.getLogger(__name__)
T = TypeVar("T")
Endpoint = Callable[["Site", Request], Awaitable[Any]]
"""Answers a request by itself, where a page is not enough: a stream, a file."""


class _Wanted(NamedTuple):
    """What a request asks for: the key under which the answer is kept."""

    page: int
    query: tuple[tuple[str, str], ...]
    format: str
    embed: bool


class Site:
    """A ladder's site; `app` serves it."""

    def __init__(
        self,
        store: Store,
        access: Access,
        pages: Sequence[Page[Any]],
        endpoints: Mapping[str, Endpoint] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`endpoints` has by path what answers by itself."""
        self.store = store
        self.access = access
        self.look = Look(access, [(page.nav, page.path) for page in pages if page.nav])
        self.closing = asyncio.Event()
        """Set when the server ends: streams end then."""
        self.broadcast = Broadcast(self, clock or SystemClock(), access.url)
        self._pages = pages
        self._cache = Cache()
        self._threads = ThreadPoolExecutor(THREADS, "page")
        self._waiting = 0
        self._making: dict[tuple[_Wanted, Revision], asyncio.Task[Rendered]] = {}
        self.app = self._application(endpoints or {})

    def close(self) -> None:
        """End the threads; what they do now is done first."""
        self._threads.shutdown(cancel_futures=True)

    def _application(self, endpoints: Mapping[str, Endpoint]) -> ASGIApp:
        routes: list[BaseRoute] = []
        for number, page in enumerate(self._pages):
            routes.append(Route(page.path, self._endpoint(number, embed=False)))
            if page.embed:
                routes.append(
                    Route(
                        f"/embed{page.embed_path or page.path}", self._endpoint(number, embed=True)
                    )
                )
        for path, endpoint in endpoints.items():
            routes.append(Route(path, self._own(endpoint)))
        routes.append(Route("/static/{name}", _static))
        if self.access.prefix:
            routes = [Mount(self.access.prefix, routes=routes), Route("/", self._to_prefix)]
        inner = Starlette(
            routes=routes,
            exception_handlers={HTTPException: self._refused, Exception: self._refused},
        )
        inner.router.redirect_slashes = False
        embeds = f"{self.access.prefix}/embed/"
        return Guarded(Gate(inner, self.access), self.access.hosts, embeds)

    def _endpoint(self, number: int, *, embed: bool) -> Callable[[Request], Awaitable[Response]]:
        page = self._pages[number]

        async def answer(request: Request) -> Response:
            try:
                wanted = _wanted(request, number, page, embed=embed)
                return await self._answer(request, page, wanted)
            except Exception as error:  # noqa: BLE001  (every error has its page)
                return await self._refused(request, error)

        return answer

    def _own(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Any]]:
        async def answer(request: Request) -> Any:
            try:
                return await endpoint(self, request)
            except Exception as error:  # noqa: BLE001  (every error has its page)
                return await self._refused(request, error)

        return answer

    async def _answer(self, request: Request, page: Page[Any], wanted: _Wanted) -> Response:
        revision = await self.in_thread(self.store.revision)
        tag = self.tag(revision, wanted)
        headers = {"ETag": tag, "Cache-Control": _AGAIN, "Vary": "Accept-Encoding"}
        if same(request, tag):
            return Response(status_code=304, headers=headers)
        rendered = self._cache.get((wanted, revision))
        if rendered is None:
            path = dict(request.path_params)
            rendered = await self._made(page, wanted, revision, path)
        if wanted.format == "csv":
            headers["Content-Disposition"] = 'attachment; filename="deepsea.csv"'
        return sent(request, rendered, headers)

    async def _made(
        self, page: Page[Any], wanted: _Wanted, revision: Revision, path: Mapping[str, str]
    ) -> Rendered:
        """The page, made once for all who wait for it."""
        key = wanted, revision
        if key not in self._making:
            given = {name: value for name, value in wanted.query if name not in path}
            query = Query(path, given)

            async def make() -> Rendered:
                try:
                    made, still = await self.in_thread(
                        lambda: (self._render(page, wanted, query), self.store.revision())
                    )
                    # A page reads more than once: if the ladder went on meanwhile, it is not kept.
                    if still == revision:
                        self._cache.put(key, made)
                    return made
                finally:
                    del self._making[key]

            self._making[key] = asyncio.create_task(make())
        # One who leaves does not end it for the others.
        return await asyncio.shield(self._making[key])

    def _render(self, page: Page[Any], wanted: _Wanted, query: Query) -> Rendered:
        data = page.read(self.store, query)
        match wanted.format:
            case "json":
                text = json_text(data)
            case "csv":
                assert page.rows is not None
                text = "".join(csv_lines(page.rows(data)))
            case _:
                text = self.look.page(page, query, data, embed=wanted.embed)
        return Rendered.of(text, KINDS[wanted.format])

    def tag(self, revision: Revision, *asked: object) -> str:
        """The ETag of what was asked for, at a revision."""
        # Weak: the packed form has the same one.
        where = self.access.origin, self.access.prefix
        text = repr((__version__, where, tuple(revision), ANYBODY, asked))
        return f'W/"{hashlib.sha256(text.encode()).hexdigest()[:24]}"'

    async def in_thread(self, work: Callable[[], T]) -> T:
        """The result of work that reads the store; 503 if too much of it waits."""
        if self._waiting >= MOST_WAITING:
            raise HTTPException(503, headers={"Retry-After": "1"})
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= 1

    async def _refused(self, request: Request, error: Exception) -> Response:
        answer = refusal(error)
        if answer.status >= 500 and not isinstance(error, HTTPException):
            # The operator's terminal, not the reader's: it may name files.
            where = one_line(request.scope["path"], 200)
            unknown = not isinstance(error, _known())
            _log.error("%s: %s", where, one_line(str(error)), exc_info=error if unknown else None)
        headers = {"Cache-Control": "no-store", **(getattr(error, "headers", None) or {})}
        wanted = request.query_params.get("format")
        if wanted == "json" or request.scope["path"].endswith(".json"):
            body, kind = json_text({"error": answer.sentence}), KINDS["json"]
        elif wanted == "csv":
            body, kind = f"{answer.sentence}\n", "text/plain; charset=utf-8"
        else:
            body, kind = self._refusal_page(answer), KINDS["html"]
        return Response(body, answer.status, headers, media_type=kind)

    def _refusal_page(self, answer: Refusal) -> str:
        return self.look.refusal(answer)

    async def _to_prefix(self, request: Request) -> Response:
        return RedirectResponse(f"{self.access.prefix}/", 307)


def _known() -> tuple[type[Exception], ...]:
    from deepsea_ladder.errors import LadderError

    return LadderError, UserError


def _wanted(request: Request, number: int, page: Page[Any], *, embed: bool) -> _Wanted:
    """What is asked for. Raises UserError for parameters that are given twice, or too long."""
    given: dict[str, str] = {}
    chosen = "html"
    for name, value in request.query_params.multi_items():
        if name not in (*page.parameters, "format"):
            continue  # so that nobody fills the cache with addresses of one page
        if len(value) > LONGEST:
            raise UserError(f"{name} has more than {LONGEST} characters")
        if name in given:
            raise UserError(f"{name} is given twice")
        if name == "format":
            chosen = value
        elif value:
            given[name] = value
    if chosen not in page.formats or (embed and chosen != "html"):
        known = ", ".join(("html",) if embed else page.formats)
        raise UserError(f"this page comes as {known}, not as {quoted(chosen, 40)}")
    for name, value in request.path_params.items():
        given[name] = str(value)
    return _Wanted(number, tuple(sorted(given.items())), chosen, embed)


def same(request: Request, tag: str) -> bool:
    """Whether the reader has this already."""
    given = request.headers.get("if-none-match", "")
    return tag in [one.strip() for one in given.split(",")]


def sent(
    request: Request, rendered: Rendered, headers: Mapping[str, str], status: int = 200
) -> Response:
    """A body as the reader takes it: packed, or as it is."""
    packed = rendered.packed is not None and _takes_gzip(request)
    body = rendered.packed if packed and rendered.packed is not None else rendered.body
    encoding = {"Content-Encoding": "gzip"} if packed else {}
    return Response(body, status, {**headers, **encoding}, media_type=rendered.kind)


def _takes_gzip(request: Request) -> bool:
    for word in request.headers.get("accept-encoding", "").lower().split(","):
        name, _, quality = word.partition(";")
        if name.strip() == "gzip":
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


async def _static(request: Request) -> Response:
    found = static_files().get(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    return sent(request, found, {"Cache-Control": _FOR_EVER, "Vary": "Accept-Encoding"})
