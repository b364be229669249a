"""Tasks: which runner has which game, check, analysis, comparison or step, and until when.

Invariants: a lease runs by the database's clock and has a number, its attempt; it holds until
another runner takes over, whatever the time; who does not hold it renews, fails and gives back
nothing; a task that cannot be read is set aside with its reason and keeps nobody from the next;
authors take turns, but for games, of which the pairing decides; every change of a state counts up
`change`.

Theory of operation: a row of `tasks` has the state of a task and its lease; the kind's own table
has the request and the result. `Tasks` has the statements of a kind. `TaskQueue` is the base of
the part of the store for a kind: its methods write what else changes when a task waits again or
has failed. `TaskLine` is that of all kinds but games, and reads a task, too. `AllTasks` gives up
the leases of all kinds at once, and has the rests of runners, which hold no lease meanwhile.

Games as tasks: how attempts at them end, and when they wait again.

Invariants: every attempt at a game that ends without a result has a place in its season's chain; a
game that is cancelled because a bot was taken out says so.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from msgspec import structs
from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError, NoResultFound
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from deepsea_ladder.bot_states import RetryPolicy
from deepsea_ladder.chain import lost_line
from deepsea_ladder.errors import StoreDamaged
from deepsea_ladder.limits import order_of_checks
from deepsea_ladder.model import (
    KINDS,
    UNDER_WAY,
    AttemptEnd,
    BotState,
    LostAttempt,
    QueueLoad,
    TaskKind,
    TaskState,
)
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import add_link, last_link
from deepsea_ladder.store.columns import LAST_MS, is_wrong
from deepsea_ladder.store.database import Database, StorePart, now
from deepsea_ladder.store.history import versions_of
from deepsea_rules.printable import printable

NO_LOAD = QueueLoad(0, 0, 0, 0)
_tasks = schema.tasks
_columns = _tasks.c
_others = _tasks.alias()
_rests = schema.rests


class Lease(Protocol):
    """A task that a runner has leased."""

    @property
    def id(self) -> int:
        """The id of the row in the kind's own table."""

    @property
    def owner(self) -> str: ...

    @property
    def attempt(self) -> int:
        """The number of the lease, from 1."""


_Lease = TypeVar("_Lease", bound=Lease)
UNREADABLE_TASK = (StoreDamaged, NoResultFound, LookupError, TypeError, ValueError)
"""The errors of a task whose rows are damaged: it is set aside, and the next one is tried."""


class is_sound(FunctionElement[bool]):  # noqa: N801  (reads like a function in SQL)
    """The condition that all values of a task can be read.

    What cannot waits for nobody and is leased by nobody, so that a runner does not meet it.
    """

    type = Boolean()
    inherit_cache = True


@compiles(is_sound, "sqlite")
def _is_sound_in_sqlite(*_: Any, **__: Any) -> str:
    wrong = " OR ".join(is_wrong(column, f"{_tasks.name}.") for column in _columns)
    # As one term of which it expects nothing, lest SQLite choose another order of the tables.
    return f"likelihood(NOT ({wrong}), 1.0)"


@compiles(is_sound, "postgresql")
def _is_sound_in_postgresql(*_: Any, **__: Any) -> str:
    # It keeps no value of another type, no text that is not UTF-8 and no word that a CHECK forbids.
    # Games are leased and counted whatever the numbers of their tasks are.
    return "true"


class Tasks:
    """The statements of one kind of tasks."""

    def __init__(self, kind: TaskKind) -> None:
        self.kind = kind
        self.rules = KINDS[kind]
        self.is_of_kind = _columns.kind == kind
        self.is_waiting = and_(self.is_of_kind, _columns.state == TaskState.QUEUED, is_sound())
        self.is_running = and_(self.is_of_kind, _columns.state == TaskState.RUNNING, is_sound())
        self.is_open = and_(self.is_of_kind, _columns.state.in_(UNDER_WAY))
        self._last_change = (
            select(func.coalesce(func.max(_others.c.change), 0))
            .where(_others.c.kind == kind, _others.c.change <= LAST_MS)  # lest damage be counted up
            .scalar_subquery()
        )
        # Statements are made once: making one takes longer than the database needs for it.
        key = (self.is_of_kind, _columns.subject == bindparam("of_subject"))
        held = (
            *key,
            _columns.state == TaskState.RUNNING,
            _columns.attempt == bindparam("of_attempt"),
            _columns.owner == bindparam("of_owner"),
        )
        self._get = select(_tasks).where(*key)
        self._held = select(_tasks).where(*held)
        self._renew = update(_tasks).where(*held)
        self._put = update(_tasks).where(*key).values(change=self._last_change + 1)
        self._add = insert(_tasks).values(kind=kind, change=self._last_change + 1)
        self._expired = select(_tasks).where(
            self.is_running, _columns.until <= bindparam("expired_at")
        )
        self._held_by = select(_tasks).where(
            self.is_running, _columns.owner == bindparam("of_owner")
        )

    def join(self, query: Select[Any], subject: Column[Any]) -> Select[Any]:
        """The rows of the kind's own table, each with its task; `subject` is that table's id."""
        # An outer join: SQLite looks up the tasks of rows, and does not begin with all tasks of
        # the kind, unless the query selects them by their state.
        return query.add_columns(
            _columns.state,
            _columns.attempt,
            _columns.failures,
            _columns.owner,
            _columns.until,
            _columns.words,
            _columns.changed_at,
        ).outerjoin(_tasks, and_(self.is_of_kind, _columns.subject == subject))

    def state(self, row: Row[Any]) -> TaskState:
        """The state of a row of `join`. Raises `StoreDamaged` if its task is missing."""
        if row.state is None:
            raise StoreDamaged(f"table tasks: the row of {self.kind} {row.id} is missing")
        return TaskState(row.state)

    def add(self, connection: Connection, at: int, rows: Sequence[dict[str, Any]]) -> None:
        """Add tasks that wait: each with its `subject`, and what else differs of its columns."""
        waits = {
            "season_id": None,
            "priority": 0,
            "author_id": None,
            "state": TaskState.QUEUED,
            "attempt": 0,
            "failures": 0,
            "created_at": at,
            "changed_at": at,
        }
        connection.execute(self._add, [waits | row for row in rows])

    def get(self, connection: Connection, subject: int) -> Row[Any]:
        """The task of a row of the kind's own table."""
        return connection.execute(self._get, {"of_subject": subject}).one()

    def held(self, connection: Connection, lease: Lease) -> Row[Any] | None:
        """The task of a lease; None if it does not hold."""
        return connection.execute(self._held, _key(lease)).first()

    def held_by(self, connection: Connection, owner: str) -> Sequence[Row[Any]]:
        """The tasks that an owner has leased."""
        return connection.execute(self._held_by, {"of_owner": owner}).all()

    def expired(self, connection: Connection, at: int) -> Sequence[Row[Any]]:
        """The tasks whose lease has expired."""
        return connection.execute(self._expired, {"expired_at": at}).all()

    def begin(
        self, connection: Connection, task: Row[Any], owner: str, at: int, seconds: float
    ) -> None:
        """Lease a task that waits, for `seconds`."""
        lease = {"attempt": task.attempt + 1, "owner": owner, "until": at + round(seconds * 1000)}
        self.put(connection, task.subject, at, state=TaskState.RUNNING, began_at=at, **lease)

    def renew(self, connection: Connection, lease: Lease, at: int, seconds: float) -> bool:
        """Let a lease end `seconds` from now; whether it holds."""
        values = {"until": at + round(seconds * 1000)}
        return connection.execute(self._renew, _key(lease) | values).rowcount > 0

    def end(
        self, connection: Connection, subject: int, at: int, state: TaskState, **values: object
    ) -> None:
        """Change a task's state, in which nobody has leased it."""
        values = {"owner": None, "until": None, **values}
        self.put(connection, subject, at, state=state, **values)

    def cancel_waiting(
        self, connection: Connection, at: int, words: str, *conditions: ColumnElement[bool]
    ) -> None:
        """Cancel the tasks that wait and meet the conditions."""
        cancelled = {"state": TaskState.CANCELLED, "words": words, "changed_at": at}
        query = update(_tasks).where(self.is_waiting, *conditions)
        connection.execute(query.values(**cancelled, change=self._last_change + 1))

    def put(self, connection: Connection, subject: int, at: int, **values: object) -> None:
        """Write some columns of a task, as a change that readers notice."""
        connection.execute(self._put, {"of_subject": subject, "changed_at": at, **values})

    # The line: authors take turns; whoever asked on the ladder's machine is 0

    def line(self, connection: Connection) -> list[tuple[int, int]]:
        """Subjects and authors of the tasks that wait, the oldest first."""
        query = select(_columns.subject, _columns.author_id).where(self.is_waiting)
        # Sorted here: SQLite would rather read all tasks in their order than sort some.
        return sorted((row.subject, row.author_id or 0) for row in connection.execute(query))

    def busy(self, connection: Connection) -> list[int]:
        """The authors of the tasks that are leased."""
        query = select(_columns.author_id).where(self.is_running)
        return [author or 0 for author in connection.execute(query).scalars()]

    def order(self, connection: Connection, waiting: Sequence[tuple[int, int]]) -> list[int]:
        """The order in which tasks are leased, by their subjects."""
        authors = sorted({author for _, author in waiting})
        last = (
            select(_columns.author_id, func.max(_columns.began_at).label("began_at"))
            .where(
                self.is_of_kind,
                _columns.author_id.in_(authors),
                _columns.began_at.is_not(None),
            )
            .group_by(_columns.author_id)
        )
        begun = {row.author_id: row.began_at for row in connection.execute(last)}
        return order_of_checks(waiting, begun, self.busy(connection))

    def places(self, connection: Connection) -> dict[int, int]:
        """The number of tasks before each one that waits, by its subject."""
        waiting = self.line(connection)
        if not waiting:
            return {}
        first = len(self.busy(connection))
        return {
            subject: place for place, subject in enumerate(self.order(connection, waiting), first)
        }


def _key(lease: Lease) -> dict[str, Any]:
    return {"of_subject": lease.id, "of_attempt": lease.attempt, "of_owner": lease.owner}


def loads(
    connection: Connection,
    at: int,
    key: Column[Any],
    kinds: Collection[TaskKind],
    *conditions: ColumnElement[bool],
) -> dict[Any, QueueLoad]:
    """The tasks that wait and those that are leased and can be read, by the values of a column."""
    under_way = (TaskState.QUEUED, TaskState.RUNNING)
    # A sum: SQLite would read all rows in the order of an index on the column.
    oldest = func.min(_columns.created_at + 0)
    query = (
        select(key, _columns.owner, _columns.until, func.count(), oldest)
        .where(_columns.kind.in_(kinds), _columns.state.in_(under_way), is_sound(), *conditions)
        .group_by(key, _columns.owner, _columns.until)  # a task that waits has no owner
    )
    loads: dict[Any, QueueLoad] = {}
    for value, owner, until, count, since in connection.execute(query):
        load = loads.get(value, NO_LOAD)
        if owner is None:
            age = max(load.oldest_wait_ms, at - since)
            load = structs.replace(load, waiting=load.waiting + count, oldest_wait_ms=age)
        elif until is not None and until > at:  # a damaged lease may have no end
            load = structs.replace(load, leased=load.leased + count)
        else:
            load = structs.replace(load, expired=load.expired + count)
        loads[value] = load
    return loads


class TaskQueue(StorePart):
    """The tasks of one kind: what their leases come to."""

    tasks: ClassVar[Tasks]

    def hand_back(
        self,
        owner: str,
        lease: Lease | None = None,
        reason: str | None = None,
        *,
        besides: Iterable[Lease] = (),
    ) -> int:
        """Give up an owner's leases, or that of one task; their number.

        The tasks wait again, and nothing counts as failed.

        besides  leases that the owner keeps
        """
        kept = {other.id for other in besides}
        with self._database.write() as connection:
            held = [
                task
                for task in self.tasks.held_by(connection, owner)
                if task.subject not in kept
                and (lease is None or (task.subject, task.attempt) == (lease.id, lease.attempt))
            ]
            return self.hand_back_all(connection, held, reason)

    def hand_back_all(
        self, connection: Connection, held: Sequence[Row[Any]], reason: str | None = None
    ) -> int:
        """Let tasks that were leased wait again, in a transaction of the caller."""
        at = now(connection)
        for task in held:
            self._hand_back(connection, task, at, reason)
        return len(held)

    def lose_all(self, connection: Connection, held: Sequence[Row[Any]]) -> int:
        """End leases of a runner that is gone, in a transaction of the caller."""
        at = now(connection)
        for task in held:
            self._lose(connection, task, at)
        return len(held)

    def count_failure(
        self, connection: Connection, task: Row[Any], reason: str, at: int
    ) -> TaskState:
        """Count an attempt without a result, in a transaction of the caller; the new state."""
        failures = task.failures + 1
        if failures >= self.tasks.rules.most_failures(self._policy):
            words = self._last_words(reason, failures)
            self._set_failed(connection, task, words, at, failures=failures)
            return self.tasks.rules.failed
        words = printable(reason, schema.LONGEST_NOTE)
        return self._wait_again(connection, task, at, failures=failures, words=words)

    def _set_failed(
        self, connection: Connection, task: Row[Any], reason: str, at: int, **values: object
    ) -> None:
        words = printable(reason, schema.LONGEST_NOTE)
        state = self.tasks.rules.failed
        self.tasks.end(connection, task.subject, at, state, words=words, **values)
        with suppress(IntegrityError):  # a row with a damaged value refuses other changes, too
            self._give_up(connection, task, words, at)

    # What differs by kind

    def _hand_back(
        self, connection: Connection, task: Row[Any], at: int, reason: str | None
    ) -> None:
        """Let a task wait again that its owner gives up."""
        self._wait_again(connection, task, at)

    def _lose(self, connection: Connection, task: Row[Any], at: int) -> TaskState:
        """End a lease of a runner that is gone, or has not renewed it; the new state."""
        return self.count_failure(connection, task, f"the runner {task.owner} was lost", at)

    def _wait_again(
        self, connection: Connection, task: Row[Any], at: int, **values: object
    ) -> TaskState:
        """Let a task that was leased wait again; the new state."""
        self.tasks.end(connection, task.subject, at, TaskState.QUEUED, **values)
        return TaskState.QUEUED

    def _last_words(self, reason: str, failures: int) -> str:
        """The reason for which a task has failed for good, by that of its last failure."""
        return reason

    def _give_up(self, connection: Connection, task: Row[Any], words: str, at: int) -> None:
        """Write what else changes when a task has failed for good."""


class TaskLine(TaskQueue, Generic[_Lease]):
    """The tasks of one kind, which runners lease one by one, and for which authors take turns."""

    def waiting(self) -> int:
        """The number of tasks that wait, or whose lease has expired."""
        with self._database.read() as connection:
            stale = self.tasks.is_running & (_columns.until <= now(connection))
            query = select(func.count()).select_from(_tasks)
            query = query.where(or_(self.tasks.is_waiting, stale))
            return int(connection.execute(query).scalar_one())

    def state(self, subject: int) -> TaskState:
        """The state of a task."""
        with self._database.read() as connection:
            return TaskState(self.tasks.get(connection, subject).state)

    def claim(self, owner: str, seconds: float, only: int | None = None) -> _Lease | None:
        """Lease the next task for `seconds` from now; None if there is none.

        only  the one of this subject, whatever waits before it
        """
        with self._database.write() as connection:
            at = now(connection)
            for task in self.tasks.expired(connection, at):
                self._lose(connection, task, at)
            for subject in self._order(connection, at):
                if only not in (None, subject):
                    continue
                task = self.tasks.get(connection, subject)
                try:
                    with self._database.translating_errors():
                        lease = self._read(connection, task, owner, at)
                except UNREADABLE_TASK as error:
                    damage = error.damage if isinstance(error, StoreDamaged) else error
                    self._set_failed(connection, task, f"it cannot be read: {damage}", at)
                    continue
                self.tasks.begin(connection, task, owner, at, seconds)
                return lease
            return None

    def renew(self, lease: _Lease, seconds: float) -> bool:
        """Let a lease end `seconds` from now; whether it holds."""
        with self._database.write() as connection:
            return self.tasks.renew(connection, lease, now(connection), seconds)

    def fail(self, lease: _Lease, reason: str) -> TaskState | None:
        """Report an attempt without a result; the new state, or None if the lease does not hold."""
        with self._database.write() as connection:
            if (task := self.tasks.held(connection, lease)) is None:
                return None
            return self.count_failure(connection, task, reason, now(connection))

    # What differs by kind

    def _order(self, connection: Connection, at: int) -> Iterable[int]:
        """The subjects of the tasks that may be leased now, the next first."""
        return self.tasks.order(connection, self.tasks.line(connection))

    def _read(self, connection: Connection, task: Row[Any], owner: str, at: int) -> _Lease:
        """The task for its new owner. Raises one of `UNREADABLE_TASK` for damage."""
        raise NotImplementedError


class AllTasks(StorePart):
    """The tasks of all kinds."""

    def __init__(
        self, database: Database, policy: RetryPolicy, queues: Sequence[TaskQueue]
    ) -> None:
        super().__init__(database, policy)
        self._queues = queues

    def owners(self) -> list[str]:
        """The owners of leases, of tasks of any kind."""
        query = select(_columns.owner).where(
            _columns.kind.in_(TaskKind), _columns.state == TaskState.RUNNING
        )
        with self._database.read() as connection:
            return sorted(connection.execute(query.distinct()).scalars())

    def rest(self, owner: str, words: str, seconds: float) -> None:
        """Note that a runner does nothing on purpose, and why; it counts for `seconds` from now.

        As often as it is called, it writes for the same words once in a third of that time.
        """
        words, duration = printable(words, schema.LONGEST_NOTE), round(1000 * seconds)
        is_noted = and_(_rests.c.owner == owner, _rests.c.words == words)
        with self._database.read() as connection:
            lasting = _rests.c.until > now(connection) + duration * 2 // 3
            if connection.execute(select(_rests.c.owner).where(is_noted, lasting)).first():
                return
        with self._database.write() as connection:
            at = now(connection)
            is_over = or_(_rests.c.owner == owner, _rests.c.until <= at)
            connection.execute(delete(_rests).where(is_over))
            values = {"owner": owner, "until": at + duration, "words": words}
            connection.execute(insert(_rests), values)

    def end_rest(self, owner: str) -> None:
        """Note that a runner has ended."""
        with self._database.write() as connection:
            connection.execute(delete(_rests).where(_rests.c.owner == owner))

    def hand_back(self, owner: str) -> int:
        """Give up an owner's leases of all kinds at once; their number."""
        with self._database.write() as connection:
            return sum(
                queue.hand_back_all(connection, queue.tasks.held_by(connection, owner))
                for queue in self._queues
            )

    def lose(self, owner: str) -> int:
        """End the leases of all kinds of a runner that is gone; their number."""
        with self._database.write() as connection:
            return sum(
                queue.lose_all(connection, queue.tasks.held_by(connection, owner))
                for queue in self._queues
            )


GAMES = Tasks(TaskKind.GAME)
_OUT = [state for state in BotState if state is not BotState.ACTIVE]
"""States of bots that were taken out. A bot whose state is damaged is in none of them."""
_attempts = schema.attempts
_OPEN = (
    _attempts.c.job_id == bindparam("of_job"),
    _attempts.c.attempt == bindparam("of_attempt"),
    _attempts.c.ended.is_(None),
)
_IS_OPEN = select(_attempts.c.owner).where(*_OPEN)
_END = update(_attempts).where(*_OPEN)
_GAME_ID = select(schema.jobs.c.game_id).where(schema.jobs.c.id == bindparam("job"))
_LOST = (
    select(_attempts.c.season_id, _attempts.c.ended, func.count())
    .where(_attempts.c.season_id.in_(select(schema.seasons.c.id)), _attempts.c.place > 0)
    .group_by(_attempts.c.season_id, _attempts.c.ended)
)


def game_id_of(connection: Connection, task: Row[Any]) -> str:
    """The id of a task's game."""
    return str(connection.execute(_GAME_ID, {"job": task.subject}).scalar_one())


def end_attempt(
    connection: Connection,
    task: Row[Any],
    attempt: int,
    ended: AttemptEnd,
    words: str | None,
    at: int,
    seat: int | None = None,
) -> None:
    """Note how an attempt at a game ended, unless that is known."""
    which = {"of_job": task.subject, "of_attempt": attempt}
    reason = words and printable(words, schema.LONGEST_NOTE)
    values = {"ended": ended, "ended_at": at, "seat": seat, "note": reason}
    if ended is not AttemptEnd.DONE:  # a result has its place with its game
        if connection.execute(_IS_OPEN, which).first() is None:
            return
        link = last_link(connection, task.season_id)
        lost = LostAttempt(
            place=link.place + 1,
            game_id=game_id_of(connection, task),
            attempt=attempt - 1,
            ended=ended,
            ended_at=at,
            reason=reason,
            seat=seat,
            lineup=versions_of(connection, task.subject),
        )
        head = add_link(connection, task.season_id, link, lost_line(link.season, lost))
        values |= {"place": lost.place, "head": head}
    connection.execute(_END, which | values)


def lost_counts(connection: Connection) -> dict[int, Counter[AttemptEnd]]:
    """The number of attempts without a result of each season, by its id and by how they ended."""
    found: dict[int, Counter[AttemptEnd]] = defaultdict(Counter)
    for season, ended, count in connection.execute(_LOST):
        found[season][ended] = count
    return found


def give_back(connection: Connection, task: Row[Any], at: int, **values: object) -> TaskState:
    """Let a game wait again, unless a bot of its line-up was taken out or the season closed."""
    seats, versions, bots = schema.job_seats, schema.bot_versions, schema.bots
    out = connection.execute(
        select(bots.c.name, bots.c.state)
        .join(versions, versions.c.bot_id == bots.c.id)
        .join(seats, seats.c.version_id == versions.c.id)
        .where(seats.c.job_id == task.subject, bots.c.state.in_(_OUT))
        .order_by(seats.c.seat)
    ).first()
    seasons = schema.seasons
    closed_at = select(seasons.c.closed_at).where(seasons.c.id == task.season_id)
    state = TaskState.QUEUED
    if out:
        state, values["words"] = TaskState.CANCELLED, f"{out.name} is {out.state}"
    elif connection.execute(closed_at).scalar_one() is not None:
        state, values["words"] = TaskState.CANCELLED, "the season was closed"
    GAMES.end(connection, task.subject, at, state, **values)
    return state


def cancel_games_of(connection: Connection, bot_id: int, reason: str, at: int) -> None:
    """Cancel waiting games with any version of a bot; those that are being played are finished."""
    versions, seats = schema.bot_versions, schema.job_seats
    ours = connection.execute(select(versions.c.id).where(versions.c.bot_id == bot_id))
    sits = (
        select(seats.c.job_id)
        .where(
            seats.c.version_id.in_(ours.scalars().all()),
            seats.c.season_id == _tasks.c.season_id,
            seats.c.job_id == _tasks.c.subject,
        )
        .correlate(_tasks)
        .exists()
    )
    GAMES.cancel_waiting(connection, at, reason, sits)
