"""The site's application: from a request to a page, its CSV, or a refusal.

Invariants: every address is in one table of routes, and any other one is 404; nothing but GET
and HEAD is answered, but for the forms of people with an account; a page is the same for everybody,
and is made in a thread, at most THREADS at a time and once for all who ask for it meanwhile; it is
kept for KEPT_US, or until it changes if what it shows is over; one with a deadline is made anew for
members who have another one than everybody; the queue is bounded; every answer has the policy's
headers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from deepsea_arena.api.errors import ApiError
from deepsea_arena.api.local import LocalLadder
from deepsea_arena.api.service import READER
from deepsea_arena.documents import csv_lines, json_text
from deepsea_ladder.errors import LadderError
from deepsea_ladder.store.counts import LastChanges
from deepsea_ladder.store.database import snapshot
from deepsea_referee.errors import UserError
from deepsea_rules.errors import InvalidRecord
from deepsea_rules.printable import one_line, quoted
from deepsea_sdk import __version__
from deepsea_web.access import Access, Gate, check_address
from deepsea_web.gateway import Gateway, name_routes
from deepsea_web.http import NO_STORE, attachment
from deepsea_web.site.broadcast import Broadcast
from deepsea_web.site.forms import MEMBER, UNSEEN, SessionAuth
from deepsea_web.site.members import Answers, Members, MembersOnly, RequestHandler
from deepsea_web.site.page import (
    KINDS,
    Cache,
    KeptAnswer,
    Page,
    PageRenderer,
    Query,
    Rendered,
    csv_file,
    parameters_of,
    refusal,
    same,
    sent,
    static_files,
)

_FOR_EVER = "public, max-age=31536000, immutable"
_AGAIN = "no-cache"  # kept, and asked for every time whether it is still so
KEPT_US = 1_000_000
"""The time for which a page is sent to all who ask, whatever is played meanwhile."""
INSTALL = f"pip install deepsea-referee=={__version__}"
"""The line that installs the program, unless the operator has another one."""
_log = logging.getLogger(__name__)
Endpoint = Callable[["Site", Request], Awaitable[Any]]
"""Answers a request by itself, where a page is not enough: a stream, a file."""


class Site:
    """A ladder's site; `app` serves it."""

    def __init__(
        self,
        gateway: Gateway,
        access: Access,
        pages: Sequence[Page[Any]],
        endpoints: Mapping[str, Endpoint],
        members: Members,
        kept_us: int = KEPT_US,
    ) -> None:
        """`endpoints` has by path what answers by itself; `members` what needs an account."""
        self.gateway = gateway
        self.store = gateway.service.store
        self.ladder = LocalLadder(gateway.service, READER)
        self.access = access
        links = [(page.nav, page.path) for page in pages if page.nav]
        self.sessions = SessionAuth(access, gateway)
        self.renderer = PageRenderer(
            access,
            links,
            self.sessions.author.name,
            self.store.now,
            private=gateway.service.private,
            alone=gateway.service.host is not None,
            install=gateway.service.install or INSTALL,
        )
        self.broadcast = Broadcast(gateway, access.url)
        self._answers = Answers(self.sessions, members, self.renderer, self.with_error_pages)
        self._pages = pages
        self._cache = Cache()
        self._kept_us = kept_us
        self._extended: set[int] = set()
        """The authors with more time to submit, when a page with a deadline was last made."""
        self._making: dict[tuple[Hashable, LastChanges | None], asyncio.Task[KeptAnswer]] = {}
        self.app = self._application(endpoints)

    def _application(self, endpoints: Mapping[str, Endpoint]) -> ASGIApp:
        routes: list[BaseRoute] = []
        routes += [Route(page.path, self._endpoint(page)) for page in self._pages]
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
        return Gate(self._counted(app), self.access)

    def _counted(self, app: ASGIApp) -> ASGIApp:
        """An application for those who have not asked for too many pages, nor for nonsense."""
        free = f"{self.access.prefix}/static/"  # browsers keep these; a page has several

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            answer = app
            if scope["type"] == "http" and not scope["path"].startswith(free):
                try:
                    self.gateway.count_visit(scope["client"][0])
                    check_address(scope)
                except UserError as error:
                    answer = await self.refused(Request(scope), error)
            await answer(scope, receive, send)

        return counted

    def _endpoint(self, page: Page[Any]) -> RequestHandler:
        async def answer(request: Request) -> Response:
            query, form = _asked(request, page)
            key = (page.path, form, *sorted({**query.path, **query.given}.items()))
            make = partial(self._render, page, query, form, self.ladder)
            changes = None
            if page.over is not None and (name := query.text(page.over.parameter)):
                changes = partial(page.over.changes, self.store, name)
            everybodys = await self.kept(request, key, make, changes)
            if not (page.shows_deadline and form == "html" and self._extended):
                return everybodys
            author_id = (await self.sessions.seen(request)).visit.caller.author_id
            if author_id not in self._extended:
                return everybodys
            ladder = LocalLadder(self.gateway.service, replace(READER, author_id=author_id))
            own = await self.gateway.in_thread(partial(self._render, page, query, form, ladder))
            return sent(request, own, UNSEEN)

        return self.with_error_pages(answer)

    def with_error_pages(self, answer: RequestHandler) -> RequestHandler:
        """The same handler with a page for every error."""

        async def answered(request: Request) -> Any:
            try:
                return await answer(request)
            except Exception as error:  # noqa: BLE001  (every error has its page)
                return await self.refused(request, error)

        return answered

    async def kept(
        self,
        request: Request,
        key: Hashable,
        make: Callable[[], Rendered],
        changes: Callable[[], LastChanges | None] | None,
    ) -> Response:
        """An answer that is the same for everybody, made anew or as it is kept under a key.

        changes  the last changes of what it shows, if that is over
        """
        answer = self._cache.get(key)
        if answer is None or not answer.is_fresh(self.gateway.clock.now_us()):
            last = None if changes is None else await self.gateway.in_thread(changes)
            if answer is None or last is None or answer.changes != last:
                answer = await self._made(key, last, make)
        tag, file = answer.rendered.tag, answer.rendered.file
        headers = {"ETag": tag, "Cache-Control": _AGAIN, "Vary": "Accept-Encoding"}
        headers |= attachment(file) if file else {}
        if same(request, tag):
            return Response(status_code=304, headers=headers)
        return sent(request, answer.rendered, headers)

    async def _made(
        self, key: Hashable, last: LastChanges | None, make: Callable[[], Rendered]
    ) -> KeptAnswer:
        """An answer that is made once for all who wait for it."""
        making = key, last

        def make_now() -> Rendered:
            self.store.database.check_place()  # a file that was removed can still be read
            return make()

        async def make_once() -> KeptAnswer:
            try:
                rendered = await self.gateway.in_thread(make_now)
                answer = KeptAnswer(rendered, last, self.gateway.clock.now_us() + self._kept_us)
                self._cache.put(key, answer)
                return answer
            finally:
                del self._making[making]

        if making not in self._making:
            self._making[making] = asyncio.create_task(make_once())
        # One who leaves does not end it for the others.
        return await asyncio.shield(self._making[making])

    def _render(self, page: Page[Any], query: Query, form: str, ladder: LocalLadder) -> Rendered:
        with snapshot():
            data = page.read(ladder, query)
            if page.shows_deadline:
                self._extended = self.store.seasons.extended()
        if form == "csv":
            assert page.csv is not None
            text = "".join(csv_lines(page.csv.rows(data), page.csv.columns))
            return Rendered.of(text, KINDS["csv"], csv_file(page.csv.name(data), self.store.now()))
        return Rendered.of(self.renderer.page(page, query, data), KINDS["html"])

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


def _asked(request: Request, page: Page[Any]) -> tuple[Query, str]:
    """The parameters and the format. Raises UserError for one that is given twice, or too long."""
    given = {
        name: value
        for name, value in parameters_of(request, (*page.parameters, "format")).items()
        if value or name == "format"
    }
    chosen = given.pop("format", "html")
    if chosen not in page.formats:
        known = ", ".join(page.formats)
        raise UserError(f"this page comes as {known}, not as {quoted(chosen, 40)}")
    return Query(dict(request.path_params), given), chosen


async def _static(request: Request) -> Response:
    found = static_files().get(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    return sent(request, found, {"Cache-Control": _FOR_EVER, "Vary": "Accept-Encoding"})
