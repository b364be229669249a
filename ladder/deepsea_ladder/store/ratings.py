"""Ratings and sums as they are stored, and as they follow from the games.

Invariants: ratings and sums are computed from a season's games in sequence order, one game after
another; `differences` computes them again and compares every bit with the stored values; only
`rewrite` changes anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import groupby, islice
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    String,
    bindparam,
    cast,
    delete,
    func,
    select,
    union_all,
    update,
)

from deepsea_ladder.accounts import MACHINE, AuditKind
from deepsea_ladder.chain import Prove, RecordedGame, prove
from deepsea_ladder.errors import StoreDamaged
from deepsea_ladder.model import Int64, RatedVersion, StoredSeason
from deepsea_ladder.rating import (
    METHOD,
    Audit,
    Rating,
    RatingParameters,
    RatingTotals,
    SeatResult,
    after_game,
    audit,
    outcome_of,
)
from deepsea_ladder.standings import CoursePoint
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import note
from deepsea_ladder.store.database import StorePart, now
from deepsea_ladder.store.history import (
    CURRENT_IDS,
    IS_CURRENT,
    SELECT_BOTS,
    last_seq,
    seat_result,
    version_of,
)
from deepsea_ladder.store.seasons import seed_of
from deepsea_ladder.store.sums import (
    count_sums,
    read_tallies,
    sum_differences,
    tally_of,
    write_tallies,
)
from deepsea_rules.randomness import game_seed

_MOST_DIFFERENCES = 20
"""The largest number of differences that are listed; further ones usually have the same cause."""
_MOST_SELECTS = 400
"""The largest number of selects in one statement; SQLite permits 500."""
_PORTION = 200
"""The number of games that are in memory at once."""


class FoldedGame(NamedTuple):
    """A stored game with everything that ratings are computed from, and with its stored ratings."""

    seq: int
    played_at: int
    seats: list[SeatResult]
    ratings: list[Rating]
    """The stored rating after the game, by seat."""
    numbers: list[int]
    """The number of games that the version had played with this one, by seat."""


_rated = schema.ratings.c
_ALL_ENTRIES = (
    SELECT_BOTS.add_columns(
        IS_CURRENT.label("is_current"),
        *(column for column in _rated if column.name not in ("season_id", "version_id")),
    )
    .outerjoin(
        schema.ratings,
        (_rated.version_id == schema.bot_versions.c.id) & (_rated.season_id == bindparam("season")),
    )
    .order_by(schema.bot_versions.c.id)
)
_VERSIONS_WITH_GAMES = select(_rated.version_id).where(_rated.season_id == bindparam("season"))
_GIVEN_VERSIONS_WITH_GAMES = _VERSIONS_WITH_GAMES.where(
    _rated.version_id.in_(bindparam("former", expanding=True))
)
_ENTRIES_WITH_GAMES = _ALL_ENTRIES.where(
    schema.bot_versions.c.id.in_(union_all(CURRENT_IDS, _VERSIONS_WITH_GAMES))
)
_ENTRIES_WITH_GIVEN_FORMER = _ALL_ENTRIES.where(
    schema.bot_versions.c.id.in_(union_all(CURRENT_IDS, _GIVEN_VERSIONS_WITH_GAMES))
)


class Ratings(StorePart):
    """The store's part for ratings."""

    def entries(
        self, season: StoredSeason, former: Collection[int] | None = None
    ) -> list[RatedVersion]:
        """Return the versions that play or have played in the season, in the order of their ids.

        A version that cannot be read is left out.

        former  ids of the only former versions to return; by default all. It has no effect in a
                season in which former versions go on playing
        """
        query = _ALL_ENTRIES
        parameters: dict[str, object] = {"season": season.id}
        if not season.settings.pairing.former_versions:
            query = _ENTRIES_WITH_GAMES
            if former is not None:
                query = _ENTRIES_WITH_GIVEN_FORMER
                parameters["former"] = [*former]
        totals_of_newcomer = RatingTotals(season.settings.rating.newcomer)

        def rated_versions(_: Connection, rows: Sequence[Row[Any]]) -> list[RatedVersion]:
            """Return the versions in rows; one without games has the rating of a newcomer."""
            versions = []
            for row in rows:
                has_games = row.mu is not None
                totals = tally_of(row) if has_games else totals_of_newcomer
                versions.append(
                    RatedVersion(version_of(row), totals, row.state, is_current=row.is_current)
                )
            return versions

        version_id = schema.bot_versions.c.id
        versions, _ = self._database.read_undamaged(query, version_id, rated_versions, parameters)
        return versions

    def last_seq(self) -> int:
        """Return the sequence number of the ladder's last game; 0 before the first.

        The numbers begin with 1 and have no gaps, so it is also the number of games.
        """
        with self._database.read() as connection:
            return last_seq(connection)

    def courses(
        self, season: StoredSeason, versions: Mapping[int, tuple[RatingTotals, int]]
    ) -> dict[int, list[CoursePoint]]:
        """Return points of versions' rating histories, evenly spread, by version id.

        The first and the last game are always among them.

        versions  by version id its totals, and about how many points to return, at least two
        """
        table = schema.game_seats
        point = select(table.c.version_id, table.c.number, table.c.seq, table.c.mu, table.c.sigma)
        selects: list[Select[Any]] = []
        for version_id, (totals, points) in versions.items():
            is_of_version = (table.c.version_id == version_id, table.c.season_id == season.id)
            first_seq = select(func.min(table.c.seq)).where(*is_of_version).scalar_subquery()
            is_end = table.c.seq.in_((first_seq, totals.last_seq))
            selects.append(point.where(*is_of_version, is_end))
            step = max(1, totals.games // (points - 1))
            if step < schema.COURSE_STEP:
                selects.append(point.where(*is_of_version, table.c.number % step == 0))
            else:
                # An index has every eighth game of a version, by its number: with a multiple of
                # eight as step, only the games of the points are read.
                step -= step % schema.COURSE_STEP
                numbers = range(step, totals.games, step)
                is_point = table.c.number.in_(numbers)
                selects.append(point.where(*is_of_version, schema.IS_EIGHTH, is_point))
        points_of: dict[int, dict[int, CoursePoint]] = {version_id: {} for version_id in versions}
        with self._database.read() as connection:
            for start in range(0, len(selects), _MOST_SELECTS):
                query = union_all(*selects[start : start + _MOST_SELECTS])
                for version_id, number, seq, mu, sigma in connection.execute(query):
                    rating = Rating.from_hex(mu, sigma)
                    points_of[version_id][number] = CoursePoint(
                        games=number,
                        seq=Int64(seq),
                        rating=rating.conservative,
                        mu=rating.mu,
                        sigma=rating.sigma,
                    )
        return {
            version_id: [points[number] for number in sorted(points)]
            for version_id, points in points_of.items()
        }

    def recent(
        self, season: StoredSeason, games: int, version_id: int | None = None, *, former: bool
    ) -> dict[int, list[float]]:
        """Return mu after each of a version's last games, the oldest first, by version id.

        A version with a damaged rating among these is left out.

        games       the largest number of games of a version
        version_id  the only version to return
        former      False to leave out former versions
        """
        table, ratings = schema.game_seats, schema.ratings
        last_games = (
            select(table.c.seq, table.c.mu)
            .where(table.c.version_id == ratings.c.version_id, table.c.season_id == season.id)
            .order_by(table.c.seq.desc())
            .limit(games)
            .correlate(ratings)
            .subquery()
        )
        # All games of a version as one text, "seq mu,seq mu", by a subquery that reads only the
        # last games through the index. They are sorted below, since aggregates have no order.
        pair = cast(last_games.c.seq, String) + " " + last_games.c.mu
        pairs = select(func.aggregate_strings(pair, ",")).scalar_subquery()
        query = select(ratings.c.version_id, pairs.label("pairs")).where(
            ratings.c.season_id == season.id
        )
        if version_id is not None:
            query = query.where(ratings.c.version_id == version_id)
        elif not former:
            query = query.where(ratings.c.version_id.in_(CURRENT_IDS))
        # In a damaged ladder a version may have a rating and no games.
        courses, _ = self._database.read_undamaged(
            query,
            ratings.c.version_id,
            lambda _, rows: [
                (row.version_id, _means(row.pairs) if row.pairs else []) for row in rows
            ],
        )
        return dict(courses)

    def audit(self, season: StoredSeason) -> Audit:
        """Rate the season's games again, and compare with the package `trueskill`."""
        with self._database.read() as connection:
            games = rated_games(connection, season)
            outcomes = (outcome_of(game.seq, game.seats) for game in games)
            return audit(season.settings.rating, outcomes)

    def differences(
        self, season: StoredSeason, *, records: bool = False, proof: Prove = prove
    ) -> list[str]:
        """Rate a season's games again, and return where the stored ratings and sums differ.

        Each difference is one line; there are at most `_MOST_DIFFERENCES`. An empty list means that
        all stored values agree with the games.

        records  True also compares results with the games' records, which are played again; this
                 takes a millisecond or two for each game
        proof    the function that plays records again, and returns lines on differences
        """
        lines: list[str] = []
        computed: dict[int, RatingTotals] = {}
        with self._database.read() as connection:
            stored = read_tallies(connection, season)
            for game in rated_games(connection, season):
                computed |= _tallies_after(season.settings.rating, computed, game)
                lines += _seat_differences(game, computed)
                if len(lines) >= _MOST_DIFFERENCES:
                    return lines[:_MOST_DIFFERENCES]
            lines += sum_differences(connection, season)
            for version_id in sorted(stored.keys() | computed.keys()):
                lines += _tally_differences(
                    version_id, stored.get(version_id), computed.get(version_id)
                )
            if records:
                lines += islice(proof(recorded_games(connection, season)), _MOST_DIFFERENCES)
        return lines[:_MOST_DIFFERENCES]

    def rewrite(self, season: StoredSeason, portion: int = _PORTION) -> int:
        """Replace all values that are computed from a season's games; returns their number.

        It is meant for a new arithmetic, and for `differences` whose cause is understood.

        portion  the number of games that are in memory at once
        """
        table, games, seats = schema.ratings, schema.games, schema.game_seats
        tallies: dict[int, RatingTotals] = {}
        seqs_of_portion = (
            select(games.c.seq)
            .where(games.c.season_id == season.id, games.c.seq > bindparam("after"))
            .order_by(games.c.seq)
            .limit(portion)
        )
        count = last_seq = 0
        with self._database.write() as connection:
            # In portions, since rows that are being read must not be written.
            while seqs := connection.execute(seqs_of_portion, {"after": last_seq}).scalars().all():
                for game in list(rated_games(connection, season, games.c.seq.in_(seqs))):
                    tallies |= _tallies_after(season.settings.rating, tallies, game)
                    for seat in game.seats:
                        tally = tallies[seat.version_id]
                        mu, sigma = tally.rating.to_hex()
                        is_seat = (seats.c.seq == game.seq) & (
                            seats.c.version_id == seat.version_id
                        )
                        values = {"number": tally.games, "mu": mu, "sigma": sigma}
                        connection.execute(update(seats).where(is_seat).values(**values))
                count += len(seqs)
                last_seq = seqs[-1]
            connection.execute(delete(table).where(table.c.season_id == season.id))
            write_tallies(connection, season, tallies, known=())
            count_sums(connection, season)
            connection.execute(
                update(schema.seasons).where(schema.seasons.c.id == season.id).values(method=METHOD)
            )
            words = f"{count} games, by {METHOD}"
            note(
                connection, now(connection), AuditKind.REWRITTEN, season.name, words, actor=MACHINE
            )
        return count


def _means(pairs: str) -> list[float]:
    """Return the mean of a version's rating (mu) after each of its games, the first game first.

    Raises `StoreDamaged` for a value that is no number, since no type of a column checks a text
    that a query has built.

    pairs  the sequence number of each game and mu after it as a hexadecimal float, in any order:
           "seq mu,seq mu"
    """
    mean_after_game = {}
    try:
        for pair in pairs.split(","):
            seq, mu = pair.split(" ")
            mean_after_game[int(seq)] = float.fromhex(mu)
    except (TypeError, ValueError):
        raise StoreDamaged("a game's rating is no number", "game_seats", "mu") from None
    return [mean_after_game[seq] for seq in sorted(mean_after_game)]


def rated_games(
    connection: Connection, season: StoredSeason, *conditions: ColumnElement[bool]
) -> Iterator[FoldedGame]:
    """Yield the games of a season that meet all conditions, in the order in which they were rated.

    conditions  conditions on columns of the games and their seats
    """
    games, seats = schema.games, schema.game_seats
    query = (
        select(games.c.played_at, seats)
        .join(seats, seats.c.seq == games.c.seq)
        .where(games.c.season_id == season.id, *conditions)
        .order_by(games.c.seq, seats.c.seat)
        .execution_options(yield_per=2000)
    )
    with connection.execute(query) as rows:  # which is closed if the caller stops early, too
        for seq, rows_of_game in groupby(rows, key=lambda row: row.seq):
            seat_rows = list(rows_of_game)
            yield FoldedGame(
                seq=seq,
                played_at=seat_rows[0].played_at,
                seats=[seat_result(row) for row in seat_rows],
                ratings=[Rating.from_hex(row.mu, row.sigma) for row in seat_rows],
                numbers=[row.number for row in seat_rows],
            )


def _tallies_after(
    parameters: RatingParameters, tallies: dict[int, RatingTotals], game: FoldedGame
) -> dict[int, RatingTotals]:
    """Return the rating and totals of a game's versions after the game, by version id.

    tallies  the rating and totals before the game; a version that is missing plays its first game
    """
    return after_game(parameters, tallies, game.seats, game.seq, game.played_at)


def _seat_differences(game: FoldedGame, tallies: dict[int, RatingTotals]) -> list[str]:
    """Return a line for each seat of a game whose stored rating or number of games is wrong.

    tallies  the computed rating and totals after the game, by version id
    """
    lines = []
    for seat, rating, number in zip(game.seats, game.ratings, game.numbers, strict=True):
        computed = tallies[seat.version_id]
        is_same_rating = rating.to_hex() == computed.rating.to_hex()
        if not is_same_rating or number != computed.games:
            lines.append(
                f"game {game.seq}, version {seat.version_id}: the rating after it is "
                f"{_bits(rating)} and {number} the number of its games, the games give "
                f"{_bits(computed.rating)} and {computed.games}"
            )
    return lines


def _tally_differences(
    version: int, stored: RatingTotals | None, computed: RatingTotals | None
) -> list[str]:
    """Return a line for each stored total of a version that differs from the computed one.

    version   the id of the version
    stored    the stored rating and totals; None if the version has none
    computed  the rating and totals that its games give; None if it has no games
    """
    if stored is None or computed is None:
        difference = "no rating, but games" if stored is None else "a rating, but no games"
        return [f"version {version} has {difference}"]
    lines = []
    for field in fields(RatingTotals):
        stored_text = _exact_text(getattr(stored, field.name))
        computed_text = _exact_text(getattr(computed, field.name))
        if stored_text != computed_text:
            lines.append(
                f"version {version}: {field.name} is {stored_text}, the games give {computed_text}"
            )
    return lines


def _exact_text(value: Rating | int) -> str:
    """Return a rating or a total as a text that differs if any bit differs."""
    return _bits(value) if isinstance(value, Rating) else str(value)


def _bits(rating: Rating) -> str:
    """Return mu and sigma of a rating in hexadecimal, which loses no bit."""
    return "/".join(rating.to_hex())


def recorded_games(connection: Connection, season: StoredSeason) -> Iterator[RecordedGame]:
    """Yield a season's games with their records, in the order in which they are rated.

    With them comes everything that a record has to agree with: the seed, the line-up of the job,
    and the stored results.
    """
    games, jobs = schema.games, schema.jobs
    result_seats, lineup_seats = schema.game_seats, schema.job_seats
    seed = seed_of(connection, season.id)
    query = (
        select(games, jobs.c.number)
        .join(jobs, jobs.c.id == games.c.job_id)
        .where(games.c.season_id == season.id)
        .order_by(games.c.seq)
        .execution_options(yield_per=_PORTION)
    )
    with connection.execute(query) as rows:
        for portion in rows.partitions():
            first_seq, last_seq = portion[0].seq, portion[-1].seq
            lineups: dict[int, list[int]] = defaultdict(list)
            for job_id, version_id in connection.execute(
                select(lineup_seats.c.job_id, lineup_seats.c.version_id)
                .join(games, games.c.job_id == lineup_seats.c.job_id)
                .where(games.c.seq.between(first_seq, last_seq))
                .order_by(games.c.seq, lineup_seats.c.seat)
            ):
                lineups[job_id].append(version_id)
            results: dict[int, list[SeatResult]] = defaultdict(list)
            for row in connection.execute(
                select(result_seats)
                .where(result_seats.c.seq.between(first_seq, last_seq))
                .order_by(result_seats.c.seq, result_seats.c.seat)
            ):
                results[row.seq].append(seat_result(row))
            for row in portion:
                yield RecordedGame(
                    game_id=row.game_id,
                    record=row.record,
                    seed=game_seed(seed, row.number, row.attempt - 1),
                    lineup=tuple(lineups[row.job_id]),
                    results=tuple(results[row.seq]),
                )
