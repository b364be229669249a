"""Workers that play the ladder's games: processes on this machine, or a Dask cluster.

A match that is no ladder's on the workers of a Dask cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deepsea_arena.rated_games import hosting, own_folder
from deepsea_arena.rated_games import worker as game_worker
from deepsea_arena.run_report import RunWatcher, Stop
from deepsea_arena.seasons import without_cgroups
from deepsea_arena.tasks import (
    FinishedGame,
    HostTrouble,
    Outcome,
    VoidOutcome,
    outcome_of_event,
)
from deepsea_bundle.atomic import BotCache
from deepsea_ladder.model import Job
from deepsea_ladder.season import Season
from deepsea_ladder.store import Store
from deepsea_referee import shared_match
from deepsea_referee.bots.output import OutputPlan
from deepsea_referee.bots.resolve import BotSpec, unpacked_bot
from deepsea_referee.errors import UserError
from deepsea_referee.match import MatchSettings, OnGame, OnVoid
from deepsea_referee.sandbox.interface import Isolation, IsolationLevel
from deepsea_referee.sandbox.probe import choose
from deepsea_referee.summary import MatchResult
from deepsea_referee.system import equal_shares
from deepsea_referee.workers import Link, LocalWorkers, Task, TaskResult, WorkerEvent, Workers

if TYPE_CHECKING:
    from deepsea_arena.dask import DaskWorkers


def dask_workers() -> type[DaskWorkers]:
    """The pool on a Dask cluster; raises UserError if Dask is not installed."""
    try:
        from deepsea_arena.dask import DaskWorkers
    except ModuleNotFoundError as error:
        if error.name != "distributed":
            raise
        raise UserError(
            "--cluster needs the package distributed: pip install distributed"
        ) from None
    return DaskWorkers


@dataclass
class JobWorkers:
    """The workers that play the jobs of a run. Their tasks are jobs, and results are outcomes."""

    pool: Workers
    machine: Callable[[Any], str] = lambda place: ""
    """The address of a worker's machine; "" for this one."""
    dismiss: Callable[[str, str], bool] = lambda machine, why: False
    """Gives up the workers of a machine, with the reason; whether there were any."""

    def __post_init__(self) -> None:
        self._tasks: dict[Task, tuple[Job, Hashable]] = {}
        """Jobs and the workers that play them, in the order in which they were started."""
        self._rotations: dict[Hashable, int] = {}
        """The rotations of the workers' last jobs."""
        self._has_worked = False
        """True if any worker has finished a job, so that they can be started here."""

    def free(self) -> Sequence[int | None]:
        """The workers that can take a job, once for each: the rotations of their last jobs."""
        return [self._rotations.get(place) for place in self.pool.free()]

    def start(self, job: Job) -> bool:
        """Give a job to one of the workers with the fewest: that of its rotation, or a new one.

        False if there is none any more: those that were free have left.
        """
        jobs = Counter(place for _, place in self._tasks.values())
        free = sorted(self.pool.free(), key=jobs.__getitem__)
        if not free:
            return False
        idle = [place for place in free if jobs[place] == jobs[free[0]]]
        rotations = {place: self._rotations.get(place) for place in idle}
        place = max(rotations, key=lambda at: (rotations[at] == job.rotation, not rotations[at]))
        needs = dict.fromkeys(version.digest for version in job.seats)
        self._tasks[self.pool.start(job, place, tuple(needs))] = job, place
        self._rotations[place] = job.rotation
        return True

    def wait(self, seconds: float, stop: Stop) -> Sequence[tuple[Job, Outcome]]:
        """The outcomes of jobs; maybe none after `seconds`, or when `stop` wakes it."""
        return [self._finished(event) for event in self.pool.wait(seconds, stop)]

    def waits(self, job: Job) -> bool:
        """True if a job was not begun because its worker still plays another one."""
        playing: set[Hashable] = set()
        for started, place in self._tasks.values():
            if started == job:
                return place in playing
            playing.add(place)
        return False

    def abandon(self, job: Job) -> None:
        """Kill the worker of a job; the job has no outcome then."""
        for task in [task for task, (started, _) in self._tasks.items() if started == job]:
            del self._tasks[task]
            self.pool.kill(task)

    def close(self) -> None:
        """Stop every worker, whatever it plays."""
        self.pool.close()

    def _finished(self, event: WorkerEvent) -> tuple[Job, Outcome]:
        job, place = self._tasks.pop(event.task)
        outcome, machine = outcome_of_event(event, has_worked=self._has_worked), self.machine(place)
        self._has_worked |= isinstance(event, TaskResult)
        match outcome:
            case FinishedGame():
                outcome = replace(outcome, machine=machine)
            case VoidOutcome() if machine:  # which must not blame a bot
                outcome = replace(outcome, seat=None)
            case VoidOutcome() | HostTrouble():
                pass
            case _:
                outcome = VoidOutcome("the worker returned no outcome")
        return job, outcome


MakePool = Callable[[Season, RunWatcher], JobWorkers]
"""Starts the workers for a season's games; the callback reports problems with them."""


def local_workers(store: Store, workers: int) -> MakePool:
    """Worker processes on this machine, which get bots from this store through this process."""

    def make(season: Season, watcher: RunWatcher) -> JobWorkers:
        # Refused here, in one line, rather than by every worker.
        settings = hosting(season.isolation, season.limits).for_one_of(workers)
        if note := without_cgroups(season.isolation):
            watcher.trouble(note)
        setup = partial(game_worker, starts_at_once=settings.starts_at_once)
        cpus = equal_shares(workers)
        pool = LocalWorkers(setup, workers, fetch=store.bots.archive, ahead=1, cpus=cpus)
        return JobWorkers(pool)

    return make


def cluster_workers(store: Store, address: str) -> MakePool:
    """The workers of the Dask scheduler at `address`, which get bots from this store."""

    def make(season: Season, watcher: RunWatcher) -> JobWorkers:
        check, fetch = partial(hosting, season.isolation, season.limits), store.bots.archive
        pool = dask_workers()(address, game_worker, check, fetch=fetch, report=watcher.trouble)
        return JobWorkers(pool, lambda place: place.address, pool.dismiss)

    return make


GAMES_OF_A_SHARE = 20


def match_on_cluster(
    settings: MatchSettings,
    address: str,
    on_game: OnGame | None = None,
    on_void: OnVoid | None = None,
    *,
    report: Callable[[str], object],
) -> MatchResult:
    """Play a match on the workers of the scheduler at `address`; see `shared_match.run_match`.

    report  called with what should be known of workers that cannot be used
    Raises UserError for a bot that has no files, WorkerError if nobody can play.
    """
    archives: dict[str, bytes] = {}
    digests = []
    for bot in settings.bots:
        if bot.bundle is None:
            raise UserError(f"{bot.name!r} is a command on this machine, and a cluster plays files")
        digests.append(bot.bundle.digest)
        archives[bot.bundle.digest] = bot.bundle.archive
    level: IsolationLevel = "process" if settings.hosting.isolation.name == "process" else "sandbox"
    setup = partial(player, tuple(digests), level)
    check = partial(choose, level)
    pool = dask_workers()(address, setup, check, fetch=archives.__getitem__, report=report)
    by_digest = [replace(bot, bundle=None) for bot in settings.bots]
    return shared_match.run_match(
        replace(settings, bots=by_digest, output=OutputPlan()),
        on_game=on_game,
        on_void=on_void,
        pool=pool,
        needs=tuple(archives),
        share_games=GAMES_OF_A_SHARE,
    )


@contextmanager
def player(
    digests: Sequence[str], level: IsolationLevel, link: Link
) -> Iterator[Callable[[MatchSettings], MatchResult]]:
    """Set up a worker whose tasks are shares of a match of bots with these digests."""
    isolation: Isolation = choose(level)
    with own_folder() as folder:
        bots = BotCache(folder, link.file)

        def here(bot: BotSpec, digest: str) -> BotSpec:
            found = unpacked_bot(bots(digest), bot.name)
            return replace(bot, command=found.command, folder=found.folder)

        def play(share: MatchSettings) -> MatchResult:
            if bots.has_lost(digests):
                link.leave()
            specs = [here(bot, digest) for bot, digest in zip(share.bots, digests, strict=True)]
            # This machine's CPUs are not those of the run, and other workers may be here.
            hosting = replace(share.hosting, isolation=isolation, starts_at_once=1)
            return shared_match.play_share(link, replace(share, bots=specs, hosting=hosting))

        yield play
