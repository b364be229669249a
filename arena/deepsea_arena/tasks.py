"""Outcomes of rated games, and the times that tasks may take.

`JobOutcome` is what becomes of a job when a worker has played its game, or could not:

outcome       means                                    the job
FinishedGame  the game was played to its end           has a result, or is refused
VoidOutcome   an error or a delay by the referee       has failed once more
HostTrouble   this machine cannot play at all          waits again; the run pauses

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
from deepsea_ladder.season import SeasonSettings
from deepsea_referee.errors import HostOutOfMemory, HostTooBusy, RefereeError
from deepsea_referee.pauses import longest_wait_us
from deepsea_referee.sandbox.interface import SandboxUnavailable
from deepsea_referee.workers import TaskFailure, TaskResult, WorkerDeath, WorkerEvent
from deepsea_rules.faults import FAULTS_TO_FORFEIT
from deepsea_rules.printable import one_line
from deepsea_rules.ruleset import DIVES
from deepsea_rules.time_control import TimeControl

_SHORTAGES = frozenset(
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
"""Error numbers of shortages of the machine, for which no game is to blame."""
MOST_DECISIONS = 60
"""Upper bound of the decisions of a seat in a dive."""
BUSY = 2
"""Factor by which decisions take longer on a busy host."""
SLACK_S = 120.0
"""Seconds for work that the clock does not count: unpacking bots, starting and restarting them."""


@dataclass(frozen=True, slots=True)
class FinishedGame:
    """The game was played to its end."""

    record: str
    """One line of JSON in the format of `deepsea_rules.game`."""
    logs: tuple[SeatLog, ...] = ()
    """Logs of the seats that were at fault, or noted something."""
    machine: str = ""
    """The address of the machine that played it; "" for this one."""


@dataclass(frozen=True, slots=True)
class VoidOutcome:
    """The game is void, and no bot is at fault."""

    reason: str
    seat: int | None = None
    """The seat whose bot could not be timed on the busy host; None for other reasons."""
    shortage: AuditKind | None = None
    """The kind of note for the operator if the machine lacked memory or CPU; None if not."""


@dataclass(frozen=True, slots=True)
class HostTrouble:
    """The machine cannot play now, whatever the game: a full disk, too few file descriptors."""

    reason: str


JobOutcome = FinishedGame | VoidOutcome | HostTrouble


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Durations of a runner, in seconds."""

    lease: float = 60.0
    """Duration of a lease. A runner that does not renew it in this time loses its tasks."""
    idle: float = 5.0
    """Pause when there is nothing to do."""
    host_pause: float = 5.0
    """First pause after trouble of this machine; each further one is twice as long."""

    @property
    def beat(self) -> float:
        """The time between two renewals of a lease: a lease outlives two renewals that fail."""
        return self.lease / 3


def outcome_of_error(error: BaseException) -> VoidOutcome | HostTrouble:
    """Return the outcome of a game that has raised an error: it is void, or can be played later.

    A HostTrouble says that this machine cannot play now: the game counts as not begun.
    """
    has_clear_message = isinstance(error, RefereeError | SandboxUnavailable)
    reason = one_line(str(error) if has_clear_message else f"{type(error).__name__}: {error}")
    if isinstance(error, HostTooBusy):
        # Without a seat the host was too busy before any bot had to decide.
        if error.seat is None:
            return HostTrouble(reason)
        return VoidOutcome(reason, error.seat, AuditKind.STARVED)
    if isinstance(error, HostOutOfMemory):
        # No HostTrouble, after which the game would be tried for ever: a bot of this very game may
        # have used up the memory.
        return VoidOutcome(reason, shortage=AuditKind.OUT_OF_MEMORY)
    return HostTrouble(reason) if is_shortage(error) else VoidOutcome(reason)


def outcome_of_event(event: WorkerEvent, *, has_worked: bool) -> Any:
    """Return the result of a task from the event that ended it.

    If the task failed, or its worker died, return a VoidOutcome or a HostTrouble instead.

    has_worked  True if workers have done tasks before; False: perhaps they cannot start here at all
    """
    match event:
        case TaskResult(_, result):
            return result
        case TaskFailure(_, error):
            return outcome_of_error(error)
        case WorkerDeath(_, ending):
            reason = f"the worker ended ({ending})"
            # A worker that cannot be set up ends with this status.
            cannot_start = ending == "exit status 1" and not has_worked
            return HostTrouble(reason) if cannot_start else VoidOutcome(reason)
    raise AssertionError("a message does not end a task")


def is_shortage(error: BaseException) -> bool:
    """Return True for an error of a machine that lacks descriptors, users, processes or memory.

    The errors from which it follows count, too.
    """
    return any(map(_is_shortage_itself, _error_and_causes(error)))


def _is_shortage_itself(error: BaseException) -> bool:
    """Return True if an error is one of a shortage, whatever its causes are."""
    if isinstance(error, OSError):
        return error.errno in _SHORTAGES
    kinds = MemoryError | HostOutOfMemory | SandboxUnavailable | StoreUnavailable
    return isinstance(error, kinds)


def _error_and_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and the errors from which it follows, also those of a group."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for part in error.exceptions:
                yield from _error_and_causes(part)
        error = error.__cause__ or error.__context__


def game_seconds(season: SeasonSettings, seats: int) -> float:
    """Return the timeout of a game in seconds: longer than any game by the season's clock takes.

    It allows for a busy host on which every decision takes its whole time, and for a bot that
    forfeits, for which the referee waits to the end at each fault.
    """
    clock = TimeControl.parse(season.clock)
    playing_us = DIVES * seats * MOST_DECISIONS * clock.budget_us + seats * clock.bank_us
    waiting_us = FAULTS_TO_FORFEIT * longest_wait_us(clock.budget_us + clock.bank_us)
    return SLACK_S + (BUSY * playing_us + waiting_us) / 1_000_000
