"""The last changes of what is over: games that were played, seasons that are closed.

Invariants: what pages show of a game that was played, or of a closed season, is a function of the
numbers here: as long as these are the same, so is that; to read them takes as long on a ladder with
a million games as on a new one.
"""

from __future__ import annotations

from typing import TypeAlias

from sqlalchemy import case, func, or_, select

from deepsea_ladder.accounts import AuditKind
from deepsea_ladder.model.games import AnalysisState
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import StorePart
from deepsea_ladder.store.versions import visible

LastChanges: TypeAlias = tuple[int, ...]
"""Numbers that only grow, to be compared."""
_INVISIBLE = (AuditKind.CODE, AuditKind.TOKEN, AuditKind.SESSION, AuditKind.BACKUP)
"""Entries of the audit log that change nothing that everybody sees."""
_entries, _games, _people = schema.audit.c, schema.games.c, schema.person_games.c
_LAST_ENTRY = (
    select(func.max(_entries.id)).where(_entries.kind.not_in(_INVISIBLE)).scalar_subquery()
)
"""Of an author's name, of bots that come and go, of seasons, of ratings that were made anew."""
_LAST_ANALYSIS = select(func.max(schema.analyses.alias().c.change)).scalar_subquery()


class Changes(StorePart):
    def of_game(self, game_id: str) -> LastChanges:
        """The last changes of a game that was played, rated or a person's, with its analyses."""
        analyses = schema.analyses.c
        rated = select(_games.seq).where(_games.game_id == game_id).scalar_subquery()
        persons = select(_people.id).where(_people.game_id == game_id).scalar_subquery()
        waits = analyses.state.in_((AnalysisState.QUEUED, AnalysisState.RUNNING))
        query = select(
            _LAST_ENTRY,
            func.max(analyses.change),
            # As long as one waits, what is done before it counts.
            case((func.max(case((waits, 1), else_=0)) == 1, _LAST_ANALYSIS), else_=0),
        ).where(or_(analyses.seq == rated, analyses.person_game_id == persons))
        self._database.check_place()
        with self._database.read() as connection:
            return tuple(number or 0 for number in connection.execute(query).one())

    def of_season(self, name: str, *, analyses: bool = False) -> LastChanges | None:
        """The last changes of a closed season; None of one that is open, or is not there.

        analyses  those of games count, too: of all seasons, so that no game is looked up
        """
        seasons, comparisons = schema.seasons.c, schema.comparisons.c
        last_block = select(func.max(comparisons.change)).where(comparisons.season_id == seasons.id)
        query = select(
            seasons.place,
            _LAST_ENTRY,
            last_block.scalar_subquery(),
            *([_LAST_ANALYSIS] if analyses else ()),
        ).where(seasons.name == name, seasons.closed_at.is_not(None), visible(public=self._public))
        self._database.check_place()
        with self._database.read() as connection:
            row = connection.execute(query).first()
            return None if row is None else tuple(number or 0 for number in row)
