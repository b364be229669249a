"""A private ladder: visitors see the login and nothing else.

Invariants: what is not listed as open is refused to visitors before anything of it is read, so a
new address is closed unless it is opened; what members get is never kept; it ends with their
session, however long it lasts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepsea_web.site.accounts.desk import MEMBER, UNSEEN, SessionAuth
from deepsea_web.site.accounts.ending import WhileValid

_OPEN: Final = "/static/"
"""What begins so: scripts and styles."""


Refused = Callable[[Request, Exception], Awaitable[Response]]
"""Makes the page of an error."""


class MembersOnly:
    """An application for those with a session."""

    def __init__(
        self, app: ASGIApp, sessions: SessionAuth, open_paths: Collection[str], refused: Refused
    ) -> None:
        self._app = app
        self._sessions = sessions
        self._clock = sessions.host.gateway.clock
        self._refused = refused
        self._open = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            seen = await self._sessions.seen(request)
        except Exception as error:  # noqa: BLE001  (every error has its page)
            answer = await self._refused(request, error)
            await answer(scope, receive, send)
            return
        if seen.session is None:
            answer = await self._refuse(request)
            await answer(scope, receive, send)
            return
        scope = {**scope, MEMBER: True}
        inner = WhileValid(self._app, partial(self._sessions.holds, seen), self._clock)
        await inner(scope, receive, _unkept(send))

    def _is_open(self, path: str) -> bool:
        path = path.removeprefix(self._sessions.host.access.prefix)
        return path in self._open or path.startswith(_OPEN)

    async def _refuse(self, request: Request) -> Response:
        wanted = request.query_params.get("format", "html")
        path = request.scope["path"].removeprefix(self._sessions.host.access.prefix)
        # What is made for programs and frames gets no page of another address.
        is_page = wanted == "html" and not path.startswith(("/embed/", "/events"))
        if request.method in ("GET", "HEAD") and is_page and not path.endswith(".json"):
            return self._sessions.to_login(request)
        error = HTTPException(403, "This ladder is private: log in at its first page.")
        return await self._refused(request, error)


def _unkept(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in UNSEEN.items():
                headers[name] = value
            del headers["etag"]
        await send(message)

    return sent
