"""The site's application: from a request to a page, its CSV, or a refusal.

Invariants: every address is in one table of routes, and any other one is 404; nothing but GET
and HEAD is answered, but for the forms of people with an account; a page is made in a thread, at
most THREADS at a time and once for everybody who asks for it meanwhile, with another navigation for
those with an account; the queue is bounded; every answer has the policy's headers.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from deepsea_arena.api.callers import READER
from deepsea_arena.api.errors import ApiError
from deepsea_arena.api.local import LocalLadder
from deepsea_arena.documents import csv_lines, json_text
from deepsea_ladder.errors import LadderError
from deepsea_ladder.store.counts import Revision
from deepsea_referee.errors import UserError
from deepsea_rules.errors import InvalidRecord
from deepsea_rules.printable import one_line, quoted
from deepsea_sdk import __version__
from deepsea_web.http import NO_STORE, Guarded, name_routes
from deepsea_web.server.access import Access, Gate
from deepsea_web.server.gateway import Gateway
from deepsea_web.site.broadcast import Broadcast
from deepsea_web.site.members import Answers, Members, MembersOnly, RequestHandler
from deepsea_web.site.page import Page, Query, parameters_of
from deepsea_web.site.rendering import (
    KINDS,
    Cache,
    PageRenderer,
    Rendered,
    refusal,
    same,
    sent,
    static_files,
)
from deepsea_web.site.sessions import MEMBER, Seen, SessionAuth

_FOR_EVER = "public, max-age=31536000, immutable"
_AGAIN = "no-cache"  # kept, and asked for every time whether it is still so
_log = logging.getLogger(__name__)
Endpoint = Callable[["Site", Request], Awaitable[Any]]
"""Answers a request by itself, where a page is not enough: a stream, a file."""


class _Wanted(NamedTuple):
    """The key under which the answer to a request is kept."""

    page: int
    query: tuple[tuple[str, str], ...]
    format: str
    member: bool = False
    """Whether it is for somebody with an account."""


class Site:
    """A ladder's site; `app` serves it."""

    def __init__(
        self,
        gateway: Gateway,
        access: Access,
        pages: Sequence[Page[Any]],
        endpoints: Mapping[str, Endpoint],
        members: Members,
    ) -> None:
        """`endpoints` has by path what answers by itself; `members` what needs an account."""
        self.gateway = gateway
        self.store = gateway.service.public
        self.ladder = LocalLadder(gateway.service, READER)
        self.access = access
        links = [(page.nav, page.path) for page in pages if page.nav]
        self.renderer = PageRenderer(access, links, private=gateway.service.private)
        self.broadcast = Broadcast(gateway, access.url)
        self.sessions = SessionAuth(access, gateway)
        self._answers = Answers(self.sessions, members, self.renderer, self.with_error_pages)
        self._pages = pages
        self._cache = Cache()
        self._making: dict[tuple[_Wanted, Revision], asyncio.Task[Rendered]] = {}
        self.app = self._application(endpoints)

    def _application(self, endpoints: Mapping[str, Endpoint]) -> ASGIApp:
        routes: list[BaseRoute] = []
        for number, page in enumerate(self._pages):
            routes.append(Route(page.path, self._endpoint(number)))
        for path, endpoint in endpoints.items():
            routes.append(Route(path, self.with_error_pages(partial(endpoint, self))))
        routes += [Route("/static/{name}", _static), *self._answers.routes()]
        name_routes(routes)
        if self.access.prefix:
            routes = [Mount(self.access.prefix, routes=routes), Route("/", self._to_prefix)]
        inner = Starlette(
            routes=routes,
            exception_handlers={HTTPException: self.refused, Exception: self.refused},
        )
        inner.router.redirect_slashes = False
        app: ASGIApp = inner
        if self.renderer.private:
            app = MembersOnly(inner, self.sessions, self._answers.open_paths(), self.refused)
        return Guarded(Gate(self._counted(app), self.access), self.access.hosts)

    def _counted(self, app: ASGIApp) -> ASGIApp:
        """An application for those who have not asked for too many pages."""
        free = f"{self.access.prefix}/static/"  # browsers keep these; a page has several

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            answer = app
            if scope["type"] == "http" and not scope["path"].startswith(free):
                try:
                    self.gateway.count_visit(scope["client"][0])
                except ApiError as error:
                    answer = await self.refused(Request(scope), error)
            await answer(scope, receive, send)

        return counted

    def _endpoint(self, number: int) -> Callable[[Request], Awaitable[Response]]:
        page = self._pages[number]

        async def answer(request: Request) -> Response:
            wanted = _wanted(request, number, page)
            if wanted.format == "html" and (seen := await self._member(request)):
                personal = await self._personal(request, page, wanted, seen)
                if personal is not None:
                    return personal
                wanted = wanted._replace(member=True)
            return await self._answer(request, page, wanted)

        return self.with_error_pages(answer)

    def with_error_pages(self, answer: RequestHandler) -> RequestHandler:
        """The same handler with a page for every error."""

        async def answered(request: Request) -> Any:
            try:
                return await answer(request)
            except Exception as error:  # noqa: BLE001  (every error has its page)
                return await self.refused(request, error)

        return answered

    async def _member(self, request: Request) -> Seen | None:
        """Who asks, if it is somebody with an account."""
        if not self.sessions.session.read(request.headers.getlist("cookie")):
            return None
        seen = await self.sessions.seen(request)
        return None if seen.session is None else seen

    async def _personal(
        self, request: Request, page: Page[Any], wanted: _Wanted, seen: Seen
    ) -> Response | None:
        """The page with what its reader alone sees; None if that is nothing."""
        own, query = page.own, _query(request, wanted)
        if own is None:
            return None

        def made() -> str | None:
            if not (values := own(seen.visit, query)):
                return None
            data = page.read(self.ladder, query)
            return self.renderer.page(page, query, data, own=values, member=True)

        text = await self.gateway.in_thread(made)
        return None if text is None else self.sessions.html(text)

    async def _answer(self, request: Request, page: Page[Any], wanted: _Wanted) -> Response:
        revision = await self.gateway.in_thread(self.store.revision)
        tag = self.tag(revision, wanted)
        # A page is another one for those who are logged in.
        vary = "Accept-Encoding, Cookie" if wanted.format == "html" else "Accept-Encoding"
        keep = f"private, {_AGAIN}" if wanted.member else _AGAIN
        headers = {"ETag": tag, "Cache-Control": keep, "Vary": vary}
        if same(request, tag):
            return Response(status_code=304, headers=headers)
        rendered = self._cache.get((wanted, revision))
        if rendered is None:
            rendered = await self._made(page, wanted, revision, _query(request, wanted))
        if wanted.format == "csv":
            headers["Content-Disposition"] = 'attachment; filename="deepsea.csv"'
        return sent(request, rendered, headers)

    async def _made(
        self, page: Page[Any], wanted: _Wanted, revision: Revision, query: Query
    ) -> Rendered:
        """The page, made once for all who wait for it."""
        key = wanted, revision
        if key not in self._making:

            async def make() -> Rendered:
                try:
                    made, still = await self.gateway.in_thread(
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
        data = page.read(self.ladder, query)
        if wanted.format == "csv":
            assert page.rows is not None
            text = "".join(csv_lines(page.rows(data)))
        else:
            text = self.renderer.page(page, query, data, member=wanted.member)
        return Rendered.of(text, KINDS[wanted.format])

    def tag(self, revision: Revision, *asked: object) -> str:
        """The ETag of what was asked for, at a revision."""
        # Weak: the packed form has the same one.
        text = repr((__version__, self.access.canonical("/"), tuple(revision), asked))
        return f'W/"{hashlib.sha256(text.encode()).hexdigest()[:24]}"'

    async def refused(self, request: Request, error: Exception) -> Response:
        """The page of an error."""
        answer = refusal(error)
        if answer.status >= 500 and not isinstance(error, HTTPException):
            # The operator's terminal, not the reader's: it may name files.
            where = one_line(request.scope["path"], 200)
            cause = error.__cause__ if isinstance(error, ApiError) and error.__cause__ else error
            known = isinstance(cause, (LadderError, UserError, InvalidRecord))
            _log.error("%s: %s", where, one_line(str(cause)), exc_info=None if known else cause)
        said = {**(getattr(error, "headers", None) or {}), **answer.headers}
        headers = {**NO_STORE, **said}
        if request.scope["path"].endswith(".json"):
            body, kind = json_text({"error": answer.sentence}), KINDS["json"]
        elif request.query_params.get("format") == "csv":
            body, kind = f"{answer.sentence}\n", "text/plain; charset=utf-8"
        else:
            member = MEMBER in request.scope
            body, kind = self.renderer.refusal(answer, member=member), KINDS["html"]
        return Response(body, answer.status, headers, media_type=kind)

    async def _to_prefix(self, request: Request) -> Response:
        return RedirectResponse(f"{self.access.prefix}/", 307)


def _wanted(request: Request, number: int, page: Page[Any]) -> _Wanted:
    """The key of a request. Raises UserError for parameters that are given twice, or too long."""
    given = {
        name: value
        for name, value in parameters_of(request, (*page.parameters, "format")).items()
        if value or name == "format"
    }
    chosen = given.pop("format", "html")
    if chosen not in page.formats:
        known = ", ".join(page.formats)
        raise UserError(f"this page comes as {known}, not as {quoted(chosen, 40)}")
    for name, value in request.path_params.items():
        given[name] = str(value)
    return _Wanted(number, tuple(sorted(given.items())), chosen)


def _query(request: Request, wanted: _Wanted) -> Query:
    path = dict(request.path_params)
    return Query(path, {name: value for name, value in wanted.query if name not in path})


async def _static(request: Request) -> Response:
    found = static_files().get(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    return sent(request, found, {"Cache-Control": _FOR_EVER, "Vary": "Accept-Encoding"})
