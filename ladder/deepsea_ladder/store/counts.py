"""Counts over a whole ladder for its operator, and numbers that tell if a page is still current.

Start reading at `Counts.read`, then `Changes`.

Invariants: counts are read from one snapshot, which keeps no writer waiting; the time for that
grows with waiting tasks, lost attempts, seasons and versions, but not with games. A page on a
played game or on a closed season stays the same as long as the numbers of `Changes` do. To read
these takes as long on a ladder with a million games as on a new one.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import (
    BindParameter,
    Connection,
    LargeBinary,
    Select,
    bindparam,
    case,
    desc,
    func,
    or_,
    select,
    text,
    type_coerce,
)

from deepsea_ladder.accounts import AuditKind
from deepsea_ladder.errors import StoreDamaged
from deepsea_ladder.model import LadderCounts, QueueLoad, TaskKind, TaskState, is_stalled
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import LATEST_ENTRIES
from deepsea_ladder.store.columns import unpacked
from deepsea_ladder.store.database import UNREADABLE_ERRORS, StorePart, damage_in_small_tables, now
from deepsea_ladder.store.seasons import Seasons
from deepsea_ladder.store.tasks import NO_LOAD, loads, lost_counts

NEWEST_SUBMISSIONS = 1_000
"""Newest submissions that are counted by state."""
NEWEST_GAMES = 100
"""Newest games whose records are read."""
_ratings, _tasks, _rests = schema.ratings.c, schema.tasks.c, schema.rests.c
_RUNNING_SEASONS = select(schema.seasons.c.id).where(schema.seasons.c.paused_at.is_(None))
QUEUES = {
    TaskKind.GAME: "games",
    TaskKind.CHECK: "submissions",
    TaskKind.ANALYSIS: "analyses",
    TaskKind.COMPARISON: "comparisons",
    TaskKind.STEP: "games of people",
}
"""The name of each kind of tasks in counts."""


_SUMS = select(
    select(func.coalesce(func.sum(schema.seasons.c.games), 0)).scalar_subquery().label("games"),
    select(func.coalesce(func.sum(_ratings.faults), 0)).scalar_subquery().label("faults"),
    select(func.coalesce(func.sum(_ratings.forfeits), 0)).scalar_subquery().label("forfeits"),
    select(func.count())
    .where(_tasks.kind == TaskKind.GAME, _tasks.state == TaskState.QUARANTINED)
    .scalar_subquery()
    .label("quarantined"),
)
_NEWEST_STATES = (
    select(_tasks.state)
    .where(_tasks.kind == TaskKind.CHECK)
    .order_by(desc(_tasks.subject))
    .limit(NEWEST_SUBMISSIONS)
)


class Counts(StorePart):
    """Counts over a whole ladder, for its operator."""

    def is_stalled(self) -> bool:
        """Return True if tasks wait, and no runner works or has said that it pauses.

        This reads only the queues and the pauses of runners, so that a monitor can ask often.
        """
        with self._database.read() as connection:
            now_ms = now(connection)
            queues = _queues(connection, now_ms)
            runners = _runners(connection, now_ms)
        waiting = {name: load.waiting for name, load in queues.items()}
        expired = {name: load.expired for name, load in queues.items()}
        return is_stalled(waiting, expired, len(runners))

    def read(self) -> LadderCounts:
        """Return all counts of the ladder, with a line for each damaged place that was met."""
        season_lines = Seasons(self._database, self._policy).damage_lines()
        with self._database.read() as connection:
            value_lines = damage_in_small_tables(connection)
            # A damaged value of a season is in both lists; of both lines the one that shows no
            # value stays. It ends in "is damaged", and the other one has the same beginning.
            beginnings = [line.removesuffix("is damaged") for line in value_lines]
            season_lines = [
                line
                for line in season_lines
                if not any(beginning in line for beginning in beginnings)
            ]
            now_ms = now(connection)
            queues, runners = _queues(connection, now_ms), _runners(connection, now_ms)
            sums = connection.execute(_SUMS).one()
            play, record_lines = _recent_play(connection)
            backup_age, shortage_age, starved_age = _seconds_since_entries(connection, now_ms)
            return LadderCounts(
                games=int(sums.games),
                lost_attempts=dict(sum(lost_counts(connection).values(), Counter())),
                faults=int(sums.faults),
                forfeits=int(sums.forfeits),
                quarantined_games=sums.quarantined,
                waiting={name: load.waiting for name, load in queues.items()},
                leased={name: load.leased for name, load in queues.items()},
                expired={name: load.expired for name, load in queues.items()},
                oldest_wait_seconds={
                    name: load.oldest_wait_ms / 1000 for name, load in queues.items()
                },
                runners=len(runners),
                resting_runners=tuple(
                    sorted(
                        f"the runner {owner} rests: {words}"
                        for owner, words in runners.items()
                        if words is not None
                    )
                ),
                recent_submissions=dict(Counter(connection.execute(_NEWEST_STATES).scalars())),
                store_bytes=_store_bytes(connection, self._database.path),
                disk_free_bytes=self._database.free_bytes(),
                backup_age_seconds=backup_age,
                shortage_age_seconds=shortage_age,
                starved_age_seconds=starved_age,
                damage=(*value_lines, *season_lines, *record_lines),
                **play,
            )


def _queues(connection: Connection, now_ms: int) -> dict[str, QueueLoad]:
    """Return the numbers of tasks that wait and that are leased in each queue, by its name.

    Games of paused seasons are left out.
    """
    has_no_season = _tasks.season_id.is_(None)
    is_of_running_season = _tasks.season_id.in_(_RUNNING_SEASONS)
    is_counted = has_no_season | is_of_running_season
    load_by_kind = loads(connection, now_ms, _tasks.kind, tuple(TaskKind), is_counted)
    return {name: load_by_kind.get(kind, NO_LOAD) for kind, name in QUEUES.items()}


def _runners(connection: Connection, now_ms: int) -> dict[str, str | None]:
    """Return the present runners: by name, the reason of a runner's pause, or None if it works.

    A runner works if it holds a lease that has not expired.
    """
    pauses = select(_rests.owner, _rests.words).where(_rests.until > now_ms)
    runners: dict[str, str | None] = {row.owner: row.words for row in connection.execute(pauses)}
    lease_owners = (
        select(_tasks.owner)
        .where(_tasks.kind.in_(TaskKind), _tasks.state == TaskState.RUNNING, _tasks.until > now_ms)
        .distinct()
    )
    for owner in connection.execute(lease_owners).scalars():
        runners[owner] = None  # a runner with a lease works, even if its pause is not over
    return runners


def _recent_play(connection: Connection) -> tuple[dict[str, Any], list[str]]:
    """Return numbers on decisions in the newest games, and a line for each damaged record.

    The numbers are fields of `LadderCounts`, by name.
    """
    games = schema.games
    # As bytes, to unpack each record by itself: a damaged one must not hide the others.
    content = type_coerce(games.c.record, LargeBinary)
    newest = select(games.c.seq, games.c.game_id, content).order_by(desc(games.c.seq))
    sizes: list[int] = []
    times: list[float] = []
    faults: Counter[str] = Counter()
    lines: list[str] = []
    for seq, game_id, packed in connection.execute(newest.limit(NEWEST_GAMES)):
        try:
            record = unpacked(packed)
            decisions = json.loads(record)["decisions"]
            decision_seconds = [decision["us"] / 1_000_000 for decision in decisions]
            decision_faults = [decision["fault"] for decision in decisions if decision.get("fault")]
        except (StoreDamaged, *UNREADABLE_ERRORS) as error:
            lines.append(f"table games, row {seq}: the record of {game_id} is damaged: {error}")
            continue
        sizes.append(len(record))
        times += decision_seconds
        faults.update(decision_faults)
    times.sort()
    percentiles = (50, 90, 99) if times else ()
    play = {
        "recent_games": len(sizes),
        "recent_record_bytes": sum(sizes),
        "recent_faults": dict(faults),
        "recent_decision_seconds": {
            str(percent / 100): times[len(times) * percent // 100] for percent in percentiles
        },
    }
    return play, lines


def _seconds_since_entries(connection: Connection, now_ms: int) -> list[float | None]:
    """Return the seconds since the last backup, shortage of memory, and shortage of a CPU.

    They are read from the audit log, of which only the newest entries are searched. None stands for
    a kind of entry that is not among these.
    """
    columns = schema.audit.c
    newest_first = select(columns.kind, columns.at).order_by(desc(columns.id))
    searched = newest_first.limit(LATEST_ENTRIES).subquery().c
    kinds = (AuditKind.BACKUP, AuditKind.OUT_OF_MEMORY, AuditKind.STARVED)
    # One column for each kind, with the time of its newest entry.
    last_times = [func.max(case((searched.kind == kind, searched.at))) for kind in kinds]
    seconds: list[float | None] = []
    for last_ms in connection.execute(select(*last_times)).one():
        if last_ms is None:
            seconds.append(None)
        else:
            # 0 for an entry in the future, which there may be after a clock was set back.
            seconds.append(max(0, now_ms - last_ms) / 1000)
    return seconds


def _store_bytes(connection: Connection, path: Path | None) -> int:
    """Return the size of the ladder in bytes, with the write-ahead log of SQLite.

    path  the file of an SQLite ladder; None for PostgreSQL
    """
    if path is None:
        size = text("SELECT pg_database_size(current_database())")
        return int(connection.execute(size).scalar_one())
    files = (path, Path(f"{path}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


LastChanges: TypeAlias = tuple[int, ...]
"""Numbers by which a reader knows if a page has changed: any change of them means that it may have.

All of them only grow, except the number of games of closed seasons that are still in play. That one
grows again only if another season is closed, which adds an entry to the audit log.
"""
_INVISIBLE_KINDS = (
    AuditKind.CODE,
    AuditKind.TOKEN,
    AuditKind.SESSION,
    AuditKind.BACKUP,
    AuditKind.RUNNER,
    AuditKind.OUT_OF_MEMORY,
    AuditKind.STARVED,
)
"""Kinds of entries in the audit log that change no public page."""
_entries, _games, _person_games = schema.audit.c, schema.games.c, schema.person_games.c
_seasons, _analyses, _comparisons = schema.seasons.c, schema.analyses.c, schema.comparisons.c
_task_columns = schema.tasks.c
_LAST_ENTRY = (
    select(func.max(_entries.id)).where(_entries.kind.not_in(_INVISIBLE_KINDS)).scalar_subquery()
)
"""The last entry of the audit log that may change a page, such as a renamed author."""
_analysis_tasks = schema.tasks.alias().c
_LAST_ANALYSIS_CHANGE = (
    select(func.max(_analysis_tasks.change))
    .where(_analysis_tasks.kind == TaskKind.ANALYSIS)
    .scalar_subquery()
)
# With outer joins SQLite begins with the rows and looks up their tasks; else it would begin with
# all tasks of the kind.
_IS_COMPARISON = (_task_columns.kind == TaskKind.COMPARISON) & (
    _task_columns.subject == _comparisons.id
)
_LAST_COMPARISON_CHANGE = (
    select(func.max(_task_columns.change))
    .select_from(schema.comparisons.outerjoin(schema.tasks, _IS_COMPARISON))
    .where(_comparisons.season_id == _seasons.id)
    .scalar_subquery()
)
_closed_seasons = schema.seasons.alias("closed").c
_CLOSED_SEASON_IDS = select(_closed_seasons.id).where(_closed_seasons.closed_at.is_not(None))
_played_tasks = schema.tasks.alias("played").c
_GAMES_IN_PLAY = (
    select(func.count())
    .where(_played_tasks.kind == TaskKind.GAME, _played_tasks.state == TaskState.RUNNING)
    .where(_played_tasks.season_id.in_(_CLOSED_SEASON_IDS))
    .scalar_subquery()
)
"""The number of games of closed seasons that are still being played.

The seed of a season stays secret until there are none.
"""
_NAME: BindParameter[str] = bindparam("name")
_SEQ_OF_GAME = select(_games.seq).where(_games.game_id == _NAME).scalar_subquery()
_ID_OF_PERSON_GAME = (
    select(_person_games.id).where(_person_games.game_id == _NAME).scalar_subquery()
)
_IS_UNDER_WAY = _task_columns.state.in_((TaskState.QUEUED, TaskState.RUNNING))
_IS_ANALYSIS = (_task_columns.kind == TaskKind.ANALYSIS) & (_task_columns.subject == _analyses.id)
# Statements are constants, since building one takes longer than executing it.
_CHANGES_OF_GAME = (
    select(
        _LAST_ENTRY,
        _GAMES_IN_PLAY,
        func.max(_task_columns.change),
        # While an analysis of the game waits, its place in the queue changes with other analyses.
        case((func.max(case((_IS_UNDER_WAY, 1), else_=0)) == 1, _LAST_ANALYSIS_CHANGE), else_=0),
    )
    .select_from(schema.analyses.outerjoin(schema.tasks, _IS_ANALYSIS))
    .where(or_(_analyses.seq == _SEQ_OF_GAME, _analyses.person_game_id == _ID_OF_PERSON_GAME))
)
_CHANGES_OF_SEASON = select(
    _seasons.place, _GAMES_IN_PLAY, _LAST_ENTRY, _LAST_COMPARISON_CHANGE, _LAST_ANALYSIS_CHANGE
).where(_seasons.name == _NAME, _seasons.closed_at.is_not(None))


class Changes(StorePart):
    """Numbers that change whenever pages on played games or closed seasons may change."""

    def of_game(self, game_id: str) -> LastChanges:
        """Return the numbers of a played game, rated or of a person, and of its analyses."""
        numbers = self._read_changes(_CHANGES_OF_GAME, game_id)
        assert numbers is not None  # a maximum is always one row
        return numbers

    def of_season(self, name: str, *, analyses: bool = False) -> LastChanges | None:
        """Return numbers for a closed season: as long as they are equal, its pages are the same.

        None if the season is open or does not exist.

        name      the season's name
        analyses  True adds the number of the last change of an analysis, for pages that show
                  analyses. It is that of all seasons, which is found faster than a season's own.
        """
        numbers = self._read_changes(_CHANGES_OF_SEASON, name)
        if numbers is None or analyses:
            return numbers
        return numbers[:-1]  # the last one is that of the analyses

    def _read_changes(self, query: Select[Any], name: str) -> LastChanges | None:
        """Return the numbers in a query's only row, with 0 for NULL; None if there is no row.

        name  the name of the game or season, which is a parameter of the query
        """
        self._database.check_place()  # a reader of an old file would never see a change
        with self._database.read() as connection:
            row = connection.execute(query, {"name": name}).first()
        return None if row is None else tuple(number or 0 for number in row)
