"""What the page of a running match answers.

Invariants: everything lies below a random path; nothing is changed by a request; frames are made
of the record when they are asked for, and nothing of a bot is sent but as JSON or escaped text.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from deepsea_rules.record import GameRecord
from deepsea_web.event_stream import EventStream
from deepsea_web.http import LOOPBACK, Guarded
from deepsea_web.live.news import KEPT, News
from deepsea_web.numbers import whole_number
from deepsea_web.template import render
from deepsea_web.viewer.assets import script, styles
from deepsea_web.viewer.game_page import PageGame

MOST_STREAMS: Final = 32
_NO_STORE: Final = {"Cache-Control": "no-store"}


def live_app(news: News, path: str) -> ASGIApp:
    """The application; `path` is the first part of all of its addresses."""

    async def page(request: Request) -> Response:
        text = "".join(render("live.html", news=news, games=news.games(), kept=KEPT))
        return HTMLResponse(text, headers=_NO_STORE)

    async def game(request: Request) -> Response:
        found = await _game(news, request)
        number = whole_number(request.path_params["number"])
        text = "".join(render("live_game.html", game=found, number=number))
        return HTMLResponse(text, headers=_NO_STORE)

    async def game_data(request: Request) -> Response:
        found = await _game(news, request)
        return JSONResponse(found.data(), headers=_NO_STORE)

    async def updates(request: Request) -> Response | EventStream[int]:
        if news.watchers >= MOST_STREAMS:
            raise HTTPException(503, "too many pages are open")
        last = request.headers.get("last-event-id", request.query_params.get("after", ""))
        return EventStream(news, whole_number(last) or 0)

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return PlainTextResponse(f"{error.detail}\n", error.status_code, headers=error.headers)

    routes = [
        Route("/", page),
        Route("/news", updates),
        Route("/games/{number}.json", game_data),
        Route("/games/{number}", game),
        _asset("/viewer.js", script(), "text/javascript"),
        _asset("/live.js", _read("live.js"), "text/javascript"),
        _asset("/live.css", styles() + _read("live.css"), "text/css"),
    ]
    inner = Starlette(
        routes=[Mount(f"/{path}", routes=routes)], exception_handlers={HTTPException: refused}
    )
    return Guarded(inner, LOOPBACK)


async def _game(news: News, request: Request) -> PageGame:
    number = whole_number(request.path_params["number"]) or 0
    text = news.record(number)
    if text is None:
        raise HTTPException(404, f"this game is not kept; there are the newest {KEPT} at most")
    # In a thread: it takes many milliseconds, and other readers wait.
    return await run_in_threadpool(_made, text, f"game-{number:04}.json")


@lru_cache(maxsize=32)
def _made(record: str, file: str) -> PageGame:
    return PageGame.of(GameRecord.from_json(record), file)


def _asset(path: str, text: str, kind: str) -> Route:
    async def asset(request: Request) -> Response:
        return Response(text, media_type=kind, headers={"Cache-Control": "no-cache"})

    return Route(path, asset)


def _read(name: str) -> str:
    return files("deepsea_web.live").joinpath(name).read_text(encoding="utf-8")
