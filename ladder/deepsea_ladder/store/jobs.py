"""Jobs: scheduled games, from the queue to the end of each attempt.

Invariants: a job has its game id and line-up from the start and keeps them; every attempt has a
seed of its own, so that nobody plays a game that was watched; another runner may take over an
expired lease, and the former owner's result still counts if it is the first; the queries of a run
(`leased`, `for_pairing`) do not read the jobs that are done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from msgspec import structs
from sqlalchemy import Connection, Row, Select, bindparam, func, insert, select

from deepsea_ladder.accounts import NOBODY, Actor, AuditKind
from deepsea_ladder.errors import (
    NotOnLadder,
    SeasonClosed,
    SeasonPaused,
    StoreDamaged,
    StoreError,
)
from deepsea_ladder.model import (
    AttemptEnd,
    BotState,
    Job,
    JobInfo,
    LostAttempt,
    PairingQueue,
    QueueCounts,
    QueuedJob,
    Rotation,
    Seating,
    StoredSeason,
    TaskKind,
    TaskState,
    VoidReceipt,
)
from deepsea_ladder.season import Season
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import note
from deepsea_ladder.store.bots import suspend_damaged, suspend_strikers
from deepsea_ladder.store.database import StorePart, now
from deepsea_ladder.store.history import PORTION, versions_by_id, versions_of
from deepsea_ladder.store.seasons import seed_of
from deepsea_ladder.store.tasks import (
    GAMES,
    NO_LOAD,
    UNREADABLE_TASK,
    TaskQueue,
    end_attempt,
    game_id_of,
    give_back,
    is_sound,
    loads,
    lost_counts,
)
from deepsea_rules.randomness import game_seed

_jobs, _seats, _attempts = schema.jobs, schema.job_seats, schema.attempts
_tasks = schema.tasks
_versions, _bots = schema.bot_versions, schema.bots
_QUEUED = (TaskState.QUEUED, TaskState.RUNNING)
"""Jobs that have no result yet and will have one."""

_OPEN = (*_QUEUED, TaskState.QUARANTINED)
"""Jobs that may get a result yet."""

# Statements of every game and pairing are made once: making one takes longer than the database
# needs for it.
_OURS = _jobs.c.season_id == bindparam("season")
_OUR_TASKS = _tasks.c.season_id == bindparam("season")
_TASKS_OF_GAMES = (
    select(_tasks, _jobs.c.number, _jobs.c.rotation, _jobs.c.game_id)
    .join(_jobs, _jobs.c.id == _tasks.c.subject)
    .where(GAMES.is_of_kind)
)
_EXPIRED = (
    _TASKS_OF_GAMES.where(GAMES.is_running, _OUR_TASKS, _tasks.c.until <= bindparam("now"))
    .order_by(_tasks.c.until, _tasks.c.subject)
    .limit(bindparam("most"))
)
# All of its few jobs: with the state in the query, a database may look at all that wait.
_OF_ROTATION = _TASKS_OF_GAMES.where(
    _OURS, _jobs.c.rotation == bindparam("of"), is_sound()
).order_by(_jobs.c.shift)
_WAITING = (
    _TASKS_OF_GAMES.where(GAMES.is_waiting, _OUR_TASKS)
    .order_by(_tasks.c.priority, _tasks.c.subject)
    .limit(1)
)
_BEGIN = insert(_attempts)
_VOID_SEATS = select(_attempts.c.seat).where(
    _attempts.c.job_id == bindparam("job"), _attempts.c.seat.is_not(None)
)
_sat = _seats.alias("sat")
_SUSPECTS = (
    select(_seats.c.seat)
    .distinct()
    # A sum, lest a database look up all jobs of a version: void attempts are few.
    .join(_sat, _sat.c.version_id == _seats.c.version_id + 0)
    .join(_attempts, (_attempts.c.job_id == _sat.c.job_id) & (_attempts.c.seat == _sat.c.seat))
    .where(
        _seats.c.job_id == bindparam("job"),
        _attempts.c.season_id == bindparam("season"),
        _attempts.c.seat.is_not(None),
    )
    .order_by(_seats.c.seat)
)
_LAST_NUMBER = select(func.max(_jobs.c.number)).where(_OURS)
_LAST_ROTATION = select(func.max(_jobs.c.rotation)).where(_OURS)
_ADDED = (
    select(_jobs.c.id).where(_OURS, _jobs.c.number > bindparam("after")).order_by(_jobs.c.number)
)
_EXITS = select(schema.tournament_exits.c.version_id).where(
    schema.tournament_exits.c.season_id == bindparam("season")
)
_CLOSED_AT = select(schema.seasons.c.closed_at).where(schema.seasons.c.id == bindparam("season"))
_GAMES = select(schema.seasons.c.games).where(schema.seasons.c.id == bindparam("season"))
_PAUSED_AT = select(schema.seasons.c.paused_at).where(schema.seasons.c.id == bindparam("season"))
_STATES = (
    select(_versions.c.id, _bots.c.state)
    .join(_bots, _bots.c.id == _versions.c.bot_id)
    .where(_versions.c.id.in_(bindparam("ids", expanding=True)))
)
_NEWEST = (
    select(
        _jobs.c.rotation,
        _seats.c.version_id,
        _versions.c.bot_id,
        _bots.c.author_id,
    )
    .join(_seats, _seats.c.job_id == _jobs.c.id)
    .join(_versions, _versions.c.id == _seats.c.version_id)
    .join(_bots, _bots.c.id == _versions.c.bot_id)
    .where(_OURS, _jobs.c.rotation > bindparam("after"), _jobs.c.shift == 0)
    .order_by(_jobs.c.rotation)
)
_LAST_JOB = (
    select(func.max(_seats.c.job_id))
    .where(_seats.c.version_id == _versions.c.id, _seats.c.season_id == bindparam("season"))
    .correlate(_versions)
    .scalar_subquery()
)
_WHEN_IT_CAME = (
    select(_jobs.c.rotation)
    .where(_OURS, _jobs.c.id <= _versions.c.after_job)
    .order_by(_jobs.c.id.desc())
    .limit(1)
    .correlate(_versions)
    .scalar_subquery()
)
_ITS_LAST = (
    select(_jobs.c.rotation).where(_jobs.c.id == _LAST_JOB).correlate(_versions).scalar_subquery()
)
_LAST_OF_ALL = (
    select(
        _versions.c.id.label("version_id"),
        _versions.c.bot_id,
        _bots.c.author_id,
        func.coalesce(_ITS_LAST, _WHEN_IT_CAME, 0).label("last_rotation"),
    )
    .join(_bots, _bots.c.id == _versions.c.bot_id)
    .where(_bots.c.state == BotState.ACTIVE)
)
_LAST_OF_PRESENT = _LAST_OF_ALL.where(_versions.c.number == _bots.c.version)
_PENDING = (
    select(_seats.c.version_id, func.count())
    .join(_tasks, _tasks.c.subject == _seats.c.job_id)
    .where(GAMES.is_of_kind, _tasks.c.state.in_(_QUEUED), _OUR_TASKS)
    .group_by(_seats.c.version_id)
)


class Jobs(TaskQueue):
    tasks = GAMES

    def add(
        self,
        season: StoredSeason,
        rotations: Sequence[Rotation],
        *,
        after: int | None = None,
        whole: bool = False,
    ) -> list[str]:
        """Add a job for each line-up (version ids by seat) of each rotation; the games' ids.

        `after` is the season's last number that the rotations were chosen for: if another process
        has added jobs since, nothing is added. Rotations with a bot that was taken out are left
        out, or if they are wanted `whole` all of them; then a bot that left this tournament is out
        for good. Raises `StoreError` for a line-up that this season cannot play.
        """
        with self._database.write() as connection:
            if connection.execute(_CLOSED_AT, {"season": season.id}).scalar_one() is not None:
                raise SeasonClosed(f"the season {season.name!r} is closed and gets no new games")
            last = _last_number(connection, season)
            if after is not None and last != after:
                return []
            active = _states(connection, rotations)
            if whole:
                active |= dict.fromkeys(
                    connection.execute(_EXITS, {"season": season.id}).scalars(), False
                )
            now_ms = now(connection)
            playable = []
            for seatings in rotations:
                for seating in seatings:
                    _check_seating(season.settings, seating, active)
                if all(active[version] for seating in seatings for version in seating):
                    playable.append(seatings)
            if whole and len(playable) < len(rotations):
                return []
            first = _last_rotation(connection, season) + 1
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
                }
                for number, (rotation, shift, _) in enumerate(games, last + 1)
            ]
            if rows:
                connection.execute(insert(_jobs), rows)
                added = {"season": season.id, "after": last}
                ids = connection.execute(_ADDED, added).scalars().all()
                _seat(connection, season, ids, [seating for _, _, seating in games])
                tasks = [
                    {"subject": job_id, "season_id": season.id, "priority": shift}
                    for job_id, (_, shift, _) in zip(ids, games, strict=True)
                ]
                GAMES.add(connection, now_ms, tasks)
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
        rotation, then the beginning of one that nobody plays, then any. Raises `SeasonPaused`.
        """
        with self._database.write() as connection:
            if connection.execute(_PAUSED_AT, {"season": season.id}).scalar_one() is not None:
                raise SeasonPaused(f"the season {season.name!r} is paused")
            now_ms = now(connection)
            seed = seed_of(connection, season.id)
            retried = self._take_over(connection, season, now_ms, len(prefer))
            jobs: list[Job] = []
            for rotation in prefer:
                job = None
                while job is None:
                    task = retried.pop(0) if retried else _next(connection, season, rotation)
                    if task is None:
                        return jobs
                    job = self._lease(connection, season, seed, task, owner, now_ms, seconds)
                jobs.append(job)
            return jobs

    def _take_over(
        self, connection: Connection, season: StoredSeason, now_ms: int, count: int
    ) -> list[Row[Any]]:
        """End expired leases; returns the games that may be retried."""
        which = {"season": season.id, "now": now_ms, "most": count}
        expired = connection.execute(_EXPIRED, which).all()
        return [
            task for task in expired if self._lose(connection, task, now_ms) is TaskState.QUEUED
        ]

    def _lease(
        self,
        connection: Connection,
        season: StoredSeason,
        seed: bytes,
        task: Row[Any],
        owner: str,
        now_ms: int,
        seconds: float,
    ) -> Job | None:
        """Lease a game that waits; None if it cannot be read: then it is quarantined."""
        try:
            with self._database.translating_errors():
                lineup = versions_of(connection, task.subject, with_states=True)
                which = {"job": task.subject, "season": season.id}
                suspects = connection.execute(_SUSPECTS, which).scalars().all()
                voids = sorted(_void_seats(connection, task.subject)) if suspects else ()
            if len(lineup) not in season.settings.seats:
                raise StoreDamaged(f"its line-up has {len(lineup)} bots")
            job = Job(
                id=task.subject,
                game_id=task.game_id,
                season=season.settings,
                seed=game_seed(seed, task.number, task.attempt),
                seats=lineup,
                rotation=task.rotation,
                attempt=task.attempt + 1,
                owner=owner,
                void_seats=tuple(voids),
                suspects=tuple(suspects),
            )
        except UNREADABLE_TASK as error:
            self._set_failed(connection, task, f"it cannot be read: {error}", now_ms)
            return None
        GAMES.begin(connection, task, owner, now_ms, seconds)
        begun = {"season_id": season.id, "owner": owner, "since": now_ms}
        connection.execute(_BEGIN, {"job_id": job.id, "attempt": job.attempt, **begun})
        return job

    def lose_all(self, connection: Connection, held: Sequence[Row[Any]]) -> int:
        """Let the games of a runner that is gone wait again: who ended it says nothing of them."""
        return self.hand_back_all(connection, held)

    def _hand_back(
        self, connection: Connection, task: Row[Any], now_ms: int, reason: str | None
    ) -> None:
        end_attempt(connection, task, task.attempt, AttemptEnd.HANDED_BACK, reason, now_ms)
        super()._hand_back(connection, task, now_ms, reason)

    def _lose(self, connection: Connection, task: Row[Any], now_ms: int) -> TaskState:
        words = f"the lease of {task.owner} expired"
        end_attempt(connection, task, task.attempt, AttemptEnd.EXPIRED, words, now_ms)
        return self.count_failure(connection, task, words, now_ms)

    def _wait_again(
        self, connection: Connection, task: Row[Any], now_ms: int, **values: object
    ) -> TaskState:
        return give_back(connection, task, now_ms, **values)

    def _final_reason(self, reason: str, failures: int) -> str:
        return f"failed {failures} times, last: {reason}"

    def _give_up(self, connection: Connection, task: Row[Any], words: str, now_ms: int) -> None:
        note(connection, now_ms, AuditKind.QUARANTINED, game_id_of(connection, task), words)

    def renew(self, held: Iterable[Job], seconds: float) -> int:
        """Renew leases until `seconds` from now (heartbeat); returns how many were still valid."""
        with self._database.write() as connection:
            now_ms = now(connection)
            return sum(GAMES.renew(connection, job, now_ms, seconds) for job in held)

    def fail(self, job: Job, reason: str, seat: int | None = None) -> VoidReceipt:
        """Report a void game: retry or quarantine the job. A former lease changes nothing.

        seat  who was asked when the game became void, if it was then
        """
        with self._database.write() as connection:
            now_ms = now(connection)
            if (task := GAMES.leased_task(connection, job)) is None:
                return VoidReceipt(GAMES.get(connection, job.id).state)
            again = seat in _void_seats(connection, job.id)
            end_attempt(connection, task, job.attempt, AttemptEnd.VOID, reason, now_ms, seat)
            if seat is None:
                lineup = versions_of(connection, job.id)
                if suspended := suspend_damaged(connection, lineup, now_ms):
                    return VoidReceipt(give_back(connection, task, now_ms), suspended)
            else:
                asked = versions_of(connection, job.id)[seat].id
                suspended = suspend_strikers(
                    connection, self._policy.strikes, task.season_id, [asked], job.game_id, now_ms
                )
            if seat is not None and not again:  # it ends by itself: the next one is a timeout
                return VoidReceipt(give_back(connection, task, now_ms), suspended)
            return VoidReceipt(self.count_failure(connection, task, reason, now_ms), suspended)

    def requeue(self, game_id: str, actor: Actor = NOBODY) -> TaskState:
        """Retry a quarantined job from the start."""
        with self._database.write() as connection:
            query = _TASKS_OF_GAMES.where(_jobs.c.game_id == game_id)
            task = connection.execute(query).first()
            if task is None or task.state is not TaskState.QUARANTINED:
                found = f"is {task.state}" if task else "is not known"
                raise NotOnLadder(f"game {game_id!r} {found}; only quarantined ones are requeued")
            return _requeue(connection, task, now(connection), actor)

    def requeue_all(self, actor: Actor = NOBODY) -> int:
        """Retry all quarantined jobs; returns how many wait again."""
        query = _TASKS_OF_GAMES.where(_tasks.c.state == TaskState.QUARANTINED)
        with self._database.write() as connection:
            now_ms, tasks = now(connection), connection.execute(query).all()
            return [_requeue(connection, task, now_ms, actor) for task in tasks].count(
                TaskState.QUEUED
            )


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


def _seat(
    connection: Connection, season: StoredSeason, ids: Sequence[int], lineups: Sequence[Seating]
) -> None:
    """Write the line-ups of jobs."""
    rows = [
        {"job_id": job_id, "seat": seat, "season_id": season.id, "version_id": version}
        for job_id, lineup in zip(ids, lineups, strict=True)
        for seat, version in enumerate(lineup)
    ]
    connection.execute(insert(_seats), rows)


def _next(connection: Connection, season: StoredSeason, rotation: int | None) -> Row[Any] | None:
    """The next waiting game for a worker whose last one was of `rotation`."""
    if rotation is not None:
        for row in connection.execute(_OF_ROTATION, {"season": season.id, "of": rotation}).all():
            if row.state is TaskState.QUEUED:
                return row
    return connection.execute(_WAITING, {"season": season.id}).first()


def _void_seats(connection: Connection, job_id: int) -> set[int]:
    """The seats that were asked when an attempt at a job became void."""
    return set(connection.execute(_VOID_SEATS, {"job": job_id}).scalars())


def _requeue(connection: Connection, task: Row[Any], now_ms: int, actor: Actor) -> TaskState:
    note(connection, now_ms, AuditKind.REQUEUED, task.game_id, task.words or "", actor=actor)
    return give_back(connection, task, now_ms, failures=0)


class Queue(StorePart):
    def counts(self, season: StoredSeason) -> QueueCounts:
        """The season's jobs by status; quick however many are done."""
        return self.counts_of([season])[season.id]

    def counts_of(self, seasons: Sequence[StoredSeason]) -> dict[int, QueueCounts]:
        """The jobs of these seasons by status, by the season's id; quick however many are done."""
        of_season, state = _tasks.c.season_id, _tasks.c.state
        ours = of_season.in_([season.id for season in seasons])
        is_out = state.in_((TaskState.QUARANTINED, TaskState.CANCELLED))
        ended = select(of_season, state, func.count()).where(GAMES.is_of_kind, ours, is_out)
        ended = ended.group_by(of_season, state)
        games = select(schema.seasons.c.id, schema.seasons.c.games)
        with self._database.read() as connection:
            by_season = loads(connection, now(connection), of_season, (TaskKind.GAME,), ours)
            count = {(season, state): n for season, state, n in connection.execute(ended)}
            done = {row.id: row.games for row in connection.execute(games)}
        return {
            season.id: QueueCounts(
                **structs.asdict(by_season.get(season.id, NO_LOAD)),
                done=done[season.id],
                quarantined=count.get((season.id, TaskState.QUARANTINED), 0),
                cancelled=count.get((season.id, TaskState.CANCELLED), 0),
            )
            for season in seasons
        }

    def leased(self, season: StoredSeason) -> int:
        """The number of jobs that are being played, by this or other runners."""
        query = select(func.count()).where(GAMES.is_running, _tasks.c.season_id == season.id)
        with self._database.read() as connection:
            return connection.execute(query).scalar_one()

    def last_number(self, season: StoredSeason) -> int:
        """The number of the season's last job; 0 before the first."""
        with self._database.read() as connection:
            return _last_number(connection, season)

    def arranged(self, season: StoredSeason) -> list[QueuedJob]:
        """The season's jobs, whatever became of them."""
        ours = _jobs.c.season_id == season.id
        query = _TASKS_OF_GAMES.where(ours).order_by(_jobs.c.number)
        with self._database.read() as connection:
            rows = connection.execute(query).all()
            lineups = _lineups(connection, select(_jobs.c.id).where(ours))
        return [
            QueuedJob(
                row.number, row.rotation, lineups[row.subject], row.game_id, row.state in _OPEN
            )
            for row in rows
        ]

    def for_pairing(self, season: StoredSeason, lately: int, *, after: int = 0) -> PairingQueue:
        """The season's jobs as the pairing needs them; quick however many there are.

        lately  how many of the newest rotations to tell of, except those up to number `after`
        """
        with self._database.read() as connection:
            last = _last_rotation(connection, season)
            which = {"season": season.id, "after": max(after, last - lately)}
            rows = connection.execute(_NEWEST, which).all()
            # One look into an index for each version, so that old jobs are not read.
            former = season.settings.pairing.former_versions
            last_of = _LAST_OF_ALL if former else _LAST_OF_PRESENT
            present = connection.execute(last_of, {"season": season.id}).all()
            return PairingQueue(
                rotations=last,
                recent_lineups=[
                    frozenset(row.version_id for row in group)
                    for _, group in groupby(rows, key=lambda row: row.rotation)
                ],
                bots={row.version_id: (row.bot_id, row.author_id) for row in (*rows, *present)},
                last_rotation={row.version_id: row.last_rotation for row in present},
                pending=dict(connection.execute(_PENDING, {"season": season.id}).all()),
            )

    def listed(self, season: StoredSeason | None, *states: TaskState) -> list[JobInfo]:
        """The jobs, of a season if one is given, in one of these states, in their order."""
        seasons = schema.seasons
        which = select(seasons.c.id) if season is None else [season.id]
        query = (
            _TASKS_OF_GAMES.add_columns(seasons.c.name.label("season"))
            .join(seasons, seasons.c.id == _tasks.c.season_id)
            .where(_tasks.c.season_id.in_(which), _tasks.c.state.in_(states))
        )
        with self._database.read() as connection:
            # Sorted here: a database might rather read all jobs in their order than sort some.
            rows = sorted(connection.execute(query), key=lambda row: (row.season_id, row.subject))
            if not rows:
                return []
            lineups = _lineups(connection, [row.subject for row in rows])
            ids = sorted({version for lineup in lineups.values() for version in lineup})
            versions = versions_by_id(connection, ids)
        return [
            JobInfo(
                game_id=row.game_id,
                season=row.season,
                status=row.state,
                lineup=tuple(versions[version].label for version in lineups.get(row.subject, ())),
                attempt=row.attempt,
                failures=row.failures,
                owner=row.owner,
                note=row.words,
            )
            for row in rows
        ]

    def lost_counts(self) -> dict[int, Counter[AttemptEnd]]:
        """The number of attempts without a result of each season, by its id and their end.

        A season without any has no entry.
        """
        with self._database.read() as connection:
            return lost_counts(connection)

    def lost(self, season: StoredSeason) -> Iterator[LostAttempt]:
        """The season's attempts that ended without a result, in their order."""
        after = 0
        while True:
            query = (
                select(_attempts, _jobs.c.game_id)
                .join(_jobs, _jobs.c.id == _attempts.c.job_id)
                .where(_attempts.c.season_id == season.id, _attempts.c.place > after)
                .order_by(_attempts.c.place)
                .limit(PORTION)
            )
            with self._database.read() as connection:
                rows = connection.execute(query).all()
                lineups = _lineups(connection, [row.job_id for row in rows])
                ids = sorted({version for lineup in lineups.values() for version in lineup})
                versions = versions_by_id(connection, ids)
            for row in rows:
                yield LostAttempt(
                    place=row.place,
                    game_id=row.game_id,
                    attempt=row.attempt - 1,
                    ended=row.ended,
                    ended_at=row.ended_at,
                    reason=row.note,
                    seat=row.seat,
                    lineup=tuple(versions[version] for version in lineups[row.job_id]),
                    head=row.head,
                )
            if len(rows) < PORTION:
                return
            after = rows[-1].place


def _last_number(connection: Connection, season: StoredSeason) -> int:
    """The number of the season's last job; 0 before the first."""
    return connection.execute(_LAST_NUMBER, {"season": season.id}).scalar() or 0


def _last_rotation(connection: Connection, season: StoredSeason) -> int:
    """The number of the season's last rotation; 0 before the first."""
    return connection.execute(_LAST_ROTATION, {"season": season.id}).scalar() or 0


def _lineups(
    connection: Connection, job_ids: Sequence[int] | Select[tuple[int]]
) -> dict[int, tuple[int, ...]]:
    """The line-ups of jobs: version ids by seat, by the job's id."""
    rows = connection.execute(
        select(_seats.c.job_id, _seats.c.version_id)
        .where(_seats.c.job_id.in_(job_ids))
        .order_by(_seats.c.job_id, _seats.c.seat)
    )
    return {
        job_id: tuple(row.version_id for row in group)
        for job_id, group in groupby(rows, key=lambda row: row.job_id)
    }
