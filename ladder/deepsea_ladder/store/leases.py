"""Queues that runners lease from beside games: their order, and the leases.

Invariants: a lease runs by the database's clock and has a number, its attempt; only its present
owner writes a result, and it holds until another one takes over, whatever the time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, Protocol

from sqlalchemy import Connection, Row, Table, func, or_, select, update

from deepsea_ladder.store.database import Database, now
from deepsea_ladder.store.retry_policy import RetryPolicy
from deepsea_ladder.submission_limits import check_order


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
