"""The end of each season's chain: the place and head of its last game or attempt.

Invariant: a new link follows on the season's last one, in the writer's transaction.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import Connection, bindparam, select, update

from deepsea_ladder.chain import Line, next_head
from deepsea_ladder.store import schema

_seasons = schema.seasons
_LAST: Final = select(_seasons.c.name, _seasons.c.place, _seasons.c.head).where(
    _seasons.c.id == bindparam("season")
)
_ADD: Final = update(_seasons).where(_seasons.c.id == bindparam("season"))


class LastLink(NamedTuple):
    """The end of a season's chain."""

    season: str
    place: int
    head: str


def last_link(connection: Connection, season_id: int) -> LastLink:
    """The last place of a season and its head; place 0 has the season's commitment."""
    row = connection.execute(_LAST, {"season": season_id}).one()
    return LastLink(row.name, row.place, row.head)


def add_link(connection: Connection, season_id: int, last: LastLink, line: Line) -> str:
    """Let a line follow on the last one; returns the new head."""
    head = next_head(last.head, line)
    connection.execute(_ADD, {"season": season_id, "place": last.place + 1, "head": head})
    return head
