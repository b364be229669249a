"""A match shared among workers, each of which plays some of the games with its own bots.

Invariants: a task of a worker is a share, the numbers of some games; workers send results, and
this process alone counts them and calls back; when a worker dies, the games that it was playing are
void, or played again if the caller wants that, and the rest of its share is played by a new one.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TypeAlias

from deepsea_referee import in_process as in_this_process
from deepsea_referee import match
from deepsea_referee.errors import RefereeError
from deepsea_referee.interrupts import StopRequests, WakePipe, on_signals
from deepsea_referee.match import MatchSettings, OnGame, OnVoid
from deepsea_referee.results.folder import WriteBehind
from deepsea_referee.results.summary import BotHangs, GameResult, MatchResult, VoidGame
from deepsea_referee.system import equal_shares
from deepsea_referee.timing.clock import SystemClock
from deepsea_referee.timing.pauses import OffTurn
from deepsea_referee.workers import (
    GRACE_S,
    Died,
    Done,
    Event,
    Failed,
    Link,
    LocalWorkers,
    Perform,
    Sent,
    Task,
    Workers,
)
from deepsea_rules.record import GameRecord

DEATHS_IN_A_ROW = 3
"""The number of workers in a row that may end without having played a game."""
MOST_GAMES = 50_000
"""The most games of a share, by default: each takes about 100 bytes of memory."""
FINISHING = "finishing the games that are being played; Ctrl-C again ends at once"
_log = logging.getLogger(__name__)


Message: TypeAlias = tuple[GameResult, GameRecord] | VoidGame


def run_match(
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
    """Play a match, with several workers in processes of their own; Ctrl-C ends it early.

    Bots that are processes give up the games that are being played. Of bots in the workers' own
    processes these games are finished, unless there is a second Ctrl-C.

    Bots whose decisions depend only on the game give the same records with any number of workers,
    except for times; games arrive in the order in which they end.

    replay       play the games of a worker that died again, instead of making them void
    pool         other workers than processes on this machine; they play shares
    needs        digests of the files that shares need there
    share_games  about how many games make a share; by default each worker gets an equal share
    Raises UserError for a bot that cannot be started or imported, BotHangs for one in a process
    with others that does not return, RefereeError if workers keep ending without having played a
    game.
    """
    if pool is None and workers == 1:
        if in_process:
            return in_this_process.run_match(settings, on_game)
        return match.run_match(settings, on_game, on_void)
    if pool is None:
        workers = min(workers, settings.games)
        # Where games are played one by one, hardly two processes of a worker work at once.
        one_by_one = not in_process and (settings.tables or 1) == 1
        cpus = equal_shares(workers) if one_by_one else ()
        pool = LocalWorkers(partial(player, in_process), workers, cpus=cpus)
    # Where tables are chosen, nobody outside knows which games a lost worker was playing.
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
class _Share:
    """Some games of the match, which a worker plays; another one goes on if it dies."""

    left: dict[int, None]
    """The numbers of the games that have not come back, in the order of play."""
    deaths: int = 0
    """The number of workers in a row that ended without having played a game."""


@dataclass
class _SharedMatch:
    """A match under way."""

    settings: MatchSettings
    pool: Workers
    result: MatchResult
    on_game: OnGame | None
    on_void: OnVoid | None
    replay: bool
    needs: tuple[str, ...]
    finishes: bool
    """At the first Ctrl-C the games that are being played are finished."""
    stop_requests: int = 0
    hangs: BotHangs | None = None
    """The first bot that does not return, which ends the match."""
    waiting: deque[_Share] = field(default_factory=deque)
    playing: dict[Task, _Share] = field(default_factory=dict)
    started: int = 0

    def interrupt(self, wake: WakePipe, requests: int) -> None:
        """End the match early, at a second request at once; for a signal handler."""
        self.stop_requests += requests
        self.result.interrupted = True
        wake.ring()

    def play(self, wake: WakePipe, share_games: int | None) -> None:
        """Play until all games are played, or interrupted."""
        rounds = self._rounds(share_games)
        while not self.result.interrupted:
            self.waiting = self.waiting or deque(next(rounds, ()))
            if not self.waiting and not self.playing:
                break
            for worker in self.pool.free()[: len(self.waiting)]:
                share = self.waiting.popleft()
                self.started += 1
                output = replace(self.settings.output, worker=self.started)
                part = replace(self.settings, part=tuple(share.left), output=output)
                self.playing[self.pool.start(part, worker, self.needs)] = share
            for event in self.pool.wait(None, wake):
                self._on_event(event)
        if self.result.interrupted:
            self._break_off(wake)
        if self.hangs is not None:
            self.hangs.result = self.result
            raise self.hangs

    def _rounds(self, share_games: int | None) -> Iterator[list[_Share]]:
        """All games of the match, a share for each worker at a time."""
        workers = max(1, len(self.pool.free()))
        size = share_games or min(MOST_GAMES, -(-self.settings.games // workers))
        numbers = iter(self.settings.numbers())
        while games := [*islice(numbers, size * workers)]:
            shares = [_Share({}) for _ in range(workers)]
            for place, number in enumerate(games):
                shares[self.settings.worker_of(place, workers)].left[number] = None
            yield [share for share in shares if share.left]

    def _break_off(self, wake: WakePipe) -> None:
        self.pool.stop()
        if self.hangs is not None:
            pass  # the others may hang too
        elif self.finishes:
            if self.stop_requests < 2:
                sys.stderr.write(f"{FINISHING}\n")
            while self.playing and self.stop_requests < 2:
                for event in self.pool.wait(None, wake):
                    self._on_event(event)
        else:
            self._wait_for_shares()
        # Complete games that workers have sent count, whatever they do now.
        while self.playing and (events := self.pool.wait(0)):
            for event in events:
                self._on_event(event)
        for task in self.playing:
            self.pool.kill(task)

    def _wait_for_shares(self) -> None:
        clock = SystemClock()
        end_us = clock.now_us() + int(GRACE_S * 1_000_000)
        while self.playing and (left_us := end_us - clock.now_us()) > 0:
            for event in self.pool.wait(left_us / 1_000_000):
                self._on_event(event)

    def _on_event(self, event: Event) -> None:
        match event:
            case Sent(task, VoidGame() as void):
                self._game_ended(self.playing[task], void.game - 1)
                self._void(void)
            case Sent(task, (result, record)):
                self._game_ended(self.playing[task], result.game - 1)
                self.result.add(result, record.decisions)
                if self.on_game is not None:
                    _wait_for(self.on_game(result, record))
            case Done(task, result):
                self.result.logs += result.logs
                self.result.tables = max(self.result.tables, result.tables)
                self.result.late_share = max(self.result.late_share, result.late_share)
                for ours, theirs in zip(self.result.off_turn, result.off_turn, strict=True):
                    ours.add(theirs)
                self._finish_share(self.playing.pop(task), "it was stopped")
            case Died(task, ending):
                self._finish_share(self.playing.pop(task), ending)
            case Failed(task, BotHangs() as error):
                del self.playing[task]
                self.hangs = self.hangs or error
                self.result.interrupted = True
            case Failed(_, error):
                raise error

    def _game_ended(self, share: _Share, number: int) -> None:
        del share.left[number]
        share.deaths = 0

    def _finish_share(self, share: _Share, ending: str) -> None:
        """Let a new worker play what is left of a share whose worker has ended."""
        if self.result.interrupted:
            return
        if not self.replay:
            for number in [*islice(share.left, self.settings.tables)]:  # it may be playing these
                del share.left[number]
                reason = f"its worker ended ({ending})"
                self._void(VoidGame(number + 1, self.settings.game_id(number), reason))
        if share.left:
            share.deaths += 1
            if share.deaths == DEATHS_IN_A_ROW:
                raise RefereeError(f"workers exit before they have played a game ({ending})")
            self.waiting.append(share)

    def _void(self, void: VoidGame) -> None:
        _log.error("game %s is void: %s", void.game_id, void.reason)
        self.result.add_void(void)
        if self.on_void is not None:
            _wait_for(self.on_void(void))


def _wait_for(answer: object) -> None:
    if isinstance(answer, Future):
        answer.result()


# A worker


@contextmanager
def player(in_process: bool, link: Link) -> Iterator[Perform]:
    """Set up a worker whose tasks are shares: it sends each game as it ends, then the result."""
    yield partial(_play_in_process, link) if in_process else partial(play_share, link)


def play_share(link: Link, share: MatchSettings) -> MatchResult:
    """Play a share with bots that are processes."""
    return asyncio.run(_play(link, share))


async def _play(link: Link, share: MatchSettings) -> MatchResult:
    loop, interrupt = asyncio.get_running_loop(), asyncio.Event()
    link.on_stop(partial(loop.call_soon_threadsafe, interrupt.set))
    thread = WriteBehind("connection")  # the reader may be busy, and clocks run here

    def send(message: Message) -> Future[object] | None:
        return thread.do(link.send, message)

    try:
        return await match.play_match(share, lambda *game: send(game), send, interrupt=interrupt)
    finally:
        thread.close()
        link.on_stop(int)  # the loop will be closed


def _play_in_process(link: Link, share: MatchSettings) -> MatchResult:
    stop = StopRequests()
    link.on_stop(stop.ask)
    try:
        return in_this_process.run_match(share, lambda *game: link.send(game), stop=stop)
    finally:
        link.on_stop(int)
