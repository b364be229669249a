"""A person at a seat's page: a game for it in this process, and a browser without JavaScript."""

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

from deepsea_arena.seat import StoredPerson
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.match import MatchSettings
from deepsea_referee.person import PersonSeat
from deepsea_referee.play_game import play_by_requests
from deepsea_referee.workbench.checks import RandomSeat
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.coach.decisions import Effort
from deepsea_sdk.table import RefereedGame
from deepsea_web.throwaway import ThrowawayLadder

from .games import Chooser
from .manual_clock import ManualClock
from .programs import PATIENT

CHOICE = re.compile(r'name="action" value="([^"]+)"')
ASKED = re.compile(r'name="asked" value="(\d+)"')


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
        self.seat = ""
        """The path of the seat's page."""

    def enter(self, code: str | None = None) -> Answer:
        """Send the code of the address, or another one."""
        answer = self.post("/login", code=self.url.fragment if code is None else code)
        if answer.status == 303:
            self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
            self.seat = answer.headers["Location"]
        return answer

    def get(self, path: str | None = None, **headers: str) -> Answer:
        """A page; without a path that of the seat."""
        return self._answer("GET", path or self.seat, None, headers)

    def post(self, path: str, **fields: object) -> Answer:
        """Send a form of a page of this site."""
        return self.send(path, fields, Origin=f"http://{self.url.netloc}")

    def send(self, path: str, fields: dict[str, object], **headers: str) -> Answer:
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return self._answer("POST", path, urlencode(fields), {**kind, **headers})

    def deed(self, what: str, asked: object, action: str = "") -> Answer:
        """Send a form of the seat's page, and go where the answer leads."""
        name = self.seat.rpartition("/")[2]
        answer = self.post(f"{self.seat}/deed", id=name, what=what, asked=asked, action=action)
        self.seat = answer.headers.get("Location", self.seat)
        return answer

    def stream(self, after: str = "0.0.0") -> Stream:
        return Stream(self._sent("GET", f"{self.seat}/news?after={after}", None, {}))

    def play(self, chooser: Chooser, pages: list[str] | None = None) -> str:
        """Play the game to its end; returns the page then. `pages` gets all on the way."""
        while not (page := self.settled()).count('class="seat-end"'):
            if pages is not None:
                pages.append(page)
            [asked] = set(ASKED.findall(page))
            action = unescape(chooser.pick(CHOICE.findall(page)))
            assert self.deed("answer", asked, action).status == 303
        return page

    def settled(self) -> str:
        """The page, once it waits for the person."""
        while 'http-equiv="refresh"' in (page := self.get().text):
            self.wait(page)
        return page

    def wait(self, page: str) -> None:
        """Wait until the page is another one."""
        [place] = re.findall(r'data-place="(\d+\.\d+\.\d+)"', page)
        with closing(self.stream(place)) as stream:
            stream.next()

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
        connection.request(method, path, body, {**cookies, **headers})
        return connection


class Sitting(NamedTuple):
    """A game that a person plays at a page."""

    ladder: ThrowawayLadder
    game: RefereedGame
    clock: ManualClock
    """That of the person."""
    dropped: threading.Event

    @property
    def person(self) -> StoredPerson:
        return self.ladder.person

    def in_loop(self, act: Callable[[], object]) -> None:
        """Do something in the loop of the page's server."""
        done = threading.Event()

        def run() -> None:
            act()
            done.set()

        self.ladder.loop.call_soon_threadsafe(run)
        done.wait()


@contextmanager
def sitting(
    preset: str = "manual",
    seats: int = 3,
    salt: str = "demo",
    *,
    place: int = 1,
    control: TimeControl | None = None,
    bot: str = "bot",
    told: bool = True,
) -> Iterator[Sitting]:
    """Let a person play against bots at random; the game ends at the latest with the context.

    told  the person sees the end; a game with other values than those of its seed has no record
    """
    names = ["you" if one == place else bot for one in range(seats)]
    settings = MatchSettings(
        bots=[BotSpec(name, (), None, f"{one:064x}") for one, name in enumerate(names)],
        hosting=PATIENT,
        rules=PRESETS[preset],
        seed=seed_from_text(salt),
    )
    clock, refereed = ManualClock(), settings.game(0)
    ladder = ThrowawayLadder(settings, place, clock, Effort.of(2))
    found = Sitting(ladder, refereed, clock, threading.Event())
    person = ladder.person

    async def play() -> None:
        end, loop = asyncio.Event(), asyncio.get_running_loop()

        def drop() -> None:
            found.dropped.set()
            with suppress(RuntimeError):  # the game is over, and its loop has ended
                loop.call_soon_threadsafe(end.set)

        person.on_drop = drop
        seated = [
            PersonSeat(person, control, ManualClock(), refereed, index)
            if index == place
            else RandomSeat(refereed.game, index)
            for index in range(seats)
        ]
        playing = asyncio.create_task(play_by_requests(refereed, seated))
        stop = asyncio.create_task(end.wait())
        await asyncio.wait((playing, stop), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        try:
            if not playing.done():
                playing.cancel()
            elif told:
                playing.result()
                person.over(1, refereed.played().record, place, judging=False, more=False)
        finally:
            person.end("that was the last game")

    thread = threading.Thread(target=lambda: asyncio.run(play()))
    thread.start()
    try:
        yield found
    finally:
        person.drop()
        thread.join()
        ladder.close()
