"""The profile of a bot, for everybody: its rating course, opponents, seats, newest games, faults.

Invariants: what is read is bounded, however many games were played: sums come from the database,
courses are thinned, games and faults are the newest; texts that only the bot's author may see, such
as tracebacks, are not in it unless they are asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from deepsea_arena.reports.bots import (
    CoursePoint,
    FaultLine,
    OpponentLine,
    VersionLine,
    course_points,
    fault_line,
    opponent_lines,
    seat_of,
    standing_of,
    version_lines,
    version_numbered,
)
from deepsea_arena.reports.games import GameLine, game_line
from deepsea_arena.reports.seasons import SeasonInfo, find_season, season_info
from deepsea_ladder.model.bots import BotState, BotVersion, RatedVersion
from deepsea_ladder.model.games import StoredGame
from deepsea_ladder.model.seasons import StoredSeason
from deepsea_ladder.rating.trueskill_fold import Rating
from deepsea_ladder.standings import SeatLine, StandingLine
from deepsea_ladder.values import Time, utc_time
from deepsea_rules.record import GameRecord

if TYPE_CHECKING:
    from deepsea_ladder.store import Store

POINTS: Final = 400
"""About how many points the courses of all versions have together."""
NEWEST: Final = 20
FAULTY: Final = 50
"""How many games with faults, the newest, are listed, and the kinds in them counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionCourse:
    """The rating of one version in the season."""

    version: int
    submitted_at: Time
    games: int
    before: int
    """The games of the bot's former versions in the season."""
    points: tuple[CoursePoint, ...]
    """Some of its games, evenly spread, with the first and the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedGame:
    """A game, and what it did to the bot's rating."""

    game: GameLine
    seat: int
    """The bot's."""
    rating: float
    """mu - 3 sigma after the game."""
    change: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKindLine:
    """A kind of fault among the newest games with faults."""

    fault: str
    faults: int
    games: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BotProfile:
    """A bot, and the results of one of its versions in a season."""

    bot: str
    author: str
    state: BotState
    reason: str | None
    """Why it is not active."""
    versions: tuple[VersionLine, ...]
    """The oldest first."""
    season: SeasonInfo
    seasons: tuple[str, ...]
    """The names of all seasons, the oldest first."""
    version: int
    """The version of the following fields, but for `course`."""
    standing: StandingLine | None
    """None for a former version that has not played in the season."""
    course: tuple[VersionCourse, ...]
    """Of every version that has played in the season, the oldest first."""
    opponents: tuple[OpponentLine, ...]
    """Opponents that it met most often first."""
    seats: tuple[SeatLine, ...]
    newest: tuple[RatedGame, ...]
    """Its newest games, newest first."""
    faulty_games: int
    """The number of games with faults of its own."""
    fault_kinds: tuple[FaultKindLine, ...]
    """The kinds of faults of the newest of these games, the most frequent first."""
    fault_kinds_of: int
    """Of how many games these are."""
    faults: tuple[FaultLine, ...]
    """One for each of the newest of these games, the newest first."""


def bot_profile(
    store: Store,
    name: str,
    *,
    version: int | None = None,
    season_name: str | None = None,
    errors: bool = False,
) -> BotProfile:
    """The profile of a bot; of its newest version in the open season unless others are named.

    errors  whether it is for the bot's author, who may see its tracebacks
    """
    season = find_season(store, season_name)
    bot = store.bots.get(name)
    versions = store.bots.versions(name)
    chosen = bot.current if version is None else version_numbered(versions, version)
    entries = {entry.version.id: entry for entry in store.ratings.entries(season)}
    logs = store.logs.of_bot(bot.name) if errors else {}
    faulty, newest_faulty = store.history.faulty(season, chosen.id, FAULTY)
    return BotProfile(
        bot=bot.name,
        author=bot.author,
        state=bot.state,
        reason=bot.reason,
        versions=version_lines(versions),
        season=season_info(season),
        seasons=tuple(one.name for one in store.seasons.all()),
        version=chosen.number,
        standing=standing_of(store, season, entries, chosen),
        course=_courses(store, season, versions, entries),
        opponents=opponent_lines(store.sums.opponents(season, chosen.id), entries),
        seats=tuple(store.sums.seats(season, chosen.id)),
        newest=_newest(store, season, chosen),
        faulty_games=faulty,
        fault_kinds=_fault_kinds(newest_faulty, chosen),
        fault_kinds_of=len(newest_faulty),
        faults=tuple(fault_line(game, chosen, logs) for game in newest_faulty),
    )


def _courses(
    store: Store,
    season: StoredSeason,
    versions: Sequence[BotVersion],
    entries: Mapping[int, RatedVersion],
) -> tuple[VersionCourse, ...]:
    games = {one.id: entries[one.id].tally.games for one in versions if one.id in entries}
    total, before = sum(games.values()), 0
    courses = []
    for one in versions:
        if not (played := games.get(one.id, 0)):
            continue
        points = store.ratings.thinned(season, one.id, max(2, POINTS * played // total))
        courses.append(
            VersionCourse(
                version=one.number,
                submitted_at=utc_time(one.created_at),
                games=played,
                before=before,
                points=course_points(points),
            )
        )
        before += played
    return tuple(courses)


def _newest(store: Store, season: StoredSeason, version: BotVersion) -> tuple[RatedGame, ...]:
    games = store.history.latest_of(season, version.id, NEWEST + 1)
    own = [seat_of(game, version) for game in games]
    ratings = [game.seats[seat].rating for game, seat in zip(games, own, strict=True)]
    if len(games) <= NEWEST:
        ratings.append(season.season.rating.newcomer)
    pairs = zip(games, own, ratings, ratings[1:], strict=False)
    return tuple(_rated(*pair) for pair in pairs)


def _rated(game: StoredGame, seat: int, rating: Rating, before: Rating) -> RatedGame:
    return RatedGame(
        game=game_line(game),
        seat=seat,
        rating=rating.conservative,
        change=rating.conservative - before.conservative,
    )


def _fault_kinds(games: Sequence[StoredGame], version: BotVersion) -> tuple[FaultKindLine, ...]:
    faults, among = Counter[str](), Counter[str]()
    for game in games:
        seat = seat_of(game, version)
        kinds = Counter(
            str(decision.fault)
            for decision in GameRecord.from_json(game.record).decisions
            if decision.seat == seat and decision.fault is not None
        )
        faults += kinds
        among.update(kinds.keys())
    return tuple(
        FaultKindLine(fault=fault, faults=count, games=among[fault])
        for fault, count in faults.most_common()
    )
