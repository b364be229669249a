"""Reports of a run: calls while it goes on, and a summary in the end.

Invariants: a watcher needs no store; a callback that no subclass overrides does nothing.

Requests to stop a runner, which wake it while it waits.

Invariants: a request only sets a flag and wakes the runner, so that no transaction is interrupted;
the first Ctrl-C means "finish the games", a second one or SIGTERM "give the leases back".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from deepsea_ladder.errors import StoreUnavailable
from deepsea_referee.interrupts import WakePipe, on_signals

if TYPE_CHECKING:
    from deepsea_arena.standings import OrderReport
    from deepsea_ladder.model import Job, Receipt, StoredComparison, TaskState


class RunEnd(StrEnum):
    """The reason for the end of a run."""

    GOAL = "goal"
    """The requested games are played, or the standings are settled."""
    NOTHING_LEFT = "nothing left"
    """No job is open, and the source gives no new ones."""
    TOO_MANY_FAILURES = "too many failures"
    """Too many games in a row gave no result; see the audit log and the jobs."""
    CLOSED = "closed"
    """The season was closed; the games that were being played count."""
    TOURNAMENT = "tournament"
    """A tournament is to be played first."""
    HOST = "host"
    """This machine cannot play; see `RunReport.trouble`."""
    STOPPED = "stopped"
    """A request to stop."""


@dataclass(slots=True, kw_only=True)
class RunReport:
    season: str = "none"
    ended: RunEnd = RunEnd.STOPPED
    accepted: int = 0
    """Games with a result."""
    duplicates: int = 0
    """Results that another run had already reported."""
    refused: int = 0
    """Results that the store refused."""
    void: int = 0
    handed_back: int = 0
    """Games whose leases were given back at the end."""
    suspended: list[str] = field(default_factory=list)
    """Bots that were suspended for their strikes."""
    trouble: str = ""
    """The last reason why this machine could not play."""
    order: OrderReport | None = None
    """The order, for a run until it is settled."""


class RunWatcher:
    """Callbacks of runs and of the work beside them, which may come in other threads; a subclass
    overrides those that it wants."""

    def trouble(self, message: str) -> None:
        """The store or this machine cannot work now."""

    def begins(self, season: str, games: int | None) -> None:
        """A run starts, with its number of games; None if that is open."""

    def expects(self, order: OrderReport) -> None:
        """A run begins that is to go on until the order is settled, which stands like this."""

    def taken_back(self, tasks: int) -> None:
        """Tasks of a killed run will be done again; their number."""

    def finished(self, job: Job, receipt: Receipt) -> None:
        """A result was stored or refused."""

    def failed(self, job: Job, reason: str) -> None:
        """A game was void."""

    def checking(self, number: int) -> None:
        """The check of a submission goes on."""

    def checked(self, bot: str, author: str, state: TaskState, note: str) -> None:
        """A submission has its verdict; `note` is the version, or what was found."""

    def analysed(self, game_id: str, state: TaskState, note: str) -> None:
        """An analysis is done or has failed; `note` is the policy, or the reason."""

    def compared(self, found: StoredComparison) -> None:
        """A comparison has ended, with a verdict or without."""

    def round_begins(self, number: int, tables: int, bots: int) -> None:
        """A round of an elimination begins, with so many tables and bots that are left."""

    def played(self, report: RunReport) -> None:
        """Games of a tournament were played."""


_T = TypeVar("_T")
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0


class StopRequest(IntEnum):
    GO_ON = 0
    FINISH = 1
    """Start no more games."""
    HAND_BACK = 2
    """Give up the games that are being played."""


class Stop(WakePipe):
    """A request that several parts of a run check and wait for; it stays set."""

    def __init__(self) -> None:
        super().__init__()
        self.requested = StopRequest.GO_ON
        self.is_terminated = False
        """True once SIGTERM has come: a run with `--forever` ends then."""
        self._others: list[Stop] = []

    def share(self, other: Stop) -> None:
        """Pass requests on to another one, those that were made already too.

        Each part of a run that waits in a thread of its own has its own: a ring wakes one alone.
        """
        self._others.append(other)
        other.ask(self.requested)

    def ask(self, request: StopRequest) -> None:
        """Request it; a stronger earlier request remains."""
        self.requested = max(self.requested, request)
        self.ring()
        for other in self._others:
            other.ask(request)

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Ctrl-C finishes, a second one and SIGTERM hand back; only in the main thread."""

        def interrupted() -> None:
            self.ask(
                StopRequest.FINISH if self.requested is StopRequest.GO_ON else StopRequest.HAND_BACK
            )

        with on_signals(interrupted, self.terminate):
            yield

    def terminate(self) -> None:
        """Hand back, because of SIGTERM."""
        self.is_terminated = True
        self.ask(StopRequest.HAND_BACK)


def retry_until_available(
    call: Callable[[], _T],
    stop: Stop,
    report: Callable[[str], object],
    tries: int | None = None,
) -> _T:
    """Call the store, again and again while it is unavailable; every call may be repeated.

    tries  how often it is called at most; None is no limit
    Raises StoreUnavailable when leases are to be given back, and after the last try.
    """
    reported = ""
    for number in count():
        try:
            return call()
        except StoreUnavailable as error:
            if stop.requested is StopRequest.HAND_BACK or number + 1 == tries:
                raise
            if reported != (reported := str(error)):
                report(f"{error}; trying again")
            stop.pause(nth_pause(_FIRST_PAUSE, number))
    raise AssertionError("there is always another number")


def nth_pause(first: float, number: int) -> float:
    """The pause before another try, in seconds; each is twice as long, from the one of number 0."""
    return float(min(first * 2.0**number, _LONGEST_PAUSE))
