"""The workers of a run: jobs as tasks of a pool, here or on other machines.

Invariants: whatever happens to a worker (an exception, a signal, a hang) is an outcome like any
other; no job is lost; a worker gets the files of a bot once, with the first job that needs them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import cast

from deepsea_arena.outcomes import outcome_of
from deepsea_arena.play.shutdown import Stop
from deepsea_arena.play.tasks import HostTrouble, Outcome, VoidOutcome
from deepsea_ladder.model.jobs import Job
from deepsea_referee.workers import Died, Done, Event, Failed, Task, Workers


class JobWorkers:
    """The workers that play the jobs of a run. Their tasks are jobs, and results are outcomes."""

    def __init__(self, pool: Workers) -> None:
        self._pool = pool
        self._jobs: dict[Task, Job] = {}
        self._workers: dict[Hashable, _Worker] = {}
        self._works = False
        """Whether any worker has finished a job, so that they can be started here."""

    def free(self) -> Sequence[int | None]:
        """The workers that can take a job, once for each: the rotations of their last jobs."""
        return [self._worker(place).rotation for place in self._pool.free()]

    def start(self, job: Job) -> None:
        """Give a job to one of the workers with the fewest: that of its rotation, or a new one."""
        free = self._pool.free()
        fewest = min(len(self._worker(place).jobs) for place in free)
        idle = [place for place in free if len(self._worker(place).jobs) == fewest]
        rotations = {place: self._worker(place).rotation for place in idle}
        place = max(rotations, key=lambda at: (rotations[at] == job.rotation, not rotations[at]))
        needs = dict.fromkeys(version.digest for version in job.seats)
        self._jobs[self._pool.start(job, place, tuple(needs))] = job
        worker = self._worker(place)
        worker.jobs.append(job)
        worker.rotation = job.rotation

    def wait(self, seconds: float, stop: Stop) -> Sequence[tuple[Job, Outcome]]:
        """The outcomes of jobs; maybe none after `seconds`, or when `stop` wakes it."""
        return [self._finished(event) for event in self._pool.wait(seconds, stop)]

    def waits(self, job: Job) -> bool:
        """Whether a job was not begun because its worker still plays another one."""
        return any(job in worker.jobs[1:] for worker in self._workers.values())

    def abandon(self, job: Job) -> None:
        """Kill the worker of a job; the job has no outcome then."""
        for task in [task for task, own in self._jobs.items() if own == job]:
            del self._jobs[task]
            self._forget(job)
            self._pool.kill(task)

    def close(self) -> None:
        """Stop every worker, whatever it plays."""
        self._pool.close()

    def _worker(self, place: Hashable) -> _Worker:
        return self._workers.setdefault(place, _Worker())

    def _finished(self, event: Event) -> tuple[Job, Outcome]:
        job = self._jobs.pop(event.task)
        self._forget(job)
        return job, self._outcome(event)

    def _outcome(self, event: Event) -> Outcome:
        match event:
            case Done(_, outcome):
                self._works = True
                return cast(Outcome, outcome)  # what `setup` gives returns nothing else
            case Failed(_, error):
                return outcome_of(error)
            case Died(_, ending):
                reason = f"the worker ended ({ending})"
                cannot_start = ending == "exit status 1" and not self._works
                return HostTrouble(reason) if cannot_start else VoidOutcome(reason)
        raise AssertionError("jobs send no messages")

    def _forget(self, job: Job) -> None:
        for worker in self._workers.values():
            if job in worker.jobs:
                worker.jobs.remove(job)


class _Worker:
    """What is known of a worker."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        """The one that it plays, and those that wait."""
        self.rotation: int | None = None
        """That of its last job."""
