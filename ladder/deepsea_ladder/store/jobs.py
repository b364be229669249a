"""Jobs: the queue of scheduled games, and the leases of the runners that play them.

Invariants: a job has its game id and line-up from the start and keeps them; a lease runs by the
database's clock and has a number, its attempt; every attempt has a seed of its own, so that nobody
plays a game that was watched; another runner may take over an expired lease, and the former owner's
result still counts if it is the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, func, insert, select, update

from deepsea_ladder.accounts import NOBODY, Actor
from deepsea_ladder.errors import NotOnLadder, SeasonClosed, StoreError
from deepsea_ladder.model.bots import BotState
from deepsea_ladder.model.jobs import AttemptEnd, Job, JobStatus, Rotation, Seating, VoidReceipt
from deepsea_ladder.model.people import AuditKind
from deepsea_ladder.model.seasons import StoredSeason
from deepsea_ladder.season import Season
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import note
from deepsea_ladder.store.database import Database, now
from deepsea_ladder.store.job_transitions import count_failure, end_attempt, give_back
from deepsea_ladder.store.lineups import lineup_of
from deepsea_ladder.store.retry_policy import RetryPolicy
from deepsea_ladder.store.seasons import seed_of
from deepsea_ladder.store.strikes import disable_strikers
from deepsea_ladder.store.versions import versions_of
from deepsea_rules.randomness import game_seed

_jobs = schema.jobs

# Statements of every game are made once: making one takes longer than the database needs for it.
_OURS: Final = _jobs.c.season_id == bindparam("season")
_EXPIRED: Final = (
    select(_jobs)
    .where(_jobs.c.status == JobStatus.LEASED, _OURS, _jobs.c.until <= bindparam("now"))
    .order_by(_jobs.c.until, _jobs.c.number)
    .limit(bindparam("most"))
)
# All of its few jobs: with the status in the query, a database may look at all that wait.
_OF_ROTATION: Final = (
    select(_jobs).where(_OURS, _jobs.c.rotation == bindparam("of")).order_by(_jobs.c.shift)
)
_WAITING: Final = (
    select(_jobs)
    .where(_jobs.c.status == JobStatus.TODO, _OURS)
    .order_by(_jobs.c.shift, _jobs.c.number)
    .limit(1)
)
_SET: Final = update(_jobs).where(_jobs.c.id == bindparam("job"))
_BEGIN: Final = insert(schema.attempts)
_RENEW: Final = update(_jobs).where(
    _jobs.c.id == bindparam("job"),
    _jobs.c.status == JobStatus.LEASED,
    _jobs.c.attempt == bindparam("held"),
    _jobs.c.owner == bindparam("holder"),
)
_VOID_SEATS: Final = select(schema.attempts.c.seat).where(
    schema.attempts.c.job_id == bindparam("job"), schema.attempts.c.seat.is_not(None)
)
_LAST_NUMBER: Final = select(func.max(_jobs.c.number)).where(_OURS)
_LAST_ROTATION: Final = select(func.max(_jobs.c.rotation)).where(_OURS)
_ADDED: Final = (
    select(_jobs.c.id).where(_OURS, _jobs.c.number > bindparam("after")).order_by(_jobs.c.number)
)
_CLOSED_AT: Final = select(schema.seasons.c.closed_at).where(
    schema.seasons.c.id == bindparam("season")
)
_STATES: Final = (
    select(schema.bot_versions.c.id, schema.bots.c.state)
    .join(schema.bots, schema.bots.c.id == schema.bot_versions.c.bot_id)
    .where(schema.bot_versions.c.id.in_(bindparam("ids", expanding=True)))
)


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
            _require_open(connection, season)
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

        `prefer` has for each worker the rotation of its last job; best is a game of the same
        rotation, then the beginning of one that nobody plays, then any.
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
            return _leased_jobs(connection, season, rows, owner)

    def _take_over(
        self, connection: Connection, season: StoredSeason, at: int, count: int
    ) -> list[Row[Any]]:
        """End expired leases; returns the jobs that may be retried."""
        which = {"season": season.id, "now": at, "most": count}
        expired = connection.execute(_EXPIRED, which).all()
        again = []
        for row in expired:
            words = f"the lease of {row.owner} expired"
            end_attempt(connection, row, row.attempt, AttemptEnd.EXPIRED, words, at)
            status = count_failure(connection, row, words, self._policy.failures, at)
            if status is JobStatus.TODO:
                again.append(row)
        return again

    def renew(self, held: Iterable[Job], seconds: float) -> int:
        """Renew leases until `seconds` from now (heartbeat); returns how many were still valid."""
        with self._database.write() as connection:
            until = now(connection) + round(seconds * 1000)
            return sum(
                connection.execute(
                    _RENEW,
                    {"job": job.id, "held": job.attempt, "holder": job.owner, "until": until},
                ).rowcount
                for job in held
            )

    def hand_back(self, owner: str, job: Job | None = None, reason: str | None = None) -> int:
        """Give up the owner's leases, or that of one job; returns how many there were.

        The jobs wait again, and nothing counts as failed.
        """
        held = [_jobs.c.status == JobStatus.LEASED, _jobs.c.owner == owner]
        if job is not None:
            held += [_jobs.c.id == job.id, _jobs.c.attempt == job.attempt]
        with self._database.write() as connection:
            at = now(connection)
            rows = connection.execute(select(_jobs).where(*held)).all()
            for row in rows:
                end_attempt(connection, row, row.attempt, AttemptEnd.HANDED_BACK, reason, at)
                give_back(connection, row)
            return len(rows)

    def fail(self, job: Job, reason: str, seat: int | None = None) -> VoidReceipt:
        """Report a void game: retry or quarantine the job. A former lease changes nothing.

        seat  who was asked when the game became void, if it was then
        """
        with self._database.write() as connection:
            at = now(connection)
            row = connection.execute(select(_jobs).where(_jobs.c.id == job.id)).one()
            held = row.status == JobStatus.LEASED and row.attempt == job.attempt
            if not held or row.owner != job.owner:
                return VoidReceipt(JobStatus(row.status))
            again = seat in _void_seats(connection, job.id)
            end_attempt(connection, row, job.attempt, AttemptEnd.VOID, reason, at, seat)
            disabled: tuple[str, ...] = ()
            if seat is not None:
                asked = lineup_of(connection, job.id)[seat]
                disabled = disable_strikers(
                    connection, self._policy.strikes, row.season_id, [asked], row.game_id, at
                )
            if seat is not None and not again:  # it ends by itself: the next one is a timeout
                return VoidReceipt(give_back(connection, row), disabled)
            status = count_failure(connection, row, reason, self._policy.failures, at)
            return VoidReceipt(status, disabled)

    def requeue(self, game_id: str, by: Actor = NOBODY) -> JobStatus:
        """Retry a quarantined job from the start."""
        with self._database.write() as connection:
            row = connection.execute(select(_jobs).where(_jobs.c.game_id == game_id)).first()
            if row is None or row.status != JobStatus.QUARANTINED:
                found = f"is {row.status}" if row else "is not known"
                raise NotOnLadder(f"game {game_id!r} {found}; only quarantined ones are requeued")
            return _requeue(connection, row, now(connection), by)

    def requeue_all(self, by: Actor = NOBODY) -> int:
        """Retry all quarantined jobs; returns how many wait again."""
        query = select(_jobs).where(_jobs.c.status == JobStatus.QUARANTINED)
        with self._database.write() as connection:
            at = now(connection)
            found = [_requeue(connection, row, at, by) for row in connection.execute(query).all()]
        return found.count(JobStatus.TODO)


def _requeue(connection: Connection, row: Row[Any], at: int, by: Actor) -> JobStatus:
    connection.execute(_SET, {"job": row.id, "failures": 0})
    note(connection, at, AuditKind.REQUEUED, row.game_id, row.note or "", by=by)
    return give_back(connection, row)


def _require_open(connection: Connection, season: StoredSeason) -> None:
    if connection.execute(_CLOSED_AT, {"season": season.id}).scalar_one() is not None:
        raise SeasonClosed(f"the season {season.name!r} is closed and gets no new games")


def last_number(connection: Connection, season: StoredSeason) -> int:
    """The number of the season's last job; 0 before the first."""
    return connection.execute(_LAST_NUMBER, {"season": season.id}).scalar() or 0


def last_rotation(connection: Connection, season: StoredSeason) -> int:
    """The number of the season's last rotation; 0 before the first."""
    return connection.execute(_LAST_ROTATION, {"season": season.id}).scalar() or 0


def _seat(
    connection: Connection, season: StoredSeason, after: int, lineups: Sequence[Seating]
) -> None:
    """Write the line-ups of the jobs that follow number `after`."""
    ids = connection.execute(_ADDED, {"season": season.id, "after": after}).scalars()
    rows = [
        {"job_id": job_id, "seat": seat, "season_id": season.id, "version_id": version}
        for job_id, lineup in zip(ids, lineups, strict=True)
        for seat, version in enumerate(lineup)
    ]
    connection.execute(insert(schema.job_seats), rows)


def _next(connection: Connection, season: StoredSeason, rotation: int | None) -> Row[Any] | None:
    """The next waiting job for a worker whose last one was of `rotation`."""
    if rotation is not None:
        for row in connection.execute(_OF_ROTATION, {"season": season.id, "of": rotation}).all():
            if row.status == JobStatus.TODO:
                return row
    return connection.execute(_WAITING, {"season": season.id}).first()


def _lease(connection: Connection, row: Row[Any], owner: str, at: int, seconds: float) -> None:
    lease = {"status": JobStatus.LEASED, "owner": owner, "until": at + round(seconds * 1000)}
    connection.execute(_SET, {"job": row.id, "attempt": row.attempt + 1, **lease})
    begun = {"season_id": row.season_id, "owner": owner, "since": at}
    connection.execute(_BEGIN, {"job_id": row.id, "attempt": row.attempt + 1, **begun})


def _leased_jobs(
    connection: Connection, season: StoredSeason, rows: Sequence[Row[Any]], owner: str
) -> list[Job]:
    """The jobs of rows as they were before they were leased."""
    if not rows:
        return []
    seed = seed_of(connection, season.id)
    return [
        Job(
            id=row.id,
            game_id=row.game_id,
            season=season.season,
            seed=game_seed(seed, row.number, row.attempt),
            seats=versions_of(connection, row.id),
            rotation=row.rotation,
            attempt=row.attempt + 1,
            owner=owner,
            # A job that was never leased has none.
            void_seats=tuple(sorted(_void_seats(connection, row.id))) if row.attempt else (),
        )
        for row in rows
    ]


def _void_seats(connection: Connection, job_id: int) -> set[int]:
    """The seats that were asked when an attempt at a job became void."""
    return set(connection.execute(_VOID_SEATS, {"job": job_id}).scalars())


def _states(connection: Connection, rotations: Sequence[Rotation]) -> dict[int, bool]:
    """Of each version in the rotations, whether its bot gets games."""
    ids = sorted({version for seatings in rotations for seating in seatings for version in seating})
    rows = connection.execute(_STATES, {"ids": ids})
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
