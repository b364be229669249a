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
    JobOutcome,
    VoidOutcome,
    outcome_of_event,
)
from deepsea_bundle.atomic import BotCache
from deepsea_ladder.model import Job
from deepsea_ladder.season import SeasonSettings
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
        """Return, for each job that workers can take now, the rotation of that worker's last job.

        A worker still runs the bots of its last job, so that another job of the same rotation suits
        it best. The rotation is None for a worker that has played nothing.
        """
        return [self._rotations.get(worker) for worker in self.pool.free()]

    def start(self, job: Job) -> bool:
        """Give a job to the free worker that suits it best.

        Return False if no worker is free any more, because the free one has left.
        """
        free_workers = self.pool.free()
        if not free_workers:
            return False
        worker = self._best_worker(job, free_workers)
        digests = dict.fromkeys(version.digest for version in job.seats)  # each once, in order
        task = self.pool.start(job, worker, tuple(digests))
        self._tasks[task] = job, worker
        self._rotations[worker] = job.rotation
        return True

    def _best_worker(self, job: Job, free_workers: Sequence[Hashable]) -> Hashable:
        """Return the free worker that suits a job best.

        It is one of the workers with the fewest jobs; of these one that has played the job's
        rotation, since its bots run already, or else one that has played nothing.
        """
        job_counts = Counter(worker for _, worker in self._tasks.values())
        fewest_jobs = min(job_counts[worker] for worker in free_workers)
        idlest_workers = [worker for worker in free_workers if job_counts[worker] == fewest_jobs]

        def preference(worker: Hashable) -> tuple[bool, bool]:
            last_rotation = self._rotations.get(worker)
            return last_rotation == job.rotation, not last_rotation

        return max(idlest_workers, key=preference)

    def wait(self, seconds: float, stop: Stop) -> Sequence[tuple[Job, JobOutcome]]:
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

    def _job_and_outcome(self, event: WorkerEvent) -> tuple[Job, JobOutcome]:
        """Return the job that an event has ended, with the outcome.

        A result names the machine that played it. A void game of another machine names no seat,
        since such a machine must not blame a bot.
        """
        job, worker = self._tasks.pop(event.task)
        outcome = outcome_of_event(event, has_worked=self._has_worked)
        self._has_worked |= isinstance(event, TaskResult)
        machine = self.machine(worker)
        is_other_machine = machine != ""
        match outcome:
            case FinishedGame():
                outcome = replace(outcome, machine=machine)
            case VoidOutcome() if is_other_machine:
                outcome = replace(outcome, seat=None)
            case VoidOutcome() | HostTrouble():
                pass
            case _:
                outcome = VoidOutcome("the worker returned no outcome")
        return job, outcome


MakePool = Callable[[SeasonSettings, RunWatcher], JobWorkers]
"""Starts the workers for a season's games, and reports trouble with them to the watcher."""


def local_workers(store: Store, workers: int) -> MakePool:
    """Return a function that starts this number of worker processes for a season's games.

    The processes get the files of bots from the store, through this process.
    """

    def make(season: SeasonSettings, watcher: RunWatcher) -> JobWorkers:
        """Start the worker processes for the games of a season.

        If bots are timed less well for lack of control groups, report that. Raises
        SandboxUnavailable if the season's bots cannot be isolated here.
        """
        # Called for its error, too: otherwise the error would come from every worker.
        settings = hosting(season.isolation, season.limits).for_one_of(workers)
        note = without_cgroups(season.isolation)
        if note is not None:
            watcher.trouble(note)
        pool = LocalWorkers(
            partial(game_worker, starts_at_once=settings.starts_at_once),
            workers,
            fetch=store.bots.archive,
            ahead=1,  # each worker prepares its next game while it plays
            cpus=equal_shares(workers),
        )
        return JobWorkers(pool)

    return make


def cluster_workers(store: Store, address: str) -> MakePool:
    """Return a function that makes a pool of the workers of the Dask scheduler at `address`.

    The workers get the files of bots from the store, through this process.
    """

    def make(season: SeasonSettings, watcher: RunWatcher) -> JobWorkers:
        """Connect to the workers that can play the games of a season; see `DaskWorkers`."""
        pool = dask_workers()(
            address,
            game_worker,
            # A worker that cannot isolate the season's bots raises here, and is not used.
            check=partial(hosting, season.isolation, season.limits),
            fetch=store.bots.archive,
            report=watcher.trouble,
        )
        return JobWorkers(pool, machine=lambda worker: worker.address, dismiss=pool.dismiss)

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

    See `shared_match.run_match_with_workers` for the callbacks.

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
    return shared_match.run_match_with_workers(
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
    """Set up a worker of a cluster, and yield its function that plays some games of a match.

    digests  the digests of the match's bots, in the order of the bots
    level    the isolation of the bots on this machine
    """
    isolation: Isolation = choose(level)
    with own_folder() as folder:
        folders = BotCache(folder, link.file)

        def local_bot(bot: BotSpec, digest: str) -> BotSpec:
            """Return a bot with its command and folder on this machine."""
            unpacked = unpacked_bot(folders(digest), bot.name)
            return replace(bot, command=unpacked.command, folder=unpacked.folder)

        def play(match_part: MatchSettings) -> MatchResult:
            """Play the games of a part of the match, with the bots as they are on this machine."""
            if folders.has_lost(digests):
                # A cleaner of /tmp has removed files of a bot: another worker takes over.
                link.leave()
            local_bots = [
                local_bot(bot, digest) for bot, digest in zip(match_part.bots, digests, strict=True)
            ]
            # The number of CPUs and of other workers is not known here, so bots start one by one.
            local_hosting = replace(match_part.hosting, isolation=isolation, starts_at_once=1)
            local_settings = replace(match_part, bots=local_bots, hosting=local_hosting)
            return shared_match.play_share(link, local_settings)

        yield play
