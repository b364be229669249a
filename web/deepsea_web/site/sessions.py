"""Sessions of the site and their cookies: one for a session, one for visitors who play, one that
tells the scripts of pages who is logged in.

Invariants: a cookie is sent to this site alone, and one that gives a right is not seen by scripts;
where there is TLS it has the prefix `__Host-`, with which no other host and no plain connection can
set it. Two ladders on one host have cookies of different names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from deepsea_arena.api.errors import ApiError, Kind
from deepsea_arena.api.service import visitor
from deepsea_ladder.accounts import Caller, SecretKind
from deepsea_web.http import NO_STORE
from deepsea_web.server.access import Access
from deepsea_web.server.gateway import Gateway
from deepsea_web.site.forms import SIGNED_OUT
from deepsea_web.site.page import KINDS, Visit

_VALUE = re.compile(r"[A-Za-z0-9_.~%-]{1,500}")
UNSEEN = {**NO_STORE, "Vary": "Cookie"}
"""The headers of what depends on who looks."""
MEMBER = "deepsea.member"
"""The key of the caller in the scope of a request with a session."""


class Cookie:
    """A cookie of the site; one with `scripts` is seen by scripts, too."""

    def __init__(self, access: Access, purpose: str, *, scripts: bool = False) -> None:
        address = f"{access.origin}{access.prefix}"
        # The path has to be / for the prefix, so that the name has to tell ladders apart.
        name = f"deepsea-{purpose}-{hashlib.sha256(address.encode()).hexdigest()[:8]}"
        self._safe = access.origin.startswith("https:")
        self.name = f"__Host-{name}" if self._safe else name
        self._scripts = scripts

    def read(self, headers: Sequence[str]) -> str | None:
        """Its value in the `Cookie` headers; None if it is not there, is none of ours, or is
        there twice: a cookie of another site may have its name."""
        pairs = [one.strip().partition("=") for header in headers for one in header.split(";")]
        values = [value for name, _, value in pairs if name == self.name]
        return values[0] if len(values) == 1 and _VALUE.fullmatch(values[0]) else None

    def give(self, value: str, seconds: int | None = None) -> str:
        """The `Set-Cookie` header that sets it: for the browser's session, or for a time."""
        return self._header(value, "" if seconds is None else f"; Max-Age={seconds}")

    def take(self) -> str:
        """The `Set-Cookie` header that removes it."""
        return self._header("", "; Max-Age=0")

    def _header(self, value: str, age: str) -> str:
        secure = "; Secure" if self._safe else ""
        hidden = "" if self._scripts else "; HttpOnly"
        return f"{self.name}={value}; Path=/{age}{secure}{hidden}; SameSite=Lax"


@dataclass(frozen=True)
class Seen:
    """A reader, by the cookies of a request."""

    visit: Visit
    session: str | None
    """The secret of the session; None of visitors."""


class SessionAuth:
    """Looks readers up by their cookies, and makes the pages that are theirs alone."""

    def __init__(self, access: Access, gateway: Gateway) -> None:
        self.access = access
        self.gateway = gateway
        self.service = gateway.service
        self.in_thread = gateway.in_thread
        self.clock = gateway.clock
        self.session = Cookie(access, "session")
        self.visitor = Cookie(access, "visitor")
        self.author = Cookie(access, "author", scripts=True)

    async def seen(self, request: Request) -> Seen:
        """The reader, by the session's cookie if there is one."""
        cookies = request.headers.getlist("cookie")
        address = request.client.host if request.client else ""
        session = self.session.read(cookies) if self.access.keeps_secrets(address) else None
        caller: Caller | None = None
        if session is not None:
            caller = await self.in_thread(partial(self._caller, session, address))
        if caller is None:
            session, caller = None, visitor(address)
        else:
            request.scope[MEMBER] = caller
        return Seen(self.visit(caller, self.visitor.read(cookies)), session)

    def _caller(self, session: str, address: str) -> Caller | None:
        try:
            return self.service.caller_of(session, address, SecretKind.SESSION)
        except ApiError as error:
            if error.kind is Kind.UNAUTHENTICATED:
                return None
            raise

    def visit(self, caller: Caller, visitor: str | None = None) -> Visit:
        """A visit of a member, or of a visitor, who is known by a cookie alone."""
        if visitor is not None and not caller.author_id:
            caller = replace(caller, visitor=hashlib.sha256(visitor.encode()).hexdigest())
        return Visit(caller=caller, service=self.service)

    def to_login(self, request: Request) -> Response:
        """A visitor wants what needs a session."""
        path = request.scope["path"].removeprefix(self.access.prefix)
        url = self.access.url(SIGNED_OUT, next=None if path == "/" else path)
        return RedirectResponse(url, 303, UNSEEN)

    def tell_scripts(self, request: Request, seen: Seen, response: Response) -> Response:
        """The response, with the name of its reader's author if scripts know another one."""
        author = quote(seen.visit.author, safe="")
        if author != (self.author.read(request.headers.getlist("cookie")) or ""):
            cookie = self.author.give(author) if author else self.author.take()
            response.headers.append("Set-Cookie", cookie)
        return response

    def html(
        self, text: str, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Response:
        """A page that depends on who looks."""
        body = text.encode(errors="replace")
        return Response(body, status, {**UNSEEN, **(headers or {})}, media_type=KINDS["html"])
