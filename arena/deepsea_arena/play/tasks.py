"""Outcomes of jobs, and the pool of workers as a runner sees it.

Invariants: everything here can be pickled and loads no SQLAlchemy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from deepsea_arena.play.shutdown import Stop
from deepsea_ladder.model.games import SeatLog
from deepsea_ladder.model.jobs import Job


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
    seat: int | None = None
    """The seat whose bot could not be timed because the host was busy, if that was the reason."""


@dataclass(frozen=True, slots=True)
class HostTrouble:
    """The machine cannot play now, whatever the game: a full disk, too few file descriptors."""

    reason: str


Outcome = FinishedGame | VoidOutcome | HostTrouble


class Sender(Protocol):
    """The interface of a worker's connection; `deepsea_referee.worker.Link` has it."""

    def send(self, message: object) -> None:
        """Send a message of the present task."""


class WorkerPool(Protocol):
    """A pool of workers. Methods raise `WorkerError` once there are none and none will come."""

    def free(self) -> Sequence[int | None]:
        """The workers that can take a job, once for each: the rotations of their last jobs."""

    def start(self, job: Job) -> None:
        """Start a job on a free worker."""

    def wait(self, seconds: float, stop: Stop) -> Sequence[tuple[Job, Outcome]]:
        """The outcomes of jobs; maybe none after `seconds`, or when `stop` wakes it."""

    def waits(self, job: Job) -> bool:
        """Whether a job was not begun because its worker still plays another one."""

    def abandon(self, job: Job) -> None:
        """Kill the worker of a job; the job has no outcome then."""

    def close(self) -> None:
        """Stop every worker, whatever it plays."""
