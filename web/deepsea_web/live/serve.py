"""The process of the page: reads the match's messages from stdin and serves them on this machine.

Invariants: it listens on 127.0.0.1 alone, at a port of the system's choice and below a random path;
it ends when its stdin ends, whatever became of the match's process, and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Final

import uvicorn

from deepsea_referee.system import SYSTEM
from deepsea_referee.timing.clock import Alarm, Clock, SystemClock
from deepsea_web.live.news import News
from deepsea_web.live.server import live_app

LINGER_US: Final = 60_000_000
"""How long the page stays after the match."""
GRACE_US: Final = 3_000_000
"""How long after the last watcher has left: a page that is loaded again leaves for a moment."""
_LONGEST: Final = 4 * 1024 * 1024


def main() -> None:
    """Serve the match that stdin tells of; prints the port."""

    def announce(port: int) -> None:
        print(port, flush=True)  # noqa: T201  (to the match, which waits for it)

    asyncio.run(_main(announce))


async def _main(announce: Callable[[int], object]) -> None:
    reader = asyncio.StreamReader(_LONGEST)
    await SYSTEM.read_stdin(reader)
    await serve(reader, announce, SystemClock())


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
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server = uvicorn.Server(
        uvicorn.Config(
            live_app(news, head["path"]),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
    )
    staying = Staying(news, clock)
    announce(listening.getsockname()[1])
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    reading = asyncio.create_task(_read(reader, news, staying))
    ended = asyncio.create_task(staying.ended.wait())
    await asyncio.wait((serving, reading, ended), return_when=asyncio.FIRST_COMPLETED)
    for task in (reading, ended):
        task.cancel()
    news.close()
    server.should_exit = True
    await serving


async def _read(reader: asyncio.StreamReader, news: News, staying: Staying) -> None:
    while line := await reader.readline():
        news.take(json.loads(line))
        if news.over is not None:
            staying.begin()


class Staying:
    """How long the page stays after the match: a while, or until everybody who watched has left."""

    def __init__(self, news: News, clock: Clock) -> None:
        self.ended = asyncio.Event()
        self._news = news
        self._clock = clock
        self._begun = False
        self._alarm: Alarm | None = None
        news.on_watchers = self._look

    def begin(self) -> None:
        """The match is over."""
        self._begun = True
        self._clock.at(self._clock.now_us() + LINGER_US, self.ended.set)
        self._look()

    def _look(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._begun and self._news.watched and not self._news.watchers:
            self._alarm = self._clock.at(self._clock.now_us() + GRACE_US, self.ended.set)
