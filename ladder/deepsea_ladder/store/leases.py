"""Queues that runners lease from beside games: their order, and the leases.

Invariants: a lease runs by the database's clock and has a number, its attempt; only its present
owner writes a result, and it holds until another one takes over, whatever the time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from itertools import groupby
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Table,
    bindparam,
    exists,
    func,
    or_,
    select,
    update,
)

from deepsea_ladder.accounts import AuditKind
from deepsea_ladder.chain import lost_line
from deepsea_ladder.errors import StoreDamaged
from deepsea_ladder.limits import check_order
from deepsea_ladder.model.bots import BotState
from deepsea_ladder.model.games import AttemptEnd, JobStatus, LostAttempt
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import add_link, last_link, note
from deepsea_ladder.store.database import Database, RetryPolicy, now
from deepsea_ladder.store.versions import versions_of
from deepsea_rules.printable import printable


class Waiting(NamedTuple):
    """Rows of many authors, who take turns."""

    rows: Table
    queued: StrEnum
    leased: StrEnum

    def ids(self, connection: Connection) -> list[tuple[int, int]]:
        """Ids and authors of what waits, the oldest first; whoever asked here is 0."""
        columns = self.rows.c
        query = select(columns.id, columns.author_id).where(columns.state == self.queued)
        found = connection.execute(query.order_by(columns.id))
        return [(row.id, row.author_id or 0) for row in found]

    def busy(self, connection: Connection) -> Sequence[int]:
        """The authors of what is leased."""
        query = select(self.rows.c.author_id).where(self.rows.c.state == self.leased)
        return [author or 0 for author in connection.execute(query).scalars()]

    def order(self, connection: Connection, waiting: Sequence[tuple[int, int]]) -> list[int]:
        """The order in which these are leased, by their ids."""
        columns = self.rows.c
        authors = sorted({author for _, author in waiting})
        last = (
            select(columns.author_id, func.max(columns.began_at).label("began_at"))
            .where(columns.author_id.in_(authors), columns.began_at.is_not(None))
            .group_by(columns.author_id)
        )
        begun = {row.author_id: row.began_at for row in connection.execute(last)}
        return check_order(waiting, begun, self.busy(connection))

    def places(self, connection: Connection) -> dict[int, int]:
        """Of each row that waits, how many are done before it."""
        waiting = self.ids(connection)
        if not waiting:
            return {}
        first = len(self.busy(connection))
        return {one: place for place, one in enumerate(self.order(connection, waiting), first)}


class Lease(Protocol):
    """What every lease has."""

    @property
    def id(self) -> int:
        """The row's id."""

    @property
    def owner(self) -> str:
        """The runner that has it."""

    @property
    def attempt(self) -> int:
        """The number of the lease, from 1."""


class LeasedRows(ABC):
    """A queue whose rows are leased one by one."""

    line: ClassVar[Waiting]

    def __init__(self, database: Database, policy: RetryPolicy, *, public: bool = False) -> None:
        self._database = database
        self._policy = policy
        self._public = public

    def waiting(self) -> int:
        """The number of rows that wait, or whose lease has expired."""
        rows, queued, leased = self.line
        with self._database.read() as connection:
            stale = (rows.c.state == leased) & (rows.c.until <= now(connection))
            query = select(func.count()).where(or_(rows.c.state == queued, stale))
            return int(connection.execute(query).scalar_one())

    def owners(self) -> list[str]:
        """The owners of leases."""
        rows = self.line.rows
        query = select(rows.c.owner).where(rows.c.state == self.line.leased).distinct()
        with self._database.read() as connection:
            return sorted(connection.execute(query).scalars())

    def hand_back(self, owner: str) -> int:
        """Give up an owner's leases; they wait again, and nothing counts as failed."""
        rows = self.line.rows
        held = (rows.c.state == self.line.leased, rows.c.owner == owner)
        with self._database.write() as connection:
            if not connection.execute(select(rows.c.id).where(*held)).first():
                return 0
            values = self._released(connection, now(connection))
            return connection.execute(update(rows).where(*held).values(values)).rowcount

    def lose(self, owner: str) -> int:
        """End the leases of a runner that is gone, as if they had expired; how many there were."""
        with self._database.write() as connection:
            return self._lose(connection, now(connection), self.line.rows.c.owner == owner)

    def _lose(self, connection: Connection, at: int, which: Any) -> int:
        rows = self.line.rows
        lost = select(rows).where(rows.c.state == self.line.leased, which)
        found = connection.execute(lost).all()
        for row in found:
            self._failed(connection, row, f"the runner {row.owner} was lost", at)
        return len(found)

    def _begin(
        self, connection: Connection, row: Row[Any], owner: str, at: int, seconds: float
    ) -> int:
        """Lease a row that waits; the lease's number."""
        lease = {
            **self._released(connection, at),
            "state": self.line.leased,
            "attempt": row.attempt + 1,
            "owner": owner,
            "until": at + round(seconds * 1000),
            "began_at": at,
        }
        rows = self.line.rows
        connection.execute(update(rows).where(rows.c.id == row.id).values(lease))
        return int(row.attempt) + 1

    def _renew(self, lease: Lease, seconds: float, **values: Any) -> bool:
        """Renew a lease; whether it holds."""
        with self._database.write() as connection:
            until = now(connection) + round(seconds * 1000)
            held = update(self.line.rows).where(*self._held(lease)).values(until=until, **values)
            return connection.execute(held).rowcount > 0

    def _held(self, lease: Lease) -> tuple[Any, ...]:
        """Whether a lease holds, whatever the time: nobody has taken it over."""
        columns = self.line.rows.c
        return (
            columns.id == lease.id,
            columns.state == self.line.leased,
            columns.attempt == lease.attempt,
            columns.owner == lease.owner,
        )

    def _released(self, connection: Connection, at: int) -> dict[str, Any]:
        """What a row has that waits again."""
        return {
            "state": self.line.queued,
            "owner": None,
            "until": None,
            **self._changed(connection, at),
        }

    @abstractmethod
    def _changed(self, connection: Connection, at: int) -> dict[str, int]:
        """What every change of a state writes."""

    @abstractmethod
    def _failed(self, connection: Connection, row: Row[Any], reason: str, at: int) -> StrEnum:
        """Count an attempt without a result; the new state."""


SEASON_CLOSED: Final = "the season was closed"

_attempts = schema.attempts

_OPEN: Final = (
    _attempts.c.job_id == bindparam("of_job"),
    _attempts.c.attempt == bindparam("of_attempt"),
    _attempts.c.ended.is_(None),
)

_IS_OPEN: Final = select(_attempts.c.owner).where(*_OPEN)

_END: Final = update(_attempts).where(*_OPEN)


def cancel_games_of(connection: Connection, bot_id: int, reason: str) -> None:
    """Cancel waiting jobs with any version of a bot; games that are being played are finished."""
    versions, jobs = schema.bot_versions, schema.jobs
    query = select(versions.c.id).where(versions.c.bot_id == bot_id)
    ours = connection.execute(query).scalars().all()
    connection.execute(
        update(jobs)
        .where(jobs.c.status == JobStatus.TODO, seats_one_of(ours))
        .values(status=JobStatus.CANCELLED, note=reason)
    )


def end_attempt(
    connection: Connection,
    job: Row[Any],
    attempt: int,
    ended: AttemptEnd,
    words: str | None,
    at: int,
    seat: int | None = None,
) -> None:
    """Note how an attempt at a job ended, unless that is known."""
    which = {"of_job": job.id, "of_attempt": attempt}
    reason = words and printable(words, schema.LONGEST_NOTE)
    values = {"ended": ended, "ended_at": at, "seat": seat, "note": reason}
    if ended is not AttemptEnd.DONE:  # a result has its place with its game
        if connection.execute(_IS_OPEN, which).first() is None:
            return
        link = last_link(connection, job.season_id)
        lost = LostAttempt(
            place=link.place + 1,
            game_id=job.game_id,
            attempt=attempt - 1,
            ended=ended,
            ended_at=at,
            reason=reason,
            seat=seat,
            lineup=versions_of(connection, job.id),
        )
        head = add_link(connection, job.season_id, link, lost_line(link.season, lost))
        values |= {"place": lost.place, "head": head}
    connection.execute(_END, which | values)


def count_failure(
    connection: Connection, job: Row[Any], words: str, patience: int, at: int
) -> JobStatus:
    """Note a failed attempt at a leased job: it waits again, or is quarantined."""
    failures, words = job.failures + 1, printable(words, schema.LONGEST_NOTE)
    status = JobStatus.QUARANTINED if failures >= patience else JobStatus.TODO
    if status is JobStatus.QUARANTINED:
        words = f"failed {failures} times, last: {words}"
        note(connection, at, AuditKind.QUARANTINED, job.game_id, words)
    _set(connection, job.id, status=status, failures=failures, owner=None, until=None, note=words)
    return give_back(connection, job) if status is JobStatus.TODO else status


def give_back(connection: Connection, job: Row[Any]) -> JobStatus:
    """Requeue a job, unless a bot of its line-up was taken out or the season closed."""
    versions, bots, seasons = schema.bot_versions, schema.bots, schema.seasons
    values: dict[str, Any] = {"status": JobStatus.TODO, "owner": None, "until": None}
    out = connection.execute(
        select(bots.c.name, bots.c.state)
        .join(versions, versions.c.bot_id == bots.c.id)
        .where(versions.c.id.in_(lineup_of(connection, job.id)), bots.c.state != BotState.ACTIVE)
    ).first()
    closed_at = select(seasons.c.closed_at).where(seasons.c.id == job.season_id)
    if out:
        values |= {"status": JobStatus.CANCELLED, "note": f"{out.name} is {out.state}"}
    elif connection.execute(closed_at).scalar_one() is not None:
        values |= {"status": JobStatus.CANCELLED, "note": SEASON_CLOSED}
    _set(connection, job.id, **values)
    return JobStatus(values["status"])


def _set(connection: Connection, job_id: int, **values: Any) -> None:
    connection.execute(update(schema.jobs).where(schema.jobs.c.id == job_id).values(values))


_jobs, _seats = schema.jobs, schema.job_seats

_OF_JOB: Final = (
    select(_seats.c.version_id).where(_seats.c.job_id == bindparam("job")).order_by(_seats.c.seat)
)


def lineups_of(
    connection: Connection, *conditions: ColumnElement[bool]
) -> dict[int, tuple[int, ...]]:
    """The line-ups of the jobs that meet the conditions: version ids by seat, by the job's id."""
    rows = connection.execute(
        select(_seats.c.job_id, _seats.c.version_id)
        .join(_jobs, _jobs.c.id == _seats.c.job_id)
        .where(*conditions)
        .order_by(_seats.c.job_id, _seats.c.seat)
    )
    return {
        job_id: tuple(row.version_id for row in group)
        for job_id, group in groupby(rows, key=lambda row: row.job_id)
    }


def lineup_of(connection: Connection, job_id: int) -> tuple[int, ...]:
    """The line-up of one job."""
    found = tuple(connection.execute(_OF_JOB, {"job": job_id}).scalars())
    if not found:
        raise StoreDamaged(f"job {job_id} has no line-up")
    return found


def seats_one_of(version_ids: Sequence[int]) -> ColumnElement[bool]:
    """The condition on a job that one of these versions sits in its game."""
    seats = _seats.alias()
    return exists().where(
        seats.c.version_id.in_(version_ids),
        seats.c.season_id == _jobs.c.season_id,
        seats.c.job_id == _jobs.c.id,
    )
