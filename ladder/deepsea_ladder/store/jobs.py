"""Jobs: scheduled games, from the queue to the end of each attempt.

`Jobs` is what runners call; `Queue` has the reads of schedules, pairing and people.

Invariants: a job has its game id and line-up from the start and keeps them; every attempt has a
seed of its own, so that nobody plays a game whose first attempt was watched; another runner may
take over an expired lease, and the former owner's result still counts if it is the first; the
queries of a run (`leased`, `for_pairing`) do not read the jobs that are done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
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
    BotVersion,
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
from deepsea_ladder.season import SeasonSettings
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

_jobs, _job_seats, _attempts = schema.jobs, schema.job_seats, schema.attempts
_tasks = schema.tasks
_versions, _bots = schema.bot_versions, schema.bots
_PENDING_STATES = (TaskState.QUEUED, TaskState.RUNNING)
"""The states of jobs that have no result yet and will have one."""

_OPEN_STATES = (*_PENDING_STATES, TaskState.QUARANTINED)
"""The states of jobs that may still get a result."""

# Statements of every game and pairing are built once: building one takes longer than the database
# needs for it.
_IS_JOB_OF_SEASON = _jobs.c.season_id == bindparam("season")
_IS_TASK_OF_SEASON = _tasks.c.season_id == bindparam("season")
_TASKS_OF_GAMES = (
    select(_tasks, _jobs.c.number, _jobs.c.rotation, _jobs.c.game_id)
    .join(_jobs, _jobs.c.id == _tasks.c.subject)
    .where(GAMES.is_of_kind)
)
_EXPIRED_TASKS = (
    _TASKS_OF_GAMES.where(GAMES.is_running, _IS_TASK_OF_SEASON, _tasks.c.until <= bindparam("now"))
    .order_by(_tasks.c.until, _tasks.c.subject)
    .limit(bindparam("limit"))
)
# A rotation has few jobs. With the state in the query, a database may read all that wait instead.
_TASKS_OF_ROTATION = _TASKS_OF_GAMES.where(
    _IS_JOB_OF_SEASON, _jobs.c.rotation == bindparam("rotation"), is_sound()
).order_by(_jobs.c.shift)
_FIRST_WAITING_TASK = (
    _TASKS_OF_GAMES.where(GAMES.is_waiting, _IS_TASK_OF_SEASON)
    .order_by(_tasks.c.priority, _tasks.c.subject)
    .limit(1)
)
_INSERT_ATTEMPT = insert(_attempts)
_VOID_SEATS = select(_attempts.c.seat).where(
    _attempts.c.job_id == bindparam("job"), _attempts.c.seat.is_not(None)
)
_other_seats = _job_seats.alias("sat")
# Seats of a job whose version's decision was due when a game of the season became void.
_SUSPECT_SEATS = (
    select(_job_seats.c.seat)
    .distinct()
    # The sum keeps a database from looking up all jobs of a version: void attempts are few.
    .join(_other_seats, _other_seats.c.version_id == _job_seats.c.version_id + 0)
    .join(
        _attempts,
        (_attempts.c.job_id == _other_seats.c.job_id) & (_attempts.c.seat == _other_seats.c.seat),
    )
    .where(
        _job_seats.c.job_id == bindparam("job"),
        _attempts.c.season_id == bindparam("season"),
        _attempts.c.seat.is_not(None),
    )
    .order_by(_job_seats.c.seat)
)
_LAST_NUMBER = select(func.max(_jobs.c.number)).where(_IS_JOB_OF_SEASON)
_LAST_ROTATION = select(func.max(_jobs.c.rotation)).where(_IS_JOB_OF_SEASON)
_JOBS_AFTER_NUMBER = (
    select(_jobs.c.id)
    .where(_IS_JOB_OF_SEASON, _jobs.c.number > bindparam("after"))
    .order_by(_jobs.c.number)
)
_EXITED_VERSIONS = select(schema.tournament_exits.c.version_id).where(
    schema.tournament_exits.c.season_id == bindparam("season")
)
_CLOSED_AT = select(schema.seasons.c.closed_at).where(schema.seasons.c.id == bindparam("season"))
_PAUSED_AT = select(schema.seasons.c.paused_at).where(schema.seasons.c.id == bindparam("season"))
_BOT_STATES_OF_VERSIONS = (
    select(_versions.c.id, _bots.c.state)
    .join(_bots, _bots.c.id == _versions.c.bot_id)
    .where(_versions.c.id.in_(bindparam("ids", expanding=True)))
)
# The versions of rotations by the first game of each, in which every bot of the rotation sits.
_VERSIONS_OF_ROTATIONS_AFTER = (
    select(
        _jobs.c.rotation,
        _job_seats.c.version_id,
        _versions.c.bot_id,
        _bots.c.author_id,
    )
    .join(_job_seats, _job_seats.c.job_id == _jobs.c.id)
    .join(_versions, _versions.c.id == _job_seats.c.version_id)
    .join(_bots, _bots.c.id == _versions.c.bot_id)
    .where(_IS_JOB_OF_SEASON, _jobs.c.rotation > bindparam("after"), _jobs.c.shift == 0)
    .order_by(_jobs.c.rotation)
)
_LAST_JOB_OF_VERSION = (
    select(func.max(_job_seats.c.job_id))
    .where(_job_seats.c.version_id == _versions.c.id, _job_seats.c.season_id == bindparam("season"))
    .correlate(_versions)
    .scalar_subquery()
)
_LAST_ROTATION_BEFORE_VERSION = (
    select(_jobs.c.rotation)
    .where(_IS_JOB_OF_SEASON, _jobs.c.id <= _versions.c.after_job)
    .order_by(_jobs.c.id.desc())
    .limit(1)
    .correlate(_versions)
    .scalar_subquery()
)
_LAST_ROTATION_OF_VERSION = (
    select(_jobs.c.rotation)
    .where(_jobs.c.id == _LAST_JOB_OF_VERSION)
    .correlate(_versions)
    .scalar_subquery()
)
# The last rotation of each active version; for one that has not played, the season's last rotation
# when it was submitted, or 0 before the first.
_LAST_ROTATION_OF_VERSIONS = (
    select(
        _versions.c.id.label("version_id"),
        _versions.c.bot_id,
        _bots.c.author_id,
        func.coalesce(_LAST_ROTATION_OF_VERSION, _LAST_ROTATION_BEFORE_VERSION, 0).label(
            "last_rotation"
        ),
    )
    .join(_bots, _bots.c.id == _versions.c.bot_id)
    .where(_bots.c.state == BotState.ACTIVE)
)
_LAST_ROTATION_OF_CURRENT_VERSIONS = _LAST_ROTATION_OF_VERSIONS.where(
    _versions.c.number == _bots.c.version
)
_PENDING_GAMES_OF_VERSIONS = (
    select(_job_seats.c.version_id, func.count())
    .join(_tasks, _tasks.c.subject == _job_seats.c.job_id)
    .where(GAMES.is_of_kind, _tasks.c.state.in_(_PENDING_STATES), _IS_TASK_OF_SEASON)
    .group_by(_job_seats.c.version_id)
)


class Jobs(TaskQueue):
    """The store's part for scheduled games and their leases."""

    tasks = GAMES

    def add(
        self,
        season: StoredSeason,
        rotations: Sequence[Rotation],
        *,
        after: int | None = None,
        whole: bool = False,
    ) -> list[str]:
        """Add a job for each game of each rotation, and return the ids of the new games.

        A rotation with a bot that was taken out is skipped.

        rotations  the line-ups of each rotation's games: version ids by seat
        after      the last job's number when the rotations were chosen: if another process has
                   added jobs since, nothing is added
        whole      add all rotations, or nothing if one of them would be skipped; then a bot that
                   has left this tournament once counts as taken out
        Raises `StoreError` for a line-up that this season cannot play.
        """
        with self._database.write() as connection:
            if connection.execute(_CLOSED_AT, {"season": season.id}).scalar_one() is not None:
                raise SeasonClosed(f"the season {season.name!r} is closed and gets no new games")
            last = _last_number(connection, season)
            if after is not None and last != after:
                return []
            is_active = _active_versions(connection, rotations)
            if whole:
                exited = connection.execute(_EXITED_VERSIONS, {"season": season.id}).scalars()
                is_active |= dict.fromkeys(exited, False)
            now_ms = now(connection)
            playable = []
            for seatings in rotations:
                for seating in seatings:
                    _check_seating(season.settings, seating, is_active)
                if all(is_active[version] for seating in seatings for version in seating):
                    playable.append(seatings)
            if whole and len(playable) < len(rotations):
                return []
            first_rotation = _last_rotation(connection, season) + 1
            games = [
                (rotation, shift, seating)
                for rotation, seatings in enumerate(playable, first_rotation)
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
                parameters = {"season": season.id, "after": last}
                job_ids = connection.execute(_JOBS_AFTER_NUMBER, parameters).scalars().all()
                _insert_lineups(connection, season, job_ids, [seating for _, _, seating in games])
                # The first games of all rotations come before their second ones, and so on.
                tasks = [
                    {"subject": job_id, "season_id": season.id, "priority": shift}
                    for job_id, (_, shift, _) in zip(job_ids, games, strict=True)
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
        """Lease a job for each of a runner's workers, for `seconds` from now.

        The list is shorter if fewer games wait. A worker gets a game of its last rotation if there
        is one, so that its bots can stay; else the first game of a rotation that nobody plays; else
        any. Games whose lease expired come first.

        prefer  for each worker the rotation of its last job, or None
        Raises `SeasonPaused`.
        """
        with self._database.write() as connection:
            if connection.execute(_PAUSED_AT, {"season": season.id}).scalar_one() is not None:
                raise SeasonPaused(f"the season {season.name!r} is paused")
            now_ms = now(connection)
            seed = seed_of(connection, season.id)
            expired_tasks = self._end_expired_leases(connection, season, now_ms, len(prefer))
            jobs: list[Job] = []
            for rotation in prefer:
                job = None
                while job is None:  # a job that cannot be read is quarantined, and the next tried
                    if expired_tasks:
                        task: Row[Any] | None = expired_tasks.pop(0)
                    else:
                        task = _next_task(connection, season, rotation)
                    if task is None:
                        return jobs
                    job = self._lease_game(connection, season, seed, task, owner, now_ms, seconds)
                jobs.append(job)
            return jobs

    def _end_expired_leases(
        self, connection: Connection, season: StoredSeason, now_ms: int, limit: int
    ) -> list[Row[Any]]:
        """End up to `limit` expired leases of a season, and return the games that now wait again.

        A game is left out if it was quarantined instead, after too many failures, or cancelled.
        """
        parameters = {"season": season.id, "now": now_ms, "limit": limit}
        waiting_tasks = []
        for task in connection.execute(_EXPIRED_TASKS, parameters).all():
            new_state = self._end_lost_lease(connection, task, now_ms)
            if new_state is TaskState.QUEUED:
                waiting_tasks.append(task)
        return waiting_tasks

    def _lease_game(
        self,
        connection: Connection,
        season: StoredSeason,
        seed: bytes,
        task: Row[Any],
        owner: str,
        now_ms: int,
        seconds: float,
    ) -> Job | None:
        """Lease a waiting game to a runner. If it cannot be read, quarantine it and return None.

        seed  the season's seed, from which that of the attempt follows
        """
        try:
            with self._database.translating_errors():
                lineup = versions_of(connection, task.subject, with_states=True)
                parameters = {"job": task.subject, "season": season.id}
                suspects = connection.execute(_SUSPECT_SEATS, parameters).scalars().all()
                # Seats of a void attempt are suspects, too: without those there are none.
                void_seats = sorted(_void_seats(connection, task.subject)) if suspects else ()
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
                void_seats=tuple(void_seats),
                suspects=tuple(suspects),
            )
        except UNREADABLE_TASK as error:
            self._set_failed(connection, task, f"it cannot be read: {error}", now_ms)
            return None
        GAMES.begin(connection, task, owner, now_ms, seconds)
        attempt = {
            "job_id": job.id,
            "attempt": job.attempt,
            "season_id": season.id,
            "owner": owner,
            "since": now_ms,
        }
        connection.execute(_INSERT_ATTEMPT, attempt)
        return job

    def end_lost_leases(self, connection: Connection, tasks: Sequence[Row[Any]]) -> int:
        """Let the games of a runner that died wait again, and return their number.

        No failure is counted: the end of a runner with many games is hardly the fault of each.
        """
        return self.hand_back_all(connection, tasks)

    def _hand_back(
        self, connection: Connection, task: Row[Any], now_ms: int, reason: str | None
    ) -> None:
        end_attempt(connection, task, task.attempt, AttemptEnd.HANDED_BACK, reason, now_ms)
        super()._hand_back(connection, task, now_ms, reason)

    def _end_lost_lease(self, connection: Connection, task: Row[Any], now_ms: int) -> TaskState:
        words = f"the lease of {task.owner} expired"
        end_attempt(connection, task, task.attempt, AttemptEnd.EXPIRED, words, now_ms)
        return self.count_failure(connection, task, words, now_ms)

    def _queue_again(
        self, connection: Connection, task: Row[Any], now_ms: int, **values: object
    ) -> TaskState:
        return give_back(connection, task, now_ms, **values)

    def _final_reason(self, reason: str, failures: int) -> str:
        return f"failed {failures} times, last: {reason}"

    def _record_final_failure(
        self, connection: Connection, task: Row[Any], reason: str, now_ms: int
    ) -> None:
        note(connection, now_ms, AuditKind.QUARANTINED, game_id_of(connection, task), reason)

    def renew(self, jobs: Iterable[Job], seconds: float) -> int:
        """Let leases expire `seconds` from now (heartbeat), and return how many still held."""
        with self._database.write() as connection:
            now_ms = now(connection)
            return sum(GAMES.renew(connection, job, now_ms, seconds) for job in jobs)

    def fail(self, job: Job, reason: str, seat: int | None = None) -> VoidReceipt:
        """Report a void game, which then waits again or is quarantined.

        Nothing changes if the lease does not hold any more. Bots that caused too many void games
        are suspended.

        seat  the seat whose decision was due when the game became void, if there was one
        """
        with self._database.write() as connection:
            now_ms = now(connection)
            task = GAMES.leased_task(connection, job)
            if task is None:
                return VoidReceipt(GAMES.get(connection, job.id).state)
            is_repeated = seat in _void_seats(connection, job.id)
            end_attempt(connection, task, job.attempt, AttemptEnd.VOID, reason, now_ms, seat)
            if seat is None:
                lineup = versions_of(connection, job.id)
                if suspended := suspend_damaged(connection, lineup, now_ms):
                    return VoidReceipt(give_back(connection, task, now_ms), suspended)
            else:
                version_id = versions_of(connection, job.id)[seat].id
                suspended = suspend_strikers(
                    connection,
                    self._policy.strikes,
                    task.season_id,
                    [version_id],
                    job.game_id,
                    now_ms,
                )
            if seat is not None and not is_repeated:
                # Not counted as a failure: the next void game at this seat is played as a timeout,
                # so this cannot go on for ever.
                return VoidReceipt(give_back(connection, task, now_ms), suspended)
            return VoidReceipt(self.count_failure(connection, task, reason, now_ms), suspended)

    def requeue(self, game_id: str, actor: Actor = NOBODY) -> TaskState:
        """Let a quarantined game wait again with no failures counted, and return its new state.

        It is cancelled instead if it must not be played any more. Raises `NotOnLadder` if there is
        no such game, or if it is not quarantined.
        """
        with self._database.write() as connection:
            query = _TASKS_OF_GAMES.where(_jobs.c.game_id == game_id)
            task = connection.execute(query).first()
            if task is None or task.state is not TaskState.QUARANTINED:
                state = "is not known" if task is None else f"is {task.state}"
                raise NotOnLadder(f"game {game_id!r} {state}; only quarantined ones are requeued")
            return _requeue(connection, task, now(connection), actor)

    def requeue_all(self, actor: Actor = NOBODY) -> int:
        """Let all quarantined games wait again, and return how many now do.

        Those that must not be played any more are cancelled instead.
        """
        query = _TASKS_OF_GAMES.where(_tasks.c.state == TaskState.QUARANTINED)
        waiting_count = 0
        with self._database.write() as connection:
            now_ms = now(connection)
            for task in connection.execute(query).all():
                new_state = _requeue(connection, task, now_ms, actor)
                if new_state is TaskState.QUEUED:
                    waiting_count += 1
        return waiting_count


def _active_versions(connection: Connection, rotations: Sequence[Rotation]) -> dict[int, bool]:
    """Return for each version in the rotations, by its id, True if its bot gets games."""
    ids = sorted({version for seatings in rotations for seating in seatings for version in seating})
    rows = connection.execute(_BOT_STATES_OF_VERSIONS, {"ids": ids})
    return {version: state == BotState.ACTIVE for version, state in rows}


def _check_seating(season: SeasonSettings, lineup: Seating, known: Container[int]) -> None:
    """Raise `StoreError` if a season cannot play this line-up of version ids.

    That is the case for a wrong number of seats, for a version in two seats, and for an id that is
    not among the `known` ones.
    """
    if len(lineup) not in season.seats:
        raise StoreError(
            f"a line-up of {len(lineup)}: season {season.name!r} has games of "
            f"{' or '.join(map(str, season.seats))}"
        )
    if len(set(lineup)) != len(lineup):
        raise StoreError(f"a line-up has one version in two seats: {list(lineup)}")
    unknown = [version for version in lineup if version not in known]
    if unknown:
        raise StoreError(f"there is no version with the id {unknown[0]}")


def _insert_lineups(
    connection: Connection,
    season: StoredSeason,
    job_ids: Sequence[int],
    lineups: Sequence[Seating],
) -> None:
    """Store the line-ups of jobs.

    lineups  for each job the version ids in the order of the seats
    """
    rows = [
        {"job_id": job_id, "seat": seat, "season_id": season.id, "version_id": version_id}
        for job_id, lineup in zip(job_ids, lineups, strict=True)
        for seat, version_id in enumerate(lineup)
    ]
    connection.execute(insert(_job_seats), rows)


def _next_task(
    connection: Connection, season: StoredSeason, rotation: int | None
) -> Row[Any] | None:
    """Return the next game for a worker among the waiting ones of a season; None if none waits.

    rotation  the rotation of the worker's last game, whose games come first, since its bots run
              already; None if the worker has not played yet
    """
    if rotation is not None:
        parameters = {"season": season.id, "rotation": rotation}
        for task in connection.execute(_TASKS_OF_ROTATION, parameters).all():
            if task.state is TaskState.QUEUED:
                return task
    return connection.execute(_FIRST_WAITING_TASK, {"season": season.id}).first()


def _void_seats(connection: Connection, job_id: int) -> set[int]:
    """Return the seats whose decision was due when an attempt at this job became void."""
    return set(connection.execute(_VOID_SEATS, {"job": job_id}).scalars())


def _requeue(connection: Connection, task: Row[Any], now_ms: int, actor: Actor) -> TaskState:
    """Let a quarantined game wait again without failures; returns its new state."""
    note(connection, now_ms, AuditKind.REQUEUED, task.game_id, task.words or "", actor=actor)
    return give_back(connection, task, now_ms, failures=0)


class Queue(StorePart):
    """The reads of scheduled games, for schedules, pairing and people."""

    def counts(self, season: StoredSeason) -> QueueCounts:
        """Return the numbers of a season's jobs by state; quick however many are done."""
        return self.counts_of([season])[season.id]

    def counts_of(self, seasons: Sequence[StoredSeason]) -> dict[int, QueueCounts]:
        """Return the numbers of each season's jobs by state, by season id.

        This is quick however many jobs are done: the season itself has their number.
        """
        columns = _tasks.c
        is_of_seasons = columns.season_id.in_([season.id for season in seasons])
        is_set_aside = columns.state.in_((TaskState.QUARANTINED, TaskState.CANCELLED))
        set_aside_query = (
            select(columns.season_id, columns.state, func.count())
            .where(GAMES.is_of_kind, is_of_seasons, is_set_aside)
            .group_by(columns.season_id, columns.state)
        )
        done_query = select(schema.seasons.c.id, schema.seasons.c.games)
        with self._database.read() as connection:
            load_by_season = loads(
                connection, now(connection), columns.season_id, (TaskKind.GAME,), is_of_seasons
            )
            set_aside = {
                (season_id, state): count
                for season_id, state, count in connection.execute(set_aside_query)
            }
            done = {row.id: row.games for row in connection.execute(done_query)}
        return {
            season.id: QueueCounts(
                **structs.asdict(load_by_season.get(season.id, NO_LOAD)),
                done=done[season.id],
                quarantined=set_aside.get((season.id, TaskState.QUARANTINED), 0),
                cancelled=set_aside.get((season.id, TaskState.CANCELLED), 0),
            )
            for season in seasons
        }

    def leased(self, season: StoredSeason) -> int:
        """Return the number of the season's games that are being played, by any runner."""
        query = select(func.count()).where(GAMES.is_running, _tasks.c.season_id == season.id)
        with self._database.read() as connection:
            return connection.execute(query).scalar_one()

    def last_number(self, season: StoredSeason) -> int:
        """Return the number of the season's last job; 0 before the first."""
        with self._database.read() as connection:
            return _last_number(connection, season)

    def all_jobs(self, season: StoredSeason) -> list[QueuedJob]:
        """Return all jobs of a season, in any state, in the order of their numbers."""
        is_of_season = _jobs.c.season_id == season.id
        query = _TASKS_OF_GAMES.where(is_of_season).order_by(_jobs.c.number)
        with self._database.read() as connection:
            rows = connection.execute(query).all()
            lineups = _lineups(connection, select(_jobs.c.id).where(is_of_season))
        return [
            QueuedJob(
                row.number,
                row.rotation,
                lineups[row.subject],
                row.game_id,
                is_open=row.state in _OPEN_STATES,
            )
            for row in rows
        ]

    def for_pairing(self, season: StoredSeason, rotations: int, *, after: int = 0) -> PairingQueue:
        """Return what the pairing of a season needs: its newest line-ups and its pending games.

        This is quick however many jobs the season has.

        rotations  the largest number of newest rotations to return
        after      the number of the last rotation that the caller has already
        """
        with self._database.read() as connection:
            last_rotation = _last_rotation(connection, season)
            parameters = {"season": season.id, "after": max(after, last_rotation - rotations)}
            recent_rows = connection.execute(_VERSIONS_OF_ROTATIONS_AFTER, parameters).all()
            # These queries look into an index once for each version, and read no old jobs.
            query = _LAST_ROTATION_OF_CURRENT_VERSIONS
            if season.settings.pairing.former_versions:
                query = _LAST_ROTATION_OF_VERSIONS
            version_rows = connection.execute(query, {"season": season.id}).all()
            pending = connection.execute(_PENDING_GAMES_OF_VERSIONS, {"season": season.id}).all()
        recent_lineups = [
            frozenset(row.version_id for row in rows_of_rotation)
            for _, rows_of_rotation in groupby(recent_rows, key=lambda row: row.rotation)
        ]
        return PairingQueue(
            rotations=last_rotation,
            recent_lineups=recent_lineups,
            bot_and_author={
                row.version_id: (row.bot_id, row.author_id) for row in (*recent_rows, *version_rows)
            },
            last_rotation={row.version_id: row.last_rotation for row in version_rows},
            pending=dict(pending),
        )

    def listed(self, season: StoredSeason | None, *states: TaskState) -> list[JobInfo]:
        """Return the jobs in one of these states, in the order in which they were added.

        season  the season of the jobs; None returns those of all seasons
        """
        seasons = schema.seasons
        season_ids = select(seasons.c.id) if season is None else [season.id]
        query = (
            _TASKS_OF_GAMES.add_columns(seasons.c.name.label("season"))
            .join(seasons, seasons.c.id == _tasks.c.season_id)
            .where(_tasks.c.season_id.in_(season_ids), _tasks.c.state.in_(states))
        )
        with self._database.read() as connection:
            # Sorted here: a database might rather read all jobs in their order than sort a few.
            rows = sorted(connection.execute(query), key=lambda row: (row.season_id, row.subject))
            if not rows:
                return []
            lineups = _lineups(connection, [row.subject for row in rows])
            versions = _versions_of_lineups(connection, lineups)
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
        """Return how many attempts at games ended without a result, by season id and kind of end.

        A season without such attempts is missing.
        """
        with self._database.read() as connection:
            return lost_counts(connection)

    def lost(self, season: StoredSeason) -> Iterator[LostAttempt]:
        """Yield the season's attempts that ended without a result, in the order of their places.

        They are read in portions, each in a transaction of its own.
        """
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
                versions = _versions_of_lineups(connection, lineups)
            for row in rows:
                yield LostAttempt(
                    place=row.place,
                    game_id=row.game_id,
                    attempt=row.attempt - 1,  # leases are numbered from 1
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
    """Return the number of the season's last job; 0 before the first."""
    return connection.execute(_LAST_NUMBER, {"season": season.id}).scalar() or 0


def _last_rotation(connection: Connection, season: StoredSeason) -> int:
    """Return the number of the season's last rotation; 0 before the first."""
    return connection.execute(_LAST_ROTATION, {"season": season.id}).scalar() or 0


def _versions_of_lineups(
    connection: Connection, lineups: Mapping[int, Sequence[int]]
) -> dict[int, BotVersion]:
    """Return the versions that occur in line-ups, by their ids."""
    ids = sorted({version for lineup in lineups.values() for version in lineup})
    return versions_by_id(connection, ids)


def _lineups(
    connection: Connection, job_ids: Sequence[int] | Select[tuple[int]]
) -> dict[int, tuple[int, ...]]:
    """Return the line-ups of jobs, the version ids in the order of the seats, by job id."""
    rows = connection.execute(
        select(_job_seats.c.job_id, _job_seats.c.version_id)
        .where(_job_seats.c.job_id.in_(job_ids))
        .order_by(_job_seats.c.job_id, _job_seats.c.seat)
    )
    return {
        job_id: tuple(row.version_id for row in group)
        for job_id, group in groupby(rows, key=lambda row: row.job_id)
    }
