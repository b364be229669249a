"""Messages between a runner and its workers: jobs, outcomes, and the files of bots.

Invariants: everything here can be pickled and loads no SQLAlchemy; a worker knows neither the store
nor other workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from deepsea_arena.shutdown import Stop
from deepsea_ladder.model import Job, SeatLog


@dataclass(frozen=True, slots=True)
class FinishedGame:
    """The game was played to its end."""

    record: str
    """One line of JSON in the format of `deepsea_rules.record`."""
    logs: tuple[SeatLog, ...] = ()
    """Of the seats that were at fault."""


@dataclass(frozen=True, slots=True)
class VoidOutcome:
    """The game is void, and no bot is at fault."""

    reason: str


Outcome = FinishedGame | VoidOutcome
Play = Callable[[Job], Outcome]
Fetch = Callable[[str], bytes]
"""The packed files of a bot, by their digest. Raises `LadderError`."""
MakePlay = Callable[[Fetch], AbstractContextManager[Play]]
"""Sets up a worker: a context manager whose value plays jobs, and whose exit cleans up."""


@dataclass(frozen=True, slots=True)
class ArchiveRequest:
    """A worker's request during a job: the packed files of a bot that it lacks."""

    digest: str


class WorkerPool(Protocol):
    """A pool of workers. Methods raise `WorkerError` once there are none and none will come."""

    def free(self) -> Sequence[int | None]:
        """The free workers: for each, the rotation that it played last."""

    def start(self, job: Job) -> None:
        """Start a job on a free worker."""

    def wait(self, seconds: float, stop: Stop) -> Sequence[tuple[Job, Outcome]]:
        """The outcomes of jobs; maybe none after `seconds`, or when `stop` wakes it."""

    def abandon(self, job: Job) -> None:
        """Kill the worker of a job; the job has no outcome then."""

    def close(self) -> None:
        """Stop every worker, whatever it plays."""
