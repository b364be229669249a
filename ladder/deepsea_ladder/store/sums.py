"""Sums over the games of a season: of pairs of versions, and of versions from each seat.

Invariants: they are kept up in the transaction that stores a game, so that a few rows are read
however many games there are; `sum_differences` compares them with what the games give.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, groupby, zip_longest
from operator import attrgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    TextClause,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    select,
    text,
    update,
)

from deepsea_ladder.model.games import StoredSeason
from deepsea_ladder.rating.totals import SeatResult
from deepsea_ladder.scheduling.tournament import Score, summed_scores
from deepsea_ladder.standings import HeadToHead, SeatLine, meeting_of
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import Database
from deepsea_rules.scoring import halves_ahead

_pairs, _seats = schema.pair_sums, schema.seat_sums


class Sums:
    def __init__(self, database: Database) -> None:
        self._database = database

    def opponents(self, season: StoredSeason, version_id: int) -> dict[int, HeadToHead]:
        """A version against every other that it met in the season, by the other's id."""
        found = self._read(season, _pairs.c.version_id == version_id)
        found |= self._read(season, _pairs.c.other_id == version_id)
        return {
            other: meeting
            for pair in found
            for other in pair
            if other != version_id and (meeting := meeting_of(found, version_id, other))
        }

    def pairs(
        self, season: StoredSeason, versions: Sequence[int] | None = None
    ) -> dict[tuple[int, int], HeadToHead]:
        """The pairs of these versions, or of all, that met: of the first against the second; the
        first has the smaller id."""
        if versions is None:
            return self._read(season)
        columns = (_pairs.c.version_id, _pairs.c.other_id)
        return self._read(season, *(column.in_(versions) for column in columns))

    def _read(
        self, season: StoredSeason, *which: ColumnElement[bool]
    ) -> dict[tuple[int, int], HeadToHead]:
        with self._database.read() as connection:
            rows = connection.execute(select(_pairs).where(_pairs.c.season_id == season.id, *which))
            return {(row.version_id, row.other_id): _meeting(row) for row in rows}

    def seats(self, season: StoredSeason, version_id: int) -> list[SeatLine]:
        """A version's results in the season, per size of the table: of all seats, then of each."""
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
        return lines

    def faulty_games(self, season: StoredSeason, version_id: int) -> int:
        """How many of a version's games in the season have faults of its own."""
        query = select(func.coalesce(func.sum(_seats.c.faulty), 0)).where(
            _seats.c.season_id == season.id, _seats.c.version_id == version_id
        )
        with self._database.read() as connection:
            return int(connection.execute(query).scalar_one())

    def scores(self, season: StoredSeason) -> list[Score]:
        """The scores of all games of the season, the best first."""
        names = ("version_id", "players", "games", "wins", "points", "halves")
        query = select(*(_seats.c[name] for name in names)).where(_seats.c.season_id == season.id)
        with self._database.read() as connection:
            return summed_scores(map(tuple, connection.execute(query)))


def _meeting(row: Row[Any]) -> HeadToHead:
    return HeadToHead(row.games, row.better, row.level, row.games - row.better - row.level)


def _line(seat: int | None, rows: Sequence[Row[Any]]) -> SeatLine:
    games, wins, placements, points, faults = (
        sum(map(attrgetter(name), rows))
        for name in ("games", "wins", "placements", "points", "faults")
    )
    return SeatLine(rows[0].players, seat, games, wins, placements / games, points / games, faults)


def _adding(table: Table) -> TextClause:
    """The statement that adds to a row of sums, or makes it."""
    # A text, since SQLAlchemy has this for each database in a module that takes long to import.
    names = list(table.columns.keys())
    keys = [column.name for column in table.primary_key]
    sums = (f"{one} = {table.name}.{one} + excluded.{one}" for one in names if one not in keys)
    return text(
        f"INSERT INTO {table.name} ({', '.join(names)}) VALUES (:{', :'.join(names)})"
        f" ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {', '.join(sums)}"
    )


_ADD = {table: _adding(table) for table in (_pairs, _seats)}


def add_sums(connection: Connection, season_id: int, seats: Sequence[SeatResult]) -> None:
    """Add a game, by its seats."""
    halves = halves_ahead([one.placement for one in seats])
    rows: dict[Table, list[tuple[int, ...]]] = {
        _pairs: [
            (season_id, a.version_id, b.version_id, 1, int(before), int(level))
            for a, b in combinations(sorted(seats, key=attrgetter("version_id")), 2)
            for before, level in [(a.placement < b.placement, a.placement == b.placement)]
        ],
        _seats: [
            (season_id, one.version_id, len(seats), seat, 1, int(one.placement == 1), *sums)
            for seat, one in enumerate(seats)
            for faults in [(one.faults, int(one.faults > 0))]
            for sums in [(one.placement, one.points, *faults, halves[seat])]
        ],
    }
    for table, its_rows in rows.items():
        names = table.columns.keys()
        connection.execute(_ADD[table], [dict(zip(names, row, strict=True)) for row in its_rows])


_own, _other = schema.game_seats.alias("own"), schema.game_seats.alias("other")


def _count(condition: Any) -> Any:
    return func.sum(case((condition, 1), else_=0))


_ahead, _level = _own.c.placement < _other.c.placement, _own.c.placement == _other.c.placement
_sat = (
    select(
        _own,
        func.count().label("players"),
        (2 * _count(_ahead) + _count(_level) - 1).label("halves"),
    )
    .join(_other, _other.c.seq == _own.c.seq)
    .where(_own.c.season_id == bindparam("season"))
    .group_by(_own.c.seq, _own.c.seat)
    .subquery()
)
_PAIR_KEY = (_own.c.season_id, _own.c.version_id, _other.c.version_id)
_SEAT_KEY = (_sat.c.season_id, _sat.c.version_id, _sat.c.players, _sat.c.seat)
_COUNTED = {
    _pairs: select(*_PAIR_KEY, func.count(), _count(_ahead), _count(_level))
    .join(_other, and_(_other.c.seq == _own.c.seq, _other.c.version_id > _own.c.version_id))
    .where(_own.c.season_id == bindparam("season"))
    .group_by(*_PAIR_KEY)
    .order_by(*_PAIR_KEY),
    _seats: select(
        *(*_SEAT_KEY, func.count(), _count(_sat.c.placement == 1), func.sum(_sat.c.placement)),
        *(func.sum(_sat.c.points), func.sum(_sat.c.faults), _count(_sat.c.faults > 0)),
        func.sum(_sat.c.halves),
    )
    .group_by(*_SEAT_KEY)
    .order_by(*_SEAT_KEY),
}
"""What the games give, by table of sums: its rows, in the order of its key."""
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
        rows = (
            connection.execute(query.execution_options(yield_per=2000), {"season": season.id})
            for query in both
        )
        for pair in zip_longest(*rows):
            if pair[0] != pair[1]:
                stored, made = (row and tuple(map(int, row)) for row in pair)
                yield f"table {name}: there is {stored}, the games give {made}"
                break
