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
from collections.abc import Iterable, Sequence
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

_submissions, _archive_parts = schema.submissions, schema.submission_parts
_TASKS = Tasks(TaskKind.CHECK)
_task = schema.tasks.c
IS_OPEN = _TASKS.is_open
"""The condition that a task is that of a submission without a verdict."""
_SELECT_SUBMISSIONS: Select[Any] = _TASKS.join(
    select(_submissions, schema.authors.c.name.label("author")).join(
        schema.authors, schema.authors.c.id == _submissions.c.author_id
    ),
    _submissions.c.id,
)
_LONGEST_LINE = 1000
"""The largest number of characters that are stored of a line of a bot's output."""


class Submissions(TaskLine[SubmissionLease]):
    """The store's part for submissions and their checks."""

    tasks = _TASKS

    # Called by the front

    def check(self, new: NewSubmission, limits: RemoteLimits) -> Submission | None:
        """Check before an upload whether a submission may be added now.

        Returns the submission that was stored under the same key before; None if there is none, and
        the new one may be added. Nothing is searched if `new` has no digest yet.

        Raises `KeyReused` if the other submission has other bytes, `LimitReached`, or
        `SubmissionError` for another author's bot and after the end of submissions.
        """
        with self._database.read() as connection:
            existing = _submission_with_same_key(connection, new) if new.sha256 else None
            if existing is None:
                _check_limits_and_window(connection, new, limits, now(connection))
            return existing

    def add(self, new: NewSubmission, parts: Iterable[bytes], limits: RemoteLimits) -> Submission:
        """Store a submission with its archive, and return it.

        If one with the same key is stored already, that one is returned, and nothing is stored.
        Raises the errors of `check`, and `SubmissionError` for an archive of another size than
        announced.

        parts  the archive in pieces, in their order
        """
        with self._database.write() as connection:
            existing = _submission_with_same_key(connection, new)
            if existing is not None:
                return existing
            now_ms = now(connection)
            _check_limits_and_window(connection, new, limits, now_ms)
            row = insert(_submissions).values(
                **structs.asdict(new), games=0, of_games=0, took_ms=0, created_at=now_ms
            )
            submission_id = insert_row(connection, row)
            task = {"subject": submission_id, "author_id": new.author_id}
            _TASKS.add(connection, now_ms, [task])
            size = 0
            for number, content in enumerate(parts):
                size += len(content)
                part = {"submission_id": submission_id, "number": number, "content": content}
                connection.execute(insert(_archive_parts), part)
            if size != new.size:  # the exception undoes the transaction
                raise SubmissionError(f"an archive of {new.size} bytes came with {size}")
            return _submission_by_number(connection, submission_id)

    def get(self, number: int, author_id: int | None = None) -> Submission:
        """Return a submission by its number. Raises `NotOnLadder` if there is none.

        author_id  the submission has to be this author's; None allows any
        """
        with self._database.read() as connection:
            return _submission_by_number(connection, number, author_id)

    def of_author(self, author_id: int, limit: int) -> list[Submission]:
        """Return up to `limit` submissions of an author that can be read, the newest first."""
        query = _SELECT_SUBMISSIONS.where(_submissions.c.author_id == author_id).order_by(
            _submissions.c.id.desc()
        )
        return self._database.read_undamaged(
            query.limit(limit), _submissions.c.id, _submissions_of_rows
        )[0]

    def left(self, author_id: int, limits: RemoteLimits) -> tuple[int, int]:
        """Return how many archives an author may still submit within this hour and this day."""
        with self._database.read() as connection:
            now_ms = now(connection)
            times = _submission_times(connection, author_id, now_ms)
            return submissions_left(limits, times, now_ms)

    def by_author(self) -> dict[str, AuthorSubmissions]:
        """Return a summary of each author's submissions, by the author's name.

        It has their number, the newest one, and the newest refused one (None if there is none).
        Authors without submissions, or whose newest one cannot be read, are missing.
        """
        is_refused = _task.state.in_((TaskState.REFUSED, TaskState.FAILED))
        query = _SELECT_SUBMISSIONS.with_only_columns(
            func.count().label("number"),
            func.max(_submissions.c.id).label("newest_id"),
            func.max(case((is_refused, _submissions.c.id))).label("refused_id"),
        )
        with self._database.read() as connection:
            author_rows = connection.execute(query.group_by(_submissions.c.author_id)).all()
        shown_ids = {row.newest_id for row in author_rows}
        shown_ids |= {row.refused_id for row in author_rows if row.refused_id is not None}
        shown = _SELECT_SUBMISSIONS.where(_submissions.c.id.in_(shown_ids))
        submissions, _ = self._database.read_undamaged(
            shown, _submissions.c.id, _submissions_of_rows
        )
        by_id = {int(submission.id): submission for submission in submissions}
        by_author = {}
        for row in author_rows:
            newest = by_id.get(row.newest_id)
            if newest is not None:
                newest_refused = by_id.get(row.refused_id)
                by_author[newest.author] = AuthorSubmissions(row.number, newest, newest_refused)
        return by_author

    def queue(self) -> list[Submission]:
        """Return the submissions that are being checked, then those that wait, the next one first.

        A submission that cannot be read is left out.
        """

        def position(submission: Submission) -> tuple[bool, int]:
            return submission.state is TaskState.QUEUED, submission.ahead

        query = _SELECT_SUBMISSIONS.where(IS_OPEN).order_by(_submissions.c.id)
        submissions, _ = self._database.read_undamaged(
            query, _submissions.c.id, _submissions_of_rows
        )
        return sorted(submissions, key=position)

    # Called by runners

    def _leasable_in_order(self, connection: Connection, now_ms: int) -> list[int]:
        """Return the ids of submissions that may be checked now, the next one first.

        Authors take turns, and an author has at most one submission checked at a time.
        """
        busy_authors = _TASKS.authors_of_leased(connection)
        waiting = _TASKS.waiting_line(connection)
        author_of_submission = dict(waiting)
        return [
            submission_id
            for submission_id in _TASKS.leasing_order(connection, waiting)
            if author_of_submission[submission_id] not in busy_authors
        ]

    def _read_lease(
        self, connection: Connection, task: Row[Any], owner: str, now_ms: int
    ) -> SubmissionLease:
        """Return the lease of a waiting submission for `owner`, the runner that takes it."""
        row = connection.execute(_SELECT_SUBMISSIONS.where(_submissions.c.id == task.subject)).one()
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
        query = select(_archive_parts.c.content).where(_archive_parts.c.submission_id == lease.id)
        with self._database.read() as connection:
            parts = connection.execute(query.order_by(_archive_parts.c.number)).scalars()
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
            return _store_verdict(
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
        """Refuse a submission, and store why, for its author.

        Returns False, and changes nothing, if the lease does not hold any more.

        took_ms  time of the check, which counts for the author's limit
        bot      the bot's name in its files; "" if they could not be read
        digest   the digest of the files; "" if they could not be read
        """
        with self._database.write() as connection:
            return _store_verdict(
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
        """Count a check that ended without a verdict, and return the submission's new state.

        The submission waits again, or has failed after too many such checks. Returns None, and
        changes nothing, if the lease does not hold any more.

        took_ms  time of the check if the bot caused its failure, to count for the author's limit
        """
        with self._database.write() as connection:
            task = _TASKS.leased_task(connection, lease)
            if task is None:
                return None
            _update_row(connection, lease.id, took_ms=_submissions.c.took_ms + took_ms)
            return self.count_failure(connection, task, reason, now(connection))

    def _queue_again(
        self, connection: Connection, task: Row[Any], now_ms: int, **values: object
    ) -> TaskState:
        """Let a submission wait for another check, which plays all admission games again."""
        _update_row(connection, task.subject, games=0)
        return super()._queue_again(connection, task, now_ms, **values)

    def _record_final_failure(
        self, connection: Connection, task: Row[Any], reason: str, now_ms: int
    ) -> None:
        """Store for the author that the ladder could not check it, and remove the archive."""
        found = printable(f"the ladder could not check it: {reason}", schema.LONGEST_NOTE)
        remedy = "submit it again later, or ask whoever runs the ladder"
        _update_row(connection, task.subject, games=0, found=found, remedy=remedy)
        _remove_archive(connection, task.subject)


def _update_row(connection: Connection, submission_id: int, **values: object) -> None:
    """Set columns of a submission's own row."""
    connection.execute(
        update(_submissions).where(_submissions.c.id == submission_id).values(**values)
    )


def _submission_with_same_key(connection: Connection, new: NewSubmission) -> Submission | None:
    """Return the submission that the author has stored under the same key; None if there is none.

    With the same key an upload can be repeated, and is stored once. Raises `KeyReused` if the
    stored archive has other bytes than the new one.
    """
    is_same_key = (_submissions.c.author_id == new.author_id, _submissions.c.key == new.key)
    row = connection.execute(_SELECT_SUBMISSIONS.where(*is_same_key)).first()
    if row is None:
        return None
    is_same_archive = row.sha256 == new.sha256 and row.size == new.size
    if not is_same_archive:
        raise KeyReused(f"the key {new.key!r} is that of another upload; choose a new one")
    return _submission_of_row(row, _TASKS.tasks_ahead(connection))


def _submission_by_number(
    connection: Connection, number: int, author_id: int | None = None
) -> Submission:
    """Return a submission by its number. Raises `NotOnLadder` if there is none.

    author_id  the submission has to be this author's; None allows any
    """
    row = connection.execute(_SELECT_SUBMISSIONS.where(_submissions.c.id == number)).first()
    is_of_another = row is not None and author_id is not None and row.author_id != author_id
    if row is None or is_of_another:
        raise NotOnLadder(f"there is no submission {number} of yours")
    tasks_ahead = {}
    if row.state is TaskState.QUEUED:  # else no task is ahead of it
        tasks_ahead = _TASKS.tasks_ahead(connection)
    return _submission_of_row(row, tasks_ahead)


def _submissions_of_rows(connection: Connection, rows: Sequence[Row[Any]]) -> list[Submission]:
    """Return the submissions of rows of `_SELECT_SUBMISSIONS`."""
    tasks_ahead = _TASKS.tasks_ahead(connection)
    return [_submission_of_row(row, tasks_ahead) for row in rows]


def _submission_of_row(row: Row[Any], tasks_ahead: dict[int, int]) -> Submission:
    """Return the submission in a row of `_SELECT_SUBMISSIONS`.

    Raises `StoreDamaged` if the stored log of its check cannot be read.

    tasks_ahead  the number of tasks before each waiting submission, by its id
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
        ahead=tasks_ahead.get(row.id, 0),
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


def _check_limits_and_window(
    connection: Connection, new: NewSubmission, limits: RemoteLimits, now_ms: int
) -> None:
    """Raise an error if a submission may not be added now.

    It is `SubmissionError` after the end of submissions and for another author's bot, and
    `LimitReached` at a limit. Commands on the ladder's machine have no limits.
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
    """Return the times of an author's submissions within the last day, the oldest first.

    Submissions by commands on the ladder's machine are left out.
    """
    times = select(_submissions.c.created_at).where(
        _counts_for_limits(author_id), _submissions.c.created_at > now_ms - DAY_MS
    )
    return connection.execute(times.order_by(_submissions.c.created_at)).scalars().all()


def _counts_for_limits(author_id: int) -> ColumnElement[bool]:
    """Return the condition that a submission counts for the limits of an author."""
    return (_submissions.c.author_id == author_id) & ~_submissions.c.by_machine


def _usage(connection: Connection, author_id: int, now_ms: int) -> Usage:
    """Return what an author uses now of the things that limits are set for.

    These are open submissions, stored bytes, and checks within the last hour; and the number of
    submissions of all authors that wait.
    """
    is_counted = _counts_for_limits(author_id)
    open_query = (
        select(func.count(), func.coalesce(func.sum(_submissions.c.size), 0))
        .select_from(_submissions)
        .join(schema.tasks, _task.subject == _submissions.c.id)
        .where(is_counted, IS_OPEN)
    )
    open_count, open_bytes = connection.execute(open_query).one()
    checks_query = _SELECT_SUBMISSIONS.with_only_columns(_task.changed_at, _submissions.c.took_ms)
    checks_query = checks_query.where(is_counted, _submissions.c.took_ms > 0)
    # The time is compared here: with it in the query, SQLite would begin with everybody's checks.
    checks_of_last_hour = [
        (changed_at, took_ms)
        for changed_at, took_ms in connection.execute(checks_query)
        if changed_at > now_ms - HOUR_MS
    ]
    waiting_query = select(func.count()).select_from(schema.tasks).where(_TASKS.is_waiting)
    return Usage(
        open=open_count,
        times=_submission_times(connection, author_id, now_ms),
        archives=archive_bytes(connection, author_id) + int(open_bytes),
        waiting=connection.execute(waiting_query).scalar_one(),
        checks=sorted(checks_of_last_hour),
    )


def _store_verdict(
    connection: Connection,
    lease: SubmissionLease,
    now_ms: int,
    took_ms: int,
    state: TaskState,
    **columns: object,
) -> bool:
    """Store the verdict on a submission, remove its archive, and end the lease.

    Returns False, and changes nothing, if the lease does not hold any more.

    took_ms  time of the check, which counts for the author's limit
    state    the verdict: accepted or refused
    columns  new values of columns of the submission
    """
    if _TASKS.leased_task(connection, lease) is None:
        return False
    _update_row(connection, lease.id, took_ms=_submissions.c.took_ms + took_ms, **columns)
    _TASKS.end(connection, lease.id, now_ms, state)
    _remove_archive(connection, lease.id)
    return True


def _remove_archive(connection: Connection, submission_id: int) -> None:
    """Remove the uploaded archive of a submission."""
    connection.execute(
        delete(_archive_parts).where(_archive_parts.c.submission_id == submission_id)
    )


def bots_of_strangers(connection: Connection) -> list[str]:
    """Return the sorted names of active bots that were submitted over the network.

    Anybody may have submitted them, so they must be played in a sandbox.
    """
    names = (
        select(schema.bots.c.name)
        .join(_submissions, _submissions.c.bot == schema.bots.c.name)
        .join(schema.tasks, _TASKS.is_of_kind & (_task.subject == _submissions.c.id))
        .where(
            _task.state == TaskState.ACCEPTED,
            _submissions.c.needs_sandbox,
            schema.bots.c.state == BotState.ACTIVE,
        )
    )
    return list(connection.execute(names.distinct().order_by(schema.bots.c.name)).scalars())
