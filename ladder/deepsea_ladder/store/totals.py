"""Reads and writes rating totals in the caller's transaction.

Invariant: a rating goes through `float.hex()` both ways, so no bit of it is lost.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, func, insert, select, update

from deepsea_ladder.model.seasons import StoredSeason
from deepsea_ladder.rating.totals import RatingTotals
from deepsea_ladder.rating.trueskill_fold import Rating
from deepsea_ladder.store import schema

_ratings = schema.ratings
_KEY: Final[dict[Any, Any]] = {
    _ratings.c.season_id: bindparam("of_season"),
    _ratings.c.version_id: bindparam("of_version"),
}
_VALUES: Final[dict[Any, Any]] = {
    column: bindparam(column.name) for column in _ratings.c if column not in _KEY
}
_INSERT: Final = insert(_ratings).values(_KEY | _VALUES)
_UPDATE: Final = (
    update(_ratings).where(*(column == key for column, key in _KEY.items())).values(_VALUES)
)
_OF_SEASON: Final = select(_ratings).where(_ratings.c.season_id == bindparam("season"))
_OF_VERSIONS: Final = _OF_SEASON.where(
    _ratings.c.version_id.in_(bindparam("versions", expanding=True))
)
_LAST_SEQ: Final = select(func.max(schema.games.c.seq))


def last_seq(connection: Connection) -> int:
    """The number of the last game; only the writer may count on it."""
    return connection.execute(_LAST_SEQ).scalar() or 0


def read_tallies(
    connection: Connection, season: StoredSeason, versions: Sequence[int] | None = None
) -> dict[int, RatingTotals]:
    """The tallies of a season, or of some versions in it; who has not played has none."""
    if versions is None:
        rows = connection.execute(_OF_SEASON, {"season": season.id})
    else:
        rows = connection.execute(_OF_VERSIONS, {"season": season.id, "versions": versions})
    return {row.version_id: _tally(row) for row in rows}


def write_tallies(
    connection: Connection,
    season: StoredSeason,
    tallies: Mapping[int, RatingTotals],
    known: Container[int],
) -> None:
    """Store tallies by version; those of `known` versions are there already."""
    rows = [
        {"of_season": season.id, "of_version": version} | columns(tally)
        for version, tally in tallies.items()
    ]
    for statement, is_known in ((_UPDATE, True), (_INSERT, False)):
        wanted = [row for row in rows if (row["of_version"] in known) is is_known]
        if wanted:
            connection.execute(statement, wanted)


def columns(tally: RatingTotals) -> dict[str, Any]:
    """A tally as its row has it."""
    mu, sigma = tally.rating.to_hex()
    return {
        "mu": mu,
        "sigma": sigma,
        "games": tally.games,
        "wins": tally.wins,
        "placements": tally.placements,
        "points": tally.points,
        "decisions": tally.decisions,
        "faults": tally.faults,
        "forfeits": tally.forfeits,
        "last_seq": tally.last_seq,
        "last_at": tally.last_at,
    }


def _tally(row: Row[Any]) -> RatingTotals:
    return RatingTotals(
        rating=Rating.from_hex(row.mu, row.sigma),
        games=row.games,
        wins=row.wins,
        placements=row.placements,
        points=row.points,
        decisions=row.decisions,
        faults=row.faults,
        forfeits=row.forfeits,
        last_seq=row.last_seq,
        last_at=row.last_at,
    )
