"""A match shared among workers: processes that each play some of the games with bots of their own.

Laws: which worker plays a game follows from its number alone; workers send what comes of games, and
this process alone counts it and hands it on; a worker that ends too early costs the games that it
was playing, which are void, and another one goes on; no worker outlives this process.
"""

from __future__ import annotations

import asyncio
import logging
import math
import multiprocessing
import os
import selectors
import signal
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from typing import Final, Self, TypeAlias

from deepsea_referee.background import Background
from deepsea_referee.clock import SystemClock
from deepsea_referee.errors import RefereeError, UserError
from deepsea_referee.gauge import OffTurn
from deepsea_referee.in_process import ISOLATION
from deepsea_referee.in_process import run_match as run_in_process
from deepsea_referee.match import MatchSettings, OnGame, OnVoid, play_match
from deepsea_referee.results import BotLog, GameResult, MatchResult, VoidGame
from deepsea_rules.record import GameRecord

GRACE_US: Final = 10_000_000
"""How long a worker may take to end its bots."""
AGAIN_US: Final = 500_000
"""After this time bots in a worker's own process are interrupted again."""
DEATHS_IN_A_ROW: Final = 3
"""So often a worker is replaced without a game between."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Share(MatchSettings):
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
class _Farewell:
    """The last that a worker sends."""

    logs: list[BotLog] = field(default_factory=list)
    off_turn: list[OffTurn] = field(default_factory=list)
    error: Exception | None = None


_Message: TypeAlias = tuple[GameResult, GameRecord] | VoidGame | _Farewell


def run_match(
    settings: MatchSettings,
    jobs: int,
    on_game: OnGame | None = None,
    on_void: OnVoid | None = None,
    *,
    in_process: bool = False,
) -> MatchResult:
    """Play a match with so many workers; Ctrl-C ends it early and cleanly.

    The records of bots that decide by what they are told in a game are those of one worker, times
    aside; games come in the order in which they end.
    Raises UserError for a bot that cannot be started or imported, RefereeError if workers keep
    ending without having played a game.
    """
    team = _Team(settings, jobs, on_game, on_void, in_process)
    with _signals() as interrupted:
        try:
            team.play(interrupted)
        finally:
            team.close()
    return team.result


@contextmanager
def _signals() -> Iterator[int]:
    """What is readable once there was a Ctrl-C or a SIGTERM; nothing else comes of them."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def note(*_: object) -> None:
        with suppress(BlockingIOError):
            os.write(writing, b"!")

    former = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield reading
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)


# This process


class _Worker:
    """A worker as this process sees it."""

    def __init__(self, share: Share, number: int, deaths: int) -> None:
        self.share = share
        self.number = number
        """Which of all workers that were started, from 1."""
        self.deaths = deaths
        """How many before it have ended without having played a game."""
        self._coming = share.numbers()
        self._open: dict[int, None] = {}
        """Games before the last one that came, and not yet heard of."""
        self.connection: Connection
        self.process: BaseProcess

    def start(self, context: SpawnContext, in_process: bool) -> None:
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, self.share, in_process))
        # Ctrl-C reaches workers too, also before they can say what is to come of it.
        former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, former)
        theirs.close()

    def heard_of(self, number: int) -> None:
        self.deaths = 0
        while number not in self._open:
            self._open[next(self._coming)] = None
        del self._open[number]

    def take_open(self) -> list[int]:
        """The games that it may be playing."""
        while len(self._open) < self.share.tables:
            if (number := next(self._coming, None)) is None:
                break
            self._open[number] = None
        taken, self._open = [*self._open], {}
        return taken

    def rest(self) -> Share | None:
        """What it has not begun; None if there is nothing."""
        following = next(self._coming, None)
        return None if following is None else replace(self.share, first=following)


class _Team:
    """The workers of one match."""

    def __init__(
        self,
        settings: MatchSettings,
        jobs: int,
        on_game: OnGame | None,
        on_void: OnVoid | None,
        in_process: bool,
    ) -> None:
        self._on_game = on_game
        self._on_void = on_void
        self._in_process = in_process
        self._settings = settings
        self._jobs = min(jobs, settings.games)
        # Forking a process that has threads or gRPC in it is not safe.
        self._context = multiprocessing.get_context("spawn")
        self._clock = SystemClock()
        self._selector = selectors.DefaultSelector()
        self._workers: list[_Worker] = []
        self._hired = 0
        self._end_us: int | None = None
        if in_process:
            self.result = settings.result(ISOLATION)
        else:
            self.result = settings.result(settings.hosting.isolation.name)
            self.result.off_turn = [OffTurn() for _ in settings.bots]

    def play(self, interrupted: int) -> None:
        """Play until all is played, or until `interrupted` is readable."""
        self._selector.register(interrupted, selectors.EVENT_READ)
        for place in range(self._jobs):
            self._hire(Share.of(self._settings, place, self._jobs))
        while self._workers:
            for key, _ in self._selector.select(self._patience_s()):
                if key.fd == interrupted:
                    self._selector.unregister(interrupted)
                    self._break_off()
                elif key.data in self._workers:
                    self._hear(key.data)
            if self._end_us is not None and self._clock.now_us() >= self._end_us:
                for worker in self._workers:
                    worker.process.kill()

    def close(self) -> None:
        """End all workers, and wait until they have."""
        for worker in self._workers:
            worker.connection.close()
        for worker in self._workers:
            worker.process.join(GRACE_US / 1_000_000)
            worker.process.kill()
            worker.process.join()
        self._selector.close()

    def _hire(self, share: Share, deaths: int = 0) -> None:
        self._hired += 1
        worker = _Worker(share, self._hired, deaths)
        worker.start(self._context, self._in_process)
        self._workers.append(worker)
        # That it has ended shows at its process too, if a bot's child holds the connection open.
        for source in (worker.connection.fileno(), worker.process.sentinel):
            self._selector.register(source, selectors.EVENT_READ, worker)

    def _dismiss(self, worker: _Worker) -> str:
        """Forget a worker that has ended, or is just about to; tells how it ended."""
        self._workers.remove(worker)
        for source in (worker.connection.fileno(), worker.process.sentinel):
            self._selector.unregister(source)
        worker.connection.close()
        worker.process.join(GRACE_US / 1_000_000)
        worker.process.kill()
        worker.process.join()
        code = worker.process.exitcode or 0
        return f"signal {-code}" if code < 0 else f"exit status {code}"

    def _patience_s(self) -> float | None:
        if self._end_us is None:
            return None
        return max(0, self._end_us - self._clock.now_us()) / 1_000_000

    def _break_off(self) -> None:
        self.result.interrupted = True
        self._end_us = self._clock.now_us() + GRACE_US
        for worker in self._workers:
            with suppress(OSError):
                worker.connection.send(None)  # what is said does not matter

    def _hear(self, worker: _Worker) -> None:
        message: _Message
        try:
            if not worker.connection.poll():
                raise EOFError
            message = worker.connection.recv()
        except (EOFError, OSError):
            self._lose(worker, self._dismiss(worker))
            return
        if isinstance(message, _Farewell):
            self._part(worker, message)
        elif isinstance(message, VoidGame):
            worker.heard_of(message.game - 1)
            self._void(message)
        else:
            result, record = message
            worker.heard_of(result.game - 1)
            self.result.add(result, record.decisions)
            if self._on_game is not None:
                _wait_for(self._on_game(result, record))

    def _void(self, void: VoidGame) -> None:
        _log.error("game %s is void: %s", void.game_id, void.reason)
        self.result.add_void(void)
        if self._on_void is not None:
            _wait_for(self._on_void(void))

    def _part(self, worker: _Worker, farewell: _Farewell) -> None:
        ending = self._dismiss(worker)
        if farewell.error is not None:
            raise farewell.error
        self.result.logs += [replace(log, worker=worker.number) for log in farewell.logs]
        for ours, theirs in zip(self.result.off_turn, farewell.off_turn, strict=True):
            ours.add(theirs)
        self._lose(worker, ending)

    def _lose(self, worker: _Worker, ending: str) -> None:
        """Go on without this worker, if it has left something to do."""
        if self.result.interrupted:
            return
        games = worker.take_open()
        for number in games:
            reason = f"the worker that played it ended ({ending})"
            self._void(VoidGame(number + 1, self._settings.game_id(number), reason))
        if (rest := worker.rest()) is not None:
            if worker.deaths + 1 == DEATHS_IN_A_ROW:
                raise RefereeError(f"workers end before they have played a game ({ending})")
            self._hire(rest, worker.deaths + 1)


def _wait_for(answer: object) -> None:
    if isinstance(answer, Future):
        answer.result()


# A worker


def _work(connection: Connection, share: Share, in_process: bool) -> None:
    """What a worker's process does."""
    told = threading.Event()

    def interrupt(*_: object) -> None:
        if told.is_set():
            raise KeyboardInterrupt

    # Who stops when is said over the connection. Unlike ignoring, a handler is not passed on.
    signal.signal(signal.SIGINT, interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    logging.getLogger("deepsea_referee").addHandler(logging.NullHandler())
    with suppress(KeyboardInterrupt):
        try:
            if in_process:
                result = _play_in_process(connection, share, told)
            else:
                result = asyncio.run(_play(connection, share))
            farewell = _Farewell(result.logs, result.off_turn)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is to be said over there)
            farewell = _Farewell(error=_portable(error))
        _send(connection, farewell)


async def _play(connection: Connection, share: Share) -> MatchResult:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def told() -> None:
        loop.remove_reader(connection.fileno())
        stop.set()

    loop.add_reader(connection.fileno(), told)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    thread = Background("connection")  # the other side may be busy, and clocks run here

    def send(message: _Message) -> Future[object] | None:
        return thread.do(_send, connection, message)

    try:
        return await play_match(share, lambda *game: send(game), send, interrupt=stop)
    finally:
        thread.close()


def _play_in_process(connection: Connection, share: Share, told: threading.Event) -> MatchResult:
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


def _send(connection: Connection, message: _Message) -> None:
    with suppress(OSError):  # that nobody is there shows where it is waited for
        connection.send(message)


def _portable(error: Exception) -> Exception:
    """What can be raised in another process."""
    for kind in (UserError, RefereeError):
        if isinstance(error, kind):
            return kind(str(error))
    if isinstance(error, OSError):
        return error
    return RuntimeError(f"in a worker: {''.join(traceback.format_exception(error))}")
