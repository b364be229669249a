"""Leases: which runner has which game, check or analysis, until when, and in which attempt.

Invariants: a lease runs by the database's clock and has a number, its attempt; it holds until
another runner takes over, whatever the time; a row that cannot be read is set aside and keeps
nobody from the next; who does not hold it renews, fails and gives back nothing; authors take turns,
but for games, of which the pairing decides; every attempt at a game that ends without a result has
a place in its season's chain; a game that is cancelled because a bot was taken out says so; a game
that failed too often is quarantined, and the others continue.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from operator import attrgetter
from typing import Any, ClassVar, TypeAlias, TypeVar

from msgspec import structs
from sqlalchemy import Column, Connection, Row, Table, bindparam, exists, func, or_, select, update

from deepsea_ladder.accounts import AuditKind
from deepsea_ladder.chain import lost_line
from deepsea_ladder.errors import StoreDamaged
from deepsea_ladder.limits import check_order
from deepsea_ladder.model.bots import BotState, SubmissionLease
from deepsea_ladder.model.games import (
    AnalysisLease,
    AttemptEnd,
    Job,
    LostAttempt,
    PersonGame,
    QueueLoad,
)
from deepsea_ladder.model.tasks import TaskState
from deepsea_ladder.model.verdicts import ComparisonLease
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import add_link, last_link, note
from deepsea_ladder.store.database import StorePart, now
from deepsea_ladder.store.versions import versions_of
from deepsea_rules.printable import printable

NO_LOAD = QueueLoad(0, 0, 0, 0, frozenset())
_Leased = TypeVar("_Leased")
Lease: TypeAlias = Job | SubmissionLease | AnalysisLease | PersonGame | ComparisonLease


class Leases:
    """A table whose rows are leased, and the states in which they wait and are leased."""

    def __init__(
        self,
        rows: Table,
        state: Column[Any],
        waiting: StrEnum,
        leased: StrEnum,
        changed: Callable[[Connection, int], dict[str, Any]] = lambda connection, at: {},
    ) -> None:
        """`changed` gives what a row gets, besides, whenever it is leased or waits again."""
        self.rows = rows
        self.waiting = waiting
        self.is_waiting, self.is_leased = state == waiting, state == leased
        self._changed = changed
        self._waits = {state.name: waiting, "owner": None, "until": None}
        self._leased = {state.name: leased}
        # Statements are made once: making one takes longer than the database needs for it.
        held = (
            rows.c.id == bindparam("of_row"),
            self.is_leased,
            rows.c.attempt == bindparam("of_attempt"),
            rows.c.owner == bindparam("of_owner"),
        )
        self._held = select(rows).where(*held)
        self._renew = update(rows).where(*held)
        self._set = update(rows).where(rows.c.id == bindparam("of_row"))

    def new(self, connection: Connection, at: int) -> dict[str, Any]:
        """What a row gets that is added: it waits."""
        none_yet = {"attempt": 0, "failures": 0, "created_at": at}
        return self._waits | none_yet | self._changed(connection, at)

    def held(self, connection: Connection, lease: Lease) -> Row[Any] | None:
        """The row of a lease; None if it does not hold."""
        return connection.execute(self._held, _key(lease)).first()

    def load(self, connection: Connection, at: int, *which: Any) -> QueueLoad:
        """What waits and what is leased, of the rows that meet these conditions."""
        return self.loads(connection, at, [], *which).get((), NO_LOAD)

    def loads(
        self, connection: Connection, at: int, keys: Sequence[Column[Any]], *which: Any
    ) -> dict[tuple[Any, ...], QueueLoad]:
        """What waits and what is leased, by the values of some columns."""
        columns = self.rows.c
        # A sum: SQLite would read all rows in the order of an index on the column.
        oldest = func.min(columns.created_at + 0)
        groups = (*keys, columns.owner, columns.until)  # a row that waits has no owner
        query = select(*groups, func.count(), oldest).group_by(*groups)
        rows = connection.execute(query.where(or_(self.is_waiting, self.is_leased), *which))
        found: dict[tuple[Any, ...], QueueLoad] = {}
        for *key, owner, until, count, since in rows:
            load = found.get(tuple(key), NO_LOAD)
            if owner is None:
                load = structs.replace(load, waiting=count, oldest_wait_ms=max(0, at - since))
            elif until > at:
                owners = load.owners | {owner}
                load = structs.replace(load, leased=load.leased + count, owners=owners)
            else:
                load = structs.replace(load, expired=load.expired + count)
            found[tuple(key)] = load
        return found

    def held_by(self, connection: Connection, owner: str) -> Sequence[Row[Any]]:
        """The rows that an owner has leased."""
        query = select(self.rows).where(self.is_leased, self.rows.c.owner == owner)
        return connection.execute(query).all()

    def begin(
        self,
        connection: Connection,
        row: Row[Any],
        owner: str,
        at: int,
        seconds: float,
        **values: object,
    ) -> int:
        """Lease a row that waits, for `seconds`; the lease's number."""
        attempt = int(row.attempt) + 1
        values |= {"attempt": attempt, "owner": owner, "until": at + round(seconds * 1000)}
        self.put(connection, row, **self._leased | self._changed(connection, at) | values)
        return attempt

    def renew(
        self, connection: Connection, lease: Lease, at: int, seconds: float, **values: object
    ) -> bool:
        """Let a lease end `seconds` from now; whether it holds."""
        values["until"] = at + round(seconds * 1000)
        return connection.execute(self._renew, _key(lease) | values).rowcount > 0

    def release(self, connection: Connection, row: Row[Any], at: int, **values: object) -> None:
        """End a row's lease: it waits again, unless the values say otherwise."""
        self.end(connection, row.id, at, **values)

    def end(self, connection: Connection, number: int, at: int, **values: object) -> None:
        """As `release`, of a row by its id."""
        values = self._waits | self._changed(connection, at) | values
        connection.execute(self._set, {"of_row": number, **values})

    def put(self, connection: Connection, row: Row[Any], **values: object) -> None:
        """Write some columns of a row."""
        connection.execute(self._set, {"of_row": row.id, **values})


def _key(lease: Lease) -> dict[str, Any]:
    return {"of_row": lease.id, "of_attempt": lease.attempt, "of_owner": lease.owner}


GAMES = Leases(schema.jobs, schema.jobs.c.status, TaskState.QUEUED, TaskState.RUNNING)


class Line(Leases):
    """Rows of many authors, who take turns; whoever asked on the ladder's machine is 0."""

    def ids(self, connection: Connection) -> list[tuple[int, int]]:
        """Ids and authors of what waits, the oldest first."""
        columns = self.rows.c
        query = select(columns.id, columns.author_id).where(self.is_waiting).order_by(columns.id)
        return [(row.id, row.author_id or 0) for row in connection.execute(query)]

    def busy(self, connection: Connection) -> Sequence[int]:
        """The authors of what is leased."""
        query = select(self.rows.c.author_id).where(self.is_leased)
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


def counting_changes(rows: Table) -> Callable[[Connection, int], dict[str, Any]]:
    """What a row of a table gets with each change of its state, for readers to compare."""

    def changed(connection: Connection, at: int) -> dict[str, Any]:
        last = connection.execute(select(func.max(rows.c.change))).scalar()
        return {"changed_at": at, "change": (last or 0) + 1}

    return changed


class LeasedRows(StorePart):
    """What a runner does one by one beside its games: submissions, analyses, games of people,
    comparisons."""

    line: ClassVar[Line]
    failed: ClassVar[StrEnum]
    """The state after so many attempts without a result:"""
    most_failures: ClassVar[attrgetter[int]]

    def waiting(self) -> int:
        """The number of rows that wait, or whose lease has expired."""
        with self._database.read() as connection:
            stale = self.line.is_leased & (self.line.rows.c.until <= now(connection))
            query = select(func.count()).where(or_(self.line.is_waiting, stale))
            return int(connection.execute(query).scalar_one())

    def owners(self) -> list[str]:
        query = select(self.line.rows.c.owner).where(self.line.is_leased).distinct()
        with self._database.read() as connection:
            return sorted(connection.execute(query).scalars())

    def hand_back(self, owner: str) -> int:
        """Give up an owner's leases; they wait again, and nothing counts as failed."""
        with self._database.write() as connection:
            rows = self.line.held_by(connection, owner)
            for row in rows:
                self.line.release(connection, row, now(connection))
            return len(rows)

    def lose(self, owner: str) -> int:
        """End the leases of a runner that is gone, as if they had expired; how many there were."""
        with self._database.write() as connection:
            rows = self.line.held_by(connection, owner)
            self._lose(connection, rows, now(connection))
            return len(rows)

    def renew(self, lease: Lease, seconds: float) -> bool:
        """Let a lease end `seconds` from now; whether it holds."""
        with self._database.write() as connection:
            return self.line.renew(connection, lease, now(connection), seconds)

    def fail(self, lease: Lease, reason: str) -> StrEnum | None:
        """Report an attempt without a result; the new state, or None if the lease does not hold."""
        with self._database.write() as connection:
            if (row := self.line.held(connection, lease)) is None:
                return None
            return self._failed(connection, row, reason, now(connection))

    def _first_readable(
        self,
        connection: Connection,
        numbers: Iterable[int],
        lease: Callable[[int], _Leased],
        at: int,
    ) -> _Leased | None:
        """Lease the first of these rows that can be read; one that cannot has failed, and says why.

        lease  leases a row by its id; raises `StoreDamaged`, ValueError or TypeError for damage
        """
        for number in numbers:
            try:
                return lease(number)
            except (StoreDamaged, ValueError, TypeError) as error:
                reason = printable(f"it cannot be read: {error}", schema.LONGEST_NOTE)
                self.line.end(connection, number, at, state=self.failed, reason=reason)
        return None

    def _take_over(self, connection: Connection, at: int) -> None:
        expired = select(self.line.rows).where(self.line.is_leased, self.line.rows.c.until <= at)
        self._lose(connection, connection.execute(expired).all(), at)

    def _lose(self, connection: Connection, rows: Sequence[Row[Any]], at: int) -> None:
        for row in rows:
            self._failed(connection, row, f"the runner {row.owner} was lost", at)

    def _failed(self, connection: Connection, row: Row[Any], reason: str, at: int) -> StrEnum:
        """Count an attempt without a result; the new state."""
        failures, words = row.failures + 1, printable(reason, schema.LONGEST_NOTE)
        is_enough = failures >= self.most_failures(self._policy)
        state = self.failed if is_enough else self.line.waiting
        self.line.release(connection, row, at, state=state, failures=failures, reason=words)
        return state


# Attempts at games

_attempts = schema.attempts
_OPEN = (
    _attempts.c.job_id == bindparam("of_job"),
    _attempts.c.attempt == bindparam("of_attempt"),
    _attempts.c.ended.is_(None),
)
_IS_OPEN = select(_attempts.c.owner).where(*_OPEN)
_END = update(_attempts).where(*_OPEN)


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


_LOST = (
    select(_attempts.c.season_id, _attempts.c.ended, func.count())
    .where(_attempts.c.season_id.in_(select(schema.seasons.c.id)), _attempts.c.place > 0)
    .group_by(_attempts.c.season_id, _attempts.c.ended)
)


def lost_counts(connection: Connection) -> dict[int, Counter[AttemptEnd]]:
    """How many attempts of each season, by its id, ended without a result, by how they ended."""
    found: dict[int, Counter[AttemptEnd]] = defaultdict(Counter)
    for season, ended, count in connection.execute(_LOST):
        found[season][ended] = count
    return found


def count_failure(
    connection: Connection, job: Row[Any], words: str, patience: int, at: int
) -> TaskState:
    """Note a failed attempt at a leased job: it waits again, or is quarantined."""
    failures, words = job.failures + 1, printable(words, schema.LONGEST_NOTE)
    if failures < patience:
        return give_back(connection, job, at, failures=failures, note=words)
    words = f"failed {failures} times, last: {words}"
    note(connection, at, AuditKind.QUARANTINED, job.game_id, words)
    status = TaskState.QUARANTINED
    GAMES.release(connection, job, at, status=status, failures=failures, note=words)
    return status


def give_back(connection: Connection, job: Row[Any], at: int, **values: object) -> TaskState:
    """Requeue a job, unless a bot of its line-up was taken out or the season closed."""
    seats, versions, bots = schema.job_seats, schema.bot_versions, schema.bots
    out = connection.execute(
        select(bots.c.name, bots.c.state)
        .join(versions, versions.c.bot_id == bots.c.id)
        .join(seats, seats.c.version_id == versions.c.id)
        .where(seats.c.job_id == job.id, bots.c.state != BotState.ACTIVE)
        .order_by(seats.c.seat)
    ).first()
    seasons = schema.seasons
    closed_at = select(seasons.c.closed_at).where(seasons.c.id == job.season_id)
    status = TaskState.QUEUED
    if out:
        status, values["note"] = TaskState.CANCELLED, f"{out.name} is {out.state}"
    elif connection.execute(closed_at).scalar_one() is not None:
        status, values["note"] = TaskState.CANCELLED, "the season was closed"
    GAMES.release(connection, job, at, status=status, **values)
    return status


def cancel_games_of(connection: Connection, bot_id: int, reason: str) -> None:
    """Cancel waiting jobs with any version of a bot; games that are being played are finished."""
    versions, jobs, seats = schema.bot_versions, schema.jobs, schema.job_seats
    ours = connection.execute(select(versions.c.id).where(versions.c.bot_id == bot_id))
    sits = exists().where(
        seats.c.version_id.in_(ours.scalars().all()),
        seats.c.season_id == jobs.c.season_id,
        seats.c.job_id == jobs.c.id,
    )
    cancelled = update(jobs).where(GAMES.is_waiting, sits)
    connection.execute(cancelled.values(status=TaskState.CANCELLED, note=reason))
