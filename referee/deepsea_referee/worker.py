"""One of several workers of a match: what it plays, and how it says what comes of it.

Laws: a worker plays its share and nothing else; it sends each game as it ends, and a farewell at
last; it ends when it is told to, and when nobody is there any more whom it could tell.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, fields
from multiprocessing.connection import Connection
from typing import Final, Self, TypeAlias

from deepsea_referee.bots.output_capture import BotLog
from deepsea_referee.errors import RefereeError, UserError
from deepsea_referee.in_process import run_match as run_in_process
from deepsea_referee.match import MatchSettings, play_match
from deepsea_referee.results.summary import GameResult, MatchResult, VoidGame
from deepsea_referee.results.write_behind import WriteBehind
from deepsea_referee.sandbox.errors import SandboxUnavailable
from deepsea_referee.timing.off_turn import OffTurn
from deepsea_rules.record import GameRecord

GRACE_US: Final = 10_000_000
"""How long a worker may take to end its bots."""
AGAIN_US: Final = 500_000
"""After this time bots in a worker's own process are interrupted again."""


@dataclass(frozen=True, slots=True)
class MatchShare(MatchSettings):
    """One worker's part of a match."""

    worker: int = 0
    """From 0."""
    workers: int = 1
    first: int = 0
    """Games before this one are left out."""

    @classmethod
    def of(cls, settings: MatchSettings, worker: int, workers: int, first: int = 0) -> Self:
        """A part of this match."""
        whole = {one.name: getattr(settings, one.name) for one in fields(MatchSettings)}
        return cls(**whole, worker=worker, workers=workers, first=first)

    def numbers(self) -> Iterator[int]:
        """Its games."""
        # In turns, but moved on by one from time to time: else two workers of two bots would have
        # all games of one seating each, and not the same work.
        period = math.lcm(self.workers, len(self.bots))
        for number in range(self.first, self.games):
            if (number + number // period) % self.workers == self.worker:
                yield number


@dataclass(slots=True)
class WorkerResult:
    """The last that a worker sends."""

    logs: list[BotLog] = field(default_factory=list)
    off_turn: list[OffTurn] = field(default_factory=list)
    error: Exception | None = None


Message: TypeAlias = tuple[GameResult, GameRecord] | VoidGame | WorkerResult


def work(connection: Connection, share: MatchShare, in_process: bool) -> None:
    """What a worker's process does."""
    told = threading.Event()

    def interrupt(*_: object) -> None:
        if told.is_set():
            raise KeyboardInterrupt

    # Who stops when is said over the connection. Unlike ignoring, a handler is not passed on.
    signal.signal(signal.SIGINT, interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    with suppress(KeyboardInterrupt):
        try:
            if in_process:
                result = _play_in_process(connection, share, told)
            else:
                result = asyncio.run(_play(connection, share))
            farewell = WorkerResult(result.logs, result.off_turn)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is to be said over there)
            farewell = WorkerResult(error=_portable(error))
        _send(connection, farewell)


async def _play(connection: Connection, share: MatchShare) -> MatchResult:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def told() -> None:
        loop.remove_reader(connection.fileno())
        stop.set()

    loop.add_reader(connection.fileno(), told)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    thread = WriteBehind("connection")  # the other side may be busy, and clocks run here

    def send(message: Message) -> Future[object] | None:
        return thread.do(_send, connection, message)

    try:
        return await play_match(share, lambda *game: send(game), send, interrupt=stop)
    finally:
        thread.close()


def _play_in_process(
    connection: Connection, share: MatchShare, told: threading.Event
) -> MatchResult:
    done = threading.Event()

    def watch() -> None:
        connection.poll(None)  # until something is said, or nobody is there any more
        told.set()
        # Again and again: a signal that comes just before a bot begins to wait wakes nobody.
        for _ in range(GRACE_US // AGAIN_US):
            if done.is_set():
                return
            signal.pthread_kill(main, signal.SIGINT)
            done.wait(AGAIN_US / 1_000_000)
        os._exit(1)

    main = threading.get_ident()
    threading.Thread(target=watch, daemon=True).start()
    try:
        return run_in_process(share, lambda *game: _send(connection, game))
    finally:
        done.set()


def _send(connection: Connection, message: Message) -> None:
    with suppress(OSError):  # that nobody is there shows where it is waited for
        connection.send(message)


def _portable(error: Exception) -> Exception:
    """What can be raised in another process."""
    if isinstance(error, UserError):
        return error
    for kind in (SandboxUnavailable, RefereeError):
        if isinstance(error, kind):
            return kind(str(error))
    if isinstance(error, OSError):
        return error
    return RuntimeError(f"in a worker: {''.join(traceback.format_exception(error))}")
