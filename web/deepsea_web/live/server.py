"""The process of a running match's page: reads games from stdin, serves them, and ends.

Invariants: everything lies below a random path; nothing is changed by a request; frames are made
of the record when they are asked for, and nothing of a bot is sent but as JSON or escaped text; at
most KEPT games are kept, the newest ones; news have numbers that only grow, so that a reader who
says what it has gets what it lacks, whatever it missed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import lru_cache, partial

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from deepsea_referee.system import SYSTEM
from deepsea_referee.timing.clock import Clock, SystemClock
from deepsea_rules.record import GameRecord
from deepsea_web.http import (
    NO_STORE,
    EventStream,
    Leaving,
    Source,
    last_event,
    loopback_server,
    page_app,
    whole_number,
)
from deepsea_web.live.feed import GameLine, Message, Table
from deepsea_web.viewer.assets import file_text, render, script, styles
from deepsea_web.viewer.game_page import PageGame

LINGER_US = 60_000_000
"""The time for which the page stays after the match."""
KEPT = 200
_LONGEST = 4 * 1024 * 1024


class News(Source[int]):
    """The state of the page."""

    def __init__(self, title: str, facts: str, table: Table) -> None:
        super().__init__()
        self.title = title
        self.facts = facts
        self.table = table
        self.over: str | None = None
        self._number = 1  # the news that there is a match: who has nothing gets it
        self._games: dict[int, tuple[int, GameLine, str]] = {}
        """By number of the game: the number of the news, its line and record."""

    def take(self, message: Message) -> None:
        self._number += 1
        if "game" in message:
            line = message["game"]
            self._games[line["number"]] = self._number, line, message["record"]
            if len(self._games) > KEPT:
                del self._games[next(iter(self._games))]
        self.table = message.get("table", self.table)
        self.facts = message.get("facts", self.facts)
        self.over = message.get("over", self.over)
        self.changed()

    def games(self) -> list[GameLine]:
        """The games that are kept, the newest one first."""
        return [line for _, line, _ in self._games.values()][::-1]

    def record(self, number: int) -> str | None:
        """The record of a game; None if it is not kept."""
        found = self._games.get(number)
        return found[2] if found else None

    def since(self, has: int) -> tuple[int, str]:
        """The news after a number, as an event; "" if there are none."""
        if has == self._number:
            return has, ""
        text = json.dumps(
            {
                "news": self._number,
                "facts": self.facts,
                "table": self.table,
                "games": [line for at, line, _ in self._games.values() if at > has],
                "over": self.over,
            }
        )
        return self._number, f"id: {self._number}\ndata: {text}\n\n"


def live_app(news: News, path: str) -> ASGIApp:
    """The application; `path` is the first part of all of its addresses."""

    async def page(request: Request) -> Response:
        text = "".join(render("live.html", news=news, games=news.games(), kept=KEPT))
        return HTMLResponse(text, headers=NO_STORE)

    async def game(request: Request) -> Response:
        found = await _game(news, request)
        number = whole_number(request.path_params["number"])
        text = "".join(render("live_game.html", game=found, number=number))
        return HTMLResponse(text, headers=NO_STORE)

    async def game_data(request: Request) -> Response:
        found = await _game(news, request)
        return JSONResponse(found.data(), headers=NO_STORE)

    async def updates(request: Request) -> EventStream[int]:
        return EventStream.of_page(news, whole_number(last_event(request)) or 0)

    routes = [
        Route("/", page),
        Route("/news", updates),
        Route("/games/{number}.json", game_data),
        Route("/games/{number}", game),
    ]
    assets = {
        "viewer.js": script(),
        "live.js": file_text("live/live.js"),
        "live.css": styles() + file_text("live/live.css"),
    }
    return page_app(f"/{path}", routes, assets)


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


def main() -> None:
    """Serve the match that stdin tells of; prints the port, which the match waits for."""
    asyncio.run(_main())


async def _main() -> None:
    reader = asyncio.StreamReader(_LONGEST)
    await SYSTEM.read_stdin(reader)
    await serve(reader, partial(print, flush=True), SystemClock())


async def serve(
    reader: asyncio.StreamReader, announce: Callable[[int], object], clock: Clock
) -> None:
    """Serve until the messages end, or for a while after the match is over.

    The first message has the `path` and `title` of the page; `announce` gets the port.
    """
    first = await reader.readline()
    if not first:
        return
    head = json.loads(first)
    news = News(head["title"], head["facts"], head["table"])
    listening, server = loopback_server(live_app(news, head["path"]))
    staying = Staying(news, clock)
    announce(listening.getsockname()[1])
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    reading = asyncio.create_task(_read_lines(reader, news, staying))
    ended = asyncio.create_task(staying.ended.wait())
    await asyncio.wait((serving, reading, ended), return_when=asyncio.FIRST_COMPLETED)
    for task in (reading, ended):
        task.cancel()
    news.close()
    server.should_exit = True
    await serving


async def _read_lines(reader: asyncio.StreamReader, news: News, staying: Staying) -> None:
    while line := await reader.readline():
        news.take(json.loads(line))
        if news.over is not None:
            staying.begin()


class Staying:
    """The time after the match: a while, or until everybody who watched has left."""

    def __init__(self, news: News, clock: Clock) -> None:
        self.ended = asyncio.Event()
        self._clock = clock
        self._begun = False
        self._watched = False
        self._leaving = Leaving(news, clock, self.ended.set)
        news.on_readers = self._look

    def begin(self) -> None:
        """The match is over."""
        self._begun = True
        self._clock.at(self._clock.now_us() + LINGER_US, self.ended.set)
        if self._watched:
            self._leaving.look()

    def _look(self) -> None:
        self._watched = True
        if self._begun:
            self._leaving.look()
