"""Workers that play the ladder's games: processes on this machine, or a Dask cluster.

Start reading at `JobWorkers`. `match_on_cluster` plays a match of a command on a Dask cluster.
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
    """Return the class of the pool on a Dask cluster. Raises UserError if Dask is not installed."""
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
    """The workers that play the jobs of a run.

    Their tasks are jobs, and their results are outcomes. A worker may have a second job that waits
    behind the one it plays.
    """

    pool: Workers
    machine: Callable[[Any], str] = lambda worker: ""
    """Returns the address of a worker's machine; "" for this one."""
    dismiss: Callable[[str, str], bool] = lambda machine, why: False
    """Stops using the workers of a machine, for a reason; returns False if there were none."""

    def __post_init__(self) -> None:
        """Set the state of workers that play nothing yet."""
        self._tasks: dict[Task, tuple[Job, Hashable]] = {}
        """The job and the worker of each task, in the order in which they were started."""
        self._rotations: dict[Hashable, int] = {}
        """The rotation of each worker's last job."""
        self._has_worked = False
        """True if a worker has finished a job, so that workers can be started here."""

    def free(self) -> Sequence[int | None]:
        """Return the rotation of the last job of each worker that can take a job.

        The worker still runs the bots of that rotation. A worker that can take several jobs comes
        up several times. None stands for a worker without a last job.
        """
        return [self._rotations.get(worker) for worker in self.pool.free()]

    def start(self, job: Job) -> bool:
        """Give a job to a free worker. Return False if there is none any more, since it has left.

        Of the workers with the fewest jobs, one that has played the job's rotation is best, since
        its bots run already, and one that has played nothing is second best.
        """
        job_counts = Counter(worker for _, worker in self._tasks.values())
        free = self.pool.free()
        if not free:
            return False
        fewest = min(job_counts[worker] for worker in free)
        idlest = [worker for worker in free if job_counts[worker] == fewest]

        def preference(worker: Hashable) -> tuple[bool, bool]:
            rotation = self._rotations.get(worker)
            return rotation == job.rotation, not rotation

        best = max(idlest, key=preference)
        digests = dict.fromkeys(version.digest for version in job.seats)  # each once, in order
        task = self.pool.start(job, best, tuple(digests))
        self._tasks[task] = job, best
        self._rotations[best] = job.rotation
        return True

    def wait(self, seconds: float, stop: Stop) -> Sequence[tuple[Job, Outcome]]:
        """Wait for outcomes of jobs, and return them.

        There may be none after this time, or if `stop` ends the wait.
        """
        return [self._job_and_outcome(event) for event in self.pool.wait(seconds, stop)]

    def has_not_begun(self, job: Job) -> bool:
        """Return True if a job waits until its worker has played another one."""
        # Jobs are in the order in which they were given to workers: earlier ones are played first.
        workers_with_earlier_jobs: set[Hashable] = set()
        for given_job, worker in self._tasks.values():
            if given_job == job:
                return worker in workers_with_earlier_jobs
            workers_with_earlier_jobs.add(worker)
        return False

    def abandon(self, job: Job) -> None:
        """Kill the worker of a job, which has no outcome then."""
        tasks = [task for task, (started_job, _) in self._tasks.items() if started_job == job]
        for task in tasks:
            del self._tasks[task]
            self.pool.kill(task)

    def close(self) -> None:
        """Stop all workers, also those that play."""
        self.pool.close()

    def _job_and_outcome(self, event: WorkerEvent) -> tuple[Job, Outcome]:
        """Return the job of an event with its outcome.

        Another machine cannot blame a bot: the seat is left out of its void games.
        """
        job, worker = self._tasks.pop(event.task)
        outcome = outcome_of_event(event, has_worked=self._has_worked)
        machine = self.machine(worker)
        self._has_worked |= isinstance(event, TaskResult)
        match outcome:
            case FinishedGame():
                outcome = replace(outcome, machine=machine)
            case VoidOutcome() if machine:
                outcome = replace(outcome, seat=None)
            case VoidOutcome() | HostTrouble():
                pass
            case _:
                outcome = VoidOutcome("the worker returned no outcome")
        return job, outcome


MakePool = Callable[[Season, RunWatcher], JobWorkers]
"""Starts the workers for a season's games, and reports trouble with them to the watcher."""


def local_workers(store: Store, workers: int) -> MakePool:
    """Return a function that starts worker processes on this machine.

    They get the files of bots from the store, through this process.
    """

    def make(season: Season, watcher: RunWatcher) -> JobWorkers:
        """Start the processes for a season's games, and report how bots are timed here."""
        # If the sandbox does not work, this raises here, and not in every worker.
        settings = hosting(season.isolation, season.limits).for_one_of(workers)
        if note := without_cgroups(season.isolation):
            watcher.trouble(note)
        setup = partial(game_worker, starts_at_once=settings.starts_at_once)
        cpus = equal_shares(workers)
        pool = LocalWorkers(setup, workers, fetch=store.bots.archive, ahead=1, cpus=cpus)
        return JobWorkers(pool)

    return make


def cluster_workers(store: Store, address: str) -> MakePool:
    """Return a function that connects to the workers of the Dask scheduler at `address`.

    They get the files of bots from the store, through this process.
    """

    def make(season: Season, watcher: RunWatcher) -> JobWorkers:
        check, fetch = partial(hosting, season.isolation, season.limits), store.bots.archive
        pool = dask_workers()(address, game_worker, check, fetch=fetch, report=watcher.trouble)
        return JobWorkers(pool, lambda worker: worker.address, pool.dismiss)

    return make


GAMES_OF_A_SHARE = 20
"""Number of games of a match that a worker of a cluster plays as one task."""


def match_on_cluster(
    settings: MatchSettings,
    address: str,
    on_game: OnGame | None = None,
    on_void: OnVoid | None = None,
    *,
    report: Callable[[str], object],
) -> MatchResult:
    """Play a match on the workers of the Dask scheduler at `address`.

    See `shared_match.run_match` for the callbacks.

    report  called with a message for each worker that cannot be used

    Raises UserError for a bot that has no files, WorkerError if no worker can play.
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
    """Set up a worker, and yield its function that plays a share of a match.

    digests  the digests of the bots of the match, in their order
    """
    isolation: Isolation = choose(level)
    with own_folder() as folder:
        folders = BotCache(folder, link.file)

        def local_bot(bot: BotSpec, digest: str) -> BotSpec:
            unpacked = unpacked_bot(folders(digest), bot.name)
            return replace(bot, command=unpacked.command, folder=unpacked.folder)

        def play(share: MatchSettings) -> MatchResult:
            """Play a share of the match with the bots' files of this machine."""
            if folders.has_lost(digests):
                link.leave()
            specs = [
                local_bot(bot, digest) for bot, digest in zip(share.bots, digests, strict=True)
            ]
            # This machine's CPUs are not those of the run, and other workers may be here.
            hosting = replace(share.hosting, isolation=isolation, starts_at_once=1)
            return shared_match.play_share(link, replace(share, bots=specs, hosting=hosting))

        yield play
