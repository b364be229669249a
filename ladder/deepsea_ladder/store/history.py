"""Played games with their seats, and versions of bots with their bots and authors.

Invariants: games are read in portions, each a snapshot of its own, so that a slow reader keeps no
writer waiting; games never change, so the portions fit together; ratings are stored by
`float.hex()`, so no bit of them is lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby, permutations
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    FromClause,
    Row,
    Select,
    and_,
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
"""Selects versions with the columns that games show, so that games can be read even if the state of
a bot is damaged."""
SELECT_BOTS: Select[Any] = SELECT_VERSIONS.add_columns(
    schema.bots.c.id.label("bot_id"),
    *(column for column in schema.bots.c if column.name not in ("id", "name")),
)
"""Selects versions with all columns of their bots, so that a bot's row is read as a whole or not at
all."""
IS_CURRENT = _versions.c.number == schema.bots.c.version
"""The condition that a version, joined with its bot, is the bot's current one."""
# The ids of current versions, looked up bot by bot so that former versions are not read.
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
_own_seats, _other_seats = _seats.alias("own"), _seats.alias("other")
PORTION = 500
"""The number of rows that are read at once."""
_COLUMNS_WITHOUT_RECORD = [column for column in _games.c if column.name != "record"]
_SEATS_OF_GAMES = (
    SELECT_VERSIONS.add_columns(
        *(column for column in _seats.c if column.name not in ("version_id", "number"))
    )
    .join(_seats, _seats.c.version_id == schema.bot_versions.c.id)
    .where(_seats.c.seq.in_(bindparam("seqs", expanding=True)))
    .order_by(_seats.c.seq, _seats.c.seat)
)


class Pace(NamedTuple):
    """The number and the times of a season's newest games."""

    games: int
    first_at: int
    """The end of the first of these games, in milliseconds since 1970."""
    last_at: int
    """The end of the last of these games, in milliseconds since 1970."""

    @property
    def games_per_second(self) -> float | None:
        """The rate at which these games ended; None if they ended at the same time."""
        span_ms = self.last_at - self.first_at
        return (self.games - 1) * 1000 / span_ms if span_ms > 0 else None


class History(StorePart):
    """The store's part for played games."""

    def games(
        self, season: StoredSeason | None = None, portion: int = PORTION
    ) -> Iterator[StoredGame]:
        """Yield games with their records, in the order in which they were rated.

        Raises `StoreDamaged` at a game that cannot be read.

        season   the season of the games; None yields those of all seasons
        portion  the number of games that are read at once
        """
        last_seq = 0
        while True:
            query = self._select_games(season, with_records=True).where(_games.c.seq > last_seq)
            games = self._games_with_records(query.order_by(_games.c.seq).limit(portion))
            yield from games
            if len(games) < portion:
                return
            last_seq = games[-1].line.seq

    def lines(self, season: StoredSeason | None = None) -> Iterator[GameLine]:
        """Yield games without their records, in the order in which they were rated.

        Games that cannot be read are skipped. If there were some, `StoreDamaged` is raised for the
        first of them, after all others were yielded.

        season  the season of the games; None yields those of all seasons
        """
        last_seq = 0
        damage_lines: list[str] = []
        while True:
            # First the numbers alone, which can be read even if the rest of a game is damaged.
            numbers = self._select_games(season).with_only_columns(_games.c.seq)
            numbers = numbers.where(_games.c.seq > last_seq).order_by(_games.c.seq).limit(PORTION)
            with self._database.read() as connection:
                seqs = connection.execute(numbers).scalars().all()
            games = self._select_games(None).where(_games.c.seq.in_(seqs)).order_by(_games.c.seq)
            lines, new_damage_lines = self._database.read_undamaged(
                games, _games.c.seq, _games_of_rows
            )
            yield from lines
            damage_lines += new_damage_lines
            if len(seqs) < PORTION:
                break
            last_seq = seqs[-1]
        if damage_lines:
            raise StoreDamaged(damage_lines[0])

    def paces(self, games: int) -> dict[int, Pace]:
        """Return the number and the times of each season's newest games, by season id.

        A season without games is missing.

        games  the largest number of newest games of a season
        """
        seasons, newest_games = schema.seasons, _games.alias("newest")
        # The oldest of a season's newest games; NULL if the season has fewer games than `games`.
        oldest_seq = (
            select(newest_games.c.seq)
            .where(newest_games.c.season_id == seasons.c.id)
            .order_by(newest_games.c.seq.desc())
            .limit(1)
            .offset(games - 1)
            .correlate(seasons)
            .scalar_subquery()
        )
        is_newest = and_(
            _games.c.season_id == seasons.c.id,
            _games.c.seq >= func.coalesce(oldest_seq, 0),  # 0: all games of the season
        )
        query = (
            select(
                seasons.c.id,
                func.count(),
                func.min(_games.c.played_at),
                func.max(_games.c.played_at),
            )
            .select_from(seasons)
            .join(_games, is_newest)
            .group_by(seasons.c.id)
        )
        with self._database.read() as connection:
            return {
                season_id: Pace(games=count, first_at=first_ms, last_at=last_ms)
                for season_id, count, first_ms, last_ms in connection.execute(query)
            }

    def players(self, season: StoredSeason) -> list[BotVersion]:
        """Return all versions that have played in the season, in the order of their ids."""
        query = select(_seats.c.version_id).where(_seats.c.season_id == season.id).distinct()
        with self._database.read() as connection:
            ids = sorted(connection.execute(query).scalars())
            return list(versions_by_id(connection, ids).values())

    def latest(
        self,
        limit: int,
        season: StoredSeason | None = None,
        game_filter: GameFilter | None = None,
        *,
        before: int | None = None,
    ) -> list[GameLine]:
        """Return the newest games, the newest first. Games that cannot be read are left out.

        limit        the largest number of games
        season       only games of this season; None returns those of all
        game_filter  conditions that the games have to meet
        before       only games with a lower sequence number
        """
        return self.by_numbers(self.newest_numbers(limit, season, game_filter, before=before))

    def newest_numbers(
        self,
        limit: int,
        season: StoredSeason | None = None,
        game_filter: GameFilter | None = None,
        *,
        before: int | None = None,
    ) -> Sequence[int]:
        """Return the sequence numbers of the newest games, the newest first.

        limit        the largest number of games
        season       only games of this season; None returns those of all
        game_filter  conditions that the games have to meet
        before       only games with a lower sequence number
        """
        with self._database.read() as connection:
            has_conditions = game_filter is not None and game_filter != GameFilter()
            if game_filter is not None and has_conditions:
                return self._numbers_of_filtered_games(
                    connection, limit, game_filter, season, before
                )
            query = select(_games.c.seq).order_by(_games.c.seq.desc()).limit(limit)
            if season is not None:
                query = query.where(_games.c.season_id == season.id)
            if before is not None:
                query = query.where(_games.c.seq < before)
            return connection.execute(query).scalars().all()

    def latest_of(
        self, season: StoredSeason, version_id: int, limit: int, limit_with_faults: int = 0
    ) -> list[GameLine]:
        """Return the newest games of a version in the season, the newest first.

        The newest games in which it had faults are among them, even if they are older than those.

        limit              the largest number of newest games
        limit_with_faults  the largest number of newest games with faults
        """
        is_of_version = (_seats.c.version_id == version_id, _seats.c.season_id == season.id)
        newest_first = select(_seats.c.seq).where(*is_of_version).order_by(_seats.c.seq.desc())
        newest = newest_first.limit(limit).subquery()
        with_faults = newest_first.where(schema.HAS_FAULTS).limit(limit_with_faults).subquery()
        return self.by_numbers(union_all(select(newest.c.seq), select(with_faults.c.seq)))

    def results_by_game(self, season: StoredSeason) -> dict[str, tuple[SeatResult, ...]]:
        """Return the results of each game of a season, in the order of its seats, by game id."""
        query = (
            select(_games.c.game_id, _seats)
            .join(_seats, _seats.c.seq == _games.c.seq)
            .where(_games.c.season_id == season.id)
            .order_by(_seats.c.seq, _seats.c.seat)
            .execution_options(yield_per=2000)
        )
        with self._database.read() as connection, connection.execute(query) as rows:
            return {
                game_id: tuple(seat_result(row) for row in rows_of_game)
                for game_id, rows_of_game in groupby(rows, key=lambda row: str(row.game_id))
            }

    def get(self, game_id: str) -> StoredGame:
        """Return a game with its record. Raises `NotOnLadder` if there is none of that id."""
        games = self._games_with_records(
            self._select_games(None, with_records=True).where(_games.c.game_id == game_id)
        )
        if not games:
            raise no_such_game(game_id)
        return games[0]

    def games_after(self, seq: int, limit: int) -> list[GameLine]:
        """Return up to `limit` games after a sequence number, of all seasons, the oldest first.

        Games that cannot be read are left out. The list is empty only if there is no later game
        that can be read.
        """
        last_seq = seq
        while True:
            query = self._select_games(None).where(_games.c.seq > last_seq)
            query = query.order_by(_games.c.seq).limit(limit)
            games, damage_lines = self._database.read_undamaged(query, _games.c.seq, _games_of_rows)
            if games or not damage_lines:
                return games
            # All of these games are damaged: go on behind them. Sequence numbers have no gaps, and
            # there is one line for each game.
            last_seq += len(damage_lines)

    def ratings_before(self, seq: int) -> list[Rating | None]:
        """Return the ratings that the versions of a game had before it, by seat.

        None stands for a version whose first game of the season this was.

        seq  the sequence number of the game
        """
        earlier_seats, previous_seats = _seats.alias("earlier"), _seats.alias("previous")
        # The version's last game before this one, in the same season.
        previous_seq = (
            select(func.max(earlier_seats.c.seq))
            .where(
                earlier_seats.c.version_id == _seats.c.version_id,
                earlier_seats.c.season_id == _seats.c.season_id,
                earlier_seats.c.seq < _seats.c.seq,
            )
            .correlate(_seats)
            .scalar_subquery()
        )
        is_previous_seat = and_(
            previous_seats.c.seq == previous_seq,
            previous_seats.c.version_id == _seats.c.version_id,
        )
        query = (
            select(previous_seats.c.mu, previous_seats.c.sigma)
            .select_from(_seats)
            .outerjoin(previous_seats, is_previous_seat)
            .where(_seats.c.seq == seq)
            .order_by(_seats.c.seat)
        )
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        return [None if row.mu is None else Rating.from_hex(row.mu, row.sigma) for row in rows]

    def records(self, games: Sequence[GameLine]) -> dict[int, str]:
        """Return the records of games, by the games' sequence numbers.

        Records that cannot be read are missing.
        """
        if not games:
            return {}

        def numbered_records(_: Connection, rows: Sequence[Row[Any]]) -> list[tuple[int, str]]:
            return [(row.seq, str(row.record)) for row in rows]

        seqs = [game.seq for game in games]
        query = select(_games.c.seq, _games.c.record).where(_games.c.seq.in_(seqs))
        records, _ = self._database.read_undamaged(query, _games.c.seq, numbered_records)
        return dict(records)

    def _select_games(
        self, season: StoredSeason | None, *, with_records: bool = False
    ) -> Select[Any]:
        """Return a query for the games of a season, with the season's name.

        season        None selects the games of all seasons
        with_records  True also selects the records of the games, which are large
        """
        seasons = schema.seasons
        columns = list(_games.c) if with_records else _COLUMNS_WITHOUT_RECORD
        query = select(*columns, seasons.c.name.label("season"))
        query = query.join(seasons, seasons.c.id == _games.c.season_id)
        if season is not None:
            query = query.where(_games.c.season_id == season.id)
        return query

    def _numbers_of_filtered_games(
        self,
        connection: Connection,
        limit: int,
        game_filter: GameFilter,
        season: StoredSeason | None,
        before: int | None,
    ) -> Sequence[int]:
        """Return the sequence numbers of the newest games that meet the conditions of a list.

        An index has each version's games of a season in their order. So the newest games of each
        version of the bot, or of each two versions that met, are read one by one, those with the
        latest game first, until the others have only older games.
        """
        conditions = [schema.has_faults(_own_seats)] if game_filter.faults else []
        if game_filter.bot is None:
            query = (
                select(_own_seats.c.seq)
                .order_by(_own_seats.c.seq.desc())
                .limit(limit)
                .where(*conditions)
            )
            if before is not None:
                query = query.where(_own_seats.c.seq < before)
            if season is not None:
                # The season's last game bounds the search, which goes from the newest game on.
                last = select(func.max(_games.c.seq)).where(_games.c.season_id == season.id)
                query = query.where(_own_seats.c.season_id == season.id)
                query = query.where(_own_seats.c.seq <= last.scalar_subquery())
            return connection.execute(query.distinct()).scalars().all()
        if game_filter.lost:
            best_placement = 1 if game_filter.against is None else _other_seats.c.placement
            conditions.append(_own_seats.c.placement > best_placement)
        # The keys of ratings and pairs begin with the season, so that each row is looked up.
        season_ids = select(schema.seasons.c.id)
        if season is not None:
            season_ids = season_ids.where(schema.seasons.c.id == season.id)
        own_versions = _versions_of_bot(connection, game_filter.bot)
        other_versions: Sequence[int] = []
        if game_filter.against is not None:
            other_versions = _versions_of_bot(connection, game_filter.against)
        versions = [*own_versions, *other_versions]
        ratings = connection.execute(
            select(_ratings).where(
                _ratings.c.season_id.in_(season_ids), _ratings.c.version_id.in_(versions)
            )
        )
        rating_of = {(row.season_id, row.version_id): row for row in ratings}
        # Each group of rows of ratings is a version, or two that met, the bot's own first.
        groups = [[row] for row in rating_of.values()]
        if game_filter.against is not None:
            pairs = select(_pairs).where(
                _pairs.c.season_id.in_(season_ids),
                _pairs.c.version_id.in_(versions),
                _pairs.c.other_id.in_(versions),
            )
            groups = [
                [rating_of[row.season_id, own], rating_of[row.season_id, other]]
                for row in connection.execute(pairs)
                for own, other in permutations((row.version_id, row.other_id))
                if own in own_versions and other in other_versions
            ]
        newest: list[int] = []
        for group in sorted(groups, key=_last_common_seq, reverse=True):
            last_seq = _last_common_seq(group)
            if len(newest) == limit and last_seq < newest[-1]:
                break
            until = last_seq if before is None else min(last_seq, before - 1)
            seqs = connection.execute(_games_of_group(group, conditions, until).limit(limit))
            newest = sorted({*newest, *seqs.scalars()}, reverse=True)[:limit]
        return newest

    def by_numbers(self, seqs: Sequence[int] | CompoundSelect[tuple[int]]) -> list[GameLine]:
        """Return the games with these sequence numbers, the newest first, without records.

        Games that cannot be read are left out. Since games never change, the numbers may have been
        read earlier.

        seqs  the numbers, or a query for them
        """
        query = self._select_games(None).where(_games.c.seq.in_(seqs)).order_by(_games.c.seq.desc())
        games, _ = self._database.read_undamaged(query, _games.c.seq, _games_of_rows)
        return games

    def _games_with_records(self, query: Select[Any]) -> list[StoredGame]:
        """Return the games that a query selects, with their records, in the order of its rows.

        query  a query of `_select_games` with records
        """
        with self._database.read() as connection:
            rows = connection.execute(query).all()
            lines = _games_of_rows(connection, rows)
        return [
            StoredGame(line, row.record, row.head) for line, row in zip(lines, rows, strict=True)
        ]


def _games_of_rows(connection: Connection, rows: Sequence[Row[Any]]) -> list[GameLine]:
    """Return the games of rows of `History._select_games`."""
    seats = _seats_of_games(connection, [row.seq for row in rows])
    return [_game_of_row(row, seats[row.seq]) for row in rows]


def no_such_game(game_id: str) -> NotOnLadder:
    """Return the error to raise for the id of a game that was not played."""
    return NotOnLadder(f"no game {game_id!r} was played on this ladder")


def _versions_of_bot(connection: Connection, bot: str) -> Sequence[int]:
    """Return the ids of all versions of a bot; none if there is no bot of that name."""
    versions, bots = schema.bot_versions, schema.bots
    query = select(versions.c.id).join(bots, bots.c.id == versions.c.bot_id)
    return connection.execute(query.where(bots.c.name_key == names.key(bot))).scalars().all()


def _last_common_seq(group: Sequence[Row[Any]]) -> int:
    """Return the sequence number after which the versions of these ratings have no common game."""
    return min(int(row.last_seq) for row in group)


def _is_seat_of(seats: FromClause, rating: Row[Any]) -> ColumnElement[bool]:
    """Return the condition that a seat is of the version and season of a row of ratings."""
    return and_(seats.c.version_id == rating.version_id, seats.c.season_id == rating.season_id)


def _games_of_group(
    group: Sequence[Row[Any]], conditions: Sequence[ColumnElement[bool]], until: int
) -> Select[Any]:
    """Return a query for the games of one version, or of two versions that met, newest first.

    It selects sequence numbers.

    group       the row of the version's rating; of two versions, that of the bot's own first
    conditions  on columns of `_own_seats` and, with two versions, of `_other_seats`
    until       the highest sequence number
    """
    if len(group) == 1:
        searched, searched_rating = _own_seats, group[0]
    else:
        own_rating, other_rating = group
        searched, searched_rating = _own_seats, own_rating
        checked, checked_rating = _other_seats, other_rating
        if other_rating.games < own_rating.games:
            # The games of the version with fewer games are searched for the other one.
            searched, searched_rating = _other_seats, other_rating
            checked, checked_rating = _own_seats, own_rating
        # By EXISTS, since for a join SQLite would search the games before `until`, too.
        common_seat = select(checked.c.seq).where(
            _is_seat_of(checked, checked_rating), checked.c.seq == searched.c.seq, *conditions
        )
        conditions = [common_seat.exists()]
    return (
        select(searched.c.seq)
        .where(_is_seat_of(searched, searched_rating), searched.c.seq <= until, *conditions)
        .order_by(searched.c.seq.desc())
    )


def _seats_of_games(connection: Connection, seqs: list[int]) -> dict[int, list[GameSeat]]:
    """Return the seats of each game, in their order, by the games' sequence numbers.

    Raises `StoreDamaged` if one of them cannot be read.
    """
    versions: dict[int, BotVersion] = {}
    seats: dict[int, list[GameSeat]] = defaultdict(list)
    for row in connection.execute(_SEATS_OF_GAMES, {"seqs": seqs}):
        if row.version_id not in versions:  # each version has many seats
            versions[row.version_id] = version_of(row)
        # SQLite also stores values of another type.
        if type(row.placement) is not int or type(row.points) is not int:
            raise _wrong_type(row.seq)
        rating = Rating.from_hex(row.mu, row.sigma)
        seats[row.seq].append(game_seat(versions[row.version_id], seat_result(row), rating))
    return seats


def game_seat(version: BotVersion, result: SeatResult, rating: Rating) -> GameSeat:
    """Return a seat of a game, from its version, result and the rating after the game."""
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


def _game_of_row(row: Row[Any], seats: Sequence[GameSeat]) -> GameLine:
    """Return the game in a row of `History._select_games`, with its seats and without its record.

    Raises `StoreDamaged` for a value of another type than its column has.
    """
    if type(row.game_id) is not str or type(row.played_at) is not int:
        raise _wrong_type(row.seq)
    return GameLine(
        seq=Int64(row.seq),
        game_id=row.game_id,
        season=row.season,
        place=row.place,
        attempt=row.attempt - 1,  # the attempts before it: leases are numbered from 1
        played_at=utc_time(row.played_at),
        seats=tuple(seats),
    )


def _wrong_type(seq: int) -> StoreDamaged:
    """Return the error for a game with a value of another type, which SQLite stores as well."""
    return StoreDamaged(f"game {seq}: a value is of another kind than it should be")


def seat_result(row: Row[Any]) -> SeatResult:
    """Return the result of a row of `game_seats`."""
    return SeatResult(
        row.version_id, row.points, row.placement, row.decisions, row.faults, row.forfeit
    )


_LAST_SEQ = select(func.max(_games.c.seq))


def last_seq(connection: Connection) -> int:
    """Return the sequence number of the ladder's last game; 0 before the first.

    Outside of a writing transaction another game may have been added meanwhile.
    """
    return connection.execute(_LAST_SEQ).scalar() or 0


# ----- Versions


def versions_by_id(connection: Connection, ids: list[int]) -> dict[int, BotVersion]:
    """Return the versions with these ids, by id. Raises `StoreDamaged` if one does not exist."""
    rows = connection.execute(_VERSIONS_BY_ID, {"ids": ids})
    versions = {row.version_id: version_of(row) for row in rows}
    for version_id in ids:
        if version_id not in versions:
            raise StoreDamaged(
                f"table bot_versions, row {version_id}: it is gone, or its bot, or its author"
            )
    return versions


def versions_of(
    connection: Connection, job_id: int, *, with_states: bool = False
) -> tuple[BotVersion, ...]:
    """Return the line-up of a job: its versions in the order of their seats.

    Raises `StoreDamaged` if there is none.

    with_states  also read the states of the bots, which raises `StoreDamaged` for a damaged one
    """
    query = _BOTS_OF_JOB if with_states else _VERSIONS_OF_JOB
    rows = connection.execute(query, {"job": job_id})
    lineup = tuple(version_of(row) for row in rows)
    if not lineup:
        raise StoreDamaged(f"job {job_id} has no line-up")
    return lineup


def version_of(row: Row[Any]) -> BotVersion:
    """Return the version in a row of `SELECT_VERSIONS`.

    Raises `StoreDamaged` if the name of the bot or of its author is not a text.
    """
    for name in (row.name, row.author):
        if not isinstance(name, str):  # SQLite also stores bytes, which would be printed
            raise StoreDamaged(f"version {row.version_id}: the name {name!r} is not a text")
    return BotVersion(
        id=row.version_id,
        bot=row.name,
        author=row.author,
        number=row.number,
        digest=row.digest,
        created_at=row.submitted_at,
    )
