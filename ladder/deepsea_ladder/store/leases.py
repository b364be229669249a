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
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from msgspec import structs
from sqlalchemy import Column, Connection, Row, Table, bindparam, exists, func, or_, select, update

from deepsea_ladder.accounts import AuditKind
from deepsea_ladder.chain import lost_line
from deepsea_ladder.model.bots import BotState
from deepsea_ladder.model.games import (
    AttemptEnd,
    Job,
    LostAttempt,
    QueueLoad,
)
from deepsea_ladder.model.tasks import TaskState
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import add_link, last_link, note
from deepsea_ladder.store.tasks import NO_LOAD
from deepsea_ladder.store.versions import versions_of
from deepsea_rules.printable import printable


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

    def held(self, connection: Connection, lease: Job) -> Row[Any] | None:
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
        self, connection: Connection, lease: Job, at: int, seconds: float, **values: object
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


def _key(lease: Job) -> dict[str, Any]:
    return {"of_row": lease.id, "of_attempt": lease.attempt, "of_owner": lease.owner}


GAMES = Leases(schema.jobs, schema.jobs.c.status, TaskState.QUEUED, TaskState.RUNNING)


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
