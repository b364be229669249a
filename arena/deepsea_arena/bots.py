"""The page of a bot: everything about one of its versions in one season."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from deepsea_arena.seasons import SeasonInfo, find_season, season_info
from deepsea_arena.standings import StandingLine, listed, standing_lines
from deepsea_arena.wire.json import Int64, utc_time
from deepsea_ladder.errors import NotOnLadder, StoreDamaged
from deepsea_ladder.model import (
    BotState,
    BotVersion,
    RatedVersion,
    SeatLog,
    StoredGame,
    StoredSeason,
)
from deepsea_ladder.rating.trueskill_fold import Rating
from deepsea_ladder.standings import HeadToHead, SeatLine
from deepsea_ladder.store import Store
from deepsea_rules.record import GameRecord

FAULTS: Final = 100
"""How many games with faults a page lists unless asked for fewer."""


@dataclass(frozen=True, slots=True)
class VersionLine:
    """A version that was submitted."""

    version: int
    digest: str
    submitted_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CoursePoint:
    """A rating after one game."""

    games: int
    """The number of games of the season that the version had played then."""
    seq: Int64
    """The game's place in the order in which games are rated."""
    rating: float
    """mu - 3 sigma."""
    mu: float
    sigma: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OpponentLine:
    """A bot's results against another version, in the games that both played."""

    bot: str
    version: int
    games: int
    better: int
    level: int
    worse: int
    share: float
    """The share of games in which it was better, level counting half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultLine:
    """The first fault of a bot in a game."""

    game_id: str
    seat: int
    decision: int
    """The index of the decision in the game's record."""
    fault: str
    detail: str | None
    """What the bot did instead."""
    faults: int
    """The number of its faults in the game."""
    forfeit: str | None
    """The fault that forfeited the seat."""
    error: str | None
    """Its faults with their tracebacks, as `ladder log` shows them; None if that is not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BotPage:
    """A bot, and the results of one of its versions in a season."""

    bot: str
    author: str
    state: BotState
    reason: str | None
    """Why it is not active."""
    versions: tuple[VersionLine, ...]
    """The oldest first."""
    season: SeasonInfo
    version: int
    """The version of the following fields."""
    standing: StandingLine | None
    """None for a former version that has not played in the season."""
    course: tuple[CoursePoint, ...]
    """The rating after each of its games."""
    opponents: tuple[OpponentLine, ...]
    """Opponents that it met most often first."""
    seats: tuple[SeatLine, ...]
    faulty_games: int
    """The number of games with faults of its own."""
    faults: tuple[FaultLine, ...]
    """One for each of the newest of these games, the newest first."""


def bot_page(
    store: Store,
    name: str,
    *,
    version: int | None = None,
    season_name: str | None = None,
    faults: int = FAULTS,
) -> BotPage:
    """The page of a bot; of its newest version in the open season unless others are named."""
    season = find_season(store, season_name)
    bot = store.bots.get(name)
    versions = store.bots.versions(name)
    chosen = bot.current if version is None else version_numbered(versions, version)
    entries = {entry.version.id: entry for entry in store.ratings.entries(season)}
    logs = store.logs.of_bot(bot.name)
    faulty, newest = store.history.faulty(season, chosen.id, faults)
    return BotPage(
        bot=bot.name,
        author=bot.author,
        state=bot.state,
        reason=bot.reason,
        versions=version_lines(versions),
        season=season_info(season),
        version=chosen.number,
        standing=standing_of(store, season, entries, chosen),
        course=course_points(
            (games, *point)
            for games, point in enumerate(store.ratings.course(season, chosen.id), 1)
        ),
        opponents=opponent_lines(store.sums.opponents(season, chosen.id), entries),
        seats=tuple(store.sums.seats(season, chosen.id)),
        faulty_games=faulty,
        faults=tuple(_fault(game, chosen, logs) for game in newest),
    )


def spread(course: Sequence[CoursePoint], points: int) -> list[CoursePoint]:
    """Some points of a course, evenly spread, with the last one."""
    games = len(course)
    chosen = {max(1, games * step // points) for step in range(1, points + 1)} if games else set()
    return [course[game - 1] for game in sorted(chosen)]


def version_numbered(versions: Sequence[BotVersion], wanted: int) -> BotVersion:
    """The version of that number; raises NotOnLadder."""
    for version in versions:
        if version.number == wanted:
            return version
    raise NotOnLadder(f"{versions[0].bot} has the versions 1 to {len(versions)}, not {wanted}")


def standing_of(
    store: Store, season: StoredSeason, entries: dict[int, RatedVersion], version: BotVersion
) -> StandingLine | None:
    """Its row of the standings; without a rank if it is not listed there."""
    entry = entries.get(version.id)
    if entry is None:
        return None
    others = listed(store, season, list(entries.values()))
    if entry not in others:
        (line,) = standing_lines(store, season, [entry])
        return replace(line, rank=None)
    lines = standing_lines(store, season, others)
    return next(line for line in lines if (line.bot, line.version) == (version.bot, version.number))


def version_lines(versions: Sequence[BotVersion]) -> tuple[VersionLine, ...]:
    """The lines of these versions."""
    return tuple(VersionLine(one.number, one.digest, utc_time(one.created_at)) for one in versions)


def course_points(course: Iterable[tuple[int, int, Rating]]) -> tuple[CoursePoint, ...]:
    """The points of a course: the number of a version's game, its place, the rating after it."""
    return tuple(
        CoursePoint(
            games=games,
            seq=Int64(seq),
            rating=rating.conservative,
            mu=rating.mu,
            sigma=rating.sigma,
        )
        for games, seq, rating in course
    )


def seat_of(game: StoredGame, version: BotVersion) -> int:
    """The seat of a version in a game that it played."""
    return next(seat for seat, one in enumerate(game.seats) if one.version.id == version.id)


def opponent_lines(
    rivals: dict[int, HeadToHead], entries: dict[int, RatedVersion]
) -> tuple[OpponentLine, ...]:
    """The lines of these opponents, those that were met most often first."""
    lines = [
        OpponentLine(
            bot=entries[key].version.bot,
            version=entries[key].version.number,
            games=rival.games,
            better=rival.better,
            level=rival.level,
            worse=rival.worse,
            share=rival.share,
        )
        for key, rival in rivals.items()
    ]
    return tuple(sorted(lines, key=lambda line: (-line.games, line.bot, line.version)))


def _fault(
    game: StoredGame, version: BotVersion, logs: Mapping[tuple[int, int], SeatLog]
) -> FaultLine:
    seat = seat_of(game, version)
    faults = [
        (index, decision)
        for index, decision in enumerate(GameRecord.from_json(game.record).decisions)
        if decision.seat == seat and decision.fault is not None
    ]
    if not faults:
        raise StoreDamaged(f"game {game.game_id}: its record has no fault of {version.label}")
    index, first = faults[0]
    result, log = game.seats[seat].result, logs.get((game.seq, seat))
    return FaultLine(
        game_id=game.game_id,
        seat=seat,
        decision=index,
        fault=str(first.fault),
        detail=first.came,
        faults=result.faults,
        forfeit=result.forfeit,
        error=None if log is None else log.error,
    )
