"""How far a ladder is.

Invariant: whatever standings, games, bots or analyses show is a function of the revision: two
states of one ladder have the same one only if they show the same.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import func, select

from deepsea_ladder.accounts import AuditKind
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import Database
from deepsea_ladder.store.versions import visible

_games = schema.games
_PRIVATE = (AuditKind.CODE, AuditKind.TOKEN, AuditKind.SESSION, AuditKind.BACKUP)
"""Entries that change no page for strangers: a login must not empty their cache."""


class Revision(NamedTuple):
    """A state of a ladder; each number only grows."""

    game: int
    """The last game, in the order in which games are rated."""
    entry: int
    """The last entry of the audit log that everybody can see the effect of: bots that come and go,
    seasons, names of authors, ratings made anew."""
    places: int
    """The last places of all seasons' chains together: games, and attempts without a result."""
    seasons: int
    """How many seasons there are to look at: one more when an embargo ends."""
    analyses: int
    """The last change of an analysis."""
    comparisons: int
    """The last change of a comparison, or its last block."""


def read_revision(database: Database, *, public: bool) -> Revision:
    """The revision now; quick however many games there are."""
    seasons, seen = schema.seasons, visible(public=public)
    # One look into an index for each season, so that old games are not read.
    last_of = (
        select(func.max(_games.c.seq)).where(_games.c.season_id == seasons.c.id).scalar_subquery()
    )
    query = select(
        select(func.max(last_of)).where(seen).scalar_subquery(),
        select(func.max(schema.audit.c.id))
        .where(schema.audit.c.kind.not_in(_PRIVATE))
        .scalar_subquery(),
        select(func.sum(seasons.c.place)).where(seen).scalar_subquery(),
        select(func.count(seasons.c.id)).where(seen).scalar_subquery(),
        select(func.max(schema.analyses.c.change)).scalar_subquery(),
        select(func.max(schema.comparisons.c.change)).scalar_subquery(),
    )
    with database.read() as connection:
        return Revision(*(int(one or 0) for one in connection.execute(query).one()))
