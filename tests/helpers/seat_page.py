"""A person at a page: a game for it in this process, and a browser without JavaScript."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from html import unescape
from http.client import HTTPConnection, HTTPMessage
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from deepsea_referee.person import PersonSeat
from deepsea_referee.play_game import play_to_end
from deepsea_referee.workbench.checks import AtRandom
from deepsea_rules.game import Game
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.coach.decisions import Effort
from deepsea_sdk.refereed_game import RefereedGame
from deepsea_web.play.seat import PageSeat
from deepsea_web.play.server import PlayServer

from .games import Chooser
from .manual_clock import ManualClock

CHOICE = re.compile(r'name="action" value="([^"]+)"')
ASKED = re.compile(r'name="asked" value="([1-9]\d*)"')


class Answer(NamedTuple):
    """An answer that was read to its end."""

    status: int
    headers: HTTPMessage
    text: str


class Stream:
    """Server-sent events, one by one."""

    def __init__(self, connection: HTTPConnection) -> None:
        self._connection = connection
        self._answer = connection.getresponse()
        assert self._answer.status == 200

    def next(self) -> Any:
        """The next event; None at the end."""
        while line := self._answer.readline():
            if line.startswith(b"data: "):
                return json.loads(line[6:])
        self.close()
        return None

    def close(self) -> None:
        """Leave."""
        self._answer.close()
        self._connection.close()


class Visitor:
    """A browser without JavaScript."""

    def __init__(self, address: str) -> None:
        self.url = urlsplit(address)
        self.cookie = ""

    def enter(self, code: str | None = None) -> Answer:
        """Send the code of the address, or another one."""
        answer = self.post("enter", code=self.url.fragment if code is None else code)
        self.cookie = answer.headers.get("Set-Cookie", "").partition(";")[0]
        return answer

    def get(self, path: str = "", **headers: str) -> Answer:
        return self._answer("GET", path, None, headers)

    def post(self, path: str, **fields: object) -> Answer:
        return self.send(path, fields)

    def send(self, path: str, fields: dict[str, object], **headers: str) -> Answer:
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return self._answer("POST", path, urlencode(fields), {**kind, **headers})

    def stream(self, after: str = "0.0.0") -> Stream:
        return Stream(self._sent("GET", f"news?after={after}", None, {}))

    def play(self, chooser: Chooser, pages: list[str] | None = None) -> str:
        """Play the game to its end; returns the page then. `pages` gets all on the way."""
        while not (page := self.settled()).count('class="seat-end"'):
            if pages is not None:
                pages.append(page)
            [asked] = set(ASKED.findall(page))
            action = unescape(chooser.pick(CHOICE.findall(page)))
            assert self.post("deed", what="answer", asked=asked, action=action).status == 303
        return page

    def settled(self) -> str:
        """The page, once it waits for the person."""
        while 'http-equiv="refresh"' in (page := self.get().text):
            [place] = re.findall(r'data-place="(\d+\.\d+\.\d+)"', page)
            with closing(self.stream(place)) as stream:
                stream.next()
        return page

    def _answer(self, method: str, path: str, body: str | None, headers: dict[str, str]) -> Answer:
        with closing(self._sent(method, path, body, headers)) as connection:
            answer = connection.getresponse()
            with answer:
                return Answer(answer.status, answer.headers, answer.read().decode())

    def _sent(
        self, method: str, path: str, body: str | None, headers: dict[str, str]
    ) -> HTTPConnection:
        assert self.url.hostname is not None
        connection = HTTPConnection(self.url.hostname, self.url.port)
        cookies = {"Cookie": self.cookie} if self.cookie else {}
        connection.request(method, self.url.path + path, body, {**cookies, **headers})
        return connection


class Sitting(NamedTuple):
    """A game that a person plays at a page."""

    seat: PageSeat
    server: PlayServer
    game: RefereedGame
    clock: ManualClock
    """That of the page."""
    dropped: threading.Event

    def in_loop(self, act: Callable[[], object]) -> None:
        """Do something in the loop of the page's server."""
        done = threading.Event()

        def run() -> None:
            act()
            done.set()

        self.server.loop.call_soon_threadsafe(run)
        done.wait()


@contextmanager
def sitting(
    game: Game,
    place: int = 1,
    *,
    control: TimeControl | None = None,
    bot: str = "bot",
    told: bool = True,
) -> Iterator[Sitting]:
    """Let a person play against bots at random; the game ends at the latest with the context.

    told  the person sees the end; a game with other values than those of its seed has no record
    """
    clock = ManualClock()
    seat = PageSeat(clock, Effort.of(2))
    names = [("you" if index == place else bot, "") for index in range(game.players)]
    refereed = RefereedGame(game, "demo", None, names)
    found = Sitting(seat, PlayServer(seat, clock), refereed, clock, threading.Event())

    async def play() -> None:
        end, loop = asyncio.Event(), asyncio.get_running_loop()

        def drop() -> None:
            found.dropped.set()
            with suppress(RuntimeError):  # the game is over, and its loop has ended
                loop.call_soon_threadsafe(end.set)

        seat.on_drop = drop
        seats = [
            PersonSeat(seat, control, ManualClock(), refereed, index)
            if index == place
            else AtRandom(game, index)
            for index in range(game.players)
        ]
        playing = asyncio.create_task(play_to_end(refereed, seats))
        stop = asyncio.create_task(end.wait())
        await asyncio.wait((playing, stop), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        try:
            if not playing.done():
                playing.cancel()
            elif told:
                playing.result()
                seat.over(1, refereed.played().record, place, judging=False, more=False)
        finally:
            seat.end("that was the last game")

    thread = threading.Thread(target=lambda: asyncio.run(play()))
    thread.start()
    try:
        yield found
    finally:
        seat.drop()
        thread.join()
        found.server.close()
