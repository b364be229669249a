"""Plays a job of the ladder with the referee.

Invariants: a bot runs from the files that were submitted, checked by their digest, and with the
season's isolation or not at all; an error of the referee voids the game; a bot that does not start
forfeits only its own seat.

Bot processes are reused from game to game, whoever they play with: starting them takes longer than
a game. Those of the next job are started beside the present game.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Protocol

from deepsea_arena.outcomes import outcome_of
from deepsea_arena.play.tasks import FinishedGame, Outcome
from deepsea_arena.running_bots import RunningBots, StartPool
from deepsea_bundle.bot_cache import BotCache
from deepsea_bundle.errors import BundleError
from deepsea_ladder.bot_limits import BotLimits
from deepsea_ladder.model.bots import BotVersion
from deepsea_ladder.model.games import SeatLog
from deepsea_ladder.model.jobs import Job
from deepsea_ladder.season import Season
from deepsea_referee.bots.pool import BotPool
from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import BotSpec, unpacked_bot
from deepsea_referee.errors import RefereeError
from deepsea_referee.play_game import play_game
from deepsea_referee.sandbox import cleanup
from deepsea_referee.sandbox.cgroup import hierarchies
from deepsea_referee.sandbox.interface import MIB, ResourceLimits, SandboxUnavailable
from deepsea_referee.sandbox.probe import choose
from deepsea_referee.system.gauge import BotGauge, WallGauge
from deepsea_referee.timing.clock import SystemClock
from deepsea_referee.timing.freezing import Freezer
from deepsea_rules.faults import FaultReport
from deepsea_rules.game import Game
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.refereed_game import RefereedGame


class WorkerLink(Protocol):
    """What a worker needs of its connection; `deepsea_referee.worker.Link` has it."""

    def file(self, digest: str) -> bytes:
        """The packed files of a bot, which came with a job."""

    def on_stop(self, call: Callable[[], object]) -> None:
        """Set what ends the present game early; called in any thread."""

    def on_next(self, call: Callable[[Job], object]) -> None:
        """Set what is called with each job that comes while a game is played; in another thread."""


@contextmanager
def worker(link: WorkerLink, starts_at_once: int = 1) -> Iterator[Callable[[Job], Outcome]]:
    """Set up a worker that plays jobs, with a folder of its own for their bots.

    starts_at_once  its share of the CPUs; 1 where nobody knows what other workers are there
    """
    cleanup.remove_folders()
    folder = cleanup.private_folder()
    starts = asyncio.Semaphore(starts_at_once)
    player = RatedGamePlayer(BotCache(folder, link.file), link, starts)
    try:
        yield player.play
    finally:
        player.close()
        cleanup.remove_folder(folder)


class RatedGamePlayer:
    """Where one worker plays: an event loop, and the bots that run there."""

    def __init__(self, folders: BotCache, link: WorkerLink, starts: asyncio.Semaphore) -> None:
        """`starts`: the limit of bots that start at once, of all that play here."""
        self._folders = folders
        self._link = link
        self._starts = starts
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._clock = SystemClock()
        self._freezer = Freezer(self._clock)
        self._bots = RunningBots()
        self._read: dict[Hashable, BotSpec] = {}
        """Bots of the next job that do not run yet."""
        self._unpacking: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        """Held while a bot's files are unpacked, by digest: they come once."""
        self._next: Job | None = None
        self._preparing: asyncio.Task[None] | None = None
        link.on_next(self._on_next)

    def play(self, job: Job) -> Outcome:
        """Play the job's game. A request to stop ends it, and with it the worker."""
        try:
            return self._runner.run(self._play(job))
        except asyncio.CancelledError:
            raise SystemExit(0) from None
        except Exception as error:  # noqa: BLE001  (whatever it is, it is no bot's fault)
            return outcome_of(error)

    def close(self) -> None:
        """Stop the bots."""
        if self._preparing is not None:
            self._preparing.cancel()
        self._runner.run(self._bots.close())
        self._runner.close()

    async def _play(self, job: Job) -> Outcome:
        task = asyncio.current_task()
        assert task is not None
        self._link.on_stop(partial(self._loop.call_soon_threadsafe, task.cancel))
        if self._next == job:
            self._next = None
        season = job.season
        seats = [(version.label, version.digest) for version in job.seats]
        game = Game(season.rules, len(seats), job.seed)
        refereed = RefereedGame(game, job.game_id, TimeControl.parse(season.clock), seats)
        bots = self._line_up(job)
        keys = [key for key, _ in bots]
        try:
            line_up = self._bots.seat(bots, season.limits.memory_mib * MIB)
            played = await play_game(refereed, line_up, range(len(seats)), suspects=job.void_seats)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is no bot's fault)
            self._bots.dismiss(keys)
            return outcome_of(error)
        logs = {
            report.seat: SeatLog(
                report.seat, _told(played.faults, report.seat), line_up.output(report.seat)
            )
            for report in played.faults
        }
        self._bots.dismiss([keys[forfeit.seat] for forfeit in played.record.forfeits])
        if self._next is None:
            self._bots.freeze()
        return FinishedGame(played.record.to_json(), tuple(logs.values()))

    def _on_next(self, job: Job) -> None:
        """Prepare for the job that comes after the present one; called in another thread.

        Bots are unpacked and read there: in the event loop, clocks of the present game are running.
        """
        self._next = job
        for (key, _), version in zip(self._line_up(job), job.seats, strict=True):
            if key not in self._bots:
                with suppress(Exception):  # which comes again, and is reported, in its game
                    self._read[key] = self._bot(version)
        self._loop.call_soon_threadsafe(self._begin_to_prepare, job)

    def _begin_to_prepare(self, job: Job) -> None:
        self._preparing = self._loop.create_task(self._prepare(job))

    async def _prepare(self, job: Job) -> None:
        """Start the bots that are missing while a game goes on: one by one, to disturb it less."""
        for key, make in self._line_up(job):
            with suppress(Exception):  # which comes again, and is reported, when the job is played
                await self._bots.prepare(key, make)

    def _line_up(self, job: Job) -> list[tuple[Hashable, StartPool]]:
        season = job.season
        keys = [
            (season.isolation, season.limits, version.digest, version.label)
            for version in job.seats
        ]
        return [
            (key, partial(self._pool, season, version, key))
            for key, version in zip(keys, job.seats, strict=True)
        ]

    def _pool(self, season: Season, version: BotVersion, key: Hashable) -> BotPool:
        bot = self._read.pop(key, None) or self._bot(version)
        settings = hosting(season.isolation, season.limits)
        return BotPool([bot], settings, self._clock, freezer=self._freezer, starts=self._starts)

    def _bot(self, version: BotVersion) -> BotSpec:
        digest, label = version.digest, version.label
        try:
            with self._unpacking[digest]:
                folder = self._folders(digest)
            bot = unpacked_bot(folder, label)
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
    """The hosting of a season's bots.

    Raises SandboxUnavailable if the required sandbox or control groups do not work.
    """
    limits = limits or BotLimits()
    if limits.require_cgroups and (missing := hierarchies().missing()):
        raise SandboxUnavailable(
            f"this season requires control groups, and here are none for {', '.join(missing)}: "
            "see `deepsea-referee doctor`"
        )
    level = choose("process" if isolation == "process" else "sandbox")
    counted = level.counts_every_process or level.name == "process"
    return Hosting(
        isolation=level,
        gauge=BotGauge if counted else WallGauge,
        limits=ResourceLimits(
            memory_bytes=limits.memory_mib * MIB,
            processes=limits.processes,
        ),
    )
