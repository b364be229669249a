"""Reads ratings, and recomputes them from the games.

Invariants: ratings and sums are a fold over a season's games in sequence order, and `differences`
compares what is stored with that fold bit for bit; a what-if changes nothing in the store.
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
"""Those that are listed; the others would say the same."""
_MOST_UNITED = 400
"""Selects of one statement; SQLite takes 500."""
_PORTION = 200
"""Games that are in memory at once."""


class FoldedGame(NamedTuple):
    """A stored game as the fold reads it."""

    seq: int
    played_at: int
    seats: list[SeatResult]
    ratings: list[Rating]
    """After the game, by seat."""
    numbers: list[int]
    """Of how many of its version's games it is the last, by seat."""


_rated = schema.ratings.c
_ENTRIES_OF_ALL = (
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
_THAT_PLAYED = select(_rated.version_id).where(_rated.season_id == bindparam("season"))
_SOME = _THAT_PLAYED.where(_rated.version_id.in_(bindparam("former", expanding=True)))
_ENTRIES, _ENTRIES_OF_SOME = (
    _ENTRIES_OF_ALL.where(schema.bot_versions.c.id.in_(union_all(CURRENT_IDS, played)))
    for played in (_THAT_PLAYED, _SOME)
)


class Ratings(StorePart):
    def entries(
        self, season: StoredSeason, former: Collection[int] | None = None
    ) -> list[RatedVersion]:
        """Every version that plays or has played in the season and can be read, by its id.

        former  the only former versions that are wanted, unless they play on; by default all
        """
        query = _ENTRIES_OF_ALL
        which: dict[str, object] = {"season": season.id}
        if not season.settings.pairing.former_versions:
            query = _ENTRIES
            if former is not None:
                query = _ENTRIES_OF_SOME
                which["former"] = [*former]
        newcomer = RatingTotals(season.settings.rating.newcomer)

        def entries(_: Connection, rows: Sequence[Row[Any]]) -> list[RatedVersion]:
            return [
                RatedVersion(
                    version_of(row),
                    newcomer if row.mu is None else tally_of(row),
                    row.state,
                    is_current=row.is_current,
                )
                for row in rows
            ]

        key = schema.bot_versions.c.id
        return self._database.read_undamaged(query, key, entries, which)[0]

    def last_seq(self) -> int:
        """The number of the last game; numbers have no gaps, so also how many there are."""
        with self._database.read() as connection:
            return last_seq(connection)

    def courses(
        self, season: StoredSeason, wanted: Mapping[int, tuple[RatingTotals, int]]
    ) -> dict[int, list[CoursePoint]]:
        """Some points of the courses of versions, evenly spread, with the first and the last.

        wanted  of each version, by its id, its totals, and about how many points, two at least
        """
        table = schema.game_seats
        point = select(table.c.version_id, table.c.number, table.c.seq, table.c.mu, table.c.sigma)
        courses: list[Select[Any]] = []
        for version_id, (totals, points) in wanted.items():
            ours = (table.c.version_id == version_id, table.c.season_id == season.id)
            first = select(func.min(table.c.seq)).where(*ours).scalar_subquery()
            courses.append(point.where(*ours, table.c.seq.in_((first, totals.last_seq))))
            step = max(1, totals.games // (points - 1))
            course = point.where(*ours, table.c.number % step == 0)
            if step >= schema.COURSE_STEP:  # looked up one by one
                step -= step % schema.COURSE_STEP
                numbers = range(step, totals.games, step)
                course = point.where(*ours, schema.IS_EIGHTH, table.c.number.in_(numbers))
            courses.append(course)
        points_of: dict[int, dict[int, CoursePoint]] = {version_id: {} for version_id in wanted}
        with self._database.read() as connection:
            for start in range(0, len(courses), _MOST_UNITED):
                query = union_all(*courses[start : start + _MOST_UNITED])
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
        """Each version's mu after the last of its games, at most so many, the oldest first.

        version_id  only that version's
        former      whether those of former versions are wanted
        """
        table, ratings = schema.game_seats, schema.ratings
        last = (
            select(table.c.seq, table.c.mu)
            .where(table.c.version_id == ratings.c.version_id, table.c.season_id == season.id)
            .order_by(table.c.seq.desc())
            .limit(games)
            .correlate(ratings)
            .subquery()
        )
        # One text for each version, so that its games are looked up through the index, and only
        # these; they are put in order below, since aggregates promise none.
        word = cast(last.c.seq, String) + " " + last.c.mu
        text = select(func.aggregate_strings(word, ",")).scalar_subquery()
        query = select(ratings.c.version_id, text.label("words")).where(
            ratings.c.season_id == season.id
        )
        if version_id is not None:
            query = query.where(ratings.c.version_id == version_id)
        elif not former:
            query = query.where(ratings.c.version_id.in_(CURRENT_IDS))
        with self._database.read() as connection:
            rows = connection.execute(query).all()
            # In a damaged ladder a version may have a rating and no games.
            return {row.version_id: _in_order(row.words) if row.words else [] for row in rows}

    def audit(self, season: StoredSeason) -> Audit:
        """Compare the fold over the season's games with that of the package `trueskill`."""
        with self._database.read() as connection:
            games = rated_games(connection, season)
            outcomes = (outcome_of(game.seq, game.seats) for game in games)
            return audit(season.settings.rating, outcomes)

    def differences(
        self, season: StoredSeason, *, records: bool = False, proof: Prove = prove
    ) -> list[str]:
        """The first differences of a season's stored ratings and results from those of its games.

        records  also re-run every record, which takes a millisecond or two for each
        proof    how that is done
        """
        found: list[str] = []
        tallies: dict[int, RatingTotals] = {}
        with self._database.read() as connection:
            stored = read_tallies(connection, season)
            for game in rated_games(connection, season):
                tallies |= _folded(season.settings.rating, tallies, game)
                found += _seat_differences(game, tallies)
                if len(found) >= _MOST_DIFFERENCES:
                    return found[:_MOST_DIFFERENCES]
            found += sum_differences(connection, season)
            for version in sorted(stored.keys() | tallies.keys()):
                found += _tally_differences(version, stored.get(version), tallies.get(version))
            if records:
                wrong = proof(recorded_games(connection, season))
                found += islice(wrong, _MOST_DIFFERENCES)
        return found[:_MOST_DIFFERENCES]

    def rewrite(self, season: StoredSeason, portion: int = _PORTION) -> int:
        """Replace everything that is computed from the season's games; returns their number.

        For a new arithmetic, or after `differences` that are understood.

        portion  the most games that are in memory at once
        """
        table, games, seats = schema.ratings, schema.games, schema.game_seats
        tallies: dict[int, RatingTotals] = {}
        ours = select(games.c.seq).where(games.c.season_id == season.id).order_by(games.c.seq)
        later = ours.where(games.c.seq > bindparam("after")).limit(portion)
        number = after = 0
        with self._database.write() as connection:
            # In portions, since rows that are being read must not be written.
            while seqs := connection.execute(later, {"after": after}).scalars().all():
                for game in list(rated_games(connection, season, games.c.seq.in_(seqs))):
                    tallies |= _folded(season.settings.rating, tallies, game)
                    for seat in game.seats:
                        tally = tallies[seat.version_id]
                        values = dict(zip(("mu", "sigma"), tally.rating.to_hex(), strict=True))
                        its = (seats.c.seq == game.seq) & (seats.c.version_id == seat.version_id)
                        connection.execute(
                            update(seats).where(its).values(number=tally.games, **values)
                        )
                number, after = number + len(seqs), seqs[-1]
            connection.execute(delete(table).where(table.c.season_id == season.id))
            write_tallies(connection, season, tallies, known=())
            count_sums(connection, season)
            connection.execute(
                update(schema.seasons).where(schema.seasons.c.id == season.id).values(method=METHOD)
            )
            words = f"{number} games, by {METHOD}"
            note(
                connection, now(connection), AuditKind.REWRITTEN, season.name, words, actor=MACHINE
            )
        return number


def _in_order(words: str) -> list[float]:
    """The means in pairs of a game's number and a mean, in the order of the games."""
    try:
        pairs = words.replace(",", " ").split(" ")
        seqs = [*map(int, pairs[::2])]
        means = [*map(float.fromhex, pairs[1::2])]
    except (TypeError, ValueError):  # of an expression, whose values no type of a column checks
        raise StoreDamaged("a game's rating is no number", "game_seats", "mu") from None
    return [mean for _, mean in sorted(zip(seqs, means, strict=True))]


def rated_games(
    connection: Connection, season: StoredSeason, *which: ColumnElement[bool]
) -> Iterator[FoldedGame]:
    """A season's games, or some of them, in the order in which they are rated."""
    games, seats = schema.games, schema.game_seats
    query = (
        select(games.c.played_at, seats)
        .join(seats, seats.c.seq == games.c.seq)
        .where(games.c.season_id == season.id, *which)
        .order_by(games.c.seq, seats.c.seat)
        .execution_options(yield_per=2000)
    )
    with connection.execute(query) as rows:  # closed if the caller stops early, too
        for seq, group in groupby(rows, key=lambda row: row.seq):
            members = list(group)
            yield FoldedGame(
                seq,
                members[0].played_at,
                [seat_result(row) for row in members],
                [Rating.from_hex(row.mu, row.sigma) for row in members],
                [row.number for row in members],
            )


def _folded(
    parameters: RatingParameters, tallies: dict[int, RatingTotals], game: FoldedGame
) -> dict[int, RatingTotals]:
    return after_game(parameters, tallies, game.seats, game.seq, game.played_at)


def _seat_differences(game: FoldedGame, tallies: dict[int, RatingTotals]) -> list[str]:
    return [
        f"game {game.seq}, version {seat.version_id}: the rating after it is "
        f"{_bits(stored)} and {number} the number of its games, the games give "
        f"{_bits(tallies[seat.version_id].rating)} and {tallies[seat.version_id].games}"
        for seat, stored, number in zip(game.seats, game.ratings, game.numbers, strict=True)
        if stored.to_hex() != tallies[seat.version_id].rating.to_hex()
        or number != tallies[seat.version_id].games
    ]


def _tally_differences(
    version: int, stored: RatingTotals | None, folded: RatingTotals | None
) -> list[str]:
    if stored is None or folded is None:
        what = "no rating, but games" if stored is None else "a rating, but no games"
        return [f"version {version} has {what}"]
    return [
        f"version {version}: {name} is {_shown(kept)}, the games give {_shown(made)}"
        for name, kept, made in (
            (field.name, getattr(stored, field.name), getattr(folded, field.name))
            for field in fields(RatingTotals)
        )
        if _shown(kept) != _shown(made)
    ]


def _shown(value: Rating | int) -> str:
    return _bits(value) if isinstance(value, Rating) else str(value)


def _bits(rating: Rating) -> str:
    return "/".join(rating.to_hex())


def recorded_games(connection: Connection, season: StoredSeason) -> Iterator[RecordedGame]:
    """A season's games with their records, in the order in which they are rated."""
    games, jobs, sat, meant = schema.games, schema.jobs, schema.game_seats, schema.job_seats
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
            ours = games.c.seq.between(portion[0].seq, portion[-1].seq)
            lineups: dict[int, list[int]] = defaultdict(list)
            for job_id, version_id in connection.execute(
                select(meant.c.job_id, meant.c.version_id)
                .join(games, games.c.job_id == meant.c.job_id)
                .where(ours)
                .order_by(games.c.seq, meant.c.seat)
            ):
                lineups[job_id].append(version_id)
            results: dict[int, list[SeatResult]] = defaultdict(list)
            for row in connection.execute(
                select(sat)
                .where(sat.c.seq.between(portion[0].seq, portion[-1].seq))
                .order_by(sat.c.seq, sat.c.seat)
            ):
                results[row.seq].append(seat_result(row))
            for row in portion:
                yield RecordedGame(
                    row.game_id,
                    row.record,
                    game_seed(seed, row.number, row.attempt - 1),
                    tuple(lineups[row.job_id]),
                    tuple(results[row.seq]),
                )
