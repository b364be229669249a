"""Numbers of a whole ladder, for its operator.

Invariants: one snapshot, which keeps no writer waiting; what is read grows with what waits, with
lost attempts, seasons and versions, never with games.

The last changes of what is over: games that were played, seasons that are closed.

Invariants: what pages show of a game that was played, or of a closed season, is a function of the
numbers here: as long as these are the same, so is that; to read them takes as long on a ladder with
a million games as on a new one. The number of games that closed seasons still have in play is among
them, since the seed is shown when there is none.
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

LATELY = 1_000
"""The number of newest submissions that are counted by state."""
NEWEST_GAMES = 100
"""The number of newest games whose records are read."""
_ratings, _tasks, _rests = schema.ratings.c, schema.tasks.c, schema.rests.c
_playing_seasons = select(schema.seasons.c.id).where(schema.seasons.c.paused_at.is_(None))
QUEUES = {
    TaskKind.GAME: "games",
    TaskKind.CHECK: "submissions",
    TaskKind.ANALYSIS: "analyses",
    TaskKind.COMPARISON: "comparisons",
    TaskKind.STEP: "games of people",
}
"""The names of kinds of tasks in counts."""


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
    .limit(LATELY)
)


class Counts(StorePart):
    def is_stalled(self) -> bool:
        """True if something waits, and no runner has renewed a lease or rests.

        Reads only the queues, and who rests.
        """
        with self._database.read() as connection:
            now_ms = now(connection)
            queues, runners = _queues(connection, now_ms), _runners(connection, now_ms)
        waiting = {name: load.waiting for name, load in queues.items()}
        expired = {name: load.expired for name, load in queues.items()}
        return is_stalled(waiting, expired, len(runners))

    def read(self) -> LadderCounts:
        damage = Seasons(self._database, self._policy).damages()
        with self._database.read() as connection:
            values = damage_in_small_tables(connection)
            damage = [line for line in damage if not any(value[:-10] in line for value in values)]
            now_ms = now(connection)
            queues, runners = _queues(connection, now_ms), _runners(connection, now_ms)
            sums = connection.execute(_SUMS).one()
            play, damaged_records = _recent_play(connection)
            backup_age, shortage_age, starved_age = _ages(connection, now_ms)
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
                store_bytes=_size(connection, self._database.path),
                disk_free_bytes=self._database.free_bytes(),
                backup_age_seconds=backup_age,
                shortage_age_seconds=shortage_age,
                starved_age_seconds=starved_age,
                damage=(*values, *damage, *damaged_records),
                **play,
            )


def _queues(connection: Connection, now_ms: int) -> dict[str, QueueLoad]:
    """The load of each queue: tasks that wait and tasks that are leased."""
    is_played = _tasks.season_id.is_(None) | _tasks.season_id.in_(_playing_seasons)
    by_kind = loads(connection, now_ms, _tasks.kind, tuple(TaskKind), is_played)
    return {name: by_kind.get(kind, NO_LOAD) for kind, name in QUEUES.items()}


def _runners(connection: Connection, now_ms: int) -> dict[str, str | None]:
    """The runners that have renewed a lease in time, and those that rest, with the reason."""
    is_leased = _tasks.state == TaskState.RUNNING
    leases = select(_tasks.owner).where(_tasks.kind.in_(TaskKind), is_leased, _tasks.until > now_ms)
    owners = dict.fromkeys(connection.execute(leases.distinct()).scalars())
    resting = connection.execute(select(_rests.owner, _rests.words).where(_rests.until > now_ms))
    # A runner that has a lease again rests no more, until whenever it had noted.
    return {row.owner: row.words for row in resting} | owners


def _recent_play(connection: Connection) -> tuple[dict[str, Any], list[str]]:
    """Decisions of bots in the newest games, of which alone the records are read; and a line for
    each record that is damaged."""
    games = schema.games
    # Unpacked here, each by itself: one that is damaged keeps nobody from the others.
    content = type_coerce(games.c.record, LargeBinary)
    newest = select(games.c.seq, games.c.game_id, content).order_by(desc(games.c.seq))
    sizes: list[int] = []
    times: list[float] = []
    faults: Counter[str] = Counter()
    damaged: list[str] = []
    for seq, game_id, packed in connection.execute(newest.limit(NEWEST_GAMES)):
        try:
            record = unpacked(packed)
            decisions = json.loads(record)["decisions"]
            seconds = [one["us"] / 1_000_000 for one in decisions]
            faulty = [one["fault"] for one in decisions if one.get("fault")]
        except (StoreDamaged, *UNREADABLE_ERRORS) as error:
            damaged.append(f"table games, row {seq}: the record of {game_id} is damaged: {error}")
            continue
        sizes.append(len(record))
        times += seconds
        faults.update(faulty)
    times.sort()
    play = {
        "recent_games": len(sizes),
        "recent_record_bytes": sum(sizes),
        "recent_faults": dict(faults),
        "recent_decision_seconds": {
            str(part / 100): times[len(times) * part // 100] for part in (50, 90, 99) if times
        },
    }
    return play, damaged


def _ages(connection: Connection, now_ms: int) -> list[float | None]:
    """The seconds since the last backup, and the last shortage of memory and of a CPU; None if
    there is none in the newest entries of the log."""
    columns = schema.audit.c
    entries = select(columns.kind, columns.at).order_by(desc(columns.id)).limit(LATEST_ENTRIES)
    newest = entries.subquery().c
    kinds = (AuditKind.BACKUP, AuditKind.OUT_OF_MEMORY, AuditKind.STARVED)
    last = [func.max(case((newest.kind == kind, newest.at))) for kind in kinds]
    times = connection.execute(select(*last)).one()
    return [None if time is None else max(0, now_ms - time) / 1000 for time in times]


def _size(connection: Connection, path: Path | None) -> int:
    """The bytes of the ladder, with the log of an SQLite one."""
    if path is None:
        size = text("SELECT pg_database_size(current_database())")
        return int(connection.execute(size).scalar_one())
    files = (path, Path(f"{path}-wal"))
    return sum(one.stat().st_size for one in files if one.exists())


LastChanges: TypeAlias = tuple[int, ...]
"""Numbers to be compared. All of them grow, but for the games in play, which become fewer until
another season is closed, which is an entry."""
_INVISIBLE = (
    AuditKind.CODE,
    AuditKind.TOKEN,
    AuditKind.SESSION,
    AuditKind.BACKUP,
    AuditKind.RUNNER,
    AuditKind.OUT_OF_MEMORY,
    AuditKind.STARVED,
)
"""Entries of the audit log that change nothing that everybody sees."""
_entries, _games, _people = schema.audit.c, schema.games.c, schema.person_games.c
_seasons, _analyses, _comparisons = schema.seasons.c, schema.analyses.c, schema.comparisons.c
_task_columns = schema.tasks.c
_LAST_ENTRY = (
    select(func.max(_entries.id)).where(_entries.kind.not_in(_INVISIBLE)).scalar_subquery()
)
"""The last entry that pages show: names of authors, bots that come and go, seasons, new ratings."""
_any_task = schema.tasks.alias().c
_LAST_ANALYSIS = (
    select(func.max(_any_task.change)).where(_any_task.kind == TaskKind.ANALYSIS).scalar_subquery()
)
# Outer joins: SQLite looks up the tasks of rows, and does not begin with all tasks of a kind.
_IS_COMPARISON = (_task_columns.kind == TaskKind.COMPARISON) & (
    _task_columns.subject == _comparisons.id
)
_LAST_BLOCK = (
    select(func.max(_task_columns.change))
    .select_from(schema.comparisons.outerjoin(schema.tasks, _IS_COMPARISON))
    .where(_comparisons.season_id == _seasons.id)
    .scalar_subquery()
)
_closed = schema.seasons.alias("closed").c
_CLOSED = select(_closed.id).where(_closed.closed_at.is_not(None))
_played_tasks = schema.tasks.alias("played").c
_IN_PLAY = (
    select(func.count())
    .where(_played_tasks.kind == TaskKind.GAME, _played_tasks.state == TaskState.RUNNING)
    .where(_played_tasks.season_id.in_(_CLOSED))
    .scalar_subquery()
)
"""The number of games of closed seasons that are leased: as long as there are any, their seasons'
seeds are secret."""
_NAME: BindParameter[str] = bindparam("name")
_RATED = select(_games.seq).where(_games.game_id == _NAME).scalar_subquery()
_PERSONS = select(_people.id).where(_people.game_id == _NAME).scalar_subquery()
_WAITS = _task_columns.state.in_((TaskState.QUEUED, TaskState.RUNNING))
_IS_ANALYSIS = (_task_columns.kind == TaskKind.ANALYSIS) & (_task_columns.subject == _analyses.id)
# Made once: to make a statement takes longer than to send it.
_OF_GAME = (
    select(
        _LAST_ENTRY,
        _IN_PLAY,
        func.max(_task_columns.change),
        # As long as one waits, what is done before it counts.
        case((func.max(case((_WAITS, 1), else_=0)) == 1, _LAST_ANALYSIS), else_=0),
    )
    .select_from(schema.analyses.outerjoin(schema.tasks, _IS_ANALYSIS))
    .where(or_(_analyses.seq == _RATED, _analyses.person_game_id == _PERSONS))
)
_OF_SEASON = select(_seasons.place, _IN_PLAY, _LAST_ENTRY, _LAST_BLOCK, _LAST_ANALYSIS).where(
    _seasons.name == _NAME, _seasons.closed_at.is_not(None)
)


class Changes(StorePart):
    def of_game(self, game_id: str) -> LastChanges:
        """The last changes of a game that was played, rated or a person's, with its analyses."""
        numbers = self._numbers(_OF_GAME, game_id)
        assert numbers is not None  # a maximum is always one row
        return numbers

    def of_season(self, name: str, *, analyses: bool = False) -> LastChanges | None:
        """The last changes of a closed season; None of one that is open, or is not there.

        analyses  those of games count, too: of all seasons, so that no game is looked up
        """
        numbers = self._numbers(_OF_SEASON, name)
        return numbers if numbers is None or analyses else numbers[:-1]

    def _numbers(self, query: Select[Any], name: str) -> LastChanges | None:
        self._database.check_place()
        with self._database.read() as connection:
            row = connection.execute(query, {"name": name}).first()
        return None if row is None else tuple(number or 0 for number in row)
