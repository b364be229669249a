"""Workers that play the ladder's games: processes on this machine, or a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deepsea_arena.play.rated_games import hosting
from deepsea_arena.play.rated_games import worker as game_worker
from deepsea_arena.play.run_report import RunWatcher
from deepsea_arena.play.shutdown import Stop
from deepsea_arena.play.tasks import (
    FinishedGame,
    HostTrouble,
    Outcome,
    VoidOutcome,
    outcome_of_error,
)
from deepsea_arena.seasons import without_cgroups
from deepsea_ladder.model.games import Job
from deepsea_ladder.season import Season
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from deepsea_referee.system import equal_shares
from deepsea_referee.workers import Died, Done, Event, Failed, LocalWorkers, Task, Workers

if TYPE_CHECKING:
    from deepsea_arena.play.dask import DaskWorkers


def dask_workers() -> type[DaskWorkers]:
    """The pool on a Dask cluster; raises UserError if Dask is not installed."""
    try:
        from deepsea_arena.play.dask import DaskWorkers
    except ModuleNotFoundError as error:
        if error.name != "distributed":
            raise
        raise UserError(
            "--cluster needs the package distributed: pip install distributed"
        ) from None
    return DaskWorkers


@dataclass(slots=True)
class _Worker:
    jobs: list[Job] = field(default_factory=list)
    """The one that it plays, and those that wait."""
    rotation: int | None = None
    """That of its last job."""


@dataclass
class JobWorkers:
    """The workers that play the jobs of a run. Their tasks are jobs, and results are outcomes."""

    pool: Workers
    machine: Callable[[Any], str] = lambda place: ""
    """The address of a worker's machine; "" for this one."""
    dismiss: Callable[[str, str], bool] = lambda machine, why: False
    """Gives up the workers of a machine, with the reason; whether there were any."""

    def __post_init__(self) -> None:
        self._jobs: dict[Task, tuple[Job, Hashable]] = {}
        """With the workers that play them."""
        self._waiting: list[Job] = []
        """Jobs that wait for a worker, since all have left."""
        self._workers: dict[Hashable, _Worker] = {}
        self._works = False
        """Whether any worker has finished a job, so that they can be started here."""

    def free(self) -> Sequence[int | None]:
        """The workers that can take a job, once for each: the rotations of their last jobs."""
        self._start_waiting()
        return [self._worker(place).rotation for place in self.pool.free()]

    def start(self, job: Job) -> None:
        """Give a job to one of the workers with the fewest: that of its rotation, or a new one."""
        if not (free := self.pool.free()):  # it has left just now
            self._waiting.append(job)
            return
        fewest = min(len(self._worker(place).jobs) for place in free)
        idle = [place for place in free if len(self._worker(place).jobs) == fewest]
        rotations = {place: self._worker(place).rotation for place in idle}
        place = max(rotations, key=lambda at: (rotations[at] == job.rotation, not rotations[at]))
        self._start(job, place)

    def _start_waiting(self) -> None:
        while self._waiting and (free := self.pool.free()):
            self._start(self._waiting.pop(0), free[0])

    def _start(self, job: Job, place: Hashable) -> None:
        needs = dict.fromkeys(version.digest for version in job.seats)
        self._jobs[self.pool.start(job, place, tuple(needs))] = job, place
        worker = self._worker(place)
        worker.jobs.append(job)
        worker.rotation = job.rotation

    def wait(self, seconds: float, stop: Stop) -> Sequence[tuple[Job, Outcome]]:
        """The outcomes of jobs; maybe none after `seconds`, or when `stop` wakes it."""
        self._start_waiting()
        return [self._finished(event) for event in self.pool.wait(seconds, stop)]

    def waits(self, job: Job) -> bool:
        """Whether a job was not begun because its worker still plays another one."""
        return any(job in worker.jobs[1:] for worker in self._workers.values())

    def abandon(self, job: Job) -> None:
        """Kill the worker of a job; the job has no outcome then."""
        self._waiting = [waiting for waiting in self._waiting if waiting != job]
        for task in [task for task, (own, _) in self._jobs.items() if own == job]:
            del self._jobs[task]
            self._forget(job)
            self.pool.kill(task)

    def close(self) -> None:
        """Stop every worker, whatever it plays."""
        self.pool.close()

    def _worker(self, place: Hashable) -> _Worker:
        return self._workers.setdefault(place, _Worker())

    def _finished(self, event: Event) -> tuple[Job, Outcome]:
        job, place = self._jobs.pop(event.task)
        self._forget(job)
        outcome, machine = self._outcome(event), self.machine(place)
        if isinstance(outcome, FinishedGame):
            outcome = replace(outcome, machine=machine)
        elif isinstance(outcome, VoidOutcome) and machine:  # which must not blame a bot
            outcome = replace(outcome, seat=None)
        return job, outcome

    def _outcome(self, event: Event) -> Outcome:
        self._works |= isinstance(event, Done)
        match event:
            case Done(_, FinishedGame() | VoidOutcome() | HostTrouble() as outcome):
                return outcome
            case Done():
                return VoidOutcome("the worker returned no outcome")
            case Failed(_, error):
                return outcome_of_error(error)
            case Died(_, ending):
                reason = f"the worker ended ({ending})"
                cannot_start = ending == "exit status 1" and not self._works
                return HostTrouble(reason) if cannot_start else VoidOutcome(reason)
        raise AssertionError("jobs send no messages")

    def _forget(self, job: Job) -> None:
        for worker in self._workers.values():
            if job in worker.jobs:
                worker.jobs.remove(job)


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
