"""Versions of bots with their bots and authors, and with their totals in a season."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, insert, select, update

from deepsea_ladder.errors import StoreDamaged
from deepsea_ladder.model import BotVersion, StoredSeason
from deepsea_ladder.rating.totals import RatingTotals
from deepsea_ladder.rating.trueskill_fold import Rating
from deepsea_ladder.store import schema

_versions, _ratings = schema.bot_versions, schema.ratings
SELECT_VERSIONS: Select[Any] = (
    select(
        _versions.c.id.label("version_id"),
        _versions.c.number,
        _versions.c.digest,
        _versions.c.created_at.label("submitted_at"),
        schema.bots.c.id.label("bot_id"),
        schema.bots.c.name,
        schema.bots.c.name_key,
        schema.bots.c.state,
        schema.bots.c.reason,
        schema.bots.c.changed_at,
        schema.bots.c.author_id,
        schema.authors.c.name.label("author"),
    )
    .join(schema.bots, schema.bots.c.id == _versions.c.bot_id)
    .join(schema.authors, schema.authors.c.id == schema.bots.c.author_id)
)
IS_CURRENT = _versions.c.number == schema.bots.c.version
"""Of a version with its bot: whether it is the one that plays."""
# Looked up bot by bot: former versions are not read.
CURRENT_IDS = select(
    select(_versions.c.id)
    .where(_versions.c.bot_id == schema.bots.c.id, IS_CURRENT)
    .correlate(schema.bots)
    .scalar_subquery()
).select_from(schema.bots)
_BY_ID = SELECT_VERSIONS.where(_versions.c.id.in_(bindparam("ids", expanding=True)))
_OF_JOB = (
    SELECT_VERSIONS.join(schema.job_seats, schema.job_seats.c.version_id == _versions.c.id)
    .where(schema.job_seats.c.job_id == bindparam("job"))
    .order_by(schema.job_seats.c.seat)
)


def versions_by_id(connection: Connection, ids: list[int]) -> dict[int, BotVersion]:
    """The versions with these ids; `StoreDamaged` for one that is not there."""
    rows = connection.execute(_BY_ID, {"ids": ids})
    versions = {row.version_id: version_of(row) for row in rows}
    for version in ids:
        if version not in versions:
            raise StoreDamaged(
                f"table bot_versions, row {version}: it is gone, or its bot, or its author"
            )
    return versions


def versions_of(connection: Connection, job_id: int) -> tuple[BotVersion, ...]:
    """The line-up of a job: the version in each seat."""
    found = tuple(version_of(row) for row in connection.execute(_OF_JOB, {"job": job_id}))
    if not found:
        raise StoreDamaged(f"job {job_id} has no line-up")
    return found


def version_of(row: Row[Any]) -> BotVersion:
    """The version in a row of `SELECT_VERSIONS`."""
    for name in (row.name, row.author):
        if not isinstance(name, str):  # SQLite takes bytes too, and they would be printed
            raise StoreDamaged(f"version {row.version_id}: the name {name!r} is not a text")
    return BotVersion(
        id=row.version_id,
        bot=row.name,
        author=row.author,
        number=row.number,
        digest=row.digest,
        created_at=row.submitted_at,
    )


_SUMS = tuple(field.name for field in fields(RatingTotals) if field.name != "rating")
_KEY: dict[Any, Any] = {
    _ratings.c.season_id: bindparam("of_season"),
    _ratings.c.version_id: bindparam("of_version"),
}
_VALUES: dict[Any, Any] = {
    column: bindparam(column.name) for column in _ratings.c if column not in _KEY
}
_INSERT = insert(_ratings).values(_KEY | _VALUES)
_UPDATE = update(_ratings).where(*(column == key for column, key in _KEY.items())).values(_VALUES)
_OF_SEASON = select(_ratings).where(_ratings.c.season_id == bindparam("season"))
_OF_VERSIONS = _OF_SEASON.where(_ratings.c.version_id.in_(bindparam("versions", expanding=True)))


def read_tallies(
    connection: Connection,
    season: StoredSeason,
    versions: Sequence[int] | None = None,
) -> dict[int, RatingTotals]:
    """The tallies of a season, or of some versions in it; who has not played has none."""
    if versions is None:
        rows = connection.execute(_OF_SEASON, {"season": season.id})
    else:
        rows = connection.execute(_OF_VERSIONS, {"season": season.id, "versions": versions})
    return {row.version_id: tally_of(row) for row in rows}


def write_tallies(
    connection: Connection,
    season: StoredSeason,
    tallies: Mapping[int, RatingTotals],
    known: Container[int],
) -> None:
    """Store tallies by version; those of `known` versions are there already."""
    rows = [
        {"of_season": season.id, "of_version": version} | _columns(tally)
        for version, tally in tallies.items()
    ]
    for statement, is_known in ((_UPDATE, True), (_INSERT, False)):
        wanted = [row for row in rows if (row["of_version"] in known) is is_known]
        if wanted:
            connection.execute(statement, wanted)


def _columns(tally: RatingTotals) -> dict[str, Any]:
    mu, sigma = tally.rating.to_hex()
    return {"mu": mu, "sigma": sigma} | {name: getattr(tally, name) for name in _SUMS}


def tally_of(row: Row[Any]) -> RatingTotals:
    rating = Rating.from_hex(row.mu, row.sigma)
    return RatingTotals(rating, **{name: getattr(row, name) for name in _SUMS})
