"""Answers requests for a reader's own pages and their forms; keeps others out of a private site.

Invariants: a form is read only after its origin was checked, and its sender is looked up when the
whole form is there; a page says why its form was refused, with the fields as they were typed, but
for secrets; every answer is `no-store`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepsea_arena.api.errors import ApiError, RefusalKind
from deepsea_referee.errors import UserError
from deepsea_web.http import read_fields
from deepsea_web.site.forms import (
    UNSEEN,
    Action,
    Form,
    LoggedIn,
    OneTimePage,
    Outcome,
    OwnPage,
    Redirect,
    Seen,
    SessionAuth,
    archive_of,
    check_origin,
    form_of,
    read_upload,
)
from deepsea_web.site.page import PageRenderer, Query, Refusal, Visit, parameters_of, refusal

_PLAIN = "What you send here can be read by others: use the https address of this ladder."
_IN_PATH = re.compile(r"\{(\w+)\}")
RequestHandler = Callable[[Request], Awaitable[Any]]
OwnEndpoint = Callable[["SessionAuth", "Seen", Request], Awaitable[ASGIApp]]
"""Answers a request of who looks by itself: a file, a stream."""
_OPEN = "/static/"
"""The beginning of the paths of scripts and styles."""
Refused = Callable[[Request, Exception], Awaitable[Response]]
"""Makes the page of an error."""


@dataclass(frozen=True, kw_only=True)
class Members:
    """The parts of a site for people with an account."""

    pages: Sequence[OwnPage]
    actions: Sequence[Action]
    endpoints: Mapping[str, OwnEndpoint]
    """By path."""


@dataclass(frozen=True)
class Answers:
    """The addresses of people with an account."""

    sessions: SessionAuth
    members: Members
    renderer: PageRenderer
    with_error_pages: Callable[[RequestHandler], RequestHandler]

    def routes(self) -> list[BaseRoute]:
        """The addresses of pages, forms and what answers by itself."""
        pages = self.members.pages
        routes: list[BaseRoute] = [
            self._route(page.path, partial(self._page, page)) for page in pages
        ]
        for action in self.members.actions:
            routes.append(self._route(action.path, partial(self._action, action), "POST"))
            if action.path not in [page.path for page in pages]:
                # Somebody reloads what a form has shown, or follows a link to it.
                routes.append(self._route(action.path, partial(self._to_page, action)))
        for path, endpoint in self.members.endpoints.items():
            routes.append(self._route(path, partial(self._own, endpoint)))
        return routes

    def open_paths(self) -> frozenset[str]:
        """The addresses that visitors of a private ladder may ask for."""
        return frozenset(page.path for page in self.members.pages if page.open)

    def _route(self, path: str, answer: RequestHandler, method: str = "GET") -> Route:
        async def answered(request: Request) -> Any:
            client = request.client.host if request.client else ""
            if not self.sessions.access.keeps_secrets(client):
                raise HTTPException(403, _PLAIN)
            return await answer(request)

        return Route(path, self.with_error_pages(answered), methods=[method])

    async def _page(self, page: OwnPage, request: Request) -> Response:
        seen, headers = await self._with_visitor_cookie(page, await self.sessions.seen(request))
        answer = await self._read(page, seen, request, headers)
        return self.sessions.tell_scripts(request, seen, answer)

    async def _read(
        self, page: OwnPage, seen: Seen, request: Request, headers: Mapping[str, str]
    ) -> Response:
        given = parameters_of(request, (*page.parameters, "done"))
        query = Query(dict(request.path_params), given)
        try:
            text = await self.sessions.in_thread(partial(self._made, page, seen.visit, query))
        except ApiError as error:
            if error.kind is RefusalKind.UNAUTHENTICATED:
                return self.sessions.to_login(request)
            raise
        return self.sessions.html(text, headers=headers)

    async def _with_visitor_cookie(
        self, page: OwnPage, seen: Seen
    ) -> tuple[Seen, Mapping[str, str]]:
        """A visitor with a new cookie, if the page names visitors and this one has none."""
        caller = seen.visit.caller
        if caller.author_id or caller.visitor or not page.names_visitors:
            return seen, {}
        raw = await self.sessions.in_thread(self.sessions.service.entropy)
        key = base64.urlsafe_b64encode(raw).decode().rstrip("=")
        named = Seen(self.sessions.visit(caller, key), None)
        return named, {"Set-Cookie": self.sessions.visitor.give(key)}

    def _made(
        self,
        page: OwnPage,
        visit: Visit,
        query: Query,
        problem: Refusal | None = None,
        typed: Mapping[str, Sequence[str]] | None = None,
    ) -> str:
        values = page.read(visit, query)
        return self.renderer.own(
            page.template,
            page.title(values),
            visit,
            {
                **values,
                "query": query,
                "done": page.done.get(query.given.get("done", "")),
                "problem": problem,
                "typed": typed or {},
            },
        )

    # Forms

    async def _action(self, action: Action, request: Request) -> Response:
        check_origin(request, self.sessions.access)
        if action.has_file:
            return await self._upload(action, request)
        fields = await read_fields(request, self.sessions.clock)
        return await self._act(action, request, form_of(fields, action.fields))

    async def _upload(self, action: Action, request: Request) -> Response:
        """A form with a file, of somebody who may send one."""
        seen, form = await self.sessions.seen(request), Form()
        limits = self.sessions.service.limits
        try:
            with self.sessions.gateway.uploading(seen.visit.caller):
                fields, file = await read_upload(request, limits, self.sessions.clock)
                with file.file:
                    form = form_of(fields, action.fields)
                    archive = await self.sessions.in_thread(partial(archive_of, file, form))
                    return await self._act(action, request, replace(form, archive=archive))
        except UserError as error:
            return await self._again(action, seen.visit, form, error)

    async def _act(self, action: Action, request: Request, form: Form) -> Response:
        seen = await self.sessions.seen(request)
        try:
            outcome = await self.sessions.in_thread(partial(action.act, seen.visit, form))
        except UserError as error:
            return await self._again(action, seen.visit, form, error)
        return await self._done(outcome, seen.visit)

    async def _again(self, action: Action, visit: Visit, form: Form, error: UserError) -> Response:
        """The page of a form that was refused, with the reason and what was typed."""
        problem = refusal(error)
        if problem.status >= 500:
            raise error
        path = {name: form.text(name) for name in _IN_PATH.findall(action.page.path)}
        try:
            text = await self.sessions.in_thread(
                partial(self._made, action.page, visit, Query(path), problem, action.typed(form))
            )
        except UserError:
            raise error from None
        return self.sessions.html(text, problem.status, problem.headers)

    async def _done(self, outcome: Outcome, visit: Visit) -> Response:
        answer: Response
        match outcome:
            case Redirect():
                # A word of a page's own, and no text of anybody's.
                url = self.sessions.access.url(outcome.path, done=outcome.done)
                answer = RedirectResponse(url, 303, UNSEEN)
                if outcome.ends_session:
                    answer.headers.append("Set-Cookie", self.sessions.session.take())
                    answer.headers.append("Set-Cookie", self.sessions.author.take())
                return answer
            case OneTimePage():
                own = self.renderer.own
                return self.sessions.html(
                    await self.sessions.in_thread(
                        partial(own, outcome.template, outcome.title, visit, outcome.values)
                    )
                )
            case LoggedIn():
                # A new login has a new session; the browser's former one ends.
                await self.sessions.in_thread(partial(visit.service.log_out, visit.caller))
                now = self.sessions.visit(outcome.caller)
                answer = await self._done(outcome.answer, now)
                author = quote(outcome.caller.author, safe="")
                for cookie in (
                    self.sessions.session.give(outcome.secret, outcome.seconds),
                    self.sessions.author.give(author, outcome.seconds),
                    self.sessions.visitor.take(),
                ):
                    answer.headers.append("Set-Cookie", cookie)
                return answer

    async def _to_page(self, action: Action, request: Request) -> Response:
        url = self.sessions.access.url(action.page.path.partition("/{")[0])
        return RedirectResponse(url, 303, UNSEEN)

    async def _own(self, endpoint: OwnEndpoint, request: Request) -> ASGIApp:
        seen = await self.sessions.seen(request)
        return await endpoint(self.sessions, seen, request)


@dataclass(frozen=True)
class MembersOnly:
    """An application for those with a session."""

    app: ASGIApp
    sessions: SessionAuth
    open_paths: Collection[str]
    refused: Refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_open(scope["path"]):
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        try:
            seen = await self.sessions.seen(request)
        except Exception as error:  # noqa: BLE001  (every error has its page)
            answer = await self.refused(request, error)
        else:
            if seen.session is not None:
                await self.app(scope, receive, _unkept(send))
                return
            answer = await self._refuse(request)
        await answer(scope, receive, send)

    def _is_open(self, path: str) -> bool:
        path = path.removeprefix(self.sessions.access.prefix)
        return path in self.open_paths or path.startswith(_OPEN)

    async def _refuse(self, request: Request) -> Response:
        wanted = request.query_params.get("format", "html")
        path = request.scope["path"].removeprefix(self.sessions.access.prefix)
        # What is made for programs gets no page of another address.
        is_page = wanted == "html" and not path.startswith("/events")
        if request.method in ("GET", "HEAD") and is_page and not path.endswith(".json"):
            return self.sessions.to_login(request)
        error = HTTPException(403, "This ladder is private: log in at its first page.")
        return await self.refused(request, error)


def _unkept(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(UNSEEN)
            del headers["etag"]
        await send(message)

    return sent
