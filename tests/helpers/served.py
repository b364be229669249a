"""The page of a running match, served by a thread of the test by a clock that the test moves."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection, HTTPMessage
from typing import Any, NamedTuple

from deepsea_rules.record import GameRecord
from deepsea_web.live.server import serve

from .manual_clock import ManualClock

PATH = "secret"
TABLE = {"head": ["bot", "games"], "rows": [["greedy", "0"]]}


class Served:
    """A page; `tell` is what the match tells it."""

    def __init__(self, title: str = "greedy, random") -> None:
        self._ports: queue.Queue[int] = queue.Queue()
        self._begun = threading.Event()
        self._streams: list[Stream] = []
        self.clock = ManualClock()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        self._begun.wait()
        self.tell(path=PATH, title=title, facts="0 games", table=TABLE)
        self.port = self._ports.get()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        self._thread.join()
        for stream in self._streams:
            stream.close()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = asyncio.StreamReader(1 << 22)
        self._begun.set()
        await serve(self._reader, self._ports.put, self.clock)

    def _do(self, call: Callable[..., object], *args: object) -> None:
        done = threading.Event()

        def act() -> None:
            call(*args)
            # Only after what it woke has run.
            self._loop.call_soon(done.set)

        self._loop.call_soon_threadsafe(act)
        done.wait()

    def tell(self, **message: object) -> None:
        """Send a message of the match."""
        self._do(self._reader.feed_data, json.dumps(message).encode() + b"\n")

    def game(self, number: int, record: GameRecord | str, words: str = "1. greedy (A) 12") -> None:
        """Send a game."""
        text = record if isinstance(record, str) else record.to_json()
        self.tell(game={"number": number, "words": words}, record=text)

    def jump(self, us: int) -> None:
        """Let time pass."""
        self._do(self.clock.jump, us)

    def hang_up(self) -> None:
        """End the match's process, as far as the page can tell."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._reader.feed_eof)

    def ends(self) -> None:
        """Wait until the page is gone."""
        self._thread.join()

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """The answer to a request below the random path."""
        return self.raw(f"/{PATH}/{path}", method, **headers)

    def raw(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """The answer to a request for this very path."""
        with closing(self._asked(path, method, **headers)) as connection:
            answer = connection.getresponse()
            with answer:
                return Answer(answer.status, answer.headers, answer.read().decode())

    def stream(self, after: object = 0) -> Stream:
        """A stream of news."""
        connection = self._asked(f"/{PATH}/news?after={after}")
        self._streams.append(Stream(connection))
        return self._streams[-1]

    def _asked(self, path: str, method: str = "GET", **headers: str) -> HTTPConnection:
        connection = HTTPConnection("127.0.0.1", self.port)
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection


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
