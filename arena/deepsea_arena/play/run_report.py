"""Reports of a run: calls while it goes on, and a summary in the end.

Invariants: a watcher needs no store; a callback that no subclass overrides does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deepsea_arena.reports.standings import OrderReport
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
