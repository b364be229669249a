"""The last changes of what is over: games that were played, seasons that are closed.

Invariants: what pages show of a game that was played, or of a closed season, is a function of the
numbers here: as long as these are the same, so is that; to read them takes as long on a ladder with
a million games as on a new one. The number of games that closed seasons still have in play is among
them, since the seed is shown when there is none.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from sqlalchemy import BindParameter, Select, bindparam, case, func, or_, select

from deepsea_ladder.accounts import AuditKind
from deepsea_ladder.model import TaskKind, TaskState
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import StorePart

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
_tasks = schema.tasks.c
_LAST_ENTRY = (
    select(func.max(_entries.id)).where(_entries.kind.not_in(_INVISIBLE)).scalar_subquery()
)
"""The last entry that pages show: names of authors, bots that come and go, seasons, new ratings."""
_any_task = schema.tasks.alias().c
_LAST_ANALYSIS = (
    select(func.max(_any_task.change)).where(_any_task.kind == TaskKind.ANALYSIS).scalar_subquery()
)
# Outer joins: SQLite looks up the tasks of rows, and does not begin with all tasks of a kind.
_IS_COMPARISON = (_tasks.kind == TaskKind.COMPARISON) & (_tasks.subject == _comparisons.id)
_LAST_BLOCK = (
    select(func.max(_tasks.change))
    .select_from(schema.comparisons.outerjoin(schema.tasks, _IS_COMPARISON))
    .where(_comparisons.season_id == _seasons.id)
    .scalar_subquery()
)
_closed = schema.seasons.alias("closed").c
_CLOSED = select(_closed.id).where(_closed.closed_at.is_not(None))
_played = schema.tasks.alias("played").c
_IN_PLAY = (
    select(func.count())
    .where(_played.kind == TaskKind.GAME, _played.state == TaskState.RUNNING)
    .where(_played.season_id.in_(_CLOSED))
    .scalar_subquery()
)
"""The number of games of closed seasons that are leased: as long as there are any, their seasons'
seeds are secret."""
_NAME: BindParameter[str] = bindparam("name")
_RATED = select(_games.seq).where(_games.game_id == _NAME).scalar_subquery()
_PERSONS = select(_people.id).where(_people.game_id == _NAME).scalar_subquery()
_WAITS = _tasks.state.in_((TaskState.QUEUED, TaskState.RUNNING))
_IS_ANALYSIS = (_tasks.kind == TaskKind.ANALYSIS) & (_tasks.subject == _analyses.id)
# Made once: to make a statement takes longer than to send it.
_OF_GAME = (
    select(
        _LAST_ENTRY,
        _IN_PLAY,
        func.max(_tasks.change),
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
