"""Changes of the job queue for several parts of the store, in the caller's transaction.

Invariants: a job that is cancelled because of a withdrawn or disabled bot says so; a job that
failed too often is quarantined, and the others continue.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, select, update

from deepsea_ladder.chain import lost_line
from deepsea_ladder.model.bots import BotState
from deepsea_ladder.model.jobs import AttemptEnd, JobStatus, LostAttempt
from deepsea_ladder.model.people import AuditKind
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import note
from deepsea_ladder.store.lineups import lineup_of, seats_one_of
from deepsea_ladder.store.links import add_link, last_link
from deepsea_ladder.store.versions import versions_of
from deepsea_rules.printable import printable

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
