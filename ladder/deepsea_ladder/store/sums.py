"""Sums over the games of a season: of versions, of pairs of them, and of versions from each seat.

Invariants: they are kept up in the transaction that stores a game, so that a few rows are read
however many games there are; `sum_differences` compares them with what the games give.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    Row,
    Select,
    Table,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    select,
    text,
    union_all,
    update,
)

from deepsea_ladder.model import StoredSeason
from deepsea_ladder.rating import Rating, RatingTotals
from deepsea_ladder.standings import OpponentLine, PairCell, SeatLine
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import StorePart
from deepsea_ladder.tournament import Score, summed_scores

_ratings, _pairs, _seats = schema.ratings, schema.pair_sums, schema.seat_sums
# Two selects, of which each has its index.
_MEETINGS = union_all(
    select(_pairs.c.other_id.label("id"), _pairs.c.games, _pairs.c.better, _pairs.c.level).where(
        _pairs.c.season_id == bindparam("season"), _pairs.c.version_id == bindparam("version")
    ),
    select(
        _pairs.c.version_id,
        _pairs.c.games,
        _pairs.c.games - _pairs.c.better - _pairs.c.level,
        _pairs.c.level,
    ).where(_pairs.c.season_id == bindparam("season"), _pairs.c.other_id == bindparam("version")),
).subquery()
_OPPONENTS = (
    select(_MEETINGS, func.count().over().label("opponents"))
    .add_columns(schema.bots.c.name, schema.bot_versions.c.number)
    .join(schema.bot_versions, schema.bot_versions.c.id == _MEETINGS.c.id)
    .join(schema.bots, schema.bots.c.id == schema.bot_versions.c.bot_id)
    .order_by(_MEETINGS.c.games.desc(), _MEETINGS.c.id)
)
"""The versions that a version met in a season, and how many there are of them."""


class Sums(StorePart):
    def opponents(
        self, season: StoredSeason, version_id: int, limit: int
    ) -> tuple[list[OpponentLine], int]:
        """A version against those that it met most often in the season, these first.

        And the number of all that it met; of those that are looked at, if one cannot be read.
        """
        rows, damage = self._database.read_undamaged(
            _OPPONENTS.limit(limit),
            _MEETINGS.c.id,
            lambda _, rows: list(rows),
            {"season": season.id, "version": version_id},
        )
        lines = [
            OpponentLine(
                bot=row.name,
                version=row.number,
                games=row.games,
                better=row.better,
                level=row.level,
                worse=row.games - row.better - row.level,
                share=_share(row.games, row.better, row.level),
            )
            for row in rows
        ]
        lines.sort(key=lambda line: (-line.games, line.bot, line.version))
        if damage:
            return lines, len(rows) + len(damage)
        return lines, rows[0].opponents if rows else 0

    def pairs(
        self, season: StoredSeason, versions: Sequence[int]
    ) -> dict[tuple[int, int], PairCell]:
        """The pairs of these versions that met, both ways: the first against the second."""
        query = select(_pairs).where(
            _pairs.c.season_id == season.id,
            _pairs.c.version_id.in_(versions),
            _pairs.c.other_id.in_(versions),
        )
        cells = {}
        with self._database.read() as connection:
            for _, version, other, games, better, level in connection.execute(query):
                ahead, behind = (
                    _share(games, wins, level) for wins in (better, games - better - level)
                )
                cells[version, other] = PairCell(games=games, share=ahead)
                cells[other, version] = PairCell(games=games, share=behind)
        return cells

    def seats(self, season: StoredSeason, version_id: int) -> tuple[list[SeatLine], int]:
        """A version's results in the season, per size of the table: of all seats, then of each.

        And the number of its games with faults of its own.
        """
        query = (
            select(_seats)
            .where(_seats.c.season_id == season.id, _seats.c.version_id == version_id)
            .order_by(_seats.c.players, _seats.c.seat)
        )
        with self._database.read() as connection:
            found = connection.execute(query).all()
        lines = []
        for _, group in groupby(found, key=attrgetter("players")):
            rows = list(group)
            lines += [_line(None, rows), *(_line(row.seat, [row]) for row in rows)]
        return lines, sum(row.faulty for row in found)

    def scores(self, season: StoredSeason) -> list[Score]:
        """The scores of all games of the season, the best first."""
        names = ("version_id", "players", "games", "wins", "points", "halves")
        query = select(*(_seats.c[name] for name in names)).where(_seats.c.season_id == season.id)
        with self._database.read() as connection:
            return summed_scores(map(tuple, connection.execute(query)))


def _share(games: int, better: int, level: int) -> float:
    """The share of games in which a bot was better, level counting half."""
    return (better + 0.5 * level) / games


def _line(seat: int | None, rows: Sequence[Row[Any]]) -> SeatLine:
    games, wins, placements, points, faults = (
        sum(map(attrgetter(name), rows))
        for name in ("games", "wins", "placements", "points", "faults")
    )
    return SeatLine(rows[0].players, seat, games, wins, placements / games, points / games, faults)


_own, _other = schema.game_seats.alias("own"), schema.game_seats.alias("other")


def _count(condition: Any) -> Any:
    return func.sum(case((condition, 1), else_=0))


def _counted(which: ColumnElement[bool]) -> dict[Table, Select[Any]]:
    """The sums that some games give, by table: its rows, in the order of its key."""
    ahead, level = _own.c.placement < _other.c.placement, _own.c.placement == _other.c.placement
    sat = (
        select(
            _own,
            func.count().label("players"),
            (2 * _count(ahead) + _count(level) - 1).label("halves"),
        )
        .join(_other, _other.c.seq == _own.c.seq)
        .where(which)
        .group_by(_own.c.seq, _own.c.seat)
        .subquery()
        .c
    )
    pair = (_own.c.season_id, _own.c.version_id, _other.c.version_id)
    seat = (sat.season_id, sat.version_id, sat.players, sat.seat)
    return {
        _pairs: select(*pair, func.count(), _count(ahead), _count(level))
        .join(_other, and_(_other.c.seq == _own.c.seq, _other.c.version_id > _own.c.version_id))
        .where(which)
        .group_by(*pair)
        .order_by(*pair),
        _seats: select(
            *(*seat, func.count(), _count(sat.placement == 1), func.sum(sat.placement)),
            *(func.sum(sat.points), func.sum(sat.faults), _count(sat.faults > 0)),
            func.sum(sat.halves),
        )
        .group_by(*seat)
        .order_by(*seat),
    }


def _adding(table: Table, counted: Select[Any]) -> Insert:
    """The statement that adds to rows of sums, or makes them."""
    # A text, since SQLAlchemy has this for each database in a module that takes long to import.
    keys = [column.name for column in table.primary_key]
    sums = [column.name for column in table.c if column.name not in keys]
    more = (f"{one} = {table.name}.{one} + excluded.{one}" for one in sums)
    there = text(f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {', '.join(more)}")
    return insert(table).from_select(list(table.c), counted.order_by(None).suffix_with(there))


_ADD = [_adding(*one) for one in _counted(_own.c.seq == bindparam("seq")).items()]
_COUNTED = _counted(_own.c.season_id == bindparam("season"))


def add_sums(connection: Connection, seq: int) -> None:
    """Add a game."""
    for statement in _ADD:
        connection.execute(statement, {"seq": seq})


_seasons, _games = schema.seasons, schema.games
_PLAYED = select(func.count()).where(_games.c.season_id == _seasons.c.id).scalar_subquery()


def count_sums(connection: Connection, season: StoredSeason) -> None:
    """Make the sums of a season anew, from its games."""
    connection.execute(update(_seasons).where(_seasons.c.id == season.id).values(games=_PLAYED))
    for table, counted in _COUNTED.items():
        connection.execute(delete(table).where(table.c.season_id == season.id))
        rows = insert(table).from_select(list(table.columns), counted.order_by(None))
        connection.execute(rows, {"season": season.id})


def sum_differences(connection: Connection, season: StoredSeason) -> Iterator[str]:
    """The first difference of each table of sums from what the games give."""
    games = select(_seasons.c.games).where(_seasons.c.id == season.id)
    found: list[tuple[str, Select[Any], Select[Any]]]
    found = [("seasons, column games", games, games.with_only_columns(_PLAYED))]
    for table, counted in _COUNTED.items():
        kept = select(table).where(table.c.season_id == season.id)
        found.append((table.name, kept.order_by(*table.primary_key), counted))
    for name, *both in found:
        ours, made = (query.execution_options(yield_per=2000) for query in both)
        of_season = {"season": season.id}
        with (
            connection.execute(ours, of_season) as stored_rows,
            connection.execute(made, of_season) as given_rows,
        ):
            for pair in zip_longest(stored_rows, given_rows):
                if pair[0] != pair[1]:
                    stored, given = (row and tuple(map(int, row)) for row in pair)
                    yield f"table {name}: there is {stored}, the games give {given}"
                    break


# The totals of versions

_TOTALS = tuple(field.name for field in fields(RatingTotals) if field.name != "rating")
_RATING_KEY: dict[Any, Any] = {
    _ratings.c.season_id: bindparam("of_season"),
    _ratings.c.version_id: bindparam("of_version"),
}
_RATING_VALUES: dict[Any, Any] = {
    column: bindparam(column.name) for column in _ratings.c if column not in _RATING_KEY
}
_INSERT_RATING = insert(_ratings).values(_RATING_KEY | _RATING_VALUES)
_UPDATE_RATING = (
    update(_ratings)
    .where(*(column == key for column, key in _RATING_KEY.items()))
    .values(_RATING_VALUES)
)
_RATINGS_OF_SEASON = select(_ratings).where(_ratings.c.season_id == bindparam("season"))
_RATINGS_OF_VERSIONS = _RATINGS_OF_SEASON.where(
    _ratings.c.version_id.in_(bindparam("versions", expanding=True))
)


def read_tallies(
    connection: Connection,
    season: StoredSeason,
    versions: Sequence[int] | None = None,
) -> dict[int, RatingTotals]:
    """The tallies of a season, or of some versions in it; who has not played has none."""
    if versions is None:
        rows = connection.execute(_RATINGS_OF_SEASON, {"season": season.id})
    else:
        rows = connection.execute(_RATINGS_OF_VERSIONS, {"season": season.id, "versions": versions})
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
    for statement, is_known in ((_UPDATE_RATING, True), (_INSERT_RATING, False)):
        wanted = [row for row in rows if (row["of_version"] in known) is is_known]
        if wanted:
            connection.execute(statement, wanted)


def _columns(tally: RatingTotals) -> dict[str, Any]:
    mu, sigma = tally.rating.to_hex()
    return {"mu": mu, "sigma": sigma} | {name: getattr(tally, name) for name in _TOTALS}


def tally_of(row: Row[Any]) -> RatingTotals:
    rating = Rating.from_hex(row.mu, row.sigma)
    return RatingTotals(rating, **{name: getattr(row, name) for name in _TOTALS})
