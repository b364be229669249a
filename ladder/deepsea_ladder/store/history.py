"""Played games, read one by one, and versions of bots with their bots and authors.

Invariants: games are read in portions, each a snapshot of its own, so that a slow reader keeps no
writer waiting; games never change, so the portions fit together; a rating goes through
`float.hex()` both ways, so no bit of it is lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby, permutations
from typing import Any, NamedTuple

from sqlalchemy import (
    CompoundSelect,
    Connection,
    FromClause,
    Row,
    Select,
    bindparam,
    func,
    select,
    union_all,
)

from deepsea_bundle import names
from deepsea_ladder.errors import NotOnLadder, StoreDamaged
from deepsea_ladder.model import (
    BotVersion,
    GameFilter,
    GameLine,
    GameSeat,
    Int64,
    StoredGame,
    StoredSeason,
    utc_time,
)
from deepsea_ladder.rating import Rating, SeatResult
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import StorePart

_versions = schema.bot_versions
SELECT_VERSIONS: Select[Any] = (
    select(
        _versions.c.id.label("version_id"),
        _versions.c.number,
        _versions.c.digest,
        _versions.c.created_at.label("submitted_at"),
        schema.bots.c.name,
        schema.authors.c.name.label("author"),
    )
    .join(schema.bots, schema.bots.c.id == _versions.c.bot_id)
    .join(schema.authors, schema.authors.c.id == schema.bots.c.author_id)
)
"""Selects versions with what games show of them, so that a bot's games can be read without its
state."""
SELECT_BOTS: Select[Any] = SELECT_VERSIONS.add_columns(
    schema.bots.c.id.label("bot_id"),
    *(column for column in schema.bots.c if column.name not in ("id", "name")),
)
"""Selects versions with all that is known of their bots, so that a bot's row is read as a whole or
not at all."""
IS_CURRENT = _versions.c.number == schema.bots.c.version
"""Of a version with its bot: whether it is the one that plays."""
# Looked up bot by bot: former versions are not read.
CURRENT_IDS = select(
    select(_versions.c.id)
    .where(_versions.c.bot_id == schema.bots.c.id, IS_CURRENT)
    .correlate(schema.bots)
    .scalar_subquery()
).select_from(schema.bots)
_VERSIONS_BY_ID = SELECT_VERSIONS.where(_versions.c.id.in_(bindparam("ids", expanding=True)))
_VERSIONS_OF_JOB, _BOTS_OF_JOB = (
    query.join(schema.job_seats, schema.job_seats.c.version_id == _versions.c.id)
    .where(schema.job_seats.c.job_id == bindparam("job"))
    .order_by(schema.job_seats.c.seat)
    for query in (SELECT_VERSIONS, SELECT_BOTS)
)
_games, _seats, _ratings = schema.games, schema.game_seats, schema.ratings
_pairs = schema.pair_sums
_own, _other = _seats.alias("own"), _seats.alias("other")
PORTION = 500
_WITHOUT_RECORD = [column for column in _games.c if column.name != "record"]
_SEATS_OF = (
    SELECT_VERSIONS.add_columns(
        *(column for column in _seats.c if column.name not in ("version_id", "number"))
    )
    .join(_seats, _seats.c.version_id == schema.bot_versions.c.id)
    .where(_seats.c.seq.in_(bindparam("seqs", expanding=True)))
    .order_by(_seats.c.seq, _seats.c.seat)
)


class Pace(NamedTuple):
    """The newest games of a season."""

    games: int
    first_at: int
    last_at: int
    """The ends of the first and of the last of these games, in milliseconds since 1970."""

    @property
    def games_per_second(self) -> float | None:
        """The rate of these games; None if they took no time."""
        span = self.last_at - self.first_at
        return (self.games - 1) * 1000 / span if span > 0 else None


class History(StorePart):
    def games(
        self, season: StoredSeason | None = None, portion: int = PORTION
    ) -> Iterator[StoredGame]:
        """Every game, of a season if one is given, in the order in which they were rated.

        portion  the most games that are read at once
        """
        after = 0
        while True:
            query = self._query(season, _games).where(_games.c.seq > after).order_by(_games.c.seq)
            games = self._stored(query.limit(portion))
            yield from games
            if len(games) < portion:
                return
            after = games[-1].line.seq

    def lines(self, season: StoredSeason | None = None) -> Iterator[GameLine]:
        """Every game that can be read, without its record; else as `games`.

        Raises `StoreDamaged` behind the last one if one cannot be read.
        """
        after, damage = 0, list[str]()
        while True:
            numbers = self._query(season).with_only_columns(_games.c.seq)
            numbers = numbers.where(_games.c.seq > after).order_by(_games.c.seq).limit(PORTION)
            with self._database.read() as connection:
                seqs = connection.execute(numbers).scalars().all()
            games = self._query(None).where(_games.c.seq.in_(seqs)).order_by(_games.c.seq)
            lines, unreadable = self._database.read_undamaged(games, _games.c.seq, _lines)
            yield from lines
            damage += unreadable
            if len(seqs) < PORTION:
                break
            after = seqs[-1]
        for line in damage:
            raise StoreDamaged(line)

    def paces(self, games: int) -> dict[int, Pace]:
        """The newest games, at most so many, of each season that has some, by its id."""
        seasons, newer = schema.seasons, _games.alias("newer")
        first = (
            select(newer.c.seq)
            .where(newer.c.season_id == seasons.c.id)
            .order_by(newer.c.seq.desc())
            .limit(1)
            .offset(games - 1)
            .correlate(seasons)
            .scalar_subquery()
        )
        its_newest = (_games.c.season_id == seasons.c.id) & (
            _games.c.seq >= func.coalesce(first, 0)
        )
        times = (func.min(_games.c.played_at), func.max(_games.c.played_at))
        query = select(seasons.c.id, func.count(), *times).select_from(seasons)
        with self._database.read() as connection:
            rows = connection.execute(query.join(_games, its_newest).group_by(seasons.c.id))
            return {season: Pace(*values) for season, *values in rows}

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
    ) -> list[GameLine]:
        """The newest games that can be read, newest first; `before` leaves out those from that one
        on."""
        return self.numbered(self.newest(limit, season, wanted, before=before))

    def newest(
        self,
        limit: int,
        season: StoredSeason | None = None,
        wanted: GameFilter | None = None,
        *,
        before: int | None = None,
    ) -> Sequence[int]:
        """The sequence numbers of the games of `latest`, and of those that cannot be read."""
        with self._database.read() as connection:
            if wanted is not None and wanted != GameFilter():
                return self._filtered(connection, limit, wanted, season, before)
            query = select(_games.c.seq).order_by(_games.c.seq.desc()).limit(limit)
            if season is not None:
                query = query.where(_games.c.season_id == season.id)
            if before is not None:
                query = query.where(_games.c.seq < before)
            return connection.execute(query).scalars().all()

    def latest_of(
        self, season: StoredSeason, version_id: int, limit: int, faulty: int = 0
    ) -> list[GameLine]:
        """The newest games of a version in the season, and the newest in which it had faults; the
        newest first.

        limit, faulty  at most so many of them
        """
        ours = (_seats.c.version_id == version_id, _seats.c.season_id == season.id)
        games = select(_seats.c.seq).where(*ours).order_by(_seats.c.seq.desc())
        newest = games.limit(limit).subquery()
        with_faults = games.where(schema.HAS_FAULTS).limit(faulty).subquery()
        those = union_all(select(newest.c.seq), select(with_faults.c.seq))
        return self.numbered(those)

    def outcomes(self, season: StoredSeason) -> dict[str, tuple[SeatResult, ...]]:
        """The results of every seat of a season's games, by the game's id."""
        query = (
            select(_games.c.game_id, _seats)
            .join(_seats, _seats.c.seq == _games.c.seq)
            .where(_games.c.season_id == season.id)
            .order_by(_seats.c.seq, _seats.c.seat)
            .execution_options(yield_per=2000)
        )
        with self._database.read() as connection, connection.execute(query) as rows:
            return {
                game_id: tuple(map(seat_result, seats))
                for game_id, seats in groupby(rows, key=lambda row: str(row.game_id))
            }

    def get(self, game_id: str) -> StoredGame:
        """The game of that id. Raises NotOnLadder if there is none."""
        found = self._stored(self._query(None, _games).where(_games.c.game_id == game_id))
        if not found:
            raise no_such_game(game_id)
        return found[0]

    def since(self, seq: int, limit: int) -> list[GameLine]:
        """The first games of all seasons that were rated after one and can be read, in their
        order."""
        later = self._query(None).where(_games.c.seq > seq)
        later = later.order_by(_games.c.seq).limit(limit)
        games, damage = self._database.read_undamaged(later, _games.c.seq, _lines)
        if damage and not games:
            return self.since(seq + len(damage), limit)
        return games

    def before(self, seq: int) -> list[Rating | None]:
        """The rating of each seat's version before a game, by seat; None if that was its first of
        the season."""
        older = _seats.alias("older")
        last = (
            select(func.max(older.c.seq))
            .where(
                older.c.version_id == _seats.c.version_id,
                older.c.season_id == _seats.c.season_id,
                older.c.seq < _seats.c.seq,
            )
            .correlate(_seats)
            .scalar_subquery()
        )
        same = (_other.c.seq == last) & (_other.c.version_id == _seats.c.version_id)
        query = select(_other.c.mu, _other.c.sigma).select_from(_seats).outerjoin(_other, same)
        with self._database.read() as connection:
            rows = connection.execute(query.where(_seats.c.seq == seq).order_by(_seats.c.seat))
            return [None if mu is None else Rating.from_hex(mu, sigma) for mu, sigma in rows]

    def records(self, games: Sequence[GameLine]) -> dict[int, str]:
        """The records of these games that can be read, by the game's sequence number."""
        if not games:
            return {}
        query = select(_games.c.seq, _games.c.record)
        query = query.where(_games.c.seq.in_([game.seq for game in games]))
        records, _ = self._database.read_undamaged(
            query, _games.c.seq, lambda _, rows: [(row.seq, str(row.record)) for row in rows]
        )
        return dict(records)

    def _query(self, season: StoredSeason | None, columns: FromClause | None = None) -> Select[Any]:
        """Selects games, of a season if one is given, by default without records."""
        seasons = schema.seasons
        wanted = _WITHOUT_RECORD if columns is None else columns.c
        query = select(*wanted, seasons.c.name.label("season")).join(
            seasons, seasons.c.id == _games.c.season_id
        )
        return query if season is None else query.where(_games.c.season_id == season.id)

    def _filtered(
        self,
        connection: Connection,
        limit: int,
        wanted: GameFilter,
        season: StoredSeason | None,
        before: int | None,
    ) -> Sequence[int]:
        """The sequence numbers of the newest games that are wanted.

        Each version's games of a season stand in an index in their order: of each, or of each two
        that met, the newest are read, and of these the newest are taken.
        """
        asked = [schema.has_faults(_own)] if wanted.faults else []
        if wanted.bot is None:
            query = select(_own.c.seq).order_by(_own.c.seq.desc()).limit(limit).where(*asked)
            if before is not None:
                query = query.where(_own.c.seq < before)
            if season is not None:
                last = select(func.max(_games.c.seq)).where(_games.c.season_id == season.id)
                query = query.where(_own.c.season_id == season.id)
                query = query.where(_own.c.seq <= last.scalar_subquery())
            return connection.execute(query.distinct()).scalars().all()
        if wanted.lost:
            asked += [_own.c.placement > (1 if wanted.against is None else _other.c.placement)]
        # The keys of both tables begin with the season, so that each is looked up.
        its_seasons = select(schema.seasons.c.id)
        if season is not None:
            its_seasons = its_seasons.where(schema.seasons.c.id == season.id)
        ours, theirs = (
            [] if bot is None else _versions_of(connection, bot)
            for bot in (wanted.bot, wanted.against)
        )
        those = [*ours, *theirs]
        of_those = _ratings.c.season_id.in_(its_seasons), _ratings.c.version_id.in_(those)
        ratings = connection.execute(select(_ratings).where(*of_those))
        played = {(row.season_id, row.version_id): row for row in ratings}
        met = [[row] for row in played.values()]
        if wanted.against is not None:
            of_those = _pairs.c.version_id.in_(those), _pairs.c.other_id.in_(those)
            pairs = select(_pairs).where(_pairs.c.season_id.in_(its_seasons), *of_those)
            met = [
                [played[row.season_id, one] for one in (own, other)]
                for row in connection.execute(pairs)
                for own, other in permutations((row.version_id, row.other_id))
                if own in ours and other in theirs
            ]
        found: list[int] = []
        for who in sorted(met, key=_last_seq, reverse=True):
            if len(found) == limit and _last_seq(who) < found[-1]:
                break
            until = _last_seq(who) if before is None else min(_last_seq(who), before - 1)
            rows = connection.execute(_games_of(who, asked, until).limit(limit)).scalars()
            found = sorted({*found, *rows}, reverse=True)[:limit]
        return found

    def numbered(self, seqs: Sequence[int] | CompoundSelect[tuple[int]]) -> list[GameLine]:
        """The games with these sequence numbers that can be read, newest first.

        Games never change, so this may be another snapshot than that of the numbers.
        """
        games = self._query(None).where(_games.c.seq.in_(seqs))
        return self._read(games.order_by(_games.c.seq.desc()))

    def _read(self, query: Select[Any]) -> list[GameLine]:
        return self._database.read_undamaged(query, _games.c.seq, _lines)[0]

    def _stored(self, query: Select[Any]) -> list[StoredGame]:
        with self._database.read() as connection:
            rows = connection.execute(query).all()
            lines = _lines(connection, rows)
        return [
            StoredGame(line, row.record, row.head) for line, row in zip(lines, rows, strict=True)
        ]


def _lines(connection: Connection, rows: Sequence[Row[Any]]) -> list[GameLine]:
    """The games in rows of `_query`."""
    seats = _seats_of(connection, [row.seq for row in rows])
    return [_line(row, seats[row.seq]) for row in rows]


def no_such_game(game_id: str) -> NotOnLadder:
    """The refusal of a game that was not played."""
    return NotOnLadder(f"no game {game_id!r} was played on this ladder")


def _versions_of(connection: Connection, bot: str) -> Sequence[int]:
    versions, bots = schema.bot_versions, schema.bots
    query = select(versions.c.id).join(bots, bots.c.id == versions.c.bot_id)
    return connection.execute(query.where(bots.c.name_key == names.key(bot))).scalars().all()


def _last_seq(who: Sequence[Row[Any]]) -> int:
    return min(int(row.last_seq) for row in who)


def _games_of(who: Sequence[Row[Any]], asked: Sequence[Any], until: int) -> Select[Any]:
    """The games of a version up to one of them, or of two versions, the newest first; `asked` are
    more conditions. Of two, the games of the one that has fewer are looked through."""
    sat = dict(zip((_own, _other), who, strict=False))
    first, *others = sorted(sat, key=lambda seats: sat[seats].games)
    ours = {
        seats: (seats.c.version_id == row.version_id, seats.c.season_id == row.season_id)
        for seats, row in sat.items()
    }
    for seats in others:  # EXISTS: for a join SQLite would look for what stands before `until`
        there = select(seats.c.seq).where(*ours[seats], seats.c.seq == first.c.seq, *asked)
        asked = [there.exists()]
    query = select(first.c.seq).where(*ours[first], first.c.seq <= until, *asked)
    return query.order_by(first.c.seq.desc())


def _seats_of(connection: Connection, seqs: list[int]) -> dict[int, list[GameSeat]]:
    """The seats of these games, by the game's sequence number."""
    versions: dict[int, BotVersion] = {}
    seats: dict[int, list[GameSeat]] = defaultdict(list)
    for row in connection.execute(_SEATS_OF, {"seqs": seqs}):
        if row.version_id not in versions:
            versions[row.version_id] = version_of(row)
        if type(row.placement) is not int or type(row.points) is not int:
            raise _wrong_kind(row.seq)
        rating = Rating.from_hex(row.mu, row.sigma)
        seats[row.seq].append(game_seat(versions[row.version_id], seat_result(row), rating))
    return seats


def game_seat(version: BotVersion, result: SeatResult, rating: Rating) -> GameSeat:
    """The result of a game for the version in one seat."""
    return GameSeat(
        bot=version.bot,
        version=version.number,
        author=version.author,
        digest=version.digest,
        points=result.points,
        placement=result.placement,
        decisions=result.decisions,
        faults=result.faults,
        forfeit=result.forfeit,
        mu=rating.mu,
        sigma=rating.sigma,
    )


def _line(row: Row[Any], seats: Sequence[GameSeat]) -> GameLine:
    if type(row.game_id) is not str or type(row.played_at) is not int:
        raise _wrong_kind(row.seq)
    return GameLine(
        seq=Int64(row.seq),
        game_id=row.game_id,
        season=row.season,
        place=row.place,
        attempt=row.attempt - 1,
        played_at=utc_time(row.played_at),
        seats=tuple(seats),
    )


def _wrong_kind(seq: int) -> StoreDamaged:
    # SQLite takes values of any kind, and these are compared and printed.
    return StoreDamaged(f"game {seq}: a value is of another kind than it should be")


def seat_result(row: Row[Any]) -> SeatResult:
    """The result in a row of `game_seats`."""
    return SeatResult(
        row.version_id, row.points, row.placement, row.decisions, row.faults, row.forfeit
    )


_LAST_SEQ = select(func.max(_games.c.seq))


def last_seq(connection: Connection) -> int:
    """The number of the last game; only the writer may count on it."""
    return connection.execute(_LAST_SEQ).scalar() or 0


# Versions


def versions_by_id(connection: Connection, ids: list[int]) -> dict[int, BotVersion]:
    """The versions with these ids; `StoreDamaged` for one that is not there."""
    rows = connection.execute(_VERSIONS_BY_ID, {"ids": ids})
    versions = {row.version_id: version_of(row) for row in rows}
    for version in ids:
        if version not in versions:
            raise StoreDamaged(
                f"table bot_versions, row {version}: it is gone, or its bot, or its author"
            )
    return versions


def versions_of(
    connection: Connection, job_id: int, *, with_states: bool = False
) -> tuple[BotVersion, ...]:
    """The line-up of a job: the version in each seat.

    with_states  raise `StoreDamaged`, too, if the state of one of the bots cannot be read
    """
    query = _BOTS_OF_JOB if with_states else _VERSIONS_OF_JOB
    found = tuple(version_of(row) for row in connection.execute(query, {"job": job_id}))
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
