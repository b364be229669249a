"""Jobs: the queue of scheduled games, and the leases of the runners that play them.

Invariants: a job has its game id, seed and line-up from the start and keeps them; a lease runs by
the database's clock and has a number, its attempt; another runner may take over an expired lease,
and the former owner's result still counts if it is the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from deepsea_ladder.errors import StoreError
from deepsea_ladder.model import (
    AttemptEnd,
    AuditKind,
    BotState,
    Job,
    JobStatus,
    Rotation,
    Seating,
    StoredSeason,
)
from deepsea_ladder.season import Season
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import note
from deepsea_ladder.store.bots import versions_by_id
from deepsea_ladder.store.database import Database, now
from deepsea_ladder.store.job_transitions import count_failure, end_attempt, give_back
from deepsea_ladder.store.lineups import lineups_of
from deepsea_ladder.store.retry_policy import RetryPolicy
from deepsea_rules.randomness import game_seed

_jobs = schema.jobs


class Jobs:
    """The queue of a ladder."""

    def __init__(self, database: Database, policy: RetryPolicy) -> None:
        self._database = database
        self._policy = policy

    def add(
        self, season: StoredSeason, rotations: Sequence[Rotation], *, after: int | None = None
    ) -> list[str]:
        """Add a job for each line-up (version ids by seat) of each rotation; the games' ids.

        `after` is the season's last number that the rotations were chosen for: if another process
        has added jobs since, nothing is added. Rotations with a bot that was taken out are left
        out. Raises `StoreError` for a line-up that this season cannot play.
        """
        with self._database.write() as connection:
            seed = _seed_of_open(connection, season)
            last = last_number(connection, season)
            if after is not None and last != after:
                return []
            active = _states(connection, rotations)
            at = now(connection)
            playable = []
            for seatings in rotations:
                for seating in seatings:
                    _check_seating(season.season, seating, active)
                if all(active[version] for seating in seatings for version in seating):
                    playable.append(seatings)
            first = last_rotation(connection, season) + 1
            games = [
                (rotation, shift, seating)
                for rotation, seatings in enumerate(playable, first)
                for shift, seating in enumerate(seatings)
            ]
            rows = [
                {
                    "season_id": season.id,
                    "number": number,
                    "rotation": rotation,
                    "shift": shift,
                    "game_id": f"{season.name}-{number}",
                    "seed": game_seed(seed, number).hex(),
                    "status": JobStatus.TODO,
                    "attempt": 0,
                    "failures": 0,
                    "created_at": at,
                }
                for number, (rotation, shift, _) in enumerate(games, last + 1)
            ]
            if rows:
                connection.execute(insert(_jobs), rows)
                _seat(connection, season, last, [seating for _, _, seating in games])
            return [str(row["game_id"]) for row in rows]

    def claim(
        self,
        season: StoredSeason,
        owner: str,
        seconds: float,
        prefer: Sequence[int | None] = (None,),
    ) -> list[Job]:
        """Lease a job for each of some workers, for `seconds` from now; fewer if there are not so
        many.

        `prefer` has for each worker the rotation that its bots are running for; best is a game of
        the same rotation, then the beginning of one that nobody plays, then any.
        """
        with self._database.write() as connection:
            at = now(connection)
            rows = self._take_over(connection, season, at, len(prefer))
            for row in rows:
                _lease(connection, row, owner, at, seconds)
            for rotation in prefer[len(rows) :]:
                if (found := _next(connection, season, rotation)) is None:
                    break
                rows.append(found)
                _lease(connection, found, owner, at, seconds)
            return self._jobs(connection, season.season, rows, owner)

    def _take_over(
        self, connection: Connection, season: StoredSeason, at: int, count: int
    ) -> list[Row[Any]]:
        """End expired leases; returns the jobs that may be retried."""
        expired = connection.execute(
            select(_jobs)
            .where(
                _jobs.c.status == JobStatus.LEASED,
                _jobs.c.season_id == season.id,
                _jobs.c.until <= at,
            )
            .order_by(_jobs.c.until, _jobs.c.number)
            .limit(count)
        ).all()
        again = []
        for row in expired:
            words = f"the lease of {row.owner} expired"
            end_attempt(connection, row.id, row.attempt, AttemptEnd.EXPIRED, words, at)
            status = count_failure(connection, row, words, self._policy.failures, at)
            if status is JobStatus.TODO:
                again.append(row)
        return again

    def _jobs(
        self, connection: Connection, season: Season, rows: Sequence[Row[Any]], owner: str
    ) -> list[Job]:
        lineups = lineups_of(connection, _jobs.c.id.in_([row.id for row in rows]))
        versions = versions_by_id(connection, [v for lineup in lineups.values() for v in lineup])
        return [
            Job(
                id=row.id,
                game_id=row.game_id,
                season=season,
                seed=bytes.fromhex(row.seed),
                seats=tuple(versions[version] for version in lineups[row.id]),
                rotation=row.rotation,
                attempt=row.attempt + 1,
                owner=owner,
            )
            for row in rows
        ]

    def renew(self, held: Iterable[Job], seconds: float) -> int:
        """Renew leases until `seconds` from now (heartbeat); returns how many were still valid."""
        with self._database.write() as connection:
            until = now(connection) + round(seconds * 1000)
            return sum(
                connection.execute(
                    update(_jobs)
                    .where(
                        _jobs.c.id == job.id,
                        _jobs.c.status == JobStatus.LEASED,
                        _jobs.c.attempt == job.attempt,
                        _jobs.c.owner == job.owner,
                    )
                    .values(until=until)
                ).rowcount
                for job in held
            )

    def hand_back(self, owner: str) -> int:
        """Give up the owner's leases; the jobs wait again, and nothing counts as failed."""
        with self._database.write() as connection:
            at = now(connection)
            held = connection.execute(
                select(_jobs).where(_jobs.c.status == JobStatus.LEASED, _jobs.c.owner == owner)
            ).all()
            for row in held:
                end_attempt(connection, row.id, row.attempt, AttemptEnd.HANDED_BACK, None, at)
                give_back(connection, row)
            return len(held)

    def fail(self, job: Job, reason: str) -> JobStatus:
        """Report a void game: retry or quarantine the job. A former lease changes nothing."""
        with self._database.write() as connection:
            at = now(connection)
            row = connection.execute(select(_jobs).where(_jobs.c.id == job.id)).one()
            held = row.status == JobStatus.LEASED and row.attempt == job.attempt
            if not held or row.owner != job.owner:
                return JobStatus(row.status)
            end_attempt(connection, job.id, job.attempt, AttemptEnd.VOID, reason, at)
            return count_failure(connection, row, reason, self._policy.failures, at)

    def requeue(self, game_id: str) -> JobStatus:
        """Retry a quarantined job from the start."""
        with self._database.write() as connection:
            row = connection.execute(select(_jobs).where(_jobs.c.game_id == game_id)).first()
            if row is None or row.status != JobStatus.QUARANTINED:
                found = f"is {row.status}" if row else "is not known"
                raise StoreError(f"game {game_id!r} {found}; only quarantined ones are requeued")
            connection.execute(update(_jobs).where(_jobs.c.id == row.id).values(failures=0))
            note(connection, now(connection), AuditKind.REQUEUED, game_id, row.note or "")
            return give_back(connection, row)


def _seed_of_open(connection: Connection, season: StoredSeason) -> bytes:
    """The seed of a season that is not closed."""
    table = schema.seasons
    row = connection.execute(select(table).where(table.c.id == season.id)).one()
    if row.closed_at is not None:
        raise StoreError(f"the season {season.name!r} is closed and gets no new games")
    return bytes.fromhex(row.seed)


def last_number(connection: Connection, season: StoredSeason) -> int:
    """The number of the season's last job; 0 before the first."""
    query = select(func.max(_jobs.c.number)).where(_jobs.c.season_id == season.id)
    return connection.execute(query).scalar() or 0


def last_rotation(connection: Connection, season: StoredSeason) -> int:
    """The number of the season's last rotation; 0 before the first."""
    query = select(func.max(_jobs.c.rotation)).where(_jobs.c.season_id == season.id)
    return connection.execute(query).scalar() or 0


def _seat(
    connection: Connection, season: StoredSeason, after: int, lineups: Sequence[Seating]
) -> None:
    """Write the line-ups of the jobs that follow number `after`."""
    ids = connection.execute(
        select(_jobs.c.id)
        .where(_jobs.c.season_id == season.id, _jobs.c.number > after)
        .order_by(_jobs.c.number)
    ).scalars()
    rows = [
        {"job_id": job_id, "seat": seat, "season_id": season.id, "version_id": version}
        for job_id, lineup in zip(ids, lineups, strict=True)
        for seat, version in enumerate(lineup)
    ]
    connection.execute(insert(schema.job_seats), rows)


def _next(connection: Connection, season: StoredSeason, rotation: int | None) -> Row[Any] | None:
    """The next waiting job for a worker whose bots are those of `rotation`."""
    if rotation is not None:
        # All of its few jobs: with the status in the query, a database may look at all that wait.
        same = select(_jobs).where(_jobs.c.season_id == season.id, _jobs.c.rotation == rotation)
        for row in connection.execute(same.order_by(_jobs.c.shift)).all():
            if row.status == JobStatus.TODO:
                return row
    waiting = select(_jobs).where(_jobs.c.status == JobStatus.TODO, _jobs.c.season_id == season.id)
    return connection.execute(waiting.order_by(_jobs.c.shift, _jobs.c.number).limit(1)).first()


def _lease(connection: Connection, row: Row[Any], owner: str, at: int, seconds: float) -> None:
    connection.execute(
        update(_jobs)
        .where(_jobs.c.id == row.id)
        .values(
            status=JobStatus.LEASED,
            owner=owner,
            until=at + round(seconds * 1000),
            attempt=row.attempt + 1,
        )
    )
    connection.execute(
        insert(schema.attempts).values(
            job_id=row.id, attempt=row.attempt + 1, owner=owner, since=at
        )
    )


def _states(connection: Connection, rotations: Sequence[Rotation]) -> dict[int, bool]:
    """Of each version in the rotations, whether its bot gets games."""
    versions, bots = schema.bot_versions, schema.bots
    ids = sorted({version for seatings in rotations for seating in seatings for version in seating})
    rows = connection.execute(
        select(versions.c.id, bots.c.state)
        .join(bots, bots.c.id == versions.c.bot_id)
        .where(versions.c.id.in_(ids))
    )
    return {version: state == BotState.ACTIVE for version, state in rows}


def _check_seating(season: Season, lineup: Seating, known: dict[int, bool]) -> None:
    if len(lineup) not in season.seats:
        raise StoreError(
            f"a line-up of {len(lineup)}: season {season.name!r} has games of "
            f"{' or '.join(map(str, season.seats))}"
        )
    if len(set(lineup)) != len(lineup):
        raise StoreError(f"a line-up has one version in two seats: {list(lineup)}")
    if unknown := [version for version in lineup if version not in known]:
        raise StoreError(f"there is no version with the id {unknown[0]}")
