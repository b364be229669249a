"""Reads played games.

Invariant: games are read in portions, each a snapshot of its own, so that a slow reader keeps
no writer waiting; games never change, so the portions fit together.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, func, select

from deepsea_bundle import names
from deepsea_ladder.model import BotVersion, GameFilter, StoredGame, StoredSeason, StoredSeat
from deepsea_ladder.rating.totals import SeatResult
from deepsea_ladder.rating.trueskill_fold import Rating
from deepsea_ladder.store import schema
from deepsea_ladder.store.bots import versions_by_id
from deepsea_ladder.store.database import Database

PORTION: Final = 500

_games, _seats = schema.games, schema.game_seats


class History:
    """The played games of a ladder."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def games(self, season: StoredSeason | None = None) -> Iterator[StoredGame]:
        """Every game, of a season if one is given, in the order in which they were rated."""
        after = 0
        while True:
            query = _query(season).where(_games.c.seq > after).order_by(_games.c.seq)
            portion = self._read(query.limit(PORTION))
            yield from portion
            if len(portion) < PORTION:
                return
            after = portion[-1].seq

    def results_of(self, season: StoredSeason, version_id: int) -> Iterator[list[SeatResult]]:
        """All seats of every game that a version played in the season, in their order."""
        after = 0
        while True:
            ours = (
                select(_seats.c.seq)
                .where(
                    _seats.c.version_id == version_id,
                    _seats.c.season_id == season.id,
                    _seats.c.seq > after,
                )
                .order_by(_seats.c.seq)
                .limit(PORTION)
            )
            with self._database.read() as connection:
                games = _seats_of(connection, list(connection.execute(ours).scalars()))
            for seats in games.values():
                yield [_result(seat) for seat in seats]
            if len(games) < PORTION:
                return
            after = max(games)

    def latest(
        self, limit: int, season: StoredSeason | None = None, wanted: GameFilter | None = None
    ) -> list[StoredGame]:
        """The newest games, newest first."""
        query = _query(season).order_by(_games.c.seq.desc()).limit(limit)
        if wanted is not None and wanted != GameFilter():
            query = query.where(_games.c.seq.in_(_filtered(wanted)))
        return self._read(query)

    def faulty(
        self, season: StoredSeason, version_id: int, limit: int
    ) -> tuple[int, list[StoredGame]]:
        """How many of a version's games in the season have faults of its own, and the newest."""
        ours = (
            _seats.c.version_id == version_id,
            _seats.c.season_id == season.id,
            _seats.c.faults > 0,
        )
        newest = select(_seats.c.seq).where(*ours).order_by(_seats.c.seq.desc()).limit(limit)
        with self._database.read() as connection:
            count = connection.execute(select(func.count()).where(*ours)).scalar_one()
            seqs = connection.execute(newest).scalars().all()
        # Games never change, so this may be another snapshot.
        return count, self._read(
            _query(season).where(_games.c.seq.in_(seqs)).order_by(_games.c.seq.desc())
        )

    def _read(self, query: Select[Any]) -> list[StoredGame]:
        with self._database.read() as connection:
            rows = connection.execute(query).all()
            seats = _seats_of(connection, [row.seq for row in rows])
            ids = sorted({seat.version_id for members in seats.values() for seat in members})
            versions = versions_by_id(connection, ids)
        return [_game(row, seats[row.seq], versions) for row in rows]


def _query(season: StoredSeason | None) -> Select[Any]:
    query = select(_games, schema.seasons.c.name.label("season")).join(
        schema.seasons, schema.seasons.c.id == _games.c.season_id
    )
    return query if season is None else query.where(_games.c.season_id == season.id)


def _filtered(wanted: GameFilter) -> Select[Any]:
    """The sequence numbers of the games that are wanted."""
    own, other = _seats.alias("own"), _seats.alias("other")
    query = select(own.c.seq)
    if wanted.bot is not None:
        query = query.where(own.c.version_id.in_(_versions_of(wanted.bot)))
    if wanted.faults:
        query = query.where(own.c.faults > 0)
    if wanted.against is not None:
        query = query.join(other, other.c.seq == own.c.seq).where(
            other.c.seat != own.c.seat, other.c.version_id.in_(_versions_of(wanted.against))
        )
    if wanted.lost:
        query = query.where(own.c.placement > (1 if wanted.against is None else other.c.placement))
    return query


def _versions_of(bot: str) -> Select[Any]:
    versions, bots = schema.bot_versions, schema.bots
    return (
        select(versions.c.id)
        .join(bots, bots.c.id == versions.c.bot_id)
        .where(bots.c.name_key == names.key(bot))
    )


def _seats_of(connection: Connection, seqs: list[int]) -> dict[int, list[Row[Any]]]:
    rows = connection.execute(
        select(_seats).where(_seats.c.seq.in_(seqs)).order_by(_seats.c.seq, _seats.c.seat)
    )
    return {seq: list(group) for seq, group in groupby(rows, key=lambda row: row.seq)}


def _game(row: Row[Any], seats: list[Row[Any]], versions: dict[int, BotVersion]) -> StoredGame:
    return StoredGame(
        seq=row.seq,
        game_id=row.game_id,
        season=row.season,
        played_at=row.played_at,
        seats=tuple(
            StoredSeat(
                version=versions[seat.version_id],
                result=_result(seat),
                rating=Rating.from_hex(seat.mu, seat.sigma),
            )
            for seat in seats
        ),
        record=row.record,
    )


def _result(seat: Row[Any]) -> SeatResult:
    return SeatResult(
        version_id=seat.version_id,
        points=seat.points,
        placement=seat.placement,
        decisions=seat.decisions,
        faults=seat.faults,
        forfeit=seat.forfeit,
    )
