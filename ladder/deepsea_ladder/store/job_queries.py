"""Looking at the queue of jobs.

Law: nothing here changes anything; `waiting` and `leased` are quick however many games were played.
"""

from __future__ import annotations

from collections import Counter

from sqlalchemy import func, select

from deepsea_ladder.model import JobInfo, JobStatus, QueueCounts, QueuedJob, StoredSeason
from deepsea_ladder.store import schema
from deepsea_ladder.store.bots import versions_by_id
from deepsea_ladder.store.database import Database, now
from deepsea_ladder.store.job_transitions import versions_of
from deepsea_ladder.store.jobs import last_number

_jobs = schema.jobs


class Queue:
    """The jobs of a ladder, as people and runners look at them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def counts(self, season: StoredSeason) -> QueueCounts:
        """How the season's jobs stand."""
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
        """How many jobs nobody plays yet; quick however many were played."""
        query = select(func.count()).where(
            _jobs.c.status == JobStatus.TODO, _jobs.c.season_id == season.id
        )
        with self._database.read() as connection:
            return connection.execute(query).scalar_one()

    def leased(self, season: StoredSeason) -> int:
        """How many jobs are being played, by this or other runners."""
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
        query = (
            select(_jobs.c.number, _jobs.c.block, _jobs.c.lineup, _jobs.c.created_at)
            .where(_jobs.c.season_id == season.id, _jobs.c.number > after)
            .order_by(_jobs.c.number)
        )
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        return [
            QueuedJob(number, block, versions_of(lineup), created_at)
            for number, block, lineup, created_at in rows
        ]

    def pending(self, season: StoredSeason) -> dict[int, int]:
        """For each version the games that are arranged and have no result yet."""
        query = select(_jobs.c.lineup).where(
            _jobs.c.status.in_((JobStatus.TODO, JobStatus.LEASED)), _jobs.c.season_id == season.id
        )
        with self._database.read() as connection:
            lineups = connection.execute(query).scalars().all()
        return dict(Counter(version for lineup in lineups for version in versions_of(lineup)))

    def listed(self, season: StoredSeason, *statuses: JobStatus) -> list[JobInfo]:
        """The season's jobs with one of these statuses, in their order."""
        query = (
            select(_jobs)
            .where(_jobs.c.season_id == season.id, _jobs.c.status.in_(statuses))
            .order_by(_jobs.c.number)
        )
        with self._database.read() as connection:
            rows = connection.execute(query).all()
            ids = sorted({version for row in rows for version in versions_of(row.lineup)})
            versions = versions_by_id(connection, ids)
        return [
            JobInfo(
                game_id=row.game_id,
                season=season.name,
                status=JobStatus(row.status),
                lineup=tuple(versions[version].label for version in versions_of(row.lineup)),
                attempt=row.attempt,
                failures=row.failures,
                owner=row.owner,
                note=row.note,
            )
            for row in rows
        ]
