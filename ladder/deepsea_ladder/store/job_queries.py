"""Queries of the job queue.

Invariants: read-only; the queries of a run (`owners`, `leased`, `for_pairing`) do not read the
jobs that are done.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from sqlalchemy import ColumnElement, Connection, bindparam, func, select

from deepsea_ladder.model.bots import BotState
from deepsea_ladder.model.jobs import (
    AttemptEnd,
    JobInfo,
    JobStatus,
    LostAttempt,
    PairingQueue,
    QueueCounts,
    QueuedJob,
)
from deepsea_ladder.model.seasons import StoredSeason
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import Database, now
from deepsea_ladder.store.embargo import visible
from deepsea_ladder.store.history import PORTION
from deepsea_ladder.store.jobs import last_number, last_rotation
from deepsea_ladder.store.lineups import lineups_of
from deepsea_ladder.store.versions import versions_by_id

QUEUED: Final = (JobStatus.TODO, JobStatus.LEASED)
"""Jobs that have no result yet and will have one."""

_jobs, _seats = schema.jobs, schema.job_seats
_versions, _bots = schema.bot_versions, schema.bots

# The statements of every pairing are made once.
_OURS: Final = _jobs.c.season_id == bindparam("season")
_NEWEST: Final = (
    select(
        _jobs.c.rotation,
        _seats.c.version_id,
        _bots.c.name.label("bot"),
        schema.authors.c.name.label("author"),
    )
    .join(_seats, _seats.c.job_id == _jobs.c.id)
    .join(_versions, _versions.c.id == _seats.c.version_id)
    .join(_bots, _bots.c.id == _versions.c.bot_id)
    .join(schema.authors, schema.authors.c.id == _bots.c.author_id)
    .where(_OURS, _jobs.c.rotation > bindparam("after"), _jobs.c.shift == 0)
    .order_by(_jobs.c.rotation)
)
_LAST_JOB: Final = (
    select(func.max(_seats.c.job_id))
    .where(_seats.c.version_id == _versions.c.id, _seats.c.season_id == bindparam("season"))
    .correlate(_versions)
    .scalar_subquery()
)
_WHEN_IT_CAME: Final = (
    select(_jobs.c.rotation)
    .where(_OURS, _jobs.c.created_at <= _versions.c.created_at)
    .order_by(_jobs.c.created_at.desc(), _jobs.c.rotation.desc())
    .limit(1)
    .correlate(_versions)
    .scalar_subquery()
)
_ITS_LAST: Final = (
    select(_jobs.c.rotation).where(_jobs.c.id == _LAST_JOB).correlate(_versions).scalar_subquery()
)
_LAST_OF_ALL: Final = (
    select(_versions.c.id, func.coalesce(_ITS_LAST, _WHEN_IT_CAME, 0))
    .join(_bots, _bots.c.id == _versions.c.bot_id)
    .where(_bots.c.state == BotState.ACTIVE)
)
_LAST_OF_PRESENT: Final = _LAST_OF_ALL.where(_versions.c.number == _bots.c.version)
_PENDING: Final = (
    select(_seats.c.version_id, func.count())
    .join(_jobs, _jobs.c.id == _seats.c.job_id)
    .where(_jobs.c.status.in_(QUEUED), _OURS)
    .group_by(_seats.c.version_id)
)


class Queue:
    """The queries of a ladder's jobs."""

    def __init__(self, database: Database, *, public: bool = False) -> None:
        self._database = database
        self._public = public

    def counts(self, season: StoredSeason) -> QueueCounts:
        """The counts of the season's jobs by status."""
        with self._database.read() as connection:
            at = now(connection)
            ours = _jobs.c.season_id == season.id
            rows = connection.execute(
                select(_jobs.c.status, func.count()).where(ours).group_by(_jobs.c.status)
            )
            counts = {JobStatus(status): int(count) for status, count in rows}
            expired = connection.execute(
                select(func.count()).where(
                    ours, _jobs.c.status == JobStatus.LEASED, _jobs.c.until <= at
                )
            ).scalar_one()
            oldest = connection.execute(
                select(func.min(_jobs.c.created_at)).where(ours, _jobs.c.status == JobStatus.TODO)
            ).scalar()
        return QueueCounts(
            todo=counts.get(JobStatus.TODO, 0),
            leased=counts.get(JobStatus.LEASED, 0) - expired,
            expired=expired,
            done=counts.get(JobStatus.DONE, 0),
            quarantined=counts.get(JobStatus.QUARANTINED, 0),
            cancelled=counts.get(JobStatus.CANCELLED, 0),
            oldest_wait_ms=0 if oldest is None else max(0, at - oldest),
        )

    def leased(self, season: StoredSeason) -> int:
        """The number of jobs that are being played, by this or other runners."""
        query = select(func.count()).where(
            _jobs.c.status == JobStatus.LEASED, _jobs.c.season_id == season.id
        )
        with self._database.read() as connection:
            return connection.execute(query).scalar_one()

    def last_number(self, season: StoredSeason) -> int:
        """The number of the season's last job; 0 before the first."""
        with self._database.read() as connection:
            return last_number(connection, season)

    def arranged(self, season: StoredSeason, *, after: int = 0) -> list[QueuedJob]:
        """The season's jobs with numbers greater than `after`, whatever became of them."""
        wanted = (_jobs.c.season_id == season.id, _jobs.c.number > after)
        query = select(_jobs).where(*wanted).order_by(_jobs.c.number)
        with self._database.read() as connection:
            rows = connection.execute(query).all()
            lineups = lineups_of(connection, *wanted)
        return [QueuedJob(row.number, row.rotation, lineups[row.id]) for row in rows]

    def for_pairing(self, season: StoredSeason, lately: int, *, after: int = 0) -> PairingQueue:
        """What the pairing needs of the season's jobs; quick however many there are.

        lately  how many of the newest rotations to tell of, except those up to number `after`
        """
        with self._database.read() as connection:
            last = last_rotation(connection, season)
            which = {"season": season.id, "after": max(after, last - lately)}
            rows = connection.execute(_NEWEST, which).all()
            return PairingQueue(
                rotations=last,
                lately=[
                    frozenset(row.version_id for row in group)
                    for _, group in groupby(rows, key=lambda row: row.rotation)
                ],
                names={row.version_id: (row.bot, row.author) for row in rows},
                last_rotation=_last_rotations(connection, season),
                pending=_pending(connection, season),
            )

    def owners(self, season: StoredSeason) -> list[str]:
        """The owners of leases of the season's jobs."""
        query = select(_jobs.c.owner).where(
            _jobs.c.status == JobStatus.LEASED, _jobs.c.season_id == season.id
        )
        with self._database.read() as connection:
            return sorted(set(connection.execute(query).scalars()))

    def listed(self, season: StoredSeason, *statuses: JobStatus) -> list[JobInfo]:
        """The season's jobs with one of these statuses, in their order."""
        return self._infos(_jobs.c.season_id == season.id, _jobs.c.status.in_(statuses))

    def lost_counts(self, season: StoredSeason) -> dict[AttemptEnd, int]:
        """How many of the season's attempts ended without a result, by how they ended."""
        table = schema.attempts
        query = (
            select(table.c.ended, func.count())
            .where(table.c.season_id == season.id, table.c.place.is_not(None))
            .group_by(table.c.ended)
        )
        with self._database.read() as connection:
            return {AttemptEnd(ended): count for ended, count in connection.execute(query)}

    def lost(self, season: StoredSeason) -> Iterator[LostAttempt]:
        """The season's attempts that ended without a result, in their order."""
        table, after = schema.attempts, 0
        while True:
            query = (
                select(table, _jobs.c.game_id)
                .join(_jobs, _jobs.c.id == table.c.job_id)
                .where(table.c.season_id == season.id, table.c.place > after)
                .order_by(table.c.place)
                .limit(PORTION)
            )
            with self._database.read() as connection:
                rows = connection.execute(query).all()
                lineups = lineups_of(connection, _jobs.c.id.in_([row.job_id for row in rows]))
                ids = sorted({version for lineup in lineups.values() for version in lineup})
                versions = versions_by_id(connection, ids)
            for row in rows:
                yield LostAttempt(
                    place=row.place,
                    game_id=row.game_id,
                    attempt=row.attempt - 1,
                    ended=AttemptEnd(row.ended),
                    ended_at=row.ended_at,
                    reason=row.note,
                    seat=row.seat,
                    lineup=tuple(versions[version] for version in lineups[row.job_id]),
                    head=row.head,
                )
            if len(rows) < PORTION:
                return
            after = rows[-1].place

    def _infos(self, *conditions: ColumnElement[bool]) -> list[JobInfo]:
        seasons = schema.seasons
        query = (
            select(_jobs, seasons.c.name.label("season"))
            .join(seasons, seasons.c.id == _jobs.c.season_id)
            .where(*conditions, visible(public=self._public))
        )
        with self._database.read() as connection:
            # Sorted here: a database might rather read all jobs in their order than sort some.
            rows = sorted(connection.execute(query), key=lambda row: (row.season_id, row.number))
            lineups = lineups_of(connection, *conditions)
            ids = sorted({version for lineup in lineups.values() for version in lineup})
            versions = versions_by_id(connection, ids)
        return [
            JobInfo(
                game_id=row.game_id,
                season=row.season,
                status=JobStatus(row.status),
                lineup=tuple(versions[version].label for version in lineups[row.id]),
                attempt=row.attempt,
                failures=row.failures,
                owner=row.owner,
                note=row.note,
            )
            for row in rows
        ]


def _last_rotations(connection: Connection, season: StoredSeason) -> dict[int, int]:
    """For each version that plays, its last rotation, or else the season's last when it came.

    One look into an index for each version, so that old jobs are not read.
    """
    former = season.season.pairing.former_versions
    query = _LAST_OF_ALL if former else _LAST_OF_PRESENT
    return dict(connection.execute(query, {"season": season.id}).all())


def _pending(connection: Connection, season: StoredSeason) -> dict[int, int]:
    """For each version the games that are arranged and have no result yet."""
    return dict(connection.execute(_PENDING, {"season": season.id}).all())
