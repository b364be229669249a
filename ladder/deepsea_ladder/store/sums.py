"""Sums over a season's games: of one bot against the others and by its seats, of all pairs of bots.

Invariants: the database adds up, so that what is read are a few rows however many games there are;
games never change, so the sums of all games are those up to one game plus those after it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, case, func, literal, select

from deepsea_ladder.errors import StoreDamaged
from deepsea_ladder.model.seasons import StoredSeason
from deepsea_ladder.standings import HeadToHead, SeatLine
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import Database
from deepsea_rules.ruleset import MAX_PLAYERS

_own, _other, _table = (schema.game_seats.alias(name) for name in ("own", "other", "at_table"))
_MEETING = (
    func.count().label("games"),
    func.sum(case((_own.c.placement < _other.c.placement, 1), else_=0)).label("better"),
    func.sum(case((_own.c.placement == _other.c.placement, 1), else_=0)).label("level"),
)


class Pairs(NamedTuple):
    """How the versions of a season did against each other."""

    seq: int
    """The last game that was counted."""
    meetings: dict[tuple[int, int], HeadToHead]
    """Of the first version of each pair against the second; the first has the smaller id."""


class Sums:
    """The sums of a ladder's games."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def opponents(self, season: StoredSeason, version_id: int) -> dict[int, HeadToHead]:
        """A version against every other that it met in the season, by the other's id."""
        query = (
            select(_other.c.version_id, *_MEETING)
            .select_from(_own)
            .join(_other, _other.c.seq == _own.c.seq)
            .where(_is(season, version_id), _other.c.version_id != version_id)
            .group_by(_other.c.version_id)
            .order_by(_other.c.version_id)
        )
        with self._database.read() as connection:
            return {row.version_id: _meeting(row) for row in connection.execute(query)}

    def seats(self, season: StoredSeason, version_id: int) -> list[SeatLine]:
        """A version's results in the season, per size of the table: of all seats, then of each."""
        players: ColumnElement[int] = literal(season.season.seats[0])
        if len(season.season.seats) > 1:
            at_table = select(func.count()).where(_table.c.seq == _own.c.seq)
            players = at_table.correlate(_own).scalar_subquery()
        wins = func.sum(case((_own.c.placement == 1, 1), else_=0))
        added = (func.sum(column) for column in (_own.c.placement, _own.c.points, _own.c.faults))
        query = (
            select(players.label("players"), _own.c.seat, func.count(), wins, *added)
            .where(_is(season, version_id))
            .group_by("players", _own.c.seat)
        )
        sums: dict[tuple[int, int], list[int]] = {}
        with self._database.read() as connection:
            for size, seat, *counts in connection.execute(query):
                if not 0 <= seat < MAX_PLAYERS:
                    raise StoreDamaged(f"a game of season {season.season.name} has a seat {seat}")
                for key in ((size, -1), (size, seat)):
                    total = sums.setdefault(key, [0] * len(counts))
                    sums[key] = [have + int(more) for have, more in zip(total, counts, strict=True)]
        return [_seat_line(*key, *counts) for key, counts in sorted(sums.items())]

    def pairs(self, season: StoredSeason, after: int = 0) -> Pairs:
        """All pairs of versions, over the games that were rated after one."""
        table = schema.game_seats
        last = select(func.max(table.c.seq)).where(table.c.season_id == season.id)
        query = (
            select(_own.c.version_id, _other.c.version_id.label("other_id"), *_MEETING)
            .select_from(_own)
            .join(
                _other,
                and_(_other.c.seq == _own.c.seq, _other.c.version_id > _own.c.version_id),
            )
            .where(_own.c.season_id == season.id, _own.c.seq > after)
            .group_by(_own.c.version_id, _other.c.version_id)
        )
        with self._database.read() as connection:
            seq = connection.execute(last).scalar() or 0
            if seq <= after:
                return Pairs(after, {})
            rows = connection.execute(query)
            return Pairs(seq, {(row.version_id, row.other_id): _meeting(row) for row in rows})


def _is(season: StoredSeason, version_id: int) -> ColumnElement[bool]:
    return and_(_own.c.version_id == version_id, _own.c.season_id == season.id)


def _meeting(row: Any) -> HeadToHead:
    games, better, level = int(row.games), int(row.better), int(row.level)
    return HeadToHead(games, better, level, games - better - level)


def _seat_line(
    players: int, seat: int, games: int, wins: int, placements: int, points: int, faults: int
) -> SeatLine:
    return SeatLine(
        players,
        None if seat < 0 else seat,
        games,
        wins,
        placements / games,
        points / games,
        faults,
    )
