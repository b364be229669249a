"""Submissions: uploaded archives of bots that runners check.

Invariants: a submission is stored with its whole archive or not at all; each submission of an
author has its own key, and the same key means the same submission; only the holder of its lease
writes progress or a verdict; a verdict and its consequences (a version, a bot's state) are one
transaction, so that an accepted submission gives exactly one version; a verdict is never changed,
and removes the archive.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import structs
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    case,
    delete,
    func,
    insert,
    select,
    update,
)

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
"""The condition that a task is that of a submission without a verdict."""
_SELECT: Select[Any] = _TASKS.join(
    select(_rows, schema.authors.c.name.label("author")).join(
        schema.authors, schema.authors.c.id == _rows.c.author_id
    ),
    _rows.c.id,
)
_LONGEST_LINE = 1000
"""The largest number of characters that are stored of a line of a bot's output."""


class Submissions(TaskLine[SubmissionLease]):
    """The store's part for submissions and their checks."""

    tasks = _TASKS

    # Called by the front

    def check(self, new: NewSubmission, limits: RemoteLimits) -> Submission | None:
        """Check before an upload whether a submission may be added now.

        Returns the submission that has this key already, or None if a new one may be added. Without
        a digest in `new` no submission is searched for. Raises `KeyReused`, `LimitReached`, or
        `SubmissionError` for another author's bot and after the end of submissions.
        """
        with self._database.read() as connection:
            existing = _find_by_key(connection, new) if new.sha256 else None
            if existing is None:
                _check_new(connection, new, limits, now(connection))
            return existing

    def add(self, new: NewSubmission, parts: Iterable[bytes], limits: RemoteLimits) -> Submission:
        """Add a submission with the parts of its archive, or return the one that has its key.

        Raises the errors of `check`, and `SubmissionError` if the parts together do not have the
        announced size.
        """
        with self._database.write() as connection:
            existing = _find_by_key(connection, new)
            if existing is not None:
                return existing
            now_ms = now(connection)
            _check_new(connection, new, limits, now_ms)
            row = insert(_rows).values(
                **structs.asdict(new), games=0, of_games=0, took_ms=0, created_at=now_ms
            )
            submission_id = insert_row(connection, row)
            task = {"subject": submission_id, "author_id": new.author_id}
            _TASKS.add(connection, now_ms, [task])
            size = 0
            for number, content in enumerate(parts):
                size += len(content)
                part = {"submission_id": submission_id, "number": number, "content": content}
                connection.execute(insert(_parts), part)
            if size != new.size:
                raise SubmissionError(f"an archive of {new.size} bytes came with {size}")
            return _get(connection, submission_id)

    def get(self, number: int, author_id: int | None = None) -> Submission:
        """Return a submission by its number.

        Raises `NotOnLadder` if there is none, or if an author is given and it is another's.
        """
        with self._database.read() as connection:
            return _get(connection, number, author_id)

    def of_author(self, author_id: int, limit: int) -> list[Submission]:
        """Return up to `limit` submissions of an author, the newest first."""
        query = _SELECT.where(_rows.c.author_id == author_id).order_by(_rows.c.id.desc())
        return self._database.read_undamaged(query.limit(limit), _rows.c.id, _submissions)[0]

    def left(self, author_id: int, limits: RemoteLimits) -> tuple[int, int]:
        """Return how many archives an author may still submit within this hour and this day."""
        with self._database.read() as connection:
            now_ms = now(connection)
            times = _submission_times(connection, author_id, now_ms)
            return submissions_left(limits, times, now_ms)

    def by_author(self) -> dict[str, AuthorSubmissions]:
        """Return the number, the newest and the newest refused submission of each author, by name.

        Authors without submissions, or whose newest one cannot be read, are missing.
        """
        is_refused = _task.state.in_((TaskState.REFUSED, TaskState.FAILED))
        query = _SELECT.with_only_columns(
            func.count().label("number"),
            func.max(_rows.c.id).label("newest"),
            func.max(case((is_refused, _rows.c.id))).label("refused"),
        )
        with self._database.read() as connection:
            counts = connection.execute(query.group_by(_rows.c.author_id)).all()
        ids = {number for row in counts for number in (row.newest, row.refused)}
        newest_and_refused = _SELECT.where(_rows.c.id.in_(ids - {None}))
        submissions, _ = self._database.read_undamaged(newest_and_refused, _rows.c.id, _submissions)
        by_id = {int(submission.id): submission for submission in submissions}
        by_author = {}
        for row in counts:
            newest = by_id.get(row.newest)
            if newest is not None:
                refused = by_id.get(row.refused)
                by_author[newest.author] = AuthorSubmissions(row.number, newest, refused)
        return by_author

    def queue(self) -> list[Submission]:
        """Return the submissions that are being checked, then those that wait, the next one first.

        A submission that cannot be read is left out.
        """

        def position(submission: Submission) -> tuple[bool, int]:
            return submission.state is TaskState.QUEUED, submission.ahead

        query = _SELECT.where(IS_OPEN).order_by(_rows.c.id)
        submissions, _ = self._database.read_undamaged(query, _rows.c.id, _submissions)
        return sorted(submissions, key=position)

    # Called by runners

    def _order(self, connection: Connection, now_ms: int) -> Iterator[int]:
        """Return the ids of submissions that may be checked now, the next one first.

        Authors take turns, and an author has at most one submission checked at a time.
        """
        busy_authors, waiting = _TASKS.busy(connection), _TASKS.line(connection)
        author_of = dict(waiting)
        order = _TASKS.order(connection, waiting)
        return (submission for submission in order if author_of[submission] not in busy_authors)

    def _read(
        self, connection: Connection, task: Row[Any], owner: str, now_ms: int
    ) -> SubmissionLease:
        """Return a waiting submission as the lease that its new owner will get."""
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
        """Return the archive of a submission, as it was uploaded."""
        query = select(_parts.c.content).where(_parts.c.submission_id == lease.id)
        with self._database.read() as connection:
            parts = connection.execute(query.order_by(_parts.c.number)).scalars()
            return b"".join(parts)

    def progress(self, lease: SubmissionLease, seconds: float, games: int, of_games: int) -> bool:
        """Renew a lease for `seconds` from now, and store how many admission games were played.

        Returns False, and stores nothing, if the lease does not hold any more.
        """
        with self._database.write() as connection:
            is_held = _TASKS.renew(connection, lease, now(connection), seconds)
            if is_held:
                _update_row(connection, lease.id, games=games, of_games=of_games)
            return is_held

    def accept(
        self,
        lease: SubmissionLease,
        bundle: BotBundle,
        limits: RemoteLimits,
        took_ms: int,
        *,
        has_played: bool,
    ) -> bool:
        """Accept a submission: its files become the bot's current version.

        Returns False if the lease does not hold any more, or if the bot still has to play its
        admission games, which it need not if its current version has the same files.

        bundle      the checked files
        took_ms     time of the check, which counts for the author's limit
        has_played  True if the admission games were played
        Raises the errors of `admissible`, and changes nothing then.
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
        """Refuse a submission. Returns False if the lease does not hold any more.

        took_ms  time of the check, which counts for the author's limit
        bot      the bot's name in its files, if they were read
        digest   that of its files, if they were read
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
        """Report a check that ended without a verdict, and return the submission's new state.

        It waits again, or has failed after too many attempts. None if the lease does not hold any
        more; then nothing changes.

        took_ms  time of the check that counts for the author's limit, if it was the bot's fault
        """
        with self._database.write() as connection:
            task = _TASKS.leased_task(connection, lease)
            if task is None:
                return None
            _update_row(connection, lease.id, took_ms=_rows.c.took_ms + took_ms)
            return self.count_failure(connection, task, reason, now(connection))

    def _wait_again(
        self, connection: Connection, task: Row[Any], now_ms: int, **values: object
    ) -> TaskState:
        """Let a submission wait for another check, which plays all admission games again."""
        _update_row(connection, task.subject, games=0)
        return super()._wait_again(connection, task, now_ms, **values)

    def _give_up(self, connection: Connection, task: Row[Any], words: str, now_ms: int) -> None:
        """Store for the author that the ladder could not check it, and remove the archive."""
        reason = printable(f"the ladder could not check it: {words}", schema.LONGEST_NOTE)
        remedy = "submit it again later, or ask whoever runs the ladder"
        _update_row(connection, task.subject, games=0, found=reason, remedy=remedy)
        _remove_archive(connection, task.subject)


def _update_row(connection: Connection, submission_id: int, **values: object) -> None:
    """Set columns of a submission's own row."""
    connection.execute(update(_rows).where(_rows.c.id == submission_id).values(**values))


def _find_by_key(connection: Connection, new: NewSubmission) -> Submission | None:
    """Return the author's submission that has this key, or None.

    Raises `KeyReused` if its archive has other bytes.
    """
    has_key = (_rows.c.author_id == new.author_id, _rows.c.key == new.key)
    row = connection.execute(_SELECT.where(*has_key)).first()
    if row is None:
        return None
    if (row.sha256, row.size) != (new.sha256, new.size):
        raise KeyReused(f"the key {new.key!r} is that of another upload; choose a new one")
    return _submission(row, _TASKS.places(connection))


def _get(connection: Connection, number: int, author_id: int | None = None) -> Submission:
    """Return a submission by its id.

    Raises `NotOnLadder` if there is none, or if an author is given and it is another's.
    """
    row = connection.execute(_SELECT.where(_rows.c.id == number)).first()
    if row is None or author_id not in (None, row.author_id):
        raise NotOnLadder(f"there is no submission {number} of yours")
    places = {}
    if row.state is TaskState.QUEUED:  # else nothing is ahead of it
        places = _TASKS.places(connection)
    return _submission(row, places)


def _submissions(connection: Connection, rows: Sequence[Row[Any]]) -> list[Submission]:
    """Return the submissions of rows of `_SELECT`."""
    places = _TASKS.places(connection)
    return [_submission(row, places) for row in rows]


def _submission(row: Row[Any], places: dict[int, int]) -> Submission:
    """Return the submission of a row of `_SELECT`. Raises `StoreDamaged` if it cannot be read.

    places  the number of tasks before each waiting submission, by its id
    """
    try:
        log = tuple(str(line) for line in json.loads(row.log or "[]"))
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreDamaged(f"submission {row.id} is damaged: {error}") from None
    return Submission(
        id=Int64(row.id),
        bot=row.bot,
        author=row.author,
        state=_TASKS.state(row),
        ahead=places.get(row.id, 0),
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
    """Raise an error if a submission may not be added now.

    `SubmissionError` is raised after the end of submissions and for another author's bot,
    `LimitReached` at a limit. There are no limits for commands on the ladder's machine.
    """
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


def _submission_times(connection: Connection, author_id: int, now_ms: int) -> Sequence[int]:
    """Return the times of an author's submissions within the last day, ascending.

    Those by commands on the ladder's machine do not count.
    """
    times = select(_rows.c.created_at).where(
        _counts_for_limits(author_id), _rows.c.created_at > now_ms - DAY_MS
    )
    return connection.execute(times.order_by(_rows.c.created_at)).scalars().all()


def _counts_for_limits(author_id: int) -> ColumnElement[bool]:
    """Return the condition that a submission counts for the limits of an author."""
    return (_rows.c.author_id == author_id) & ~_rows.c.by_machine


def _usage(connection: Connection, author_id: int, now_ms: int) -> Usage:
    """Return the figures of an author's submissions, and of everybody's, to compare with limits."""
    is_counted = _counts_for_limits(author_id)
    sizes = select(func.count(), func.coalesce(func.sum(_rows.c.size), 0)).select_from(_rows)
    sizes = sizes.join(schema.tasks, _task.subject == _rows.c.id).where(is_counted, IS_OPEN)
    open_submissions, open_bytes = connection.execute(sizes).one()
    # The time is compared below: with it in the query, SQLite would begin with all checks.
    checks = _SELECT.with_only_columns(_task.changed_at, _rows.c.took_ms)
    checks = checks.where(is_counted, _rows.c.took_ms > 0)
    waiting = select(func.count()).select_from(schema.tasks).where(_TASKS.is_waiting)
    return Usage(
        open=open_submissions,
        times=_submission_times(connection, author_id, now_ms),
        archives=archive_bytes(connection, author_id) + int(open_bytes),
        waiting=connection.execute(waiting).scalar_one(),
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
    """Store a verdict on a submission, and remove its archive.

    Returns False, and changes nothing, if the lease does not hold any more.

    took_ms  time of the check, which counts for the author's limit
    verdict  new values of the submission's columns
    """
    if _TASKS.leased_task(connection, lease) is None:
        return False
    _update_row(connection, lease.id, took_ms=_rows.c.took_ms + took_ms, **verdict)
    _TASKS.end(connection, lease.id, now_ms, state)
    _remove_archive(connection, lease.id)
    return True


def _remove_archive(connection: Connection, submission_id: int) -> None:
    """Remove the uploaded archive of a submission."""
    connection.execute(delete(_parts).where(_parts.c.submission_id == submission_id))


def bots_of_strangers(connection: Connection) -> list[str]:
    """Return the names of active bots that were submitted over the network, sorted.

    They need a sandbox: anybody may have submitted them.
    """
    names = (
        select(schema.bots.c.name)
        .join(_rows, _rows.c.bot == schema.bots.c.name)
        .join(schema.tasks, _TASKS.is_of_kind & (_task.subject == _rows.c.id))
        .where(
            _task.state == TaskState.ACCEPTED,
            _rows.c.needs_sandbox,
            schema.bots.c.state == BotState.ACTIVE,
        )
    )
    return list(connection.execute(names.distinct().order_by(schema.bots.c.name)).scalars())
