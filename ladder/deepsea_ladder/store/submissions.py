"""Submissions: a queue of archives that a runner checks.

Invariants: a row is there with its whole archive or not at all; one of an author has one key, and
the same key is the same submission; only who holds its lease writes progress or a verdict; the
verdict and what it brings (a version, a bot's state) are one transaction, so that there is exactly
one version or none; a verdict is never changed, and removes the archive.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import structs
from sqlalchemy import Connection, Row, Select, case, delete, func, insert, select, update

from deepsea_bundle.reader import BotBundle
from deepsea_ladder.accounts import MACHINE, Actor
from deepsea_ladder.errors import KeyReused, NotOnLadder, StoreDamaged, SubmissionError
from deepsea_ladder.limits import (
    DAY_MS,
    HOUR_MS,
    RemoteLimits,
    Usage,
    check_submission_limits,
    submissions_left,
)
from deepsea_ladder.model import (
    AuthorSubmissions,
    BotState,
    Int64,
    NewSubmission,
    Submission,
    SubmissionLease,
    SubmissionRefusal,
    TaskKind,
    TaskState,
    utc_time,
)
from deepsea_ladder.store import schema
from deepsea_ladder.store.authors import archive_bytes, check_window
from deepsea_ladder.store.bots import accept, admissible
from deepsea_ladder.store.database import insert_row, now
from deepsea_ladder.store.tasks import TaskLine, Tasks
from deepsea_rules.printable import printable

_rows, _parts = schema.submissions, schema.submission_parts
_TASKS = Tasks(TaskKind.CHECK)
_task = schema.tasks.c
IS_OPEN = _TASKS.is_open
"""The tasks of submissions without a verdict."""
_SELECT: Select[Any] = _TASKS.join(
    select(_rows, schema.authors.c.name.label("author")).join(
        schema.authors, schema.authors.c.id == _rows.c.author_id
    ),
    _rows.c.id,
)
_LONGEST_LINE = 1000
"""Characters of a line of a bot's output."""


class Submissions(TaskLine[SubmissionLease]):
    tasks = _TASKS

    # The front

    def check(self, new: NewSubmission, limits: RemoteLimits) -> Submission | None:
        """The submission that has this key already; else None if it may be added now.

        Without a digest in `new` no key is looked for. Raises `KeyReused`, `LimitReached`, or
        `SubmissionError` for a name that is somebody else's and after the end of submissions.
        """
        with self._database.read() as connection:
            found = _with_key(connection, new) if new.sha256 else None
            if found is None:
                _check_new(connection, new, limits, now(connection))
            return found

    def add(self, new: NewSubmission, parts: Iterable[bytes], limits: RemoteLimits) -> Submission:
        """Add a submission with the parts of its archive, or return the one that has its key.

        Raises as `check` does, and `StoreError` if the parts are not of the announced size.
        """
        with self._database.write() as connection:
            if (found := _with_key(connection, new)) is not None:
                return found
            now_ms = now(connection)
            _check_new(connection, new, limits, now_ms)
            none_yet = {"games": 0, "of_games": 0, "took_ms": 0}
            row = insert(_rows).values(**structs.asdict(new), **none_yet, created_at=now_ms)
            submission_id, size = insert_row(connection, row), 0
            task = {"subject": submission_id, "author_id": new.author_id}
            _TASKS.add(connection, now_ms, [task])
            for number, content in enumerate(parts):
                size += len(content)
                part = {"submission_id": submission_id, "number": number, "content": content}
                connection.execute(insert(_parts), part)
            if size != new.size:
                raise SubmissionError(f"an archive of {new.size} bytes came with {size}")
            return _get(connection, submission_id)

    def get(self, number: int, author_id: int | None = None) -> Submission:
        """A submission; `NotOnLadder` if there is none, or none of that author."""
        with self._database.read() as connection:
            return _get(connection, number, author_id)

    def of_author(self, author_id: int, limit: int) -> list[Submission]:
        """An author's submissions, the newest first."""
        query = _SELECT.where(_rows.c.author_id == author_id).order_by(_rows.c.id.desc())
        return self._database.read_undamaged(query.limit(limit), _rows.c.id, _submissions)[0]

    def left(self, author_id: int, limits: RemoteLimits) -> tuple[int, int]:
        """The number of archives that an author may still submit within an hour and a day."""
        with self._database.read() as connection:
            now_ms = now(connection)
            return submissions_left(limits, _times(connection, author_id, now_ms), now_ms)

    def by_author(self) -> dict[str, AuthorSubmissions]:
        """The submissions of each author who has some, in short, by the author's name."""
        is_refused = _task.state.in_((TaskState.REFUSED, TaskState.FAILED))
        query = _SELECT.with_only_columns(
            func.count().label("number"),
            func.max(_rows.c.id).label("newest"),
            func.max(case((is_refused, _rows.c.id))).label("refused"),
        )
        with self._database.read() as connection:
            counts = connection.execute(query.group_by(_rows.c.author_id)).all()
        numbers = {number for row in counts for number in (row.newest, row.refused)}
        wanted = _SELECT.where(_rows.c.id.in_(numbers - {None}))
        submissions, _ = self._database.read_undamaged(wanted, _rows.c.id, _submissions)
        by_id = {int(one.id): one for one in submissions}
        return {
            newest.author: AuthorSubmissions(row.number, newest, by_id.get(row.refused))
            for row in counts
            if (newest := by_id.get(row.newest)) is not None
        }

    def queue(self) -> list[Submission]:
        """Submissions that are checked, then those that wait, in the order of their checks."""
        query = _SELECT.where(IS_OPEN).order_by(_rows.c.id)
        submissions, _ = self._database.read_undamaged(query, _rows.c.id, _submissions)
        return sorted(submissions, key=lambda one: (one.state is TaskState.QUEUED, one.ahead))

    # The runner

    def _order(self, connection: Connection, now_ms: int) -> Iterator[int]:
        """Authors take turns, and have one submission checked at a time."""
        busy, waiting = _TASKS.busy(connection), _TASKS.line(connection)
        authors = dict(waiting)
        order = _TASKS.order(connection, waiting)
        return (number for number in order if authors[number] not in busy)

    def _read(
        self, connection: Connection, task: Row[Any], owner: str, now_ms: int
    ) -> SubmissionLease:
        row = connection.execute(_SELECT.where(_rows.c.id == task.subject)).one()
        return SubmissionLease(
            id=row.id,
            author_id=row.author_id,
            author=row.author,
            bot=row.bot,
            needs_sandbox=row.needs_sandbox,
            by_machine=row.by_machine,
            owner=owner,
            attempt=task.attempt + 1,
        )

    def archive(self, lease: SubmissionLease) -> bytes:
        """The archive of a submission, as it was uploaded."""
        query = select(_parts.c.content).where(_parts.c.submission_id == lease.id)
        with self._database.read() as connection:
            parts = connection.execute(query.order_by(_parts.c.number)).scalars()
            return b"".join(parts)

    def progress(self, lease: SubmissionLease, seconds: float, games: int, of_games: int) -> bool:
        """Renew the lease, and note the admission games that were played; whether it holds."""
        with self._database.write() as connection:
            holds = _TASKS.renew(connection, lease, now(connection), seconds)
            if holds:
                _put(connection, lease.id, games=games, of_games=of_games)
            return holds

    def accept(
        self,
        lease: SubmissionLease,
        bundle: BotBundle,
        limits: RemoteLimits,
        took_ms: int,
        *,
        has_played: bool,
    ) -> bool:
        """Accept a submission whose files play already, or that has played its admission games.

        False if it has yet to play them, or the lease is lost. Raises as `admissible`; then nothing
        has changed.
        """
        packed = zlib.compress(bundle.archive)
        with self._database.write() as connection:
            if _TASKS.leased_task(connection, lease) is None:
                return False
            bot = admissible(
                connection,
                lease.author_id,
                name=bundle.name,
                digest=bundle.digest,
                needs_sandbox=lease.needs_sandbox,
                limits=None if lease.by_machine else limits,
            )
            if not has_played and (bot is None or bot.current.digest != bundle.digest):
                return False
            now_ms = now(connection)
            by = MACHINE if lease.by_machine else Actor(lease.author_id)
            version = accept(
                connection, lease.author_id, bot, bundle.name, bundle.digest, packed, now_ms, by
            )
            return _end(
                connection,
                lease,
                now_ms,
                took_ms,
                TaskState.ACCEPTED,
                bot=version.bot,
                version=version.number,
                digest=version.digest,
            )

    def refuse(
        self,
        lease: SubmissionLease,
        refusal: SubmissionRefusal,
        took_ms: int,
        *,
        bot: str = "",
        digest: str = "",
    ) -> bool:
        """Refuse a submission; False if the lease is lost.

        bot, digest  what its files say, if they were read
        """
        with self._database.write() as connection:
            return _end(
                connection,
                lease,
                now(connection),
                took_ms,
                TaskState.REFUSED,
                bot=bot or lease.bot,
                digest=digest or None,
                found=printable(refusal.found, schema.LONGEST_NOTE),
                remedy=printable(refusal.remedy, schema.LONGEST_NOTE),
                error=printable(refusal.error, keep="\n")[-schema.LONGEST_ERROR :],
                log=json.dumps([printable(line, _LONGEST_LINE) for line in refusal.log]),
            )

    def fail(self, lease: SubmissionLease, reason: str, took_ms: int = 0) -> TaskState | None:
        """Report a check without a verdict: it waits again, or has failed. None: the lease is lost.

        The author is not charged with it, unless `took_ms` says so.
        """
        with self._database.write() as connection:
            if (task := _TASKS.leased_task(connection, lease)) is None:
                return None
            _put(connection, lease.id, took_ms=_rows.c.took_ms + took_ms)
            return self.count_failure(connection, task, reason, now(connection))

    def _wait_again(
        self, connection: Connection, task: Row[Any], now_ms: int, **values: object
    ) -> TaskState:
        _put(connection, task.subject, games=0)
        return super()._wait_again(connection, task, now_ms, **values)

    def _give_up(self, connection: Connection, task: Row[Any], words: str, now_ms: int) -> None:
        found = printable(f"the ladder could not check it: {words}", schema.LONGEST_NOTE)
        remedy = "submit it again later, or ask whoever runs the ladder"
        _put(connection, task.subject, games=0, found=found, remedy=remedy)
        _remove_archive(connection, task.subject)


def _put(connection: Connection, number: int, **values: object) -> None:
    connection.execute(update(_rows).where(_rows.c.id == number).values(**values))


def _with_key(connection: Connection, new: NewSubmission) -> Submission | None:
    """The author's submission that has this key. `KeyReused` if it is of other bytes."""
    ours = (_rows.c.author_id == new.author_id, _rows.c.key == new.key)
    row = connection.execute(_SELECT.where(*ours)).first()
    if row is None:
        return None
    if (row.sha256, row.size) != (new.sha256, new.size):
        raise KeyReused(f"the key {new.key!r} is that of another upload; choose a new one")
    return _submission(row, _TASKS.places(connection))


def _get(connection: Connection, number: int, author_id: int | None = None) -> Submission:
    """A submission by its id, of that author if one is named."""
    row = connection.execute(_SELECT.where(_rows.c.id == number)).first()
    if row is None or author_id not in (None, row.author_id):
        raise NotOnLadder(f"there is no submission {number} of yours")
    order = _TASKS.places(connection) if row.state is TaskState.QUEUED else {}
    return _submission(row, order)


def _submissions(connection: Connection, rows: Sequence[Row[Any]]) -> list[Submission]:
    """The submissions in rows of `_SELECT`."""
    order = _TASKS.places(connection)
    return [_submission(row, order) for row in rows]


def _submission(row: Row[Any], order: dict[int, int]) -> Submission:
    """A row of `_SELECT`; `Tasks.places` has those that wait."""
    try:
        log = tuple(str(line) for line in json.loads(row.log or "[]"))
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreDamaged(f"submission {row.id} is damaged: {error}") from None
    return Submission(
        id=Int64(row.id),
        bot=row.bot,
        author=row.author,
        state=_TASKS.state(row),
        ahead=order.get(row.id, 0),
        games=row.games,
        of_games=row.of_games,
        version=row.version,
        digest=row.digest or "",
        found=row.found or "",
        remedy=row.remedy or "",
        error=row.error or "",
        log=log,
        created_at=utc_time(row.created_at),
        changed_at=utc_time(row.changed_at),
    )


def _check_new(
    connection: Connection, new: NewSubmission, limits: RemoteLimits, now_ms: int
) -> None:
    """Refuse what may not be added now."""
    check_window(connection, now_ms, new.author_id)
    admissible(
        connection,
        new.author_id,
        name=new.bot or None,
        needs_sandbox=new.needs_sandbox,
        limits=None if new.by_machine else limits,
    )
    if not new.by_machine:
        check_submission_limits(limits, _usage(connection, new.author_id, now_ms), new.size, now_ms)


def _times(connection: Connection, author_id: int, now_ms: int) -> Sequence[int]:
    """The times of the author's submissions of the last day that count for the limits, in order."""
    ours = (_rows.c.author_id == author_id) & ~_rows.c.by_machine
    times = select(_rows.c.created_at).where(ours, _rows.c.created_at > now_ms - DAY_MS)
    return connection.execute(times.order_by(_rows.c.created_at)).scalars().all()


def _usage(connection: Connection, author_id: int, now_ms: int) -> Usage:
    ours = (_rows.c.author_id == author_id) & ~_rows.c.by_machine
    sizes = select(func.count(), func.coalesce(func.sum(_rows.c.size), 0)).select_from(_rows)
    sizes = sizes.join(schema.tasks, _task.subject == _rows.c.id).where(ours, IS_OPEN)
    number, size = connection.execute(sizes).one()
    # Without the time: SQLite would begin with all checks.
    checks = _SELECT.with_only_columns(_task.changed_at, _rows.c.took_ms)
    checks = checks.where(ours, _rows.c.took_ms > 0)
    waits = select(func.count()).select_from(schema.tasks).where(_TASKS.is_waiting)
    return Usage(
        open=number,
        times=_times(connection, author_id, now_ms),
        archives=archive_bytes(connection, author_id) + int(size),
        waiting=connection.execute(waits).scalar_one(),
        checks=sorted(
            (changed_at, took_ms)
            for changed_at, took_ms in connection.execute(checks)
            if changed_at > now_ms - HOUR_MS
        ),
    )


def _end(
    connection: Connection,
    lease: SubmissionLease,
    now_ms: int,
    took_ms: int,
    state: TaskState,
    **verdict: object,
) -> bool:
    """Write a verdict, and remove the archive; whether the lease held."""
    if _TASKS.leased_task(connection, lease) is None:
        return False
    _put(connection, lease.id, took_ms=_rows.c.took_ms + took_ms, **verdict)
    _TASKS.end(connection, lease.id, now_ms, state)
    _remove_archive(connection, lease.id)
    return True


def _remove_archive(connection: Connection, number: int) -> None:
    connection.execute(delete(_parts).where(_parts.c.submission_id == number))


def bots_from_afar(connection: Connection) -> list[str]:
    """The names of active bots of which a version came from where strangers can submit."""
    theirs = (
        select(schema.bots.c.name)
        .join(_rows, _rows.c.bot == schema.bots.c.name)
        .join(schema.tasks, _TASKS.is_of_kind & (_task.subject == _rows.c.id))
        .where(
            _task.state == TaskState.ACCEPTED,
            _rows.c.needs_sandbox,
            schema.bots.c.state == BotState.ACTIVE,
        )
    )
    return list(connection.execute(theirs.distinct().order_by(schema.bots.c.name)).scalars())
