"""Plays blocks: games on one seed, in which two bots sit in each seat equally often.

Invariants: a block is closed under swapping the two bots, so that bots that play alike differ only
by their own random numbers; blocks differ only in their seeds; they are reported in the order of
their numbers, whichever ended first, because counting short games first would bias early stopping.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from deepsea_referee.bots.loading import load
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.errors import RefereeError, UserError
from deepsea_referee.hang_watch import HangWatch
from deepsea_referee.in_process import play_number
from deepsea_referee.interrupts import on_signals
from deepsea_referee.match import MatchSettings, play_match
from deepsea_referee.results.summary import GameResult
from deepsea_referee.timing.clock import ThreadClock
from deepsea_rules.constants import MAX_PLAYERS, MIN_PLAYERS
from deepsea_rules.randomness import game_seed
from deepsea_rules.record import GameRecord
from deepsea_sdk.bot import AnyBot

PlayedBlock: TypeAlias = Sequence[tuple[GameResult, GameRecord]]
OnBlock: TypeAlias = Callable[[int, PlayedBlock], bool]
"""Receives a block's number and games; returns True to stop."""
_AHEAD: Final = 2
"""Blocks that wait for each worker: enough to keep it busy, few to discard at the end."""


@dataclass(frozen=True, slots=True)
class BlockSettings(MatchSettings):
    """A match of whole blocks."""

    line_ups: tuple[tuple[int, ...], ...] = ()
    """The games of a block: the bot in each seat."""
    done: int = 0
    """Blocks before this one were played earlier."""
    first: int = 0
    """The first block that is played,"""
    step: int = 1
    """and how far it is to the next one: several workers share the blocks."""

    def numbers(self) -> Iterable[int]:
        size = len(self.line_ups)
        for block in range(self.first, self.games // size, self.step):
            yield from range(block * size, (block + 1) * size)

    def line_up(self, game: int) -> tuple[int, ...]:
        return self.line_ups[game % len(self.line_ups)]

    def game_seed(self, game: int) -> bytes:
        return game_seed(self.seed, game // len(self.line_ups))


def seated(
    a: BotSpec, b: BotSpec, field: Sequence[BotSpec], seats: int | None
) -> tuple[list[BotSpec], tuple[tuple[int, ...], ...], tuple[int, ...], tuple[int, ...]]:
    """The bots of a comparison, the line-ups of a block, and which bots are a's and b's copies.

    With a field, a and b have a seat each, the field has the rest, and all rotate, once in the
    order a b and once in the order b a. Without one, a and b share all seats in turns, once
    beginning with a and once with b: that makes two games, whatever the number of seats.
    """
    players = seats or 2 + len(field)
    if not MIN_PLAYERS <= players <= MAX_PLAYERS:
        raise UserError(f"a game has {MIN_PLAYERS} to {MAX_PLAYERS} seats, not {players}")
    if len(field) > players - 2:
        raise UserError(
            f"{players} seats have room for a field of {players - 2}, not {len(field)}: "
            "name fewer bots or more seats"
        )
    if field:
        others = [field[i % len(field)] for i in range(players - 2)]
        circles = [(*pair, *range(2, players)) for pair in ((0, 1), (1, 0))]
        line_ups = [c[-i:] + c[:-i] for c in circles for i in range(players)]
        return [a, b, *others], tuple(line_ups), (0,), (1,)
    copies = (players + 1) // 2
    ours, theirs = tuple(range(copies)), tuple(range(copies, 2 * copies))
    pairs = [(ours, theirs), (theirs, ours)]
    line_ups = [tuple(pair[s % 2][s // 2] for s in range(players)) for pair in pairs]
    return [a] * copies + [b] * copies, tuple(line_ups), ours, theirs


def play_blocks(
    settings: BlockSettings, on_block: OnBlock, *, workers: int = 1, in_process: bool = False
) -> bool:
    """Play all blocks, or until `on_block` stops it; returns whether Ctrl-C ended it before.

    Raises UserError for a bot that cannot be started or imported.
    """
    if not in_process:
        return asyncio.run(_play_with_processes(settings, on_block, workers))
    players = [load(bot) for bot in settings.bots]
    try:
        if workers == 1:
            for block in _blocks(settings):
                if on_block(block, _play_block(settings, block, players)):
                    break
        else:
            _play_with_workers(settings, on_block, workers)
    except KeyboardInterrupt:
        return True
    return False


def _blocks(settings: BlockSettings) -> range:
    return range(settings.done, settings.games // len(settings.line_ups))


def _play_block(settings: BlockSettings, block: int, players: Sequence[AnyBot]) -> PlayedBlock:
    size, now_us = len(settings.line_ups), ThreadClock().now_us
    numbers = range(block * size, (block + 1) * size)
    # What bots print in hundreds of games is nobody's reading.
    with HangWatch.of(settings.time_control) as watch:
        return [play_number(settings, number, players, now_us, watch) for number in numbers]


# Several processes, each with its own bots


def _play_with_workers(settings: BlockSettings, on_block: OnBlock, workers: int) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _begin_worker, (settings,)) as pool:
        waiting: deque[tuple[int, Future[PlayedBlock]]] = deque()
        blocks = iter(_blocks(settings))
        try:
            while True:
                while len(waiting) < workers * _AHEAD and (block := next(blocks, None)) is not None:
                    waiting.append((block, pool.submit(_work, block)))
                if not waiting:
                    return
                number, games = waiting.popleft()
                if on_block(number, games.result()):
                    return
        except BrokenProcessPool:
            raise RefereeError("a worker process ended before its blocks were played") from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


_worker: list[tuple[BlockSettings, list[AnyBot]]] = []
"""The settings of a worker process."""


def _begin_worker(settings: BlockSettings) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is this process's parent that ends it
    _worker.append((settings, [load(bot) for bot in settings.bots]))


def _work(block: int) -> PlayedBlock:
    settings, players = _worker[0]
    try:
        return _play_block(settings, block, players)
    except UserError:
        _worker.clear()  # what waits here already is not wanted any more, and would hang again
        raise


# Bots as processes: several line-ups under one event loop


async def _play_with_processes(settings: BlockSettings, on_block: OnBlock, workers: int) -> bool:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    interrupted = False
    in_order = _InOrder(settings, on_block, workers)

    async def line_up(first: int) -> None:
        def on_game(result: GameResult, record: GameRecord) -> None:
            if in_order.add(first, result, record):
                stop.set()

        own = replace(settings, first=settings.done + first, step=workers)
        if first < len(_blocks(settings)):
            await play_match(own, on_game, interrupt=stop)
        if in_order.close(first):
            stop.set()

    def interrupt() -> None:
        nonlocal interrupted
        interrupted = True
        loop.call_soon_threadsafe(stop.set)

    with on_signals(interrupt):
        try:
            async with asyncio.TaskGroup() as tasks:
                for first in range(workers):
                    tasks.create_task(line_up(first))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
    return interrupted


class _InOrder:
    """Combines the games of several line-ups into blocks.

    A line-up plays its blocks one after another, so a block that lacks a game when the next one
    begins has a void game. Such a block does not count.
    """

    def __init__(self, settings: BlockSettings, on_block: OnBlock, workers: int) -> None:
        self._size = len(settings.line_ups)
        self._first = self._next = settings.done
        self._total = settings.games // self._size
        self._on_block = on_block
        self._reached = [self._first - 1] * workers
        self._games: dict[int, list[tuple[GameResult, GameRecord]]] = {}
        self._enough = False

    def add(self, worker: int, result: GameResult, record: GameRecord) -> bool:
        """Add a game; returns True to stop."""
        block = (result.game - 1) // self._size
        self._games.setdefault(block, []).append((result, record))
        full = len(self._games[block]) == self._size
        self._reached[worker] = max(self._reached[worker], block if full else block - 1)
        return self._hand_on()

    def close(self, worker: int) -> bool:
        """Note that this line-up has no more games."""
        self._reached[worker] = self._total
        return self._hand_on()

    def _hand_on(self) -> bool:
        while not self._enough and self._next < self._total:
            block = self._next
            if self._reached[(block - self._first) % len(self._reached)] < block:
                break
            self._next += 1
            games = self._games.pop(block, [])
            if len(games) == self._size:
                self._enough = self._on_block(block, games)
        return self._enough
