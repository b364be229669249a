"""Handlers of personal pages and their forms, and the check that keeps a private site private.

Start reading at `MemberRoutes`.

Invariants: a form is read only after its origin was checked, and its sender is looked up when the
whole form is there; a page says why its form was refused, with the fields as they were typed,
except secrets; every answer is `no-store`.
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
    PERSONAL_HEADERS,
    Action,
    Form,
    FormOutcome,
    OneTimePage,
    PersonalPage,
    Redirect,
    SessionAuth,
    SessionStart,
    archive_of,
    check_origin,
    form_of,
    read_upload,
)
from deepsea_web.site.page import PageRenderer, Query, Refusal, Visit, parameters_of, refusal

_PLAIN_CONNECTION = (
    "What you send here can be read by others: use the https address of this ladder."
)
_PART_OF_PATH = re.compile(r"\{(\w+)\}")
"""A part in braces of a page's path, such as `{id}`; its group is the name."""
RequestHandler = Callable[[Request], Awaitable[Any]]
PersonalEndpoint = Callable[[SessionAuth, Visit, Request], Awaitable[ASGIApp]]
"""Handler of a reader's request for something other than a page: a file or a stream."""
_STATIC = "/static/"
"""The beginning of the paths of scripts and styles."""
ErrorHandler = Callable[[Request, Exception], Awaitable[Response]]
"""Returns the response with the page of an error."""


@dataclass(frozen=True, kw_only=True)
class Members:
    """The personal pages of a site with their forms, and other handlers by path."""

    pages: Sequence[PersonalPage]
    actions: Sequence[Action]
    endpoints: Mapping[str, PersonalEndpoint]


@dataclass(frozen=True)
class MemberRoutes:
    """The routes of personal pages and forms, and their handlers."""

    sessions: SessionAuth
    members: Members
    renderer: PageRenderer
    with_error_pages: Callable[[RequestHandler], RequestHandler]

    def routes(self) -> list[BaseRoute]:
        """Return the routes of all pages, forms and other handlers.

        Some forms are sent to an address that is not their page's own. If a browser opens such an
        address, as after loading it again, it is led to the page.
        """
        pages = self.members.pages
        routes: list[BaseRoute] = [
            self._route(page.path, partial(self._show_page, page)) for page in pages
        ]
        page_paths = [page.path for page in pages]
        for action in self.members.actions:
            routes.append(self._route(action.path, partial(self._receive_form, action), "POST"))
            if action.path not in page_paths:
                routes.append(self._route(action.path, partial(self._to_page, action)))
        for path, endpoint in self.members.endpoints.items():
            routes.append(self._route(path, partial(self._call_endpoint, endpoint)))
        return routes

    def open_paths(self) -> frozenset[str]:
        """Return the paths of the pages that visitors of a private ladder may see."""
        return frozenset(page.path for page in self.members.pages if page.open)

    def _route(self, path: str, handler: RequestHandler, method: str = "GET") -> Route:
        """Return a route whose handler refuses connections that others can read."""

        async def handle(request: Request) -> Any:
            """Refuse a connection that others can read, and pass other requests on."""
            client = request.client.host if request.client else ""
            if not self.sessions.access.keeps_secrets(client):
                raise HTTPException(403, _PLAIN_CONNECTION)
            return await handler(request)

        return Route(path, self.with_error_pages(handle), methods=[method])

    async def _show_page(self, page: PersonalPage, request: Request) -> Response:
        """Answer with a personal page, or send a visitor who may not see it to the login.

        The parameter `done` names the form after which the page is shown, if any.
        """
        visit, headers = await self._visit_with_cookie(page, request)
        parameters = parameters_of(request, (*page.parameters, "done"))
        query = Query(dict(request.path_params), parameters)
        try:
            text = await self.sessions.in_thread(partial(self._render, page, visit, query))
            response = self.sessions.html(text, headers=headers)
        except ApiError as error:
            if error.kind is not RefusalKind.UNAUTHENTICATED:
                raise
            response = self.sessions.to_login(request)
        return self.sessions.with_author_cookie(request, visit, response)

    async def _visit_with_cookie(
        self, page: PersonalPage, request: Request
    ) -> tuple[Visit, Mapping[str, str]]:
        """Return the visit of a request, and the headers that its response needs.

        On some pages, such as that of people's games, visitors have to be known again: a visitor
        without a cookie gets one with a random name there.
        """
        visit = await self.sessions.visit_of(request)
        caller = visit.caller
        is_known = bool(caller.author_id or caller.visitor)
        if is_known or not page.names_visitors:
            return visit, {}
        random_bytes = await self.sessions.in_thread(self.sessions.service.entropy)
        name = base64.urlsafe_b64encode(random_bytes).decode().rstrip("=")
        headers = {"Set-Cookie": self.sessions.visitor.header_to_set(name)}
        return self.sessions.visit(caller, name), headers

    def _render(
        self,
        page: PersonalPage,
        visit: Visit,
        query: Query,
        problem: Refusal | None = None,
        typed: Mapping[str, Sequence[str]] | None = None,
    ) -> str:
        """Read and render a page.

        problem  the refusal of a form that was sent; None if there was none
        typed    what was typed into the refused form, by the names of its fields
        """
        values = page.read(visit, query)
        return self.renderer.personal_page(
            page.template,
            page.title(values),
            visit,
            {
                **values,
                "query": query,
                "done": page.done.get(query.parameters.get("done", "")),
                "problem": problem,
                "typed": typed or {},
            },
        )

    # ----- Forms

    async def _receive_form(self, action: Action, request: Request) -> Response:
        """Read a form that a page of this site has sent, run its action, and answer.

        Raises HTTPException for a form that another site has sent.
        """
        check_origin(request, self.sessions.access)
        if action.has_file:
            return await self._receive_upload(action, request)
        fields = await read_fields(request, self.sessions.clock)
        return await self._run_action(action, request, form_of(fields, action.fields))

    async def _receive_upload(self, action: Action, request: Request) -> Response:
        """Read a form with a bot's file, run its action, and answer.

        The file is not read if the sender may not upload one now. If the form is refused, its page
        is shown again, with the reason and with the fields as far as they have been read.
        """
        visit = await self.sessions.visit_of(request)
        limits = self.sessions.service.limits
        read_form = Form()  # stays empty if the form is refused before its fields have been read
        try:
            with self.sessions.gateway.uploading(visit.caller):
                fields, file = await read_upload(request, limits, self.sessions.clock)
                with file.file:
                    read_form = form_of(fields, action.fields)
                    archive = await self.sessions.in_thread(partial(archive_of, file, read_form))
                    form = replace(read_form, archive=archive)
                    return await self._run_action(action, request, form)
        except UserError as error:
            return await self._show_refused(action, visit, read_form, error)

    async def _run_action(self, action: Action, request: Request, form: Form) -> Response:
        """Run the action of a form, and answer with its outcome.

        If the action refuses the form, answer with the form's page and the reason. The sender is
        looked up only now that the whole form is here: the session may have ended while it arrived.
        """
        visit = await self.sessions.visit_of(request)
        try:
            outcome = await self.sessions.in_thread(partial(action.act, visit, form))
        except UserError as error:
            return await self._show_refused(action, visit, form, error)
        return await self._show_outcome(outcome, visit)

    async def _show_refused(
        self, action: Action, visit: Visit, form: Form, error: UserError
    ) -> Response:
        """Answer with the page of a form that was refused, with the reason and what was typed.

        Raises the error itself if it is a fault of the server, or if the page cannot be shown.
        """
        problem = refusal(error)
        if problem.status >= 500:
            raise error
        # The page's path may have a part such as `{id}`; the form has its value as a field.
        path_names = _PART_OF_PATH.findall(action.page.path)
        query = Query({name: form.text(name) for name in path_names})
        render = partial(self._render, action.page, visit, query, problem, action.typed(form))
        try:
            text = await self.sessions.in_thread(render)
        except UserError:
            raise error from None
        return self.sessions.html(text, problem.status, problem.headers)

    async def _show_outcome(self, outcome: FormOutcome, visit: Visit) -> Response:
        """Answer with the outcome of a form's action: a redirect, a page, or a new session."""
        match outcome:
            case Redirect():
                url = self.sessions.access.url(outcome.path, done=outcome.done)
                response = RedirectResponse(url, 303, PERSONAL_HEADERS)
                if outcome.ends_session:
                    response.headers.append("Set-Cookie", self.sessions.session.header_to_remove())
                    response.headers.append("Set-Cookie", self.sessions.author.header_to_remove())
                return response
            case OneTimePage(template=template, title=title, values=values):
                text = await self.sessions.in_thread(
                    partial(self.renderer.personal_page, template, title, visit, values)
                )
                return self.sessions.html(text)
            case SessionStart():
                return await self._show_session_start(outcome, visit)

    async def _show_session_start(self, outcome: SessionStart, visit: Visit) -> Response:
        """Answer a form that has begun a session, and set the cookies of the session.

        The browser forgets its former session by that, so the former session is ended.
        """
        await self.sessions.in_thread(partial(visit.service.log_out, visit.caller))
        new_visit = self.sessions.visit(outcome.caller)
        response = await self._show_outcome(outcome.answer, new_visit)
        author = quote(outcome.caller.author, safe="")
        for cookie in (
            self.sessions.session.header_to_set(outcome.secret, outcome.seconds),
            self.sessions.author.header_to_set(author, outcome.seconds),
            self.sessions.visitor.header_to_remove(),
        ):
            response.headers.append("Set-Cookie", cookie)
        return response

    async def _to_page(self, action: Action, request: Request) -> Response:
        """Lead from the address of a form to its page, or to the list that the page belongs to."""
        url = self.sessions.access.url(action.page.path.partition("/{")[0])
        return RedirectResponse(url, 303, PERSONAL_HEADERS)

    async def _call_endpoint(self, endpoint: PersonalEndpoint, request: Request) -> ASGIApp:
        visit = await self.sessions.visit_of(request)
        return await endpoint(self.sessions, visit, request)


@dataclass(frozen=True)
class MembersOnly:
    """An application for readers with a session; visitors see the open paths alone."""

    app: ASGIApp
    sessions: SessionAuth
    open_paths: Collection[str]
    error_response: ErrorHandler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on if its reader may make it; answer others with the login or 403."""
        if scope["type"] != "http" or self._is_open(scope["path"]):
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        try:
            visit = await self.sessions.visit_of(request)
        except Exception as error:  # noqa: BLE001  (every error has its page)
            answer = await self.error_response(request, error)
        else:
            if visit.is_member:
                await self.app(scope, receive, _with_personal_headers(send))
                return
            answer = await self._refuse(request)
        await answer(scope, receive, send)

    def _is_open(self, path: str) -> bool:
        path = path.removeprefix(self.sessions.access.prefix)
        return path in self.open_paths or path.startswith(_STATIC)

    async def _refuse(self, request: Request) -> Response:
        """Send a visitor who asks for a page to the login; answer any other request with 403.

        Programs that ask for JSON, CSV or a stream could do nothing with the page of the login.
        """
        format_name = request.query_params.get("format", "html")
        path = request.scope["path"].removeprefix(self.sessions.access.prefix)
        is_for_programs = (
            format_name != "html" or path.startswith("/events") or path.endswith(".json")
        )
        if request.method in ("GET", "HEAD") and not is_for_programs:
            return self.sessions.to_login(request)
        error = HTTPException(403, "This ladder is private: log in at its first page.")
        return await self.error_response(request, error)


def _with_personal_headers(send: Send) -> Send:
    """Return a `send` that adds headers by which browsers keep no response of a private ladder."""

    async def send_personal(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(PERSONAL_HEADERS)
            del headers["etag"]
        await send(message)

    return send_personal
