"""Who looks at pages: found by a cookie, anew for every request.

Invariants: a session is asked for by its cookie alone, and a text that is none is a visitor's;
whatever depends on who looks is `no-store`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from deepsea_arena.api.callers import Caller
from deepsea_arena.api.callers import visitor as visitor_from
from deepsea_arena.api.errors import ApiError, Kind
from deepsea_web.server.access import Access
from deepsea_web.server.gateway import Gateway
from deepsea_web.site.accounts.own_page import (
    SIGNED_OUT,
    Values,
)
from deepsea_web.site.forms import (
    form_token,
)
from deepsea_web.site.look import Look
from deepsea_web.site.page import Page, Query
from deepsea_web.site.rendering import KINDS
from deepsea_web.site.sessions import Cookie
from deepsea_web.site.visit import Visit

UNSEEN: Final = {"Cache-Control": "no-store", "Vary": "Cookie"}
"""The headers of what depends on who looks."""
_IN_PATH: Final = re.compile(r"\{(\w+)\}")
MEMBER: Final = "deepsea.member"
"""In the scope of requests to a private ladder that come from somebody with a session."""
T = TypeVar("T")


class Host(Protocol):
    """The site that has sessions."""

    access: Access
    look: Look
    gateway: Gateway

    def asked(
        self, answer: Callable[[Request], Awaitable[Any]]
    ) -> Callable[[Request], Awaitable[Any]]:
        """The same with a page for every error."""


@dataclass(frozen=True)
class Seen:
    """Who looks, and the cookies that say so."""

    visit: Visit
    session: str | None
    """The secret of the session; None of visitors."""
    key: str | None
    """The cookie that forms are bound to; None before a visitor has one."""


class SessionAuth:
    """The part of a site that knows who looks."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.service = host.gateway.service
        self.in_thread = host.gateway.in_thread
        self.session = Cookie(host.access, "session")
        self.visitor = Cookie(host.access, "visitor")

    async def seen(self, request: Request) -> Seen:
        """Who looks: by the session's cookie, if there is one."""
        cookies = request.headers.getlist("cookie")
        address = request.client.host if request.client else ""
        session = self.session.read(cookies) if self.host.access.keeps_secrets(address) else None
        caller: Caller | None = None
        if session is not None:
            caller = await self.in_thread(partial(self._caller, session, address))
        if caller is None:
            session, caller = None, visitor_from(address)
        key = session or self.visitor.read(cookies)
        return Seen(self.visit(caller, key), session, key)

    def _caller(self, session: str, address: str) -> Caller | None:
        try:
            return self.service.caller_of_session(session, address)
        except ApiError as error:
            if error.kind is Kind.UNAUTHENTICATED:
                return None
            raise

    def visit(self, caller: Caller, key: str | None) -> Visit:
        """Somebody who looks, with a cookie for forms."""
        return Visit(
            caller=caller,
            service=self.service,
            form_token="" if key is None else form_token(key),
        )

    async def holds(self, seen: Seen) -> bool:
        """Whether a session still is one."""
        return await self.in_thread(partial(self.service.still_valid, seen.visit.caller))

    async def personal(
        self, page: Page[Any], request: Request, read: Callable[[Values], str]
    ) -> Response | None:
        """A public page with what its reader alone sees; None if that is nothing.

        read  makes the page with what its `own` gave
        """
        if page.own is None or self.session.read(request.headers.getlist("cookie")) is None:
            return None
        seen = await self.seen(request)
        if seen.session is None:
            return None
        own, query = page.own, Query(dict(request.path_params))

        def made() -> str | None:
            values = own(seen.visit, query)
            return read(values) if values else None

        text = await self.in_thread(made)
        return None if text is None else self.html(text)

    def to_login(self, request: Request) -> Response:
        """A visitor wants what needs a session."""
        path = request.scope["path"].removeprefix(self.host.access.prefix)
        url = self.host.access.url(SIGNED_OUT, next=None if path == "/" else path)
        return RedirectResponse(url, 303, UNSEEN)

    def html(
        self, text: str, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Response:
        """A page that depends on who looks."""
        body = text.encode(errors="replace")
        return Response(body, status, {**UNSEEN, **(headers or {})}, media_type=KINDS["html"])
