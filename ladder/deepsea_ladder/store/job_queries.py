"""Queries of the job queue.

Invariants: read-only; the queries of a run (`owners`, `leased`, `waiting`, `for_pairing`) do not
read the jobs that are done.
"""

from __future__ import annotations

from itertools import groupby
from typing import Final

from sqlalchemy import ColumnElement, Connection, func, select

from deepsea_bundle import names
from deepsea_ladder.model import (
    BotState,
    JobInfo,
    JobStatus,
    PairingQueue,
    QueueCounts,
    QueuedJob,
    StoredSeason,
)
from deepsea_ladder.store import schema
from deepsea_ladder.store.bots import versions_by_id
from deepsea_ladder.store.database import Database, now
from deepsea_ladder.store.jobs import last_number, last_rotation
from deepsea_ladder.store.lineups import lineups_of, seats_one_of

QUEUED: Final = (JobStatus.TODO, JobStatus.LEASED)
"""Jobs that have no result yet and will have one."""

_jobs, _seats = schema.jobs, schema.job_seats


class Queue:
    """The queries of a ladder's jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database

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

    def waiting(self, season: StoredSeason) -> int:
        """The number of jobs that are not played yet; quick however many were played."""
        query = select(func.count()).where(
            _jobs.c.status == JobStatus.TODO, _jobs.c.season_id == season.id
        )
        with self._database.read() as connection:
            return connection.execute(query).scalar_one()

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
            newest = (
                select(_jobs.c.rotation, _seats.c.version_id)
                .join(_seats, _seats.c.job_id == _jobs.c.id)
                .where(
                    _jobs.c.season_id == season.id,
                    _jobs.c.rotation > max(after, last - lately),
                    _jobs.c.shift == 0,
                )
                .order_by(_jobs.c.rotation)
            )
            rows = connection.execute(newest).all()
            return PairingQueue(
                rotations=last,
                lately=[
                    frozenset(row.version_id for row in group)
                    for _, group in groupby(rows, key=lambda row: row.rotation)
                ],
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

    def of_bot(self, bot: str) -> list[JobInfo]:
        """The games of any version of a bot that wait or are being played, in their order."""
        versions, bots = schema.bot_versions, schema.bots
        query = (
            select(versions.c.id)
            .join(bots, bots.c.id == versions.c.bot_id)
            .where(bots.c.name_key == names.key(bot))
        )
        with self._database.read() as connection:
            ours = connection.execute(query).scalars().all()
        return self._infos(_jobs.c.status.in_(QUEUED), seats_one_of(ours))

    def _infos(self, *conditions: ColumnElement[bool]) -> list[JobInfo]:
        seasons = schema.seasons
        query = (
            select(_jobs, seasons.c.name.label("season"))
            .join(seasons, seasons.c.id == _jobs.c.season_id)
            .where(*conditions)
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
    versions, bots = schema.bot_versions, schema.bots
    last_job = (
        select(func.max(_seats.c.job_id))
        .where(_seats.c.version_id == versions.c.id, _seats.c.season_id == season.id)
        .correlate(versions)
        .scalar_subquery()
    )
    its_last = select(_jobs.c.rotation).where(_jobs.c.id == last_job).correlate(versions)
    when_it_came = (
        select(_jobs.c.rotation)
        .where(_jobs.c.season_id == season.id, _jobs.c.created_at <= versions.c.created_at)
        .order_by(_jobs.c.created_at.desc(), _jobs.c.rotation.desc())
        .limit(1)
        .correlate(versions)
    )
    query = (
        select(
            versions.c.id,
            func.coalesce(its_last.scalar_subquery(), when_it_came.scalar_subquery(), 0),
        )
        .join(bots, bots.c.id == versions.c.bot_id)
        .where(bots.c.state == BotState.ACTIVE)
    )
    if not season.season.pairing.former_versions:
        query = query.where(versions.c.number == bots.c.version)
    rows = connection.execute(query)
    return dict(rows.all())


def _pending(connection: Connection, season: StoredSeason) -> dict[int, int]:
    """For each version the games that are arranged and have no result yet."""
    rows = connection.execute(
        select(_seats.c.version_id, func.count())
        .join(_jobs, _jobs.c.id == _seats.c.job_id)
        .where(_jobs.c.status.in_(QUEUED), _jobs.c.season_id == season.id)
        .group_by(_seats.c.version_id)
    )
    return dict(rows.all())
