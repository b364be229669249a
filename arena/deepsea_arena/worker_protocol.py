"""What a runner and its workers exchange: jobs, outcomes, and the files of bots.

Invariants: everything here can be pickled and loads no SQLAlchemy; a worker knows neither the store
nor other workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from deepsea_arena.shutdown import Stop
from deepsea_ladder.model import Job


@dataclass(frozen=True, slots=True)
class FinishedGame:
    """The game was played to its end."""

    record: str
    """One line of JSON in the format of `deepsea_rules.record`."""


@dataclass(frozen=True, slots=True)
class VoidOutcome:
    """The game does not count, and no bot is to blame."""

    reason: str


Outcome = FinishedGame | VoidOutcome
Play = Callable[[Job], Outcome]
Fetch = Callable[[str], bytes]
"""The packed files of a bot, by their digest. Raises `LadderError`."""
MakePlay = Callable[[Fetch], AbstractContextManager[Play]]
"""Sets up a worker, once: what it enters plays the jobs, what it leaves cleans up."""


@dataclass(frozen=True, slots=True)
class ArchiveRequest:
    """A worker's question, in the middle of a job: the packed files of a bot that it lacks."""

    digest: str


class WorkerPool(Protocol):
    """Several workers. Any method raises `WorkerError` once there are none and none will come."""

    def free(self) -> Sequence[int | None]:
        """For each job that can be started now, the rotation that its worker played last."""

    def start(self, job: Job) -> None:
        """Let a free worker play a job."""

    def wait(self, seconds: float, stop: Stop) -> Sequence[tuple[Job, Outcome]]:
        """What has come of jobs; after `seconds`, or when `stop` wakes it, perhaps nothing."""

    def abandon(self, job: Job) -> None:
        """End the worker that plays a job; nothing more is heard of the job."""

    def close(self) -> None:
        """End every worker, whatever it plays."""
