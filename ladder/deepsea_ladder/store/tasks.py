"""Tasks: the games, checks, analyses, comparisons and steps of runners, and their leases.

A row of the table `tasks` has the state of a task and its lease; the request and the result are in
the kind's own table. `Tasks` has the statements of one kind. `TaskQueue` is the base of the store's
part for a kind; subclasses write to the kind's own table when a task waits again or has failed.
`TaskLine` is the base for all kinds but games, whose tasks are leased one by one. `AllTasks` ends
the leases of a runner for all kinds at once, and stores the rests of runners, which hold no lease
meanwhile. The functions at the end are for games: how attempts end, and when a game waits again.

Invariants: a lease runs by the database's clock and is numbered by its attempt. It holds until
another runner takes over the task, even after it has expired; a runner without the lease cannot
renew, fail or give back anything. A task that cannot be read is set aside with its reason, and the
next one is leased. Authors take turns, except for games, whose order the pairing decides. Every
change of a state increases `change`. Every attempt at a game that ends without a result has a place
in its season's chain; a game that is cancelled because a bot was taken out names the bot.
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
from deepsea_ladder.store.columns import LAST_MS, forbidden_value_sql
from deepsea_ladder.store.database import Database, StorePart, now
from deepsea_ladder.store.history import versions_of
from deepsea_rules.printable import printable

NO_LOAD = QueueLoad(waiting=0, leased=0, expired=0, oldest_wait_ms=0)
_tasks = schema.tasks
_task_columns = _tasks.c
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
"""The errors of a task whose rows are damaged: it is set aside, and the next one is leased."""


class is_sound(FunctionElement[bool]):  # noqa: N801  (reads like a function in SQL)
    """The condition that all values of a task can be read.

    A task that does not meet it is neither counted as waiting nor leased, so that it stops no
    runner.
    """

    type = Boolean()
    inherit_cache = True


@compiles(is_sound, "sqlite")
def _is_sound_in_sqlite(*_: Any, **__: Any) -> str:
    """Return the SQL of `is_sound` for SQLite, which stores values of any type in any column."""
    wrong = " OR ".join(forbidden_value_sql(column, f"{_tasks.name}.") for column in _task_columns)
    # Declared as always true, since SQLite would otherwise expect fewer rows and choose another
    # order of tables.
    return f"likelihood(NOT ({wrong}), 1.0)"


@compiles(is_sound, "postgresql")
def _is_sound_in_postgresql(*_: Any, **__: Any) -> str:
    """Return the SQL of `is_sound` for PostgreSQL, where the condition is always true.

    PostgreSQL refuses to store values of another type, texts that are not UTF-8, and words that a
    CHECK forbids. It does store numbers out of range, but these disturb no lease.
    """
    return "true"


class Tasks:
    """The statements of one kind of tasks, which run in a transaction of the caller.

    `subject` is the id of a task's row in the kind's own table. Times are milliseconds since 1970
    by the database's clock.
    """

    def __init__(self, kind: TaskKind) -> None:
        self.kind = kind
        self.rules = KINDS[kind]
        self.is_of_kind = _task_columns.kind == kind
        self.is_waiting = and_(self.is_of_kind, _task_columns.state == TaskState.QUEUED, is_sound())
        self.is_running = and_(
            self.is_of_kind, _task_columns.state == TaskState.RUNNING, is_sound()
        )
        self.is_open = and_(self.is_of_kind, _task_columns.state.in_(UNDER_WAY))
        self._last_change = (
            select(func.coalesce(func.max(_others.c.change), 0))
            .where(_others.c.kind == kind, _others.c.change <= LAST_MS)  # lest damage be counted up
            .scalar_subquery()
        )
        # Statements are built once: building one takes longer than the database needs for it.
        has_subject = (self.is_of_kind, _task_columns.subject == bindparam("of_subject"))
        has_lease = (
            *has_subject,
            _task_columns.state == TaskState.RUNNING,
            _task_columns.attempt == bindparam("of_attempt"),
            _task_columns.owner == bindparam("of_owner"),
        )
        self._select_task = select(_tasks).where(*has_subject)
        self._select_leased = select(_tasks).where(*has_lease)
        self._update_leased = update(_tasks).where(*has_lease)
        self._update_task = update(_tasks).where(*has_subject).values(change=self._last_change + 1)
        self._insert_task = insert(_tasks).values(kind=kind, change=self._last_change + 1)
        self._select_expired = select(_tasks).where(
            self.is_running, _task_columns.until <= bindparam("expired_at")
        )
        self._select_of_owner = select(_tasks).where(
            self.is_running, _task_columns.owner == bindparam("of_owner")
        )

    def join(self, query: Select[Any], subject: Column[Any]) -> Select[Any]:
        """Add the columns of each row's task to a query of the kind's own table, and return it.

        subject  the id column of the kind's own table
        """
        is_task_of_row = and_(self.is_of_kind, _task_columns.subject == subject)
        # An outer join makes SQLite look up the task of each row. With an inner join it may begin
        # with all tasks of the kind, even if the query selects few rows.
        return query.outerjoin(_tasks, is_task_of_row).add_columns(
            _task_columns.state,
            _task_columns.attempt,
            _task_columns.failures,
            _task_columns.owner,
            _task_columns.until,
            _task_columns.words,
            _task_columns.changed_at,
        )

    def state(self, row: Row[Any]) -> TaskState:
        """Return the state of the task in a row of a query that `join` made.

        Raises `StoreDamaged` if the row has no task.
        """
        if row.state is None:
            raise StoreDamaged(f"table tasks: the row of {self.kind} {row.id} is missing")
        return TaskState(row.state)

    def add(self, connection: Connection, now_ms: int, rows: Sequence[dict[str, Any]]) -> None:
        """Add tasks, which then wait for a runner.

        rows  for each task the values of its columns: `subject`, the id of the task's row in the
              kind's own table, and those that differ from the defaults below
        """
        defaults = {
            "season_id": None,
            "priority": 0,
            "author_id": None,
            "state": TaskState.QUEUED,
            "attempt": 0,
            "failures": 0,
            "created_at": now_ms,
            "changed_at": now_ms,
        }
        connection.execute(self._insert_task, [defaults | row for row in rows])

    def get(self, connection: Connection, subject: int) -> Row[Any]:
        """Return the row of a task. Raises `NoResultFound` if there is none."""
        return connection.execute(self._select_task, {"of_subject": subject}).one()

    def leased_task(self, connection: Connection, lease: Lease) -> Row[Any] | None:
        """Return the row of a leased task; None if the lease does not hold any more."""
        return connection.execute(self._select_leased, _lease_parameters(lease)).first()

    def tasks_of_owner(self, connection: Connection, owner: str) -> Sequence[Row[Any]]:
        """Return the rows of the tasks that a runner has leased."""
        return connection.execute(self._select_of_owner, {"of_owner": owner}).all()

    def expired(self, connection: Connection, now_ms: int) -> Sequence[Row[Any]]:
        """Return the rows of the tasks whose lease has expired."""
        return connection.execute(self._select_expired, {"expired_at": now_ms}).all()

    def begin(
        self, connection: Connection, task: Row[Any], owner: str, now_ms: int, seconds: float
    ) -> None:
        """Lease a waiting task to the runner `owner`, for `seconds` from now."""
        self.put(
            connection,
            task.subject,
            now_ms,
            state=TaskState.RUNNING,
            began_at=now_ms,
            attempt=task.attempt + 1,
            owner=owner,
            until=now_ms + round(seconds * 1000),
        )

    def renew(self, connection: Connection, lease: Lease, now_ms: int, seconds: float) -> bool:
        """Let a lease expire `seconds` from now. Returns False if it does not hold any more."""
        values = {"until": now_ms + round(seconds * 1000)}
        parameters = _lease_parameters(lease) | values
        return connection.execute(self._update_leased, parameters).rowcount > 0

    def end(
        self, connection: Connection, subject: int, now_ms: int, state: TaskState, **values: object
    ) -> None:
        """End the lease of a task, if it has one, and set its new state and other columns."""
        values = {"owner": None, "until": None, **values}
        self.put(connection, subject, now_ms, state=state, **values)

    def cancel_waiting(
        self, connection: Connection, now_ms: int, reason: str, *conditions: ColumnElement[bool]
    ) -> None:
        """Cancel the tasks that wait and meet all conditions, and store the reason with each."""
        values = {"state": TaskState.CANCELLED, "words": reason, "changed_at": now_ms}
        query = update(_tasks).where(self.is_waiting, *conditions)
        connection.execute(query.values(**values, change=self._last_change + 1))

    def put(self, connection: Connection, subject: int, now_ms: int, **values: object) -> None:
        """Set columns of a task, and give it the next number of a change, which readers follow."""
        parameters = {"of_subject": subject, "changed_at": now_ms, **values}
        connection.execute(self._update_task, parameters)

    # The waiting line, in which authors take turns; 0 stands for the ladder's own machine.

    def waiting_line(self, connection: Connection) -> list[tuple[int, int]]:
        """Return the subject and the author id of each waiting task, the oldest first."""
        query = select(_task_columns.subject, _task_columns.author_id).where(self.is_waiting)
        # Sorted here: SQLite would rather read all tasks in their order than sort a few.
        return sorted((row.subject, row.author_id or 0) for row in connection.execute(query))

    def authors_of_leased(self, connection: Connection) -> list[int]:
        """Return the author id of each leased task; an author may occur several times."""
        query = select(_task_columns.author_id).where(self.is_running)
        return [author or 0 for author in connection.execute(query).scalars()]

    def leasing_order(
        self, connection: Connection, waiting: Sequence[tuple[int, int]]
    ) -> list[int]:
        """Return the ids of waiting tasks in the order in which they will be leased.

        Authors take turns. The order depends on when a task of each author was last begun, and on
        the tasks that are leased now.

        waiting  the id and the author id of each waiting task, the oldest first; the id of a task
                 is its `subject`, the id of its row in the kind's own table
        """
        author_ids = sorted({author_id for _, author_id in waiting})
        last_begun = (
            select(_task_columns.author_id, func.max(_task_columns.began_at).label("began_at"))
            .where(
                self.is_of_kind,
                _task_columns.author_id.in_(author_ids),
                _task_columns.began_at.is_not(None),
            )
            .group_by(_task_columns.author_id)
        )
        last_begun_ms = {row.author_id: row.began_at for row in connection.execute(last_begun)}
        return order_of_checks(waiting, last_begun_ms, self.authors_of_leased(connection))

    def tasks_ahead(self, connection: Connection) -> dict[int, int]:
        """Return the number of tasks before each waiting task, by the task's id (its `subject`).

        They are the leased tasks, and the waiting ones that will be leased earlier.
        """
        waiting = self.waiting_line(connection)
        if not waiting:
            return {}
        leased_count = len(self.authors_of_leased(connection))
        task_ids = self.leasing_order(connection, waiting)
        return {task_id: ahead for ahead, task_id in enumerate(task_ids, start=leased_count)}


def _lease_parameters(lease: Lease) -> dict[str, Any]:
    """Return the bound parameters by which a statement finds the task of a lease."""
    return {"of_subject": lease.id, "of_attempt": lease.attempt, "of_owner": lease.owner}


def loads(
    connection: Connection,
    now_ms: int,
    key: Column[Any],
    kinds: Collection[TaskKind],
    *conditions: ColumnElement[bool],
) -> dict[Any, QueueLoad]:
    """Return the numbers of waiting and of leased tasks, by the values of a column.

    key         the column by which tasks are grouped, such as their season
    kinds       the kinds of tasks that are counted
    conditions  further conditions that counted tasks meet
    Tasks that cannot be read are not counted.
    """
    under_way = (TaskState.QUEUED, TaskState.RUNNING)
    # The sum keeps SQLite from reading all rows in the order of an index on the column.
    oldest = func.min(_task_columns.created_at + 0)
    query = (
        select(key, _task_columns.owner, _task_columns.until, func.count(), oldest)
        .where(
            _task_columns.kind.in_(kinds),
            _task_columns.state.in_(under_way),
            is_sound(),
            *conditions,
        )
        .group_by(key, _task_columns.owner, _task_columns.until)  # a task that waits has no owner
    )
    loads: dict[Any, QueueLoad] = {}
    for value, owner, until, count, created_at in connection.execute(query):
        load = loads.get(value, NO_LOAD)
        if owner is None:
            age = max(load.oldest_wait_ms, now_ms - created_at)
            load = structs.replace(load, waiting=load.waiting + count, oldest_wait_ms=age)
        elif until is not None and until > now_ms:  # a damaged lease may have no end
            load = structs.replace(load, leased=load.leased + count)
        else:
            load = structs.replace(load, expired=load.expired + count)
        loads[value] = load
    return loads


class TaskQueue(StorePart):
    """The store's part for one kind of tasks: the ends of their leases."""

    tasks: ClassVar[Tasks]

    def hand_back(
        self,
        owner: str,
        lease: Lease | None = None,
        reason: str | None = None,
        *,
        besides: Iterable[Lease] = (),
    ) -> int:
        """Give up leases of a runner, and return their number.

        The tasks wait again, and no attempt counts as failed.

        owner    the name of the runner
        lease    the only lease to give up; None gives up all of the runner's
        reason   stored with an attempt at a game
        besides  leases that the runner keeps
        """
        # The column `subject` of a task has the id of its lease.
        kept_ids = {kept_lease.id for kept_lease in besides}
        with self._database.write() as connection:
            leased_tasks = self.tasks.tasks_of_owner(connection, owner)
            given_up = [task for task in leased_tasks if task.subject not in kept_ids]
            if lease is not None:
                given_up = [
                    task
                    for task in given_up
                    if task.subject == lease.id and task.attempt == lease.attempt
                ]
            return self.hand_back_all(connection, given_up, reason)

    def hand_back_all(
        self, connection: Connection, tasks: Sequence[Row[Any]], reason: str | None = None
    ) -> int:
        """Let leased tasks wait for a runner again, and return their number.

        No failure is counted. This runs in a transaction of the caller.
        """
        now_ms = now(connection)
        for task in tasks:
            self._hand_back(connection, task, now_ms, reason)
        return len(tasks)

    def end_lost_leases(self, connection: Connection, tasks: Sequence[Row[Any]]) -> int:
        """End the leases of tasks whose runner died, and return their number.

        Each counts as a failed attempt; a subclass may decide otherwise. This runs in a transaction
        of the caller.
        """
        now_ms = now(connection)
        for task in tasks:
            self._end_lost_lease(connection, task, now_ms)
        return len(tasks)

    def count_failure(
        self, connection: Connection, task: Row[Any], reason: str, now_ms: int
    ) -> TaskState:
        """Count a failed attempt at a task, and return the task's new state.

        The task waits again, or fails for good if this was one failure too many. This runs in a
        transaction of the caller.
        """
        failures = task.failures + 1
        if failures >= self.tasks.rules.most_failures(self._policy):
            final_reason = self._final_reason(reason, failures)
            self._set_failed(connection, task, final_reason, now_ms, failures=failures)
            return self.tasks.rules.failed
        stored_reason = printable(reason, schema.LONGEST_NOTE)
        return self._queue_again(connection, task, now_ms, failures=failures, words=stored_reason)

    def _set_failed(
        self, connection: Connection, task: Row[Any], reason: str, now_ms: int, **values: object
    ) -> None:
        """Store that a task has failed for good, and why.

        values  new values of further columns of the task
        """
        stored_reason = printable(reason, schema.LONGEST_NOTE)
        state = self.tasks.rules.failed
        self.tasks.end(connection, task.subject, now_ms, state, words=stored_reason, **values)
        with suppress(IntegrityError):  # a row with a damaged value refuses other changes, too
            self._record_final_failure(connection, task, stored_reason, now_ms)

    # Hooks of the kinds

    def _hand_back(
        self, connection: Connection, task: Row[Any], now_ms: int, reason: str | None
    ) -> None:
        """Let a task wait again that its runner gives up."""
        self._queue_again(connection, task, now_ms)

    def _end_lost_lease(self, connection: Connection, task: Row[Any], now_ms: int) -> TaskState:
        """End a lease whose runner died or did not renew it, and return the task's new state.

        This counts as a failed attempt at the task.
        """
        return self.count_failure(connection, task, f"the runner {task.owner} was lost", now_ms)

    def _queue_again(
        self, connection: Connection, task: Row[Any], now_ms: int, **values: object
    ) -> TaskState:
        """End the lease of a task, let it wait for a runner again, and return its new state.

        values  new values of further columns of the task
        """
        self.tasks.end(connection, task.subject, now_ms, TaskState.QUEUED, **values)
        return TaskState.QUEUED

    def _final_reason(self, reason: str, failures: int) -> str:
        """Return the reason to store for a task that has failed for good.

        Here it is that of the last failure; a subclass may add the number of failures to it.
        """
        return reason

    def _record_final_failure(
        self, connection: Connection, task: Row[Any], reason: str, now_ms: int
    ) -> None:
        """Write to other tables that a task has failed for good; a hook, which does nothing here.

        reason  the reason as it is stored with the task
        """


class TaskLine(TaskQueue, Generic[_Lease]):
    """The tasks of one kind, which runners lease one by one, and for which authors take turns."""

    def waiting(self) -> int:
        """Return the number of tasks that wait, or whose lease has expired."""
        with self._database.read() as connection:
            is_expired = self.tasks.is_running & (_task_columns.until <= now(connection))
            query = select(func.count()).select_from(_tasks)
            query = query.where(or_(self.tasks.is_waiting, is_expired))
            return int(connection.execute(query).scalar_one())

    def state(self, subject: int) -> TaskState:
        """Return the state of a task."""
        with self._database.read() as connection:
            return TaskState(self.tasks.get(connection, subject).state)

    def claim(self, owner: str, seconds: float, only: int | None = None) -> _Lease | None:
        """Lease the next task to a runner for `seconds` from now; None if no task waits.

        Expired leases of others end first, so that their tasks can be leased again. A task that
        cannot be read is marked as failed, and the next one is tried.

        owner  the name of the runner
        only   the id of the only task that may be leased, even if others wait before it; None
               allows any
        """
        with self._database.write() as connection:
            now_ms = now(connection)
            for task in self.tasks.expired(connection, now_ms):
                self._end_lost_lease(connection, task, now_ms)
            for task_id in self._leasable_in_order(connection, now_ms):
                if only is not None and task_id != only:
                    continue
                task = self.tasks.get(connection, task_id)
                try:
                    with self._database.translating_errors():
                        lease = self._read_lease(connection, task, owner, now_ms)
                except UNREADABLE_TASK as error:
                    damage = error.damage if isinstance(error, StoreDamaged) else error
                    self._set_failed(connection, task, f"it cannot be read: {damage}", now_ms)
                    continue
                self.tasks.begin(connection, task, owner, now_ms, seconds)
                return lease
            return None

    def renew(self, lease: _Lease, seconds: float) -> bool:
        """Let a lease expire `seconds` from now. Returns False if it does not hold any more."""
        with self._database.write() as connection:
            return self.tasks.renew(connection, lease, now(connection), seconds)

    def fail(self, lease: _Lease, reason: str) -> TaskState | None:
        """Count a failed attempt at a leased task, and return the task's new state.

        Returns None, and changes nothing, if the lease does not hold any more.
        """
        with self._database.write() as connection:
            task = self.tasks.leased_task(connection, lease)
            if task is None:
                return None
            return self.count_failure(connection, task, reason, now(connection))

    # Hooks of the kinds

    def _leasable_in_order(self, connection: Connection, now_ms: int) -> Iterable[int]:
        """Return the ids of the tasks that may be leased now, the next one first."""
        return self.tasks.leasing_order(connection, self.tasks.waiting_line(connection))

    def _read_lease(
        self, connection: Connection, task: Row[Any], owner: str, now_ms: int
    ) -> _Lease:
        """Return the lease of a waiting task for `owner`, the runner that takes it.

        A subclass reads it from the kind's own table. Raises one of the errors `UNREADABLE_TASK` if
        the stored rows are damaged.
        """
        raise NotImplementedError


class AllTasks(StorePart):
    """The tasks of all kinds, and the rests of runners."""

    def __init__(
        self, database: Database, policy: RetryPolicy, queues: Sequence[TaskQueue]
    ) -> None:
        super().__init__(database, policy)
        self._queues = queues

    def owners(self) -> list[str]:
        """Return the names of the runners that hold a lease of any kind, sorted."""
        query = select(_task_columns.owner).where(
            _task_columns.kind.in_(TaskKind), _task_columns.state == TaskState.RUNNING
        )
        with self._database.read() as connection:
            return sorted(connection.execute(query.distinct()).scalars())

    def note_rest(self, owner: str, reason: str, seconds: float) -> None:
        """Store that a runner pauses on purpose, for `seconds` from now, and why.

        Until then the ladder does not count as stalled. The runner may call this as often as it
        likes: nothing is written if it gave the same reason a short time ago.
        """
        stored_reason = printable(reason, schema.LONGEST_NOTE)
        duration_ms = round(1000 * seconds)
        # The stored pause is renewed when a third of its time is over, so that it never runs out.
        least_remaining_ms = duration_ms * 2 // 3
        with self._database.read() as connection:
            recent_pause = select(_rests.c.owner).where(
                _rests.c.owner == owner,
                _rests.c.words == stored_reason,
                _rests.c.until > now(connection) + least_remaining_ms,
            )
            if connection.execute(recent_pause).first() is not None:
                return
        with self._database.write() as connection:
            now_ms = now(connection)
            is_outdated = or_(_rests.c.owner == owner, _rests.c.until <= now_ms)
            connection.execute(delete(_rests).where(is_outdated))
            values = {"owner": owner, "until": now_ms + duration_ms, "words": stored_reason}
            connection.execute(insert(_rests), values)

    def end_rest(self, owner: str) -> None:
        """Remove the stored pause of a runner that works again or has ended."""
        with self._database.write() as connection:
            connection.execute(delete(_rests).where(_rests.c.owner == owner))

    def hand_back(self, owner: str) -> int:
        """Give up a runner's leases of all kinds in one transaction, and return their number.

        The tasks wait again, and no attempt counts as failed.
        """
        count = 0
        with self._database.write() as connection:
            for queue in self._queues:
                leased_tasks = queue.tasks.tasks_of_owner(connection, owner)
                count += queue.hand_back_all(connection, leased_tasks)
        return count

    def end_leases_of_lost_runner(self, owner: str) -> int:
        """End the leases of all kinds of a runner that died, and return their number.

        Each counts as a failed attempt at its task, except for games.
        """
        count = 0
        with self._database.write() as connection:
            for queue in self._queues:
                leased_tasks = queue.tasks.tasks_of_owner(connection, owner)
                count += queue.end_lost_leases(connection, leased_tasks)
        return count


# ----- Games as tasks

GAMES = Tasks(TaskKind.GAME)
_TAKEN_OUT = [state for state in BotState if state is not BotState.ACTIVE]
"""The states of bots that get no games. A damaged state is none of them."""
_attempts = schema.attempts
_IS_OPEN_ATTEMPT = (
    _attempts.c.job_id == bindparam("of_job"),
    _attempts.c.attempt == bindparam("of_attempt"),
    _attempts.c.ended.is_(None),
)
_SELECT_OPEN_ATTEMPT = select(_attempts.c.owner).where(*_IS_OPEN_ATTEMPT)
_END_ATTEMPT = update(_attempts).where(*_IS_OPEN_ATTEMPT)
_GAME_ID_OF_JOB = select(schema.jobs.c.game_id).where(schema.jobs.c.id == bindparam("job"))
_LOST_ATTEMPT_COUNTS = (
    select(_attempts.c.season_id, _attempts.c.ended, func.count())
    .where(_attempts.c.season_id.in_(select(schema.seasons.c.id)), _attempts.c.place > 0)
    .group_by(_attempts.c.season_id, _attempts.c.ended)
)


def game_id_of(connection: Connection, task: Row[Any]) -> str:
    """Return the id of a task's game."""
    return str(connection.execute(_GAME_ID_OF_JOB, {"job": task.subject}).scalar_one())


def end_attempt(
    connection: Connection,
    task: Row[Any],
    attempt: int,
    ended: AttemptEnd,
    reason: str | None,
    now_ms: int,
    seat: int | None = None,
) -> None:
    """Store how an attempt at a game ended, unless its end is stored already.

    An attempt without a result also gets the next place in its season's chain.

    attempt  its number, from 1
    seat     the seat whose decision was due when the game became void, if there was one
    """
    parameters = {"of_job": task.subject, "of_attempt": attempt}
    if reason is not None:
        reason = printable(reason, schema.LONGEST_NOTE)
    values = {"ended": ended, "ended_at": now_ms, "seat": seat, "note": reason}
    if ended is not AttemptEnd.DONE:  # the place of a result is stored with its game
        if connection.execute(_SELECT_OPEN_ATTEMPT, parameters).first() is None:
            return
        link = last_link(connection, task.season_id)
        lost = LostAttempt(
            place=link.place + 1,
            game_id=game_id_of(connection, task),
            attempt=attempt - 1,
            ended=ended,
            ended_at=now_ms,
            reason=reason,
            seat=seat,
            lineup=versions_of(connection, task.subject),
        )
        head = add_link(connection, task.season_id, link, lost_line(link.season, lost))
        values |= {"place": lost.place, "head": head}
    connection.execute(_END_ATTEMPT, parameters | values)


def lost_counts(connection: Connection) -> dict[int, Counter[AttemptEnd]]:
    """Return how many attempts at games ended without a result, by season id and by their end."""
    counts: dict[int, Counter[AttemptEnd]] = defaultdict(Counter)
    for season, ended, count in connection.execute(_LOST_ATTEMPT_COUNTS):
        counts[season][ended] = count
    return counts


def give_back(connection: Connection, task: Row[Any], now_ms: int, **values: object) -> TaskState:
    """Let a game wait again, or cancel it if it must not be played any more; return its new state.

    It is cancelled if a bot of its line-up was taken out, or if its season was closed.

    values  new values of further columns of the task
    """
    seats, versions, bots = schema.job_seats, schema.bot_versions, schema.bots
    bot_taken_out = connection.execute(
        select(bots.c.name, bots.c.state)
        .join(versions, versions.c.bot_id == bots.c.id)
        .join(seats, seats.c.version_id == versions.c.id)
        .where(seats.c.job_id == task.subject, bots.c.state.in_(_TAKEN_OUT))
        .order_by(seats.c.seat)
    ).first()
    seasons = schema.seasons
    query = select(seasons.c.closed_at).where(seasons.c.id == task.season_id)
    closed_at = connection.execute(query).scalar_one()
    state = TaskState.QUEUED
    if bot_taken_out is not None:
        state = TaskState.CANCELLED
        values["words"] = f"{bot_taken_out.name} is {bot_taken_out.state}"
    elif closed_at is not None:
        state = TaskState.CANCELLED
        values["words"] = "the season was closed"
    GAMES.end(connection, task.subject, now_ms, state, **values)
    return state


def cancel_games_of(connection: Connection, bot_id: int, reason: str, now_ms: int) -> None:
    """Cancel the waiting games in which a version of a bot has a seat.

    Games that are being played go on.
    """
    versions, seats = schema.bot_versions, schema.job_seats
    query = select(versions.c.id).where(versions.c.bot_id == bot_id)
    version_ids = connection.execute(query).scalars().all()
    bot_has_seat = (
        select(seats.c.job_id)
        .where(
            seats.c.version_id.in_(version_ids),
            seats.c.season_id == _tasks.c.season_id,
            seats.c.job_id == _tasks.c.subject,
        )
        .correlate(_tasks)
        .exists()
    )
    GAMES.cancel_waiting(connection, now_ms, reason, bot_has_seat)
