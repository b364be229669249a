"""The site's application: from a request to a page, its CSV, or a refusal.

Start reading at `Site`; a request for a public page goes through `_answer_page`.

Invariants: every address is in one table of routes, and any other one is 404; only GET and HEAD
are answered, except for the forms of people with an account; a page is the same for everybody,
and is made in a thread, at most THREADS at a time and once for all who ask for it meanwhile; it is
kept for KEPT_US, or until it changes if its subject is over; a page with a deadline is made anew
for authors who have another one than everybody; the queue is bounded; every answer has the headers
of the site's policy.
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
from deepsea_web.site.forms import MEMBER, PERSONAL_HEADERS, SessionAuth
from deepsea_web.site.members import MemberRoutes, Members, MembersOnly, RequestHandler
from deepsea_web.site.page import (
    KINDS,
    Cache,
    KeptAnswer,
    Page,
    PageRenderer,
    Query,
    ResponseBody,
    csv_file,
    parameters_of,
    reader_has,
    refusal,
    response_of,
    static_files,
)

_KEEP_FOR_EVER = "public, max-age=31536000, immutable"
_REVALIDATE = "no-cache"  # browsers keep a copy, and ask each time if it is still the newest
KEPT_US = 1_000_000
"""Time for which a made page is sent to everybody, whatever is played meanwhile."""
INSTALL = f"pip install deepsea-referee=={__version__}"
"""The command that installs the program, unless the operator gives another one."""
_log = logging.getLogger(__name__)
Endpoint = Callable[["Site", Request], Awaitable[Any]]
"""Handler of a request for something other than a page: a stream or a file."""


class Site:
    """A ladder's site. Its ASGI application is `app`."""

    def __init__(
        self,
        gateway: Gateway,
        access: Access,
        pages: Sequence[Page[Any]],
        endpoints: Mapping[str, Endpoint],
        members: Members,
        kept_us: int = KEPT_US,
    ) -> None:
        """Set up the site with its public pages, its other handlers by path, and its members' part.

        `kept_us` is the time for which a made page is sent to everybody, in microseconds.
        """
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
        self._member_routes = MemberRoutes(
            self.sessions, members, self.renderer, self.with_error_pages
        )
        self._pages = pages
        self._cache = Cache()
        self._kept_us = kept_us
        self._extended_authors: set[int] = set()
        """Ids of authors with more time to submit, when a page with a deadline was last made."""
        self._making: dict[tuple[Hashable, LastChanges | None], asyncio.Task[KeptAnswer]] = {}
        """The answers that are being made, by their key and the last changes of their subject."""
        self.app = self._application(endpoints)

    def _application(self, endpoints: Mapping[str, Endpoint]) -> ASGIApp:
        """Return the ASGI application of the site: its routes, inside the checks of requests.

        A request passes these checks from the outside in: `Gate` (host and headers), the reader's
        rate of visits, and for a private ladder a session. Then a route answers it.
        """
        routes: list[BaseRoute] = [
            Route(page.path, self.with_error_pages(partial(self._answer_page, page)))
            for page in self._pages
        ]
        for path, endpoint in endpoints.items():
            routes.append(Route(path, self.with_error_pages(partial(endpoint, self))))
        routes.append(Route("/static/{name}", _static_file))
        routes += self._member_routes.routes()
        name_routes(routes)
        if self.access.prefix:
            routes = [Mount(self.access.prefix, routes=routes), Route("/", self._to_prefix)]
        router = Starlette(
            routes=routes,
            exception_handlers={HTTPException: self.error_response, Exception: self.error_response},
        )
        # An address that differs by a slash from one in the table is 404, as any unknown one.
        router.router.redirect_slashes = False
        app: ASGIApp = router
        if self.renderer.private:
            open_paths = self._member_routes.open_paths()
            app = MembersOnly(router, self.sessions, open_paths, self.error_response)
        return Gate(self._within_rates(app), self.access)

    def _within_rates(self, app: ASGIApp) -> ASGIApp:
        """Return the application behind checks of the reader's rate and of the address's text.

        Scripts and styles are not counted: a page has several, and browsers keep them.
        """
        uncounted = f"{self.access.prefix}/static/"

        async def checked(scope: Scope, receive: Receive, send: Send) -> None:
            """Pass a request on to the application, or answer it with the refusal of a check."""
            respond = app
            if scope["type"] == "http" and not scope["path"].startswith(uncounted):
                try:
                    self.gateway.count_visit(scope["client"][0])
                    check_address(scope)
                except UserError as error:
                    respond = await self.error_response(Request(scope), error)
            await respond(scope, receive, send)

        return checked

    async def _answer_page(self, page: Page[Any], request: Request) -> Response:
        """Answer a request for a page.

        All readers get the same response, from the cache. The exception is an author who has more
        time to submit than others: a page with a deadline is rendered for that author alone.
        """
        query, format_name = _query_and_format(request, page)
        render = partial(self._render, page, query, format_name)
        # This comes first, since rendering a page with a deadline updates `_extended_authors`.
        response = await self.shared_response(
            request,
            key=(page.path, format_name, *sorted({**query.path, **query.parameters}.items())),
            make=partial(render, self.ladder),
            last_changes=self._last_changes_reader(page, query),
        )
        if not (page.shows_deadline and format_name == "html" and self._extended_authors):
            return response
        visit = await self.sessions.visit_of(request)
        author_id = visit.caller.author_id
        if author_id not in self._extended_authors:
            return response
        author_ladder = LocalLadder(self.gateway.service, replace(READER, author_id=author_id))
        body = await self.gateway.in_thread(partial(render, author_ladder))
        return response_of(request, body, PERSONAL_HEADERS)

    def _last_changes_reader(
        self, page: Page[Any], query: Query
    ) -> Callable[[], LastChanges | None] | None:
        """Return the function that reads the last changes of the game or season of a page.

        Return None if the page is not about a certain game or season.
        """
        subject = page.subject
        if subject is None:
            return None
        name = query.text(subject.parameter)
        if not name:
            return None
        return partial(subject.last_changes, self.store, name)

    def with_error_pages(self, handler: RequestHandler) -> RequestHandler:
        """Return a handler that answers every error of another one with the page of the error."""

        async def handle(request: Request) -> Any:
            try:
                return await handler(request)
            except Exception as error:  # noqa: BLE001  (every error has its page)
                return await self.error_response(request, error)

        return handle

    async def shared_response(
        self,
        request: Request,
        key: Hashable,
        make: Callable[[], ResponseBody],
        last_changes: Callable[[], LastChanges | None] | None,
    ) -> Response:
        """Return a response that is the same for everybody, with a cached body if there is one.

        The body of a page about a game or season that is over is used until that changes, any other
        body for a short time.

        key           names the body in the cache
        make          makes the body, in a thread
        last_changes  reads the last changes of the page's game or season, and returns None while
                      that is not over; None itself if the page is about none
        """
        answer = self._cache.get(key)
        if answer is None or not answer.is_fresh(self.gateway.clock.now_us()):
            changes = None
            if last_changes is not None:
                changes = await self.gateway.in_thread(last_changes)
            is_unchanged = answer is not None and changes is not None and answer.changes == changes
            if answer is None or not is_unchanged:
                answer = await self._make_once(key, changes, make)
        etag, file = answer.body.etag, answer.body.file
        headers = {"ETag": etag, "Cache-Control": _REVALIDATE, "Vary": "Accept-Encoding"}
        if file:
            headers |= attachment(file)
        if reader_has(request, etag):
            return Response(status_code=304, headers=headers)
        return response_of(request, answer.body, headers)

    async def _make_once(
        self, key: Hashable, changes: LastChanges | None, make: Callable[[], ResponseBody]
    ) -> KeptAnswer:
        """Make an answer for the cache, once for all requests that ask for it meanwhile.

        key      names the answer in the cache
        changes  the last changes of its game or season if that is over. They were read before the
                 answer is made, so a change that comes meanwhile is noticed at the next request
        make     makes the body, in a thread
        """
        task_key = key, changes
        if task_key not in self._making:
            making = self._make_and_keep(key, changes, make)
            self._making[task_key] = asyncio.create_task(making)
        # A reader who leaves cancels this request, and must not cancel the task for the others.
        return await asyncio.shield(self._making[task_key])

    async def _make_and_keep(
        self, key: Hashable, changes: LastChanges | None, make: Callable[[], ResponseBody]
    ) -> KeptAnswer:
        """Make an answer in a thread, and put it into the cache unless that fails.

        For the arguments see `_make_once`, which waits for this with all requests for the answer.
        """

        def checked_make() -> ResponseBody:
            # Raises if the ladder's file was removed: while it is open, it can still be read.
            self.store.database.check_place()
            return make()

        try:
            body = await self.gateway.in_thread(checked_make)
            answer = KeptAnswer(body, changes, self.gateway.clock.now_us() + self._kept_us)
            self._cache.put(key, answer)
            return answer
        finally:
            del self._making[key, changes]

    def _render(
        self, page: Page[Any], query: Query, format_name: str, ladder: LocalLadder
    ) -> ResponseBody:
        """Read the document of a page and make its body, as HTML or CSV.

        For a page with a deadline, also update `_extended_authors`, the authors who have more time
        to submit than others.
        """
        with snapshot():
            data = page.read(ladder, query)
            if page.shows_deadline:
                self._extended_authors = self.store.seasons.extended()
        if format_name == "csv":
            assert page.csv is not None
            text = "".join(csv_lines(page.csv.rows(data), page.csv.columns))
            file = csv_file(page.csv.name(data), self.store.now())
            return ResponseBody.of_text(text, KINDS["csv"], file)
        return ResponseBody.of_text(self.renderer.page(page, query, data), KINDS["html"])

    async def error_response(self, request: Request, error: Exception) -> Response:
        """Return the answer to a request that failed: a page, JSON or a line of text.

        An error of the server is also logged with its cause, which the answer does not show since
        it may name files.
        """
        answer = refusal(error)
        if answer.status >= 500 and not isinstance(error, HTTPException):
            _log_error(request, error)
        # An HTTPException may have headers of its own, such as Allow of the status 405.
        error_headers = getattr(error, "headers", None) or {}
        headers = {**NO_STORE, **error_headers, **answer.headers}
        if request.scope["path"].endswith(".json"):
            body, media_type = json_text({"error": answer.sentence}), KINDS["json"]
        elif request.query_params.get("format") == "csv":
            body, media_type = f"{answer.sentence}\n", "text/plain; charset=utf-8"
        else:
            is_member = MEMBER in request.scope
            body = self.renderer.refusal(answer, is_member=is_member)
            media_type = KINDS["html"]
        return Response(body, answer.status, headers, media_type=media_type)

    async def _to_prefix(self, request: Request) -> Response:
        return RedirectResponse(f"{self.access.prefix}/", 307)


def _log_error(request: Request, error: Exception) -> None:
    """Log why the server could not answer a request, with a traceback if that was unexpected."""
    cause = error.__cause__ if isinstance(error, ApiError) and error.__cause__ else error
    # The message of these says all; any other error is a mistake in this program.
    is_expected = isinstance(cause, (LadderError, UserError, InvalidRecord))
    path = one_line(request.scope["path"], 200)
    _log.error("%s: %s", path, one_line(str(cause)), exc_info=None if is_expected else cause)


def _query_and_format(request: Request, page: Page[Any]) -> tuple[Query, str]:
    """Return the parameters of a request for a page, and the format to answer in.

    The format is "html" or, if the page has it, "csv". Raises UserError for another format, and for
    a parameter that is given twice or is too long.
    """
    texts = parameters_of(request, (*page.parameters, "format"))
    format_name = texts.pop("format", "html")
    if format_name not in page.formats:
        formats = ", ".join(page.formats)
        raise UserError(f"this page comes as {formats}, not as {quoted(format_name, 40)}")
    parameters = {name: text for name, text in texts.items() if text}
    return Query(dict(request.path_params), parameters), format_name


async def _static_file(request: Request) -> Response:
    """Answer with a script or a style sheet; its name has a digest, so it never changes."""
    body = static_files().get(request.path_params["name"])
    if body is None:
        raise HTTPException(404)
    headers = {"Cache-Control": _KEEP_FOR_EVER, "Vary": "Accept-Encoding"}
    return response_of(request, body, headers)
