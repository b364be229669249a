"""Reports of a run, and requests to stop it.

Start reading at `RunWatcher`, whose methods a run calls while it goes on, `RunReport`, its summary
at the end, and `Stop`.

Invariants: a watcher needs no store; a callback that no subclass overrides does nothing; a request
to stop only sets a flag and wakes the runner, so that no transaction is interrupted; the first
Ctrl-C means "finish the games", a second one or SIGTERM "give the leases back".
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
    """No job is open, and the source has no new ones."""
    TOO_MANY_FAILURES = "too many failures"
    """Too many games in a row gave no result; see the audit log and the jobs."""
    CLOSED = "closed"
    """The season was closed; the games that were being played count."""
    TOURNAMENT = "tournament"
    """A tournament has to be played first."""
    HOST = "host"
    """The machine cannot play; see `RunReport.trouble`."""
    STOPPED = "stopped"
    """A stop was requested."""


@dataclass(slots=True, kw_only=True)
class RunReport:
    """The summary of a run."""

    season: str = "none"
    ended: RunEnd = RunEnd.STOPPED
    accepted: int = 0
    """Games with a result."""
    duplicates: int = 0
    """Results that another run had already reported."""
    refused: int = 0
    """Results that the store refused."""
    void: int = 0
    """Void games."""
    handed_back: int = 0
    """Games whose leases were given back at the end."""
    suspended: list[str] = field(default_factory=list)
    """Bots that were suspended for their strikes."""
    trouble: str = ""
    """The last reason why this machine could not play; "" if it always could."""
    order: OrderReport | None = None
    """The order of the standings, for a run until it is settled; None for other runs."""


class RunWatcher:
    """Callbacks of runs, and of the tasks that are done beside them in other threads.

    A subclass overrides those that it needs.
    """

    def trouble(self, message: str) -> None:
        """Report that the store or this machine cannot work now, or another trouble, in a line."""

    def begins(self, season: str, games: int | None) -> None:
        """Report that a run starts, with its number of games; None if that is not limited."""

    def expects(self, order: OrderReport) -> None:
        """Report the present order, for a run that goes on until the order is settled."""

    def taken_back(self, tasks: int) -> None:
        """Report that tasks of runs that were killed will be done again, with their number."""

    def finished(self, job: Job, receipt: Receipt) -> None:
        """Report that the result of a job was stored or refused, with the receipt."""

    def failed(self, job: Job, reason: str) -> None:
        """Report that a game was void, with the reason."""

    def checking(self, number: int) -> None:
        """Report that the check of a submission goes on."""

    def checked(self, bot: str, author: str, state: TaskState, note: str) -> None:
        """Report that a submission was checked; `note` is its version, or why it was refused."""

    def analysed(self, game_id: str, state: TaskState, note: str) -> None:
        """Report that an analysis is done or has failed; `note` is the policy, or the reason."""

    def compared(self, comparison: StoredComparison) -> None:
        """Report that a comparison has ended, with a verdict or without."""

    def round_begins(self, number: int, tables: int, bots: int) -> None:
        """Report that a round of a tournament begins, with its tables and remaining bots."""

    def played(self, report: RunReport) -> None:
        """Report that games of a tournament were played."""


_T = TypeVar("_T")
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0


class StopRequest(IntEnum):
    """The request to a run; a larger number is more urgent."""

    GO_ON = 0
    FINISH = 1
    """Start no more games."""
    HAND_BACK = 2
    """Give up the games that are being played."""


class Stop(WakePipe):
    """The request to stop that the parts of a run check, and that wakes one which waits.

    A request stays set.
    """

    def __init__(self) -> None:
        super().__init__()
        self.requested = StopRequest.GO_ON
        self.is_terminated = False
        """True after SIGTERM, at which a run with `--forever` ends, too."""
        self._others: list[Stop] = []

    def share(self, other: Stop) -> None:
        """Pass the present request, and all later ones, on to `other`.

        Each thread of a run needs a `Stop` of its own, since a wake-up reaches only one waiting
        thread.
        """
        self._others.append(other)
        other.ask(self.requested)

    def ask(self, request: StopRequest) -> None:
        """Request a stop and wake the waiting part; a more urgent earlier request remains."""
        self.requested = max(self.requested, request)
        self.ring()
        for other in self._others:
            other.ask(request)

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Take Ctrl-C and SIGTERM as requests to stop while the body runs.

        The first Ctrl-C requests to finish the games that are being played. The second one, and
        SIGTERM, request to give their leases back. Only the main thread may use this.
        """

        def on_interrupt() -> None:
            is_first = self.requested is StopRequest.GO_ON
            self.ask(StopRequest.FINISH if is_first else StopRequest.HAND_BACK)

        with on_signals(on_interrupt, self.terminate):
            yield

    def terminate(self) -> None:
        """Request to give leases back, as SIGTERM does."""
        self.is_terminated = True
        self.ask(StopRequest.HAND_BACK)


def retry_until_available(
    call: Callable[[], _T],
    stop: Stop,
    report: Callable[[str], object],
    tries: int | None = None,
) -> _T:
    """Return the result of `call`, which is called again while the store is unavailable.

    call    a call of the store; it must do no harm if it is repeated
    report  called with each new message of the store
    tries   largest number of calls; None is no limit

    Raises StoreUnavailable after the last try, or if a stop is requested that gives leases back.
    """
    reported_message = ""
    for retry_number in count():
        try:
            return call()
        except StoreUnavailable as error:
            is_last_try = retry_number + 1 == tries
            if is_last_try or stop.requested is StopRequest.HAND_BACK:
                raise
            if str(error) != reported_message:
                reported_message = str(error)
                report(f"{error}; trying again")
            stop.pause(nth_pause(_FIRST_PAUSE_S, retry_number))
    raise AssertionError("there is always another number")


def nth_pause(first: float, number: int) -> float:
    """Return the pause before a retry, in seconds: it doubles from `first`, which has number 0.

    No pause is longer than half a minute.
    """
    return float(min(first * 2.0**number, _LONGEST_PAUSE_S))
