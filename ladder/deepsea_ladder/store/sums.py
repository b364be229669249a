"""Sums over the games of a season: of bot versions, of pairs of them, and of versions by seat.

Invariants: the sums are updated in the transaction that stores a game, so that few rows are read
however many games there are; `sum_differences` compares them with those counted from the games.
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

_ratings, _pair_sums, _seat_sums = schema.ratings, schema.pair_sums, schema.seat_sums
# A pair is stored once, with the lower id first. So the versions that a version met are those of
# two selects, each of which has an index.
_MEETINGS_OF_VERSION = union_all(
    select(
        _pair_sums.c.other_id.label("id"),
        _pair_sums.c.games,
        _pair_sums.c.better,
        _pair_sums.c.level,
    ).where(
        _pair_sums.c.season_id == bindparam("season"),
        _pair_sums.c.version_id == bindparam("version"),
    ),
    select(
        _pair_sums.c.version_id,
        _pair_sums.c.games,
        _pair_sums.c.games - _pair_sums.c.better - _pair_sums.c.level,
        _pair_sums.c.level,
    ).where(
        _pair_sums.c.season_id == bindparam("season"), _pair_sums.c.other_id == bindparam("version")
    ),
).subquery()
_OPPONENTS_OF_VERSION = (
    select(_MEETINGS_OF_VERSION, func.count().over().label("opponents"))
    .add_columns(schema.bots.c.name, schema.bot_versions.c.number)
    .join(schema.bot_versions, schema.bot_versions.c.id == _MEETINGS_OF_VERSION.c.id)
    .join(schema.bots, schema.bots.c.id == schema.bot_versions.c.bot_id)
    .order_by(_MEETINGS_OF_VERSION.c.games.desc(), _MEETINGS_OF_VERSION.c.id)
)
"""The versions that a version met in a season; each row has the number of all of them."""


class Sums(StorePart):
    """The store's part for results that are read from sums."""

    def opponents(
        self, season: StoredSeason, version_id: int, limit: int
    ) -> tuple[list[OpponentLine], int]:
        """Return a version's results against its most frequent opponents, and their full number.

        The list has at most `limit` opponents, the most frequent first. If a row cannot be read, it
        is left out, and the number is that of the rows that were looked at.
        """

        def unchanged(_: Connection, rows: Sequence[Row[Any]]) -> list[Row[Any]]:
            return list(rows)

        rows, damage = self._database.read_undamaged(
            _OPPONENTS_OF_VERSION.limit(limit),
            _MEETINGS_OF_VERSION.c.id,
            unchanged,
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
        """Return the results of each pair of versions that met in a season, by the two ids.

        The value is the result of the first version of the key against the second. Each pair has
        two keys, one for each order.
        """
        query = select(_pair_sums).where(
            _pair_sums.c.season_id == season.id,
            _pair_sums.c.version_id.in_(versions),
            _pair_sums.c.other_id.in_(versions),
        )
        cells = {}
        with self._database.read() as connection:
            for row in connection.execute(query):
                # Games in which the first version had the better, the same, or the worse placement.
                better, tied = row.better, row.level
                worse = row.games - better - tied
                own_share = _share(row.games, better, tied)
                other_share = _share(row.games, worse, tied)
                cells[row.version_id, row.other_id] = PairCell(games=row.games, share=own_share)
                cells[row.other_id, row.version_id] = PairCell(games=row.games, share=other_share)
        return cells

    def seats(self, season: StoredSeason, version_id: int) -> tuple[list[SeatLine], int]:
        """Return a version's results by seat, and the number of its games in which it had faults.

        For each number of players there is a line for all seats together, then one for each seat.
        """
        query = (
            select(_seat_sums)
            .where(_seat_sums.c.season_id == season.id, _seat_sums.c.version_id == version_id)
            .order_by(_seat_sums.c.players, _seat_sums.c.seat)
        )
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        lines = []
        for _, group in groupby(rows, key=attrgetter("players")):
            seat_rows = list(group)
            lines.append(_seat_line(None, seat_rows))
            lines += [_seat_line(row.seat, [row]) for row in seat_rows]
        games_with_faults = sum(row.faulty for row in rows)
        return lines, games_with_faults

    def scores(self, season: StoredSeason) -> list[Score]:
        """Return the scores of all bots over the season's games, the best first."""
        # The columns that `summed_scores` takes, in its order.
        sums = _seat_sums.c
        columns = (sums.version_id, sums.players, sums.games, sums.wins, sums.points, sums.halves)
        query = select(*columns).where(sums.season_id == season.id)
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        return summed_scores([tuple(row) for row in rows])


def _share(games: int, better: int, level: int) -> float:
    """Return the share of games in which a bot was better; level games count half."""
    return (better + 0.5 * level) / games


def _seat_line(seat: int | None, rows: Sequence[Row[Any]]) -> SeatLine:
    """Return the line on a version's results in one seat, or in several seats together.

    seat  None for several seats together
    rows  the sums of these seats, all in games with the same number of players
    """
    games = sum(row.games for row in rows)
    return SeatLine(
        players=rows[0].players,
        seat=seat,
        games=games,
        wins=sum(row.wins for row in rows),
        mean_placement=sum(row.placements for row in rows) / games,
        mean_points=sum(row.points for row in rows) / games,
        faults=sum(row.faults for row in rows),
    )


_own_seats, _other_seats = schema.game_seats.alias("own"), schema.game_seats.alias("other")


def _count_if(condition: Any) -> Any:
    """Return the SQL expression of the number of rows that meet a condition."""
    return func.sum(case((condition, 1), else_=0))


def _sums_of_games(condition: ColumnElement[bool]) -> dict[Table, Select[Any]]:
    """Return for each table of sums a query that computes its rows from games, in key order.

    condition  selects the games, by columns of `_own_seats`
    """
    is_ahead = _own_seats.c.placement < _other_seats.c.placement
    is_level = _own_seats.c.placement == _other_seats.c.placement
    # Each seat of a game beside all seats of the game. It is level with itself, hence the - 1.
    seats = (
        select(
            _own_seats,
            func.count().label("players"),
            (2 * _count_if(is_ahead) + _count_if(is_level) - 1).label("halves"),
        )
        .join(_other_seats, _other_seats.c.seq == _own_seats.c.seq)
        .where(condition)
        .group_by(_own_seats.c.seq, _own_seats.c.seat)
        .subquery()
        .c
    )
    pair_key = (_own_seats.c.season_id, _own_seats.c.version_id, _other_seats.c.version_id)
    seat_key = (seats.season_id, seats.version_id, seats.players, seats.seat)
    return {
        _pair_sums: select(*pair_key, func.count(), _count_if(is_ahead), _count_if(is_level))
        .join(
            _other_seats,
            and_(
                _other_seats.c.seq == _own_seats.c.seq,
                _other_seats.c.version_id > _own_seats.c.version_id,
            ),
        )
        .where(condition)
        .group_by(*pair_key)
        .order_by(*pair_key),
        _seat_sums: select(
            *seat_key,
            func.count(),
            _count_if(seats.placement == 1),
            func.sum(seats.placement),
            func.sum(seats.points),
            func.sum(seats.faults),
            _count_if(seats.faults > 0),
            func.sum(seats.halves),
        )
        .group_by(*seat_key)
        .order_by(*seat_key),
    }


def _add_to_sums(table: Table, sums: Select[Any]) -> Insert:
    """Return the statement that adds each row of a query to the row of a table with the same key.

    A row whose key is not in the table yet is inserted.

    sums  the query, with the columns of the table
    """
    key_names = [column.name for column in table.primary_key]
    sum_names = [column.name for column in table.c if column.name not in key_names]
    additions = [f"{name} = {table.name}.{name} + excluded.{name}" for name in sum_names]
    # As text: SQLAlchemy has this clause only in a module for each database, which takes long to
    # import.
    on_conflict = text(f"ON CONFLICT ({', '.join(key_names)}) DO UPDATE SET {', '.join(additions)}")
    rows = sums.order_by(None).suffix_with(on_conflict)
    return insert(table).from_select(list(table.c), rows)


_ADD_GAME = [
    _add_to_sums(table, sums)
    for table, sums in _sums_of_games(_own_seats.c.seq == bindparam("seq")).items()
]
_SUMS_OF_SEASON = _sums_of_games(_own_seats.c.season_id == bindparam("season"))


def add_sums(connection: Connection, seq: int) -> None:
    """Add a stored game to the sums of its season."""
    for statement in _ADD_GAME:
        connection.execute(statement, {"seq": seq})


_seasons, _games = schema.seasons, schema.games
_NUMBER_OF_GAMES = select(func.count()).where(_games.c.season_id == _seasons.c.id).scalar_subquery()


def count_sums(connection: Connection, season: StoredSeason) -> None:
    """Compute all sums of a season anew from its stored games, and replace the stored sums."""
    is_season = _seasons.c.id == season.id
    # The number of games is a subquery, which counts the stored games of the row to update.
    connection.execute(update(_seasons).where(is_season).values(games=_NUMBER_OF_GAMES))
    for table, query in _SUMS_OF_SEASON.items():
        connection.execute(delete(table).where(table.c.season_id == season.id))
        unordered_query = query.order_by(None)  # rows to insert need no order
        insertion = insert(table).from_select(list(table.columns), unordered_query)
        # Each of these queries has the parameter `season`.
        connection.execute(insertion, {"season": season.id})


def sum_differences(connection: Connection, season: StoredSeason) -> Iterator[str]:
    """Yield for each table of sums the first difference from the sums of the games, as a line."""
    stored_games = select(_seasons.c.games).where(_seasons.c.id == season.id)
    computed_games = stored_games.with_only_columns(_NUMBER_OF_GAMES)
    # A table's name for the message, the query for its stored rows, and that for the computed ones.
    comparisons = [("seasons, column games", stored_games, computed_games)]
    for table, sums in _SUMS_OF_SEASON.items():
        stored_sums = select(table).where(table.c.season_id == season.id)
        comparisons.append((table.name, stored_sums.order_by(*table.primary_key), sums))
    for name, stored, computed in comparisons:
        difference = _first_difference(connection, season, stored, computed)
        if difference is not None:
            stored_row, computed_row = map(_whole_numbers, difference)
            yield f"table {name}: there is {stored_row}, the games give {computed_row}"


def _first_difference(
    connection: Connection, season: StoredSeason, stored: Select[Any], computed: Select[Any]
) -> tuple[Row[Any] | None, Row[Any] | None] | None:
    """Return the first rows in which two queries differ; None if they have the same rows.

    Of the two rows, one is None if its query has fewer rows. Both queries have the season as their
    parameter, and their rows are in the same order.
    """
    parameters = {"season": season.id}
    # In portions, since the rows of a season take much memory.
    options = {"yield_per": 2000}
    with (
        connection.execute(stored, parameters, execution_options=options) as stored_rows,
        connection.execute(computed, parameters, execution_options=options) as computed_rows,
    ):
        for stored_row, computed_row in zip_longest(stored_rows, computed_rows):
            if stored_row != computed_row:
                return stored_row, computed_row
    return None


def _whole_numbers(row: Row[Any] | None) -> tuple[int, ...] | None:
    """Return the values of a row as integers, since a database may give a sum as a decimal."""
    return None if row is None else tuple(int(value) for value in row)


# ----- The totals of versions

_TOTAL_NAMES = tuple(field.name for field in fields(RatingTotals) if field.name != "rating")
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
    """Return the rating and totals of versions in a season, by version id.

    A version without games is missing.

    versions  the ids of the versions; None returns those of all
    """
    if versions is None:
        rows = connection.execute(_RATINGS_OF_SEASON, {"season": season.id})
    else:
        parameters = {"season": season.id, "versions": versions}
        rows = connection.execute(_RATINGS_OF_VERSIONS, parameters)
    return {row.version_id: tally_of(row) for row in rows}


def write_tallies(
    connection: Connection,
    season: StoredSeason,
    tallies: Mapping[int, RatingTotals],
    known: Container[int],
) -> None:
    """Store the rating and totals of versions in a season.

    tallies  the rating and totals, by version id
    known    the ids of versions that have a row already, which is updated; the others get one
    """
    updated_rows, new_rows = [], []
    for version_id, tally in tallies.items():
        row = {"of_season": season.id, "of_version": version_id} | _columns(tally)
        if version_id in known:
            updated_rows.append(row)
        else:
            new_rows.append(row)
    if updated_rows:
        connection.execute(_UPDATE_RATING, updated_rows)
    if new_rows:
        connection.execute(_INSERT_RATING, new_rows)


def _columns(tally: RatingTotals) -> dict[str, Any]:
    """Return the columns of a rating's row, without its key."""
    mu, sigma = tally.rating.to_hex()
    return {"mu": mu, "sigma": sigma} | {name: getattr(tally, name) for name in _TOTAL_NAMES}


def tally_of(row: Row[Any]) -> RatingTotals:
    """Return the rating and totals in the columns of a rating's row."""
    rating = Rating.from_hex(row.mu, row.sigma)
    return RatingTotals(rating, **{name: getattr(row, name) for name in _TOTAL_NAMES})
