"""A match shared among workers, each of which plays some of the games with its own bots.

Invariants: a task of a worker is a share, the numbers of some games; workers send results, and
only this process counts them and calls back; when a worker dies, the games that it was playing are
void, or played again if the caller wants that, and a new worker plays the remaining games of its
share.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sys
from collections import deque
from collections.abc import Hashable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from deepsea_referee import in_process as in_this_process
from deepsea_referee import match
from deepsea_referee.clock import SystemClock
from deepsea_referee.errors import RefereeError
from deepsea_referee.interrupts import StopRequests, WakePipe, on_signals
from deepsea_referee.match import MatchSettings, OnGame, OnVoid
from deepsea_referee.pauses import OffTurn
from deepsea_referee.results_folder import WriteBehind
from deepsea_referee.summary import BotHangs, GameResult, MatchResult, VoidGame
from deepsea_referee.system import equal_shares
from deepsea_referee.workers import (
    GRACE_S,
    Link,
    LocalWorkers,
    Task,
    TaskFailure,
    TaskFunction,
    TaskMessage,
    TaskResult,
    WorkerDeath,
    WorkerEvent,
    Workers,
    do_nothing,
)
from deepsea_rules.game import GameRecord

DEATHS_IN_A_ROW = 3
"""The number of workers of a share that end in a row without a played game, to end the match."""
MOST_GAMES = 50_000
"""The largest default size of a share: each of its games takes about 100 bytes of memory."""
FINISHING = "finishing the games that are being played; Ctrl-C again ends at once"
_log = logging.getLogger(__name__)


def run_match_with_workers(
    settings: MatchSettings,
    workers: int = 1,
    on_game: OnGame | None = None,
    on_void: OnVoid | None = None,
    *,
    in_process: bool = False,
    replay: bool = False,
    pool: Workers | None = None,
    needs: tuple[str, ...] = (),
    share_games: int | None = None,
) -> MatchResult:
    """Play a match with several workers, each a process of its own.

    It ends with its last game, or early at Ctrl-C: games between bots that are processes are then
    dropped, and games between bots in the workers' own processes are finished, unless Ctrl-C comes
    again. The list of what ends a match is in docs/dev/processes.md.

    With one worker and no `pool`, `run_match_over_streams` or `run_match_in_process` plays the
    match in this process.

    Bots whose decisions depend only on the game give the same records with any number of workers,
    except for times. Games arrive in the order in which they end.

    in_process   True to import the bots in the workers' processes
    replay       True to play the games of a worker that died again, instead of making them void
    pool         the workers; by default processes on this machine
    needs        the digests of the files that shares need at other workers
    share_games  about how many games a share has; by default each worker gets an equal share

    Raises UserError for a bot that cannot be started or imported, BotHangs for a bot in a worker's
    process that does not return, and RefereeError if workers repeatedly end without a played game.
    """
    if pool is None and workers == 1:
        if in_process:
            return in_this_process.run_match_in_process(settings, on_game)
        return match.run_match_over_streams(settings, on_game, on_void)
    if pool is None:
        workers = min(workers, settings.games)
        # If games are played one by one, only one process of a worker is busy at a time, so that
        # each worker can have CPUs of its own.
        one_by_one = not in_process and (settings.tables or 1) == 1
        cpus = equal_shares(workers) if one_by_one else ()
        pool = LocalWorkers(partial(player, in_process), workers, cpus=cpus)
    # A fixed number of tables: otherwise nobody would know which games a dead worker was playing.
    settings = replace(settings, tables=settings.tables or 1)
    result = settings.result(
        in_this_process.ISOLATION if in_process else settings.hosting.isolation_text
    )
    if not in_process:
        result.off_turn = [OffTurn() for _ in settings.bots]
    shared = _SharedMatch(settings, pool, result, on_game, on_void, replay, needs, in_process)
    with closing(WakePipe()) as wake, closing(pool):
        interrupt, terminate = (partial(shared.interrupt, wake, requests) for requests in (1, 2))
        with on_signals(interrupt, terminate):
            shared.play(wake, share_games)
    return result


# This process


@dataclass
class _WorkerGames:
    """Games of the match that one worker plays; if it dies, another worker continues."""

    remaining: dict[int, None]
    """The numbers of the games without a result, in the order of play; used as an ordered set."""
    deaths: int = 0
    """The number of workers in a row that ended without a played game."""


@dataclass
class _SharedMatch:
    """A match in progress, in the process that counts the results."""

    settings: MatchSettings
    pool: Workers
    result: MatchResult
    on_game: OnGame | None
    on_void: OnVoid | None
    replay: bool
    needs: tuple[str, ...]
    finishes_games: bool
    """True if games in progress are finished at the first Ctrl-C."""
    stop_requests: int = 0
    hang: BotHangs | None = None
    """The error of the first bot that does not return, which ends the match."""
    waiting: deque[_WorkerGames] = field(default_factory=deque)
    """The shares that no worker has."""
    playing: dict[Task, _WorkerGames] = field(default_factory=dict)
    """The shares that workers play, by their tasks."""
    started: int = 0
    """The number of tasks that were started."""

    def interrupt(self, wake: WakePipe, requests: int) -> None:
        """End the match early, or at once if two stops are requested; for a signal handler.

        wake      the pipe that wakes `play`, which waits for workers
        requests  1 or 2: for how many requests to stop the signal counts
        """
        self.stop_requests += requests
        self.result.interrupted = True
        wake.ring()

    def play(self, wake: WakePipe, share_games: int | None) -> None:
        """Let the workers play until all games are played, or the match is interrupted.

        wake         the pipe that ends the wait for workers when the match is interrupted
        share_games  about how many games a worker gets at a time; None to give each an equal share

        Raises BotHangs for a bot in a worker's process that does not return.
        """
        rounds = self._rounds(share_games)
        while not self.result.interrupted:
            if not self.waiting:
                self.waiting.extend(next(rounds, []))
            if not self.waiting and not self.playing:
                break
            for worker in self.pool.free()[: len(self.waiting)]:
                self._start_share(self.waiting.popleft(), worker)
            for event in self.pool.wait(None, wake):
                self._on_event(event)
        if self.result.interrupted:
            self._end_early(wake)
        if self.hang is not None:
            self.hang.result = self.result
            raise self.hang

    def _start_share(self, share: _WorkerGames, worker: Hashable) -> None:
        """Let a free worker play the games of a share that have no result yet."""
        self.started += 1
        output = replace(self.settings.output, worker=self.started)
        settings = replace(self.settings, part=tuple(share.remaining), output=output)
        task = self.pool.start(settings, worker, self.needs)
        self.playing[task] = share

    def _rounds(self, share_games: int | None) -> Iterator[list[_WorkerGames]]:
        """Yield the games of the match in rounds: each is a list with one share for each worker.

        There is a single round, unless a share has a limited number of games.

        share_games  the number of games of a share; None to divide the games equally
        """
        workers = max(1, len(self.pool.free()))
        size = share_games or min(MOST_GAMES, math.ceil(self.settings.games / workers))
        numbers = iter(self.settings.numbers())
        while numbers_of_round := [*islice(numbers, size * workers)]:
            shares = [_WorkerGames({}) for _ in range(workers)]
            for index, number in enumerate(numbers_of_round):
                share = shares[self.settings.worker_of(index, workers)]
                share.remaining[number] = None
            yield [share for share in shares if share.remaining]

    def _end_early(self, wake: WakePipe) -> None:
        """End an interrupted match: stop the workers, and count the games that they complete.

        Workers with bots in their own processes may finish their games, without a limit of time but
        until a second Ctrl-C. Other workers drop their games and have `GRACE_S` seconds for it.
        """
        self.pool.stop()
        if self.hang is not None:
            pass  # do not wait: other workers may hang, too
        elif self.finishes_games:
            self._wait_for_last_games(wake)
        else:
            self._wait_for_shares()
        # Games that workers have already sent count.
        while self.playing and (events := self.pool.wait(0)):
            for event in events:
                self._on_event(event)
        for task in self.playing:
            self.pool.kill(task)

    def _wait_for_last_games(self, wake: WakePipe) -> None:
        """Handle events until all shares have ended, or until a second request to stop."""
        if self.stop_requests < 2:
            sys.stderr.write(f"{FINISHING}\n")
        while self.playing and self.stop_requests < 2:
            for event in self.pool.wait(None, wake):
                self._on_event(event)

    def _wait_for_shares(self) -> None:
        """Handle events until all shares have ended, but not longer than `GRACE_S`."""
        clock = SystemClock()
        deadline_us = clock.now_us() + int(GRACE_S * 1_000_000)
        while self.playing and (remaining_us := deadline_us - clock.now_us()) > 0:
            for event in self.pool.wait(remaining_us / 1_000_000):
                self._on_event(event)

    def _on_event(self, event: WorkerEvent) -> None:
        """Handle the report of a worker: a game that has ended, or the end of its whole share.

        If games of the share remain, because the worker has died, a new worker gets them. A bot
        that does not return interrupts the match; any other error is raised.
        """
        match event:
            case TaskMessage(task, VoidGame() as void):
                self._remove_from_share(task, void.game)
                self._count_void_game(void)
            case TaskMessage(task, (result, record)):
                self._remove_from_share(task, result.game)
                self.result.add(result, record.decisions)
                if self.on_game is not None:
                    _wait_for(self.on_game(result, record))
            case TaskResult(task, result_of_share):
                self._add_measures(result_of_share)
                self._finish_share(self.playing.pop(task), "it was stopped")
            case WorkerDeath(task, ending):
                self._finish_share(self.playing.pop(task), ending)
            case TaskFailure(task, BotHangs() as error):
                del self.playing[task]
                self.hang = self.hang or error
                self.result.interrupted = True
            case TaskFailure(_, error):
                raise error

    def _remove_from_share(self, task: Task, game: int) -> None:
        """Remove a game that has ended from the share that a task plays; `game` counts from 1."""
        share = self.playing[task]
        del share.remaining[game - 1]
        share.deaths = 0  # only workers that die without having played a game are counted

    def _add_measures(self, result: MatchResult) -> None:
        """Add what a worker has measured in its share, beside the games, to the match's result."""
        self.result.logs += result.logs
        self.result.tables = max(self.result.tables, result.tables)
        self.result.late_share = max(self.result.late_share, result.late_share)
        for total, of_share in zip(self.result.off_turn, result.off_turn, strict=True):
            total.add(of_share)

    def _finish_share(self, share: _WorkerGames, ending: str) -> None:
        """Let a new worker play the remaining games of a share, if any, after its worker's end.

        The games that the worker was playing are void, unless they are played again (`replay`).
        Raises RefereeError if several workers in a row have ended without a played game.

        ending  how the worker ended, in words
        """
        if self.result.interrupted:
            return
        if not self.replay:
            # The worker plays the games in order, so it was playing the first ones.
            in_progress = [*islice(share.remaining, self.settings.tables)]
            for number in in_progress:
                del share.remaining[number]
                reason = f"its worker ended ({ending})"
                self._count_void_game(VoidGame(number + 1, self.settings.game_id(number), reason))
        if share.remaining:
            share.deaths += 1
            if share.deaths == DEATHS_IN_A_ROW:
                raise RefereeError(f"workers exit before they have played a game ({ending})")
            self.waiting.append(share)

    def _count_void_game(self, void: VoidGame) -> None:
        """Count a void game, and call back."""
        _log.error("game %s is void: %s", void.game_id, void.reason)
        self.result.add_void(void)
        if self.on_void is not None:
            _wait_for(self.on_void(void))


def _wait_for(answer: object) -> None:
    """Wait for the future that a callback has returned, if any."""
    if isinstance(answer, Future):
        answer.result()


# A worker


@contextmanager
def player(in_process: bool, link: Link) -> Iterator[TaskFunction]:
    """Set up a worker whose tasks are shares, and yield the function that plays a share.

    The worker sends each game as it ends; the result of the share follows as that of its task.
    """
    yield partial(_play_in_process, link) if in_process else partial(play_share, link)


def play_share(link: Link, share: MatchSettings) -> MatchResult:
    """Play a share with bots that are processes, and return its result."""
    return asyncio.run(_play(link, share))


async def _play(link: Link, share: MatchSettings) -> MatchResult:
    """Play a share of a match in this worker, and send each game to the process that counts them.

    A request to stop ends the share early; complete games count.
    """
    loop = asyncio.get_running_loop()
    interrupt = asyncio.Event()
    link.on_stop(partial(loop.call_soon_threadsafe, interrupt.set))
    # A thread sends the games: the receiver may be busy, and must not delay the clocks here.
    thread = WriteBehind("connection")

    def send_game(result: GameResult, record: GameRecord) -> Future[object] | None:
        return thread.submit(link.send, (result, record))

    def send_void(void: VoidGame) -> Future[object] | None:
        return thread.submit(link.send, void)

    try:
        return await match.play_match(share, send_game, send_void, interrupt=interrupt)
    finally:
        thread.close()
        link.on_stop(do_nothing)  # the event loop will be closed


def _play_in_process(link: Link, share: MatchSettings) -> MatchResult:
    """Play a share of a match with bots in this worker's process, and send each game.

    A request to stop ends the share after the current game.
    """
    stop = StopRequests()
    link.on_stop(stop.ask)

    def send_game(result: GameResult, record: GameRecord) -> None:
        link.send((result, record))

    try:
        return in_this_process.run_match_in_process(share, send_game, stop=stop)
    finally:
        link.on_stop(do_nothing)
