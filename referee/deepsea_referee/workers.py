"""A match shared among worker processes, each of which plays some of the games with its own bots.

Invariants: a game's number determines its worker; workers send results, and this process alone
counts them and calls back; when a worker ends too early, the games that it was playing are void
and a new worker takes over the rest; no worker outlives this process.
"""

from __future__ import annotations

import logging
import multiprocessing
import selectors
import signal
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from typing import Final

from deepsea_referee.errors import RefereeError
from deepsea_referee.in_process import ISOLATION
from deepsea_referee.interrupts import WakePipe, on_signals
from deepsea_referee.match import MatchSettings, OnGame, OnVoid
from deepsea_referee.results.summary import MatchResult, VoidGame
from deepsea_referee.timing.clock import SystemClock
from deepsea_referee.timing.off_turn import OffTurn
from deepsea_referee.worker import GRACE_US, MatchShare, Message, WorkerResult, work

DEATHS_IN_A_ROW: Final = 3
"""The number of workers in a row that may end without having played a game."""
_log = logging.getLogger(__name__)


def run_match(
    settings: MatchSettings,
    workers: int,
    on_game: OnGame | None = None,
    on_void: OnVoid | None = None,
    *,
    in_process: bool = False,
) -> MatchResult:
    """Play a match with worker processes; Ctrl-C ends it early and cleanly.

    Bots whose decisions depend only on the game give the same records as with one worker, except
    for times; games arrive in the order in which they end.
    Raises UserError for a bot that cannot be started or imported, RefereeError if workers keep
    ending without having played a game.
    """
    team = _Team(settings, workers, on_game, on_void, in_process)
    with closing(WakePipe()) as interrupted, on_signals(interrupted.ring):
        try:
            team.play(interrupted)
        finally:
            team.close()
    return team.result


# This process


class _Worker:
    """The handle of one worker process."""

    def __init__(self, share: MatchShare, number: int, deaths: int) -> None:
        self.share = share
        self.number = number
        """Its number among all workers that were started, from 1."""
        self.deaths = deaths
        """The number of workers before it that ended without having played a game."""
        self._coming = share.numbers()
        self._open: dict[int, None] = {}
        """Games before the last reported one that are not yet reported."""
        self.connection: Connection
        self.process: BaseProcess

    def start(self, context: SpawnContext, in_process: bool) -> None:
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, self.share, in_process))
        # Ctrl-C reaches workers too, even before they have set their handler.
        former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, former)
        theirs.close()

    def mark_reported(self, number: int) -> None:
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

    def rest(self) -> MatchShare | None:
        """The share that it has not begun; None if there is none."""
        following = next(self._coming, None)
        return None if following is None else replace(self.share, first=following)


class _Team:
    """The workers of one match."""

    def __init__(
        self,
        settings: MatchSettings,
        workers: int,
        on_game: OnGame | None,
        on_void: OnVoid | None,
        in_process: bool,
    ) -> None:
        self._on_game = on_game
        self._on_void = on_void
        self._in_process = in_process
        self._settings = settings
        self._count = min(workers, settings.games)
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

    def play(self, interrupted: WakePipe) -> None:
        """Play until all games are played, or until `interrupted` rings."""
        self._selector.register(interrupted, selectors.EVENT_READ)
        for place in range(self._count):
            self._hire(MatchShare.of(self._settings, place, self._count))
        while self._workers:
            for key, _ in self._selector.select(self._patience_s()):
                if key.fileobj is interrupted:
                    self._selector.unregister(interrupted)
                    self._break_off()
                elif key.data in self._workers:
                    self._on_message(key.data)
            if self._end_us is not None and self._clock.now_us() >= self._end_us:
                for worker in self._workers:
                    worker.process.kill()

    def close(self) -> None:
        """Stop all workers, and wait until they have exited."""
        for worker in self._workers:
            worker.connection.close()
        for worker in self._workers:
            worker.process.join(GRACE_US / 1_000_000)
            worker.process.kill()
            worker.process.join()
        self._selector.close()

    def _hire(self, share: MatchShare, deaths: int = 0) -> None:
        self._hired += 1
        output = replace(share.output, worker=self._hired)
        worker = _Worker(replace(share, output=output), self._hired, deaths)
        worker.start(self._context, self._in_process)
        self._workers.append(worker)
        # The process too, because a bot's child may hold the connection open.
        for source in (worker.connection.fileno(), worker.process.sentinel):
            self._selector.register(source, selectors.EVENT_READ, worker)

    def _dismiss(self, worker: _Worker) -> str:
        """Remove a worker that has exited or is about to; returns its exit status as text."""
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
                worker.connection.send(None)  # any message is a request to stop

    def _on_message(self, worker: _Worker) -> None:
        message: Message
        try:
            if not worker.connection.poll():
                raise EOFError
            message = worker.connection.recv()
        except (EOFError, OSError):
            self._replace(worker, self._dismiss(worker))
            return
        if isinstance(message, WorkerResult):
            self._on_last_message(worker, message)
        elif isinstance(message, VoidGame):
            worker.mark_reported(message.game - 1)
            self._void(message)
        else:
            result, record = message
            worker.mark_reported(result.game - 1)
            self.result.add(result, record.decisions)
            if self._on_game is not None:
                _wait_for(self._on_game(result, record))

    def _void(self, void: VoidGame) -> None:
        _log.error("game %s is void: %s", void.game_id, void.reason)
        self.result.add_void(void)
        if self._on_void is not None:
            _wait_for(self._on_void(void))

    def _on_last_message(self, worker: _Worker, last: WorkerResult) -> None:
        ending = self._dismiss(worker)
        if last.error is not None:
            raise last.error
        self.result.logs += last.logs
        for ours, theirs in zip(self.result.off_turn, last.off_turn, strict=True):
            ours.add(theirs)
        self._replace(worker, ending)

    def _replace(self, worker: _Worker, ending: str) -> None:
        """Void a lost worker's open games, and start a new worker for the rest."""
        if self.result.interrupted:
            return
        games = worker.take_open()
        for number in games:
            reason = f"its worker ended ({ending})"
            self._void(VoidGame(number + 1, self._settings.game_id(number), reason))
        if (rest := worker.rest()) is not None:
            if worker.deaths + 1 == DEATHS_IN_A_ROW:
                raise RefereeError(f"workers exit before they have played a game ({ending})")
            self._hire(rest, worker.deaths + 1)


def _wait_for(answer: object) -> None:
    if isinstance(answer, Future):
        answer.result()
