"""Reads played games.

Invariant: games are read in portions, each a snapshot of its own, so that a slow reader keeps
no writer waiting; games never change, so the portions fit together.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, Select, func, select

from deepsea_bundle import names
from deepsea_ladder.errors import NotOnLadder, StoreDamaged
from deepsea_ladder.model.bots import BotVersion
from deepsea_ladder.model.games import GameFilter, StoredGame, StoredSeat
from deepsea_ladder.model.seasons import StoredSeason
from deepsea_ladder.rating.totals import SeatResult
from deepsea_ladder.rating.trueskill_fold import Rating
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import Database
from deepsea_ladder.store.embargo import visible
from deepsea_ladder.store.versions import versions_by_id

PORTION: Final = 500

_games, _seats = schema.games, schema.game_seats


class GameOutcomes(NamedTuple):
    """How a game went, by seat."""

    game_id: str
    seats: tuple[SeatResult, ...]


class History:
    """The played games of a ladder."""

    def __init__(self, database: Database, portion: int = PORTION, *, public: bool = False) -> None:
        """`portion` is the most games that are read at once."""
        self._database = database
        self._portion = portion
        self._public = public

    def games(self, season: StoredSeason | None = None) -> Iterator[StoredGame]:
        """Every game, of a season if one is given, in the order in which they were rated."""
        after = 0
        while True:
            query = self._query(season).where(_games.c.seq > after).order_by(_games.c.seq)
            portion = self._read(query.limit(self._portion))
            yield from portion
            if len(portion) < self._portion:
                return
            after = portion[-1].seq

    def count(self, season: StoredSeason) -> int:
        """The number of the season's games."""
        query = select(func.count()).where(_games.c.season_id == season.id)
        with self._database.read() as connection:
            return connection.execute(query).scalar_one()

    def players(self, season: StoredSeason) -> list[BotVersion]:
        """Every version that has played in the season."""
        query = select(_seats.c.version_id).where(_seats.c.season_id == season.id).distinct()
        with self._database.read() as connection:
            ids = sorted(connection.execute(query).scalars())
            return list(versions_by_id(connection, ids).values())

    def latest(
        self,
        limit: int,
        season: StoredSeason | None = None,
        wanted: GameFilter | None = None,
        *,
        before: int | None = None,
    ) -> list[StoredGame]:
        """The newest games, newest first; `before` leaves out those from that one on."""
        if wanted is None or wanted == GameFilter():
            query = self._query(season).order_by(_games.c.seq.desc()).limit(limit)
            return self._read(query if before is None else query.where(_games.c.seq < before))
        # First which games, from one index; then all of these few.
        seqs = self._filtered(wanted, season, before).limit(limit)
        return self._numbered(seqs)

    def latest_of(self, season: StoredSeason, version_id: int, limit: int) -> list[StoredGame]:
        """The newest games of a version in the season, newest first."""
        ours = (_seats.c.version_id == version_id, _seats.c.season_id == season.id)
        newest = select(_seats.c.seq).where(*ours).order_by(_seats.c.seq.desc()).limit(limit)
        return self._numbered(newest)

    def faulty(
        self, season: StoredSeason, version_id: int, limit: int
    ) -> tuple[int, list[StoredGame]]:
        """How many of a version's games in the season have faults of its own, and the newest."""
        ours = (
            _seats.c.version_id == version_id,
            _seats.c.season_id == season.id,
            schema.FAULTY,
        )
        newest = select(_seats.c.seq).where(*ours).order_by(_seats.c.seq.desc()).limit(limit)
        with self._database.read() as connection:
            count = connection.execute(select(func.count()).where(*ours)).scalar_one()
            seqs = connection.execute(newest).scalars().all()
        # Games never change, so this may be another snapshot.
        return count, self._read(
            self._query(season).where(_games.c.seq.in_(seqs)).order_by(_games.c.seq.desc())
        )

    def outcomes(self, season: StoredSeason) -> list[GameOutcomes]:
        """Every game of a season without its record, in the order in which they were rated."""
        query = (
            select(_games.c.game_id, _seats)
            .join(_seats, _seats.c.seq == _games.c.seq)
            .where(_games.c.season_id == season.id)
            .order_by(_seats.c.seq, _seats.c.seat)
        )
        with self._database.read() as connection:
            return [
                GameOutcomes(game_id, tuple(map(_result, group)))
                for game_id, group in groupby(
                    connection.execute(query), key=lambda row: str(row.game_id)
                )
            ]

    def get(self, game_id: str) -> StoredGame:
        """The game of that id. Raises NotOnLadder if there is none."""
        found = self._read(self._query(None).where(_games.c.game_id == game_id))
        if not found:
            raise no_such_game(game_id)
        return found[0]

    def since(self, seq: int, limit: int) -> list[StoredGame]:
        """The first games of all seasons that were rated after one, in their order."""
        later = self._query(None).where(_games.c.seq > seq)
        return self._read(later.order_by(_games.c.seq).limit(limit))

    def before(self, season: StoredSeason, seq: int, version_id: int) -> Rating | None:
        """A version's rating before a game; None if that was its first of the season."""
        query = (
            select(_seats.c.mu, _seats.c.sigma)
            .where(
                _seats.c.version_id == version_id,
                _seats.c.season_id == season.id,
                _seats.c.seq < seq,
            )
            .order_by(_seats.c.seq.desc())
            .limit(1)
        )
        with self._database.read() as connection:
            row = connection.execute(query).first()
        return None if row is None else Rating.from_hex(row.mu, row.sigma)

    def _query(self, season: StoredSeason | None) -> Select[Any]:
        seasons = schema.seasons
        query = (
            select(_games, seasons.c.name.label("season"))
            .join(seasons, seasons.c.id == _games.c.season_id)
            .where(visible(public=self._public))
        )
        return query if season is None else query.where(_games.c.season_id == season.id)

    def _filtered(
        self, wanted: GameFilter, season: StoredSeason | None, before: int | None
    ) -> Select[Any]:
        """The sequence numbers of the games that are wanted, the newest first."""
        own, other = _seats.alias("own"), _seats.alias("other")
        seasons = schema.seasons
        query = (
            select(own.c.seq)
            .distinct()
            .join(seasons, seasons.c.id == own.c.season_id)
            .where(visible(public=self._public))
            .order_by(own.c.seq.desc())
        )
        if season is not None:
            query = query.where(own.c.season_id == season.id)
        if before is not None:
            query = query.where(own.c.seq < before)
        if wanted.bot is not None:
            query = query.where(own.c.version_id.in_(_versions_of(wanted.bot)))
        if wanted.faults:
            query = query.where(own.c.faults > 0)
        if wanted.against is not None:
            query = query.join(other, other.c.seq == own.c.seq).where(
                other.c.seat != own.c.seat, other.c.version_id.in_(_versions_of(wanted.against))
            )
        if wanted.lost:
            first = 1 if wanted.against is None else other.c.placement
            query = query.where(own.c.placement > first)
        return query

    def _numbered(self, seqs: Select[Any]) -> list[StoredGame]:
        """The games with these sequence numbers, newest first."""
        with self._database.read() as connection:
            found = connection.execute(seqs).scalars().all()
        # Games never change, so this may be another snapshot.
        return self._read(
            self._query(None).where(_games.c.seq.in_(found)).order_by(_games.c.seq.desc())
        )

    def _read(self, query: Select[Any]) -> list[StoredGame]:
        with self._database.read() as connection:
            rows = connection.execute(query).all()
            seats = _seats_of(connection, [row.seq for row in rows])
            ids = sorted({seat.version_id for members in seats.values() for seat in members})
            versions = versions_by_id(connection, ids)
        return [_game(row, seats[row.seq], versions) for row in rows]


def no_such_game(game_id: str) -> NotOnLadder:
    """The refusal of a game that was not played, or may not be seen yet."""
    return NotOnLadder(f"no game {game_id!r} was played on this ladder")


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
    numbers = [row.played_at, *(value for seat in seats for value in (seat.placement, seat.points))]
    if type(row.game_id) is not str or any(type(number) is not int for number in numbers):
        # SQLite takes values of any kind, and these are compared and printed.
        raise StoreDamaged(f"game {row.seq}: a value is of another kind than it should be")
    return StoredGame(
        seq=row.seq,
        game_id=row.game_id,
        season=row.season,
        played_at=row.played_at,
        place=row.place,
        attempt=row.attempt - 1,
        seats=tuple(
            StoredSeat(
                version=versions[seat.version_id],
                result=_result(seat),
                rating=Rating.from_hex(seat.mu, seat.sigma),
            )
            for seat in seats
        ),
        record=row.record,
        head=row.head,
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
