"""Plays a job of the ladder with the referee.

Invariants: a bot runs from the files that were submitted, checked by their digest, and with the
season's isolation or not at all; an error of the referee voids the game; a bot that does not start
forfeits only its own seat.

Bot processes are reused for the games of a rotation, as in a match: starting them takes longer than
a game.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Final

from deepsea_arena.worker_protocol import Fetch, FinishedGame, Outcome, Play, VoidOutcome
from deepsea_bundle.bot_cache import BotCache
from deepsea_bundle.errors import BundleError
from deepsea_ladder.bot_limits import BotLimits
from deepsea_ladder.model import Job, SeatLog
from deepsea_referee.bots.pool import BotPool
from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import BotSpec, unpacked_bot
from deepsea_referee.errors import RefereeError
from deepsea_referee.play_game import play_game
from deepsea_referee.sandbox import cleanup
from deepsea_referee.sandbox.interface import MIB, ResourceLimits
from deepsea_referee.sandbox.probe import choose
from deepsea_referee.timing.clock import SystemClock
from deepsea_rules.faults import FaultReport
from deepsea_rules.game import Game
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.refereed_game import RefereedGame

GAMES_OF_A_PROCESS: Final = 200
"""The number of games after which bots are restarted even if the same ones play."""


@contextmanager
def worker(fetch: Fetch) -> Iterator[Play]:
    """A `MakePlay`: a worker with a folder of its own for the bots that it fetches."""
    folder = cleanup.private_folder()
    try:
        with guest(folder, fetch) as play:
            yield play
    finally:
        cleanup.remove_folder(folder)


@contextmanager
def guest(folder: Path, fetch: Fetch) -> Iterator[Play]:
    """A worker with its bots in a folder that others may share; what is not there is fetched."""
    player = RatedGamePlayer(BotCache(folder, fetch))
    try:
        yield player.play
    finally:
        player.close()


class RatedGamePlayer:
    """Where one worker plays: an event loop, and the bots that are there now."""

    def __init__(self, folders: BotCache) -> None:
        self._folders = folders
        self._runner = asyncio.Runner()
        self._clock = SystemClock()
        self._present: tuple[object, ...] = ()
        self._pool: BotPool | None = None
        self._leaving = AsyncExitStack()
        self._games = 0

    def play(self, job: Job) -> Outcome:
        """Play the job's game. SIGTERM ends it, and with it the worker."""
        former = signal.getsignal(signal.SIGTERM)
        try:
            return self._runner.run(self._play(job))
        except asyncio.CancelledError:
            raise SystemExit(0) from None
        finally:
            self._runner.get_loop().remove_signal_handler(signal.SIGTERM)
            signal.signal(signal.SIGTERM, former)

    def close(self) -> None:
        """Stop the bots."""
        self._runner.run(self._dismiss())
        self._runner.close()

    async def _play(self, job: Job) -> Outcome:
        task = asyncio.current_task()
        assert task is not None
        # Through the loop: an exception in the middle of anything could leave bots behind.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        versions = sorted(job.seats, key=lambda version: version.id)
        seating = [versions.index(version) for version in job.seats]
        season = job.season
        seats = [(version.label, version.digest) for version in job.seats]
        game = Game(season.rules, len(seats), job.seed)
        refereed = RefereedGame(game, job.game_id, TimeControl.parse(season.clock), seats)
        try:
            pool = await self._invited(job, [self._bot(v.digest, v.label) for v in versions])
            played = await play_game(refereed, pool, seating)
        except RefereeError as error:
            await self._dismiss()
            return VoidOutcome(str(error))
        self._games += 1
        logs = {
            report.seat: SeatLog(
                report.seat, _told(played.faults, report.seat), pool.output(seating[report.seat])
            )
            for report in played.faults
        }
        return FinishedGame(played.record.to_json(), tuple(logs.values()))

    async def _invited(self, job: Job, bots: list[BotSpec]) -> BotPool:
        """The pool of these bots: the present one, or a new one."""
        season = job.season
        wanted = (season.isolation, season.limits, *bots)
        if self._pool is None or wanted != self._present or self._games >= GAMES_OF_A_PROCESS:
            await self._dismiss()
            self._pool = BotPool(bots, hosting(season.isolation, season.limits), self._clock)
            # Left, but never entered: there the first bot that does not start would end it.
            self._leaving.push_async_exit(self._pool)
            self._present, self._games = wanted, 0
        return self._pool

    async def _dismiss(self) -> None:
        self._pool, self._present = None, ()
        await self._leaving.aclose()

    def _bot(self, digest: str, label: str) -> BotSpec:
        try:
            bot = unpacked_bot(self._folders(digest), label)
        except BundleError as error:
            raise RefereeError(f"the files of {label} are damaged: {error}") from None
        if bot.digest != digest:
            raise RefereeError(f"the files of {label} have the digest {bot.digest}, not {digest}")
        return bot


def _told(faults: Sequence[FaultReport], seat: int) -> str:
    """A seat's faults in a game, each error once."""
    lines: dict[str, None] = {}
    for report in faults:
        if report.seat == seat:
            lines[f"decision {report.decision}: {report.explanation()}"] = None
            lines[report.error] = None
    return "\n".join(filter(None, lines))


def hosting(isolation: str, limits: BotLimits | None = None) -> Hosting:
    """The hosting of a season's bots. Raises SandboxUnavailable if the required sandbox fails."""
    limits = limits or BotLimits()
    return Hosting(
        isolation=choose("process" if isolation == "process" else "sandbox"),
        limits=ResourceLimits(
            memory_bytes=limits.memory_mib * MIB,
            processes=limits.processes,
        ),
    )
