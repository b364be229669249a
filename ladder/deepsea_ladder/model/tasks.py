"""Tasks: what runners do one by one, and the states of all kinds of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple


class TaskKind(StrEnum):
    GAME = "game"
    """A rated game."""
    CHECK = "check"
    """The check of a submission."""
    ANALYSIS = "analysis"
    COMPARISON = "comparison"
    STEP = "step"
    """A person's game, up to the next decision of the person."""


class TaskState(StrEnum):
    QUEUED = "queued"
    """It waits for a runner."""
    RUNNING = "running"
    """A runner has a lease to do it."""
    ASKED = "asked"
    """It waits for a person."""
    ACCEPTED = "accepted"
    REFUSED = "refused"
    DONE = "done"
    DECIDED = "decided"
    """The comparison has a verdict."""
    SPENT = "spent"
    """All CPU time or blocks that the season gives the comparison are used, without a verdict."""
    ENDED = "ended"
    """A newer version came, or the season was closed."""
    VOID = "void"
    """The ladder could not play the game on, or its person dropped it."""
    FAILED = "failed"
    """It could not be done, however often it was tried."""
    QUARANTINED = "quarantined"
    """The game failed too often; it waits for the operator."""
    CANCELLED = "cancelled"
    """A bot of the game was taken out, or its season closed, before it was played."""

    @property
    def is_final(self) -> bool:
        """Whether this is the last state, unless an operator changes it."""
        return self not in UNDER_WAY


UNDER_WAY = (TaskState.QUEUED, TaskState.RUNNING, TaskState.ASKED)
"""The states of a task that has not ended."""


class KindRules(NamedTuple):
    """The states of a kind of tasks besides "queued" and "running", and when a task has failed."""

    failed: TaskState
    """The state after too many attempts without a result."""
    most_failures: attrgetter[int]
    """How many are too many, of a `RetryPolicy`."""
    others: tuple[TaskState, ...]

    @property
    def states(self) -> tuple[TaskState, ...]:
        """All states of the kind."""
        return (TaskState.QUEUED, TaskState.RUNNING, *self.others, self.failed)


KINDS: Mapping[TaskKind, KindRules] = {
    TaskKind.GAME: KindRules(
        TaskState.QUARANTINED, attrgetter("failures"), (TaskState.DONE, TaskState.CANCELLED)
    ),
    TaskKind.CHECK: KindRules(
        TaskState.FAILED, attrgetter("checks"), (TaskState.ACCEPTED, TaskState.REFUSED)
    ),
    TaskKind.ANALYSIS: KindRules(TaskState.FAILED, attrgetter("analyses"), (TaskState.DONE,)),
    TaskKind.COMPARISON: KindRules(
        TaskState.FAILED,
        attrgetter("comparisons"),
        (TaskState.DECIDED, TaskState.SPENT, TaskState.ENDED),
    ),
    TaskKind.STEP: KindRules(
        TaskState.VOID, attrgetter("steps"), (TaskState.ASKED, TaskState.DONE)
    ),
}
