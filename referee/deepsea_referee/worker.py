"""A worker process of a match: plays its share of the games and sends the results.

Invariants: a worker plays its share and nothing else; it sends each game as it ends, and a
WorkerResult at last; it ends on request, and when the process that started it is gone.
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

from deepsea_referee.bots.bot_output import BotLog
from deepsea_referee.errors import RefereeError, UserError
from deepsea_referee.in_process import run_match as run_in_process
from deepsea_referee.match import MatchSettings, play_match
from deepsea_referee.results.summary import GameResult, MatchResult, VoidGame
from deepsea_referee.results.write_behind import WriteBehind
from deepsea_referee.sandbox.errors import SandboxUnavailable
from deepsea_referee.timing.off_turn import OffTurn
from deepsea_rules.record import GameRecord

GRACE_US: Final = 10_000_000
"""The time in which a worker must stop its bots."""
AGAIN_US: Final = 500_000
"""Interval of interrupts for bots in a worker's own process."""


@dataclass(frozen=True, slots=True)
class MatchShare(MatchSettings):
    """One worker's part of a match."""

    worker: int = 0
    """From 0."""
    workers: int = 1
    first: int = 0
    """Games before this one are skipped."""

    @classmethod
    def of(cls, settings: MatchSettings, worker: int, workers: int, first: int = 0) -> Self:
        """Make a worker's part of a match."""
        whole = {one.name: getattr(settings, one.name) for one in fields(MatchSettings)}
        return cls(**whole, worker=worker, workers=workers, first=first)

    def numbers(self) -> Iterator[int]:
        """The numbers of its games."""
        # Alternating, but shifted by one from time to time: else two workers of two bots would
        # each have all games of one seating, and different amounts of work.
        period = math.lcm(self.workers, len(self.bots))
        for number in range(self.first, self.games):
            if (number + number // period) % self.workers == self.worker:
                yield number


@dataclass(slots=True)
class WorkerResult:
    """The last message of a worker."""

    logs: list[BotLog] = field(default_factory=list)
    off_turn: list[OffTurn] = field(default_factory=list)
    error: Exception | None = None


Message: TypeAlias = tuple[GameResult, GameRecord] | VoidGame | WorkerResult


def work(connection: Connection, share: MatchShare, in_process: bool) -> None:
    """Run a worker: the main function of its process."""
    stop_requested = threading.Event()

    def interrupt(*_: object) -> None:
        if stop_requested.is_set():
            raise KeyboardInterrupt

    # The connection says when to stop. Unlike SIG_IGN, a handler is not inherited by bots.
    signal.signal(signal.SIGINT, interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    with suppress(KeyboardInterrupt):
        try:
            if in_process:
                result = _play_in_process(connection, share, stop_requested)
            else:
                result = asyncio.run(_play(connection, share))
            last = WorkerResult(result.logs, result.off_turn)
        except Exception as error:  # noqa: BLE001  (every error is reported to the other process)
            last = WorkerResult(error=_portable(error))
        _send(connection, last)


async def _play(connection: Connection, share: MatchShare) -> MatchResult:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def on_request() -> None:
        loop.remove_reader(connection.fileno())
        stop.set()

    loop.add_reader(connection.fileno(), on_request)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    thread = WriteBehind("connection")  # the reader may be busy, and clocks run here

    def send(message: Message) -> Future[object] | None:
        return thread.do(_send, connection, message)

    try:
        return await play_match(share, lambda *game: send(game), send, interrupt=stop)
    finally:
        thread.close()


def _play_in_process(
    connection: Connection, share: MatchShare, stop_requested: threading.Event
) -> MatchResult:
    done = threading.Event()

    def watch() -> None:
        connection.poll(None)  # until a request to stop, or the end of the other process
        stop_requested.set()
        # Repeatedly: a signal that comes just before a bot begins to wait does not wake it.
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
    with suppress(OSError):  # a closed connection is noticed where the worker waits for it
        connection.send(message)


def _portable(error: Exception) -> Exception:
    """The error in a form that can be sent to another process."""
    if isinstance(error, UserError):
        return error
    for kind in (SandboxUnavailable, RefereeError):
        if isinstance(error, kind):
            return kind(str(error))
    if isinstance(error, OSError):
        return error
    return RuntimeError(f"in a worker: {''.join(traceback.format_exception(error))}")
