"""The server of one person's page on this machine, in a thread beside the games.

Invariants: who has the code of the address, which no request carries in its own address, gets a
session once, and nobody after that; without the session nothing is shown and nothing is done; when
the last reader of the page has left for longer than it takes to load it again, the person has left.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from functools import partial

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from deepsea_referee.timing.clock import Clock, time_limit
from deepsea_sdk.entropy import fresh_token
from deepsea_web.http import (
    NO_STORE,
    EventStream,
    Leaving,
    last_event,
    loopback_server,
    page_app,
    read_fields,
    same_secret,
)
from deepsea_web.play.page import deed_of, place_of, values
from deepsea_web.play.seat import Cursor, PageSeat
from deepsea_web.viewer.assets import file_text, render, script, styles

LINGER_S = 60
"""The time for which the page stays after the games, at most."""
SETTLING_US = 1_000_000
"""The time for which the answer to a form waits for the next question."""
COOKIE = "deepsea-play"
_ELSEWHERE = "this game is played in another browser, or was; a new one has an address of its own"


class PlayServer:
    """The page of a seat; `close` ends it."""

    def __init__(self, seat: PageSeat, clock: Clock) -> None:
        self._seat = seat
        self._clock = clock
        self._code = fresh_token()
        self._secret = fresh_token()
        self._path = f"/{fresh_token()[:12]}/"
        self._entered = False
        self._left = threading.Event()
        self.loop = asyncio.new_event_loop()
        self._listening, self._server = loopback_server(self._app())
        self.port: int = self._listening.getsockname()[1]
        seat.on_readers = Leaving(seat, clock, self._leave).look
        serving = self._server.serve(sockets=[self._listening])
        run = partial(self.loop.run_until_complete, serving)
        self._thread = threading.Thread(target=run, name="page", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """With the code in its fragment, which browsers do not send."""
        return f"http://127.0.0.1:{self.port}{self._path}#{self._code}"

    def wait(self) -> None:
        """Wait until the page is closed, a minute at most."""
        self._left.wait(LINGER_S if self._entered else 0)

    def close(self) -> None:
        self._server.should_exit = True
        self._seat.close()
        self._thread.join()
        self.loop.close()

    def _leave(self) -> None:
        self._left.set()
        self._seat.drop()

    def _app(self) -> ASGIApp:
        files = {
            "viewer.js": script(),
            "play.js": file_text("play/play.js"),
            "play.css": styles() + file_text("play/play.css"),
        }
        routes = [
            Route("/", self._page),
            Route("/enter", self._enter, methods=["POST"]),
            Route("/deed", self._deed, methods=["POST"]),
            Route("/news", self._news),
        ]
        return page_app(self._path.rstrip("/"), routes, files)

    async def _page(self, request: Request) -> Response:
        if self._is_known(request):
            text = "".join(render("play.html", **values(self._seat.document())))
        elif self._entered:
            raise HTTPException(403, _ELSEWHERE)
        else:
            text = "".join(render("play.html", seat=None))
        return HTMLResponse(text, headers=NO_STORE)

    async def _enter(self, request: Request) -> Response:
        code = dict(await self._fields(request)).get("code", "")
        if self._entered or not same_secret(code, self._code):
            raise HTTPException(403, _ELSEWHERE if self._entered else "this is not the code")
        self._entered = True
        answer = RedirectResponse(self._path, 303, NO_STORE)
        answer.set_cookie(COOKIE, self._secret, path=self._path, httponly=True, samesite="strict")
        return answer

    async def _deed(self, request: Request) -> Response:
        self._check(request)
        deed = deed_of(await self._fields(request))
        if deed is None:
            raise HTTPException(400, "this form makes no sense")
        news = self._seat.document()["news"]
        self._seat.do(deed)
        with suppress(TimeoutError):
            async with time_limit(self._clock, SETTLING_US):
                await self._seat.settled(news)
        return RedirectResponse(self._path, 303, NO_STORE)

    async def _news(self, request: Request) -> EventStream[Cursor]:
        self._check(request)
        return EventStream.of_page(self._seat, place_of(last_event(request)))

    def _is_known(self, request: Request) -> bool:
        return self._entered and same_secret(request.cookies.get(COOKIE, ""), self._secret)

    def _check(self, request: Request) -> None:
        if not self._is_known(request):
            raise HTTPException(403, _ELSEWHERE)

    async def _fields(self, request: Request) -> list[tuple[str, str]]:
        """A form's fields; from a page of this address alone, if a browser says from which."""
        fetched = request.headers.get("sec-fetch-site", "same-origin")
        own = f"http://{request.headers.get('host', '')}"
        if fetched != "same-origin" or request.headers.get("origin", own) != own:
            raise HTTPException(403, "this form is from another page")
        return await read_fields(request, self._clock)
