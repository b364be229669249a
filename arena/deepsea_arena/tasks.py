"""The ends of tasks, and how long they may take.

Invariants: everything here can be pickled and loads no SQLAlchemy.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deepsea_ladder.accounts import AuditKind
from deepsea_ladder.errors import StoreUnavailable
from deepsea_ladder.model import SeatLog
from deepsea_ladder.season import Season
from deepsea_referee.errors import HostOutOfMemory, HostTooBusy, RefereeError
from deepsea_referee.pauses import longest_wait_us
from deepsea_referee.sandbox.interface import SandboxUnavailable
from deepsea_referee.workers import TaskFailure, TaskResult, WorkerDeath, WorkerEvent
from deepsea_rules.faults import FAULTS_TO_FORFEIT
from deepsea_rules.printable import one_line
from deepsea_rules.ruleset import DIVES
from deepsea_rules.time_control import TimeControl

_SHORT = frozenset(
    {
        errno.EAGAIN,
        errno.EDQUOT,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.EROFS,
    }
)
"""Shortages of the machine, which are no game's fault."""
MOST_DECISIONS = 60
"""More decisions of a seat in a dive than there are."""
BUSY = 2
"""The factor by which decisions take longer on a busy host."""
SLACK_S = 120.0
"""For what the clock does not count: unpacking bots, starting and restarting them."""


@dataclass(frozen=True, slots=True)
class FinishedGame:
    """The game was played to its end."""

    record: str
    """One line of JSON in the format of `deepsea_rules.game`."""
    logs: tuple[SeatLog, ...] = ()
    """Of the seats that were at fault, or noted something."""
    machine: str = ""
    """The address of the machine that played it; "" for this one."""


@dataclass(frozen=True, slots=True)
class VoidOutcome:
    """The game is void, and no bot is at fault."""

    reason: str
    seat: int | None = None
    """The seat whose bot could not be timed because the host was busy, if that was the reason."""
    shortage: AuditKind | None = None
    """The kind of note for the operator if the machine lacked memory, or a CPU for a bot."""


@dataclass(frozen=True, slots=True)
class HostTrouble:
    """The machine cannot play now, whatever the game: a full disk, too few file descriptors."""

    reason: str


Outcome = FinishedGame | VoidOutcome | HostTrouble


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Durations of a runner, in seconds."""

    lease: float = 60.0
    """The duration of a lease: a runner that does not renew it in this time loses its tasks."""
    idle: float = 5.0
    """The wait when there is nothing to do."""
    host_pause: float = 5.0
    """The first wait when this machine cannot; each further one is twice as long."""

    @property
    def beat(self) -> float:
        """The time between two renewals of a lease."""
        return self.lease / 3


def outcome_of_error(error: BaseException) -> VoidOutcome | HostTrouble:
    """The outcome of a game that raised an error."""
    known = isinstance(error, RefereeError | SandboxUnavailable)
    words = one_line(str(error) if known else f"{type(error).__name__}: {error}")
    if isinstance(error, HostTooBusy):
        # Without a seat it was the host before any bot was asked.
        if error.seat is None:
            return HostTrouble(words)
        return VoidOutcome(words, error.seat, AuditKind.STARVED)
    if isinstance(error, HostOutOfMemory):
        # Not the host's trouble: a bot of this very task may use up what is left each time.
        return VoidOutcome(words, shortage=AuditKind.OUT_OF_MEMORY)
    return HostTrouble(words) if is_shortage(error) else VoidOutcome(words)


def outcome_of_event(event: WorkerEvent, *, has_worked: bool) -> Any:
    """The result of a task that has ended; without one a `VoidOutcome` or a `HostTrouble`.

    has_worked  whether workers have ended tasks before: else they perhaps cannot be started here
    """
    match event:
        case TaskResult(_, result):
            return result
        case TaskFailure(_, error):
            return outcome_of_error(error)
        case WorkerDeath(_, ending):
            reason = f"the worker ended ({ending})"
            cannot_start = ending == "exit status 1" and not has_worked
            return HostTrouble(reason) if cannot_start else VoidOutcome(reason)
    raise AssertionError("a message does not end a task")


def is_shortage(error: BaseException) -> bool:
    """True for an error of a machine that lacks descriptors, users, processes or memory."""
    return any(map(_is_hosts, _causes(error)))


def _is_hosts(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in _SHORT
    kinds = MemoryError | HostOutOfMemory | SandboxUnavailable | StoreUnavailable
    return isinstance(error, kinds)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and those that it follows from."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for part in error.exceptions:
                yield from _causes(part)
        error = error.__cause__ or error.__context__


def game_seconds(season: Season, seats: int) -> float:
    """The timeout of a game in seconds, by the season's clock.

    Every decision may take its whole time, on a busy host, and those of a bot that forfeits as long
    as the referee waits at all.
    """
    clock = TimeControl.parse(season.clock)
    playing_us = DIVES * seats * MOST_DECISIONS * clock.budget_us + seats * clock.bank_us
    waiting_us = FAULTS_TO_FORFEIT * longest_wait_us(clock.budget_us + clock.bank_us)
    return SLACK_S + (BUSY * playing_us + waiting_us) / 1_000_000
