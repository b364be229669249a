"""Answers requests of people with an account: their pages, their forms, what lasts.

Invariants: who looks is found anew for every request, by the cookie alone; every answer that
depends on it is `no-store`; a form is read only after its origin was checked, and acts only with
the token that was made for the same cookie.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from deepsea_arena.service.caller import Caller, visitor
from deepsea_arena.service.errors import Kind, ServiceError
from deepsea_arena.service.login import caller_of_session, still_valid
from deepsea_arena.service.service import LadderService
from deepsea_arena.service.upload import Upload
from deepsea_referee.errors import UserError
from deepsea_referee.timing.clock import Clock
from deepsea_web.site.access import Access
from deepsea_web.site.accounts.cookies import Cookie
from deepsea_web.site.accounts.ending import WhileValid
from deepsea_web.site.accounts.forms import (
    Form,
    check_form_token,
    check_origin,
    form_token,
    read_form,
)
from deepsea_web.site.accounts.own_page import (
    SIGNED_OUT,
    Action,
    Entered,
    Left,
    Outcome,
    OwnPage,
    Shown,
    Then,
    Values,
)
from deepsea_web.site.accounts.upload import UploadForm
from deepsea_web.site.errors import Refusal, refusal
from deepsea_web.site.look import Look
from deepsea_web.site.page import Page, Query, parameters_of
from deepsea_web.site.threads import Threads
from deepsea_web.site.visit import Visit

THREADS: Final = 2
"""Apart from those of other pages: a form may have to wait for the store."""
UNSEEN: Final = {"Cache-Control": "no-store", "Vary": "Cookie"}
"""The headers of what depends on who looks."""
_IN_PATH: Final = re.compile(r"\{(\w+)\}")
T = TypeVar("T")


class Host(Protocol):
    """The site that a desk is part of."""

    access: Access
    look: Look
    closing: asyncio.Event
    clock: Clock

    def asked(
        self, answer: Callable[[Request], Awaitable[Any]]
    ) -> Callable[[Request], Awaitable[Any]]:
        """The same with a page for every error."""


OwnEndpoint = Callable[["Desk", "Seen", Request], Awaitable[ASGIApp]]
"""Answers a request of who looks by itself: a file, a stream."""


@dataclass(frozen=True, kw_only=True)
class Members:
    """What a site has for people with an account."""

    service: LadderService
    pages: Sequence[OwnPage]
    actions: Sequence[Action]
    endpoints: Mapping[str, OwnEndpoint]
    """By path."""


@dataclass(frozen=True)
class Seen:
    """Who looks, and the cookies that say so."""

    visit: Visit
    session: str | None
    """The secret of the session; None of visitors."""
    key: str | None
    """The cookie that forms are bound to; None before a visitor has one."""


class Desk:
    """The part of a site that knows who looks."""

    def __init__(self, host: Host, members: Members) -> None:
        self.host = host
        self.service = members.service
        self._members = members
        self._session = Cookie(host.access, "session")
        self._visitor = Cookie(host.access, "visitor")
        self._threads = Threads(THREADS, "desk")

    @property
    def private(self) -> bool:
        """Whether visitors see the login and nothing else."""
        return self.service.private

    def close(self) -> None:
        """End the threads; what they do now is done first."""
        self._threads.close()

    async def in_thread(self, work: Callable[[], T]) -> T:
        """The result of work that calls the service; 503 if too much of it waits."""
        return await self._threads.run(work)

    def routes(self) -> list[BaseRoute]:
        """The addresses of pages, forms and what answers by itself."""
        pages = self._members.pages
        routes: list[BaseRoute] = [
            self._route(page.path, partial(self._page, page)) for page in pages
        ]
        for action in self._members.actions:
            routes.append(self._route(action.path, partial(self._action, action), "POST"))
            if action.path not in [page.path for page in pages]:
                # Somebody reloads what a form has shown, or follows a link to it.
                routes.append(self._route(action.path, partial(self._to_page, action)))
        for path, endpoint in self._members.endpoints.items():
            routes.append(self._route(path, partial(self._own, endpoint)))
        return routes

    def open_paths(self) -> frozenset[str]:
        """The addresses that visitors of a private ladder may ask for."""
        return frozenset(page.path for page in self._members.pages if page.open)

    def _route(
        self, path: str, answer: Callable[[Request], Awaitable[Any]], method: str = "GET"
    ) -> Route:
        return Route(path, self.host.asked(answer), methods=[method])

    async def seen(self, request: Request) -> Seen:
        """Who looks: by the session's cookie, if there is one."""
        cookies = request.headers.getlist("cookie")
        address = request.client.host if request.client else ""
        session = self._session.read(cookies)
        caller: Caller | None = None
        if session is not None:
            caller = await self.in_thread(partial(self._caller, session, address))
        if caller is None:
            session, caller = None, visitor(address)
        key = session or self._visitor.read(cookies)
        return Seen(self._visit(caller, key), session, key)

    def _caller(self, session: str, address: str) -> Caller | None:
        try:
            return caller_of_session(self.service, session, address)
        except ServiceError as error:
            if error.kind is Kind.UNAUTHENTICATED:
                return None
            raise

    def _visit(self, caller: Caller, key: str | None) -> Visit:
        return Visit(
            caller=caller,
            service=self.service,
            form_token="" if key is None else form_token(key),
        )

    async def holds(self, seen: Seen) -> bool:
        """Whether a session still is one."""
        return await self.in_thread(partial(still_valid, self.service, seen.visit.caller))

    async def personal(
        self, page: Page[Any], request: Request, read: Callable[[Values], str]
    ) -> Response | None:
        """A public page with what its reader alone sees; None if that is nothing.

        read  makes the page with what its `own` gave
        """
        if page.own is None or self._session.read(request.headers.getlist("cookie")) is None:
            return None
        seen = await self.seen(request)
        if seen.session is None:
            return None
        own, query = page.own, Query(dict(request.path_params))

        def made() -> str | None:
            values = own(seen.visit, query)
            return read(values) if values else None

        text = await self.in_thread(made)
        return None if text is None else self._html(text)

    def to_login(self, request: Request) -> Response:
        """A visitor wants what needs a session."""
        path = request.scope["path"].removeprefix(self.host.access.prefix)
        url = self.host.access.url(SIGNED_OUT, next=None if path == "/" else path)
        return RedirectResponse(url, 303, UNSEEN)

    # Pages

    async def _page(self, page: OwnPage, request: Request) -> Response:
        seen, headers = await self._with_key(page, await self.seen(request))
        given = parameters_of(request, (*page.parameters, "done"))
        query = Query(dict(request.path_params), given)
        try:
            text = await self.in_thread(partial(self._made, page, seen.visit, query))
        except ServiceError as error:
            if error.kind is Kind.UNAUTHENTICATED:
                return self.to_login(request)
            raise
        return self._html(text, headers=headers)

    async def _with_key(self, page: OwnPage, seen: Seen) -> tuple[Seen, Mapping[str, str]]:
        """A visitor with a cookie for the forms of a page that visitors may send."""
        if seen.key is not None or not page.open:
            return seen, {}
        raw = await self.in_thread(self.service.entropy)
        key = base64.urlsafe_b64encode(raw).decode().rstrip("=")
        visit = self._visit(seen.visit.caller, key)
        return Seen(visit, None, key), {"Set-Cookie": self._visitor.give(key)}

    def _made(
        self,
        page: OwnPage,
        visit: Visit,
        query: Query,
        problem: Refusal | None = None,
        typed: Mapping[str, Sequence[str]] | None = None,
    ) -> str:
        values = page.read(visit, query)
        return self.host.look.own(
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

    def _html(
        self, text: str, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Response:
        return Response(
            text.encode(errors="replace"),
            status,
            {**UNSEEN, **(headers or {})},
            media_type="text/html; charset=utf-8",
        )

    # Forms

    async def _action(self, action: Action, request: Request) -> Response:
        check_origin(request, self.host.access)
        seen = await self.seen(request)
        if action.begin is not None:
            return await self._upload(action, action.begin, request, seen)
        form = await read_form(request, action.fields, self.host.clock)
        check_form_token(form, seen.key)
        return await self._act(action, seen, form)

    async def _upload(
        self, action: Action, begin: Callable[[Visit], Upload], request: Request, seen: Seen
    ) -> Response:
        """A form with a file, which is checked before its bytes are taken."""
        check = partial(check_form_token, key=seen.key)
        try:
            upload = await self.in_thread(partial(begin, seen.visit))
        except UserError as error:
            return await self._again(action, seen.visit, Form(), error)
        with upload:
            sent = UploadForm(action.fields, upload, self._threads, check)
            try:
                form = await sent.read(request, self.host.clock)
            except UserError as error:
                return await self._again(action, seen.visit, sent.form, error)
            check(form)
            return await self._act(action, seen, form)

    async def _act(self, action: Action, seen: Seen, form: Form) -> Response:
        try:
            outcome = await self.in_thread(partial(action.act, seen.visit, form))
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
            text = await self.in_thread(
                partial(self._made, action.page, visit, Query(path), problem, action.typed(form))
            )
        except UserError:
            raise error from None
        return self._html(text, problem.status, problem.headers)

    async def _done(self, outcome: Outcome, visit: Visit) -> Response:
        match outcome:
            case Then():
                # A word of a page's own, and no text of anybody's.
                url = self.host.access.url(outcome.path, done=outcome.done)
                return RedirectResponse(url, 303, UNSEEN)
            case Shown():
                own = self.host.look.own
                return self._html(
                    await self.in_thread(
                        partial(own, outcome.template, outcome.title, visit, outcome.values)
                    )
                )
            case Entered():
                now = self._visit(outcome.caller, outcome.secret)
                answer = await self._done(outcome.then, now)
                answer.headers.append(
                    "Set-Cookie", self._session.give(outcome.secret, outcome.seconds)
                )
                answer.headers.append("Set-Cookie", self._visitor.take())
                return answer
            case Left():
                answer = await self._done(outcome.then, visit)
                answer.headers.append("Set-Cookie", self._session.take())
                return answer

    async def _to_page(self, action: Action, request: Request) -> Response:
        url = self.host.access.url(action.page.path.partition("/{")[0])
        return RedirectResponse(url, 303, UNSEEN)

    # What answers by itself

    async def _own(self, endpoint: OwnEndpoint, request: Request) -> ASGIApp:
        seen = await self.seen(request)
        answer = await endpoint(self, seen, request)
        return WhileValid(answer, partial(self.holds, seen), self.host.clock)
