"""Verdicts of versions, and the profile of a bot: its versions, and the results of one in a season.

A verdict is how a version does against its former one, or against a bot of the panel, on common
luck. Invariants: it follows from one comparison, so that it does not depend on who else takes part;
the record of a game with faults is read once; a profile has tracebacks only if it is made for the
bot's author or an admin.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, structs

from deepsea_arena.documents import DocumentError
from deepsea_arena.ladder_analyses import document_of
from deepsea_arena.seasons import SeasonInfo, find_season, season_info
from deepsea_arena.standings import eligible, listed, standing_lines
from deepsea_arena.weaknesses import Deviation, Weaknesses, find_weaknesses
from deepsea_bundle import names
from deepsea_ladder.accounts import Caller
from deepsea_ladder.errors import NotOnLadder, StoreDamaged
from deepsea_ladder.model import (
    AnalysedGame,
    BotState,
    BotVersion,
    GameLine,
    RatedVersion,
    SeatLog,
    StoredComparison,
    StoredSeason,
    TaskState,
    Time,
    Verdict,
    utc_time,
)
from deepsea_ladder.standings import CoursePoint, OpponentLine, SeatLine, StandingLine
from deepsea_rules.game import Decision, GameRecord

if TYPE_CHECKING:
    from deepsea_ladder.store import Store


VISITOR = Caller()
POINTS = 200
"""About how many points the courses of all versions have together."""
OPPONENTS = 100
"""The number of opponents that are listed: those that the version met most often."""
NEWEST = 20
FAULTY = 50
"""The number of games with faults, the newest, that are listed and whose kinds are counted."""
ANALYSED = 100
"""The number of games with an analysis, the newest, from which weaknesses are taken."""


class VerdictLine(Struct, frozen=True, kw_only=True):
    """A version against its bot's former version, or against a bot of the panel."""

    author: str
    bot: str
    version: int
    against: str
    """Such as "version 2", or the name in the panel."""
    is_panel: bool
    beats: Literal["yes", "no", "open"]
    decided_at: Time | None
    verdict: Verdict | None
    lead: float
    """In placement score, less the luck in it."""
    low: float
    high: float
    """The interval of the lead, with 95 %, whenever one looks."""
    margin: float
    """The largest difference that is called level."""
    blocks: int
    blocks_to_go: int | None
    """A guess; None if there is none, or a verdict."""
    faults: int
    """Faults of the version in these games."""
    cpu_seconds: float
    state: TaskState
    seed: str
    """Text: `compare --seed` plays the same luck."""
    words: str
    """The line in words."""


class Verdicts(Struct, frozen=True, kw_only=True):
    """The verdicts of a season."""

    season: str
    verdicts: tuple[VerdictLine, ...]


VERDICT_COLUMNS = VerdictLine.__struct_fields__


def show_verdicts(
    store: Store, season_name: str | None = None, bot: str = "", version: int = 0
) -> Verdicts:
    """The verdicts of a season: of all bots, of one, or of one of its versions."""
    season, wanted = find_season(store, season_name), None
    if bot:
        versions = store.bots.versions(bot)
        wanted = [one.id for one in versions if version in (0, one.number)]
        if not wanted:
            raise NotOnLadder(f"{bot} has the versions 1 to {len(versions)}, not {version}")
    return Verdicts(season=season.name, verdicts=verdict_lines(store, season, wanted))


def verdict_lines(
    store: Store, season: StoredSeason, versions: list[int] | None
) -> tuple[VerdictLine, ...]:
    """The lines of these versions, or of all."""
    closed = season.closed_at is not None
    return tuple(
        verdict_line(one, closed=closed) for one in store.comparisons.listed(season, versions)
    )


def verdict_line(found: StoredComparison, *, closed: bool = False) -> VerdictLine:
    """The line of a comparison; `closed` is whether its season is."""
    now, version = found.standing, found.version
    is_decided = found.state is TaskState.DECIDED
    left = None if closed or found.state.is_final else now.blocks_to_go
    beats: Literal["yes", "no", "open"] = "yes" if now.verdict == "better" else "no"
    return VerdictLine(
        **structs.asdict(structs.replace(now, blocks_to_go=left)),
        author=version.author,
        bot=version.bot,
        version=version.number,
        against=found.against,
        is_panel=bool(found.panel),
        beats=beats if is_decided else "open",
        decided_at=utc_time(found.changed_at) if is_decided else None,
        cpu_seconds=found.cpu_ms / 1000,
        state=found.state,
        seed=found.seed,
        words=_words(found, closed=closed),
    )


def _words(found: StoredComparison, *, closed: bool) -> str:
    now, other = found.standing, found.against
    blocks = "1 block" if now.blocks == 1 else f"{now.blocks:,} blocks"
    figures = (
        f" ({now.lead:+.2f} placement score, 95 %: {now.low:+.2f} to {now.high:+.2f}, {blocks})"
    )
    match now.verdict:
        case "better" | "worse":
            return f"{now.verdict} than {other}{figures}"
        case "level":
            return f"level with {other} within {now.margin:g}{figures}"
    if found.state.is_final:
        left = found.reason
    elif closed:
        left = "the season is closed"
    elif now.blocks_to_go is not None:
        left = f"about {float(f'{now.blocks_to_go:.1e}'):,.0f} blocks to go"
    else:
        left = "it goes on" if now.blocks else "not begun"
    return f"open against {other}: {left}{figures if now.blocks else ''}"


# The profile


class VersionLine(Struct, frozen=True):
    """A version that was submitted."""

    version: int
    digest: str
    submitted_at: Time


class FaultLine(Struct, frozen=True, kw_only=True):
    """The first fault of a bot in a game."""

    game_id: str
    seat: int
    decision: int
    """The index of the decision in the game's record."""
    fault: str
    detail: str | None
    """The action or end of the bot, instead of a decision."""
    faults: int
    """The number of its faults in the game."""
    forfeit: str | None
    """The fault that forfeited the seat."""
    error: str | None
    """Its faults with their tracebacks, as `ladder log` shows them, for the bot's author; None for
    others, or if that is not kept."""


class VersionCourse(Struct, frozen=True, kw_only=True):
    """The rating of one version in the season."""

    version: int
    submitted_at: Time
    games: int
    before: int
    """The games of the bot's former versions in the season."""
    points: tuple[CoursePoint, ...]
    """Some of its games, evenly spread, with the first and the last."""


class RatedGame(Struct, frozen=True, kw_only=True):
    """A game, and what it did to the bot's rating."""

    game: GameLine
    seat: int
    """The bot's."""
    rating: float
    """mu - 3 sigma after the game."""
    change: float


class FaultKindLine(Struct, frozen=True, kw_only=True):
    """A kind of fault among the newest games with faults."""

    fault: str
    faults: int
    games: int


class BotProfile(Struct, frozen=True, kw_only=True):
    """A bot, and the results of one of its versions in a season."""

    bot: str
    author: str
    state: BotState
    reason: str | None
    """The reason for which it is not active."""
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
    """The versions that it met most often, those first."""
    opponents_of: int
    """Of how many that it met these are."""
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
    verdicts: tuple[VerdictLine, ...]
    """Against the former version, and against the panel."""
    weaknesses: Weaknesses | None = None
    """Its weaknesses, and their changes since the version before; None without analyses."""


def bot_profile(
    store: Store,
    name: str,
    *,
    version: int | None = None,
    season_name: str | None = None,
    reader: Caller = VISITOR,
) -> BotProfile:
    """The profile of a bot; in the open season unless another is named.

    version  None: the newest; of a closed season the one in its table, the last that played in it
    reader  gets tracebacks of bots of its own, or of all if it is an admin
    """
    season = find_season(store, season_name)
    bot, versions = store.bots.with_versions(name)
    former = [one.id for one in versions]
    entries = {entry.version.id: entry for entry in eligible(store, season, former)}
    chosen = bot.current
    if version is None and season.closed_at is not None:
        played = [one for one in versions if one.id in entries and entries[one.id].tally.games]
        chosen = played[-1] if played else chosen
    elif version is not None:
        by_number = {one.number: one for one in versions}
        if version not in by_number:
            raise NotOnLadder(f"{bot.name} has the versions 1 to {len(versions)}, not {version}")
        chosen = by_number[version]
    opponents, met = store.sums.opponents(season, chosen.id, OPPONENTS)
    is_own = bool(reader.author) and names.same(reader.author, bot.author)
    logs = store.logs.of_bot(bot.name) if is_own or reader.is_admin else {}
    games = store.history.latest_of(season, chosen.id, NEWEST + 1, FAULTY)
    faulty = [game for game in games if game.seats[_seat_of(game, chosen)].faults][:FAULTY]
    records = store.history.records(faulty)
    faults = [
        (game, _faults(records[game.seq], _seat_of(game, chosen)))
        for game in faulty
        if game.seq in records
    ]
    seats, faulty_games = store.sums.seats(season, chosen.id)
    return BotProfile(
        bot=bot.name,
        author=bot.author,
        state=bot.state,
        reason=bot.reason,
        versions=tuple(
            VersionLine(one.number, one.digest, utc_time(one.created_at)) for one in versions
        ),
        season=season_info(season),
        seasons=tuple(one.name for one in store.seasons.all()),
        version=chosen.number,
        standing=_standing(store, season, entries, chosen),
        course=_courses(store, season, versions, entries),
        opponents=tuple(opponents),
        opponents_of=met,
        seats=tuple(seats),
        newest=_newest(season, chosen, games[: NEWEST + 1]),
        faulty_games=faulty_games,
        fault_kinds=_fault_kinds(found for _, found in faults),
        fault_kinds_of=len(faults),
        faults=tuple(_fault_line(game, chosen, found, logs) for game, found in faults),
        verdicts=verdict_lines(store, season, [chosen.id]),
        weaknesses=_weaknesses(store, season, versions, chosen),
    )


def _weaknesses(
    store: Store, season: StoredSeason, versions: Sequence[BotVersion], chosen: BotVersion
) -> Weaknesses | None:
    analysed = {
        one.number: store.analyses.of_version(season, one.id, ANALYSED)
        for one in versions
        if one.number in (chosen.number, chosen.number - 1)
    }
    now = analysed[chosen.number]
    return _lost_in(store, chosen.label, now, analysed.get(chosen.number - 1, ())) if now else None


@lru_cache(maxsize=64)
def _lost_in(
    store: Store, bot: str, now: tuple[AnalysedGame, ...], before: tuple[AnalysedGame, ...]
) -> Weaknesses:
    """The weaknesses in these games, by the present policy: analyses do not change."""
    from deepsea_arena.analysis_document import read_analysis
    from deepsea_arena.weaknesses import deviations_of  # loads the SDK
    from deepsea_sdk.coach.roll_outs import COACH_VERSION

    def deviations(games: Iterable[AnalysedGame]) -> Iterator[Sequence[Deviation]]:
        for game in games:
            with suppress(DocumentError, StoreDamaged):  # the page of the game says so
                found = read_analysis(document_of(store, game.game_id))
                if found.policy != COACH_VERSION:
                    continue
                record = GameRecord.from_json(store.games.record(game.game_id))
                every = list(deviations_of(found.analysis(record)))
                yield [one for one in every if one.seat == game.seat]

    return find_weaknesses(bot, list(deviations(now)), list(deviations(before)))


def _standing(
    store: Store, season: StoredSeason, entries: dict[int, RatedVersion], version: BotVersion
) -> StandingLine | None:
    """Its row of the standings; without a rank if it is not listed there."""
    entry = entries.get(version.id)
    if entry is None:
        return None
    others = listed(store, season, list(entries.values()))
    if entry not in others:
        (line,) = standing_lines(store, season, [entry], version.id)
        return structs.replace(line, rank=None)
    lines = standing_lines(store, season, others, version.id)
    return next(line for line in lines if (line.bot, line.version) == (version.bot, version.number))


def _courses(
    store: Store,
    season: StoredSeason,
    versions: Sequence[BotVersion],
    entries: Mapping[int, RatedVersion],
) -> tuple[VersionCourse, ...]:
    games = {one.id: entries[one.id].tally.games for one in versions if one.id in entries}
    total, before = sum(games.values()), 0
    wanted = {
        key: (entries[key].tally, max(2, POINTS * played // total))
        for key, played in games.items()
        if played
    }
    points, courses = store.ratings.courses(season, wanted), []
    for one in versions:
        if not (played := games.get(one.id, 0)):
            continue
        courses.append(
            VersionCourse(
                version=one.number,
                submitted_at=utc_time(one.created_at),
                games=played,
                before=before,
                points=tuple(points[one.id]),
            )
        )
        before += played
    return tuple(courses)


def _newest(
    season: StoredSeason, version: BotVersion, games: Sequence[GameLine]
) -> tuple[RatedGame, ...]:
    """The newest games; of one more the rating alone is wanted, unless it was the first."""
    seats = [_seat_of(game, version) for game in games]
    ratings = [
        game.seats[seat].rating.conservative for game, seat in zip(games, seats, strict=True)
    ]
    if len(games) <= NEWEST:
        ratings.append(season.settings.rating.newcomer.conservative)
    return tuple(
        RatedGame(game=game, seat=seat, rating=rating, change=rating - before)
        for game, seat, rating, before in zip(games, seats, ratings, ratings[1:], strict=False)
    )


def _seat_of(game: GameLine, version: BotVersion) -> int:
    return [seat.label for seat in game.seats].index(version.label)


@lru_cache(maxsize=4 * FAULTY)
def _faults(record: str, seat: int) -> tuple[tuple[int, Decision], ...]:
    """The faults of a seat in a game, each with the index of its decision.

    Kept, since a page is made anew far more often than a bot has a fault, and records stay.
    """
    game = GameRecord.from_json(record)
    faults = tuple(
        (index, decision)
        for index, decision in enumerate(game.decisions)
        if decision.seat == seat and decision.fault is not None
    )
    if not faults:
        raise StoreDamaged(f"game {game.game_id}: its record has no fault in seat {seat}")
    return faults


def _fault_line(
    game: GameLine,
    version: BotVersion,
    faults: Sequence[tuple[int, Decision]],
    logs: Mapping[tuple[int, int], SeatLog],
) -> FaultLine:
    seat, (index, first) = _seat_of(game, version), faults[0]
    result, log = game.seats[seat], logs.get((game.seq, seat))
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


def _fault_kinds(games: Iterable[Sequence[tuple[int, Decision]]]) -> tuple[FaultKindLine, ...]:
    faults, among = Counter[str](), Counter[str]()
    for found in games:
        kinds = Counter(str(decision.fault) for _, decision in found)
        faults += kinds
        among.update(kinds.keys())
    return tuple(
        FaultKindLine(fault=fault, faults=count, games=among[fault])
        for fault, count in faults.most_common()
    )


def spread(course: Sequence[CoursePoint], points: int) -> list[CoursePoint]:
    """Some points of a course, evenly spread over its games, with the last one.

    Of a course that is thinned already, those that are nearest.
    """
    games = course[-1].games if course else 0
    wanted = {max(1, games * step // points) for step in range(1, points + 1)} if games else set()
    there = [point.games for point in course]
    return [course[index] for index in sorted({_nearest(there, game) for game in wanted})]


def _nearest(ascending: Sequence[int], wanted: int) -> int:
    """The index of the number that is nearest to the one wanted, the lower of two."""
    after = min(bisect_left(ascending, wanted), len(ascending) - 1)
    before = max(after - 1, 0)
    return before if wanted - ascending[before] <= ascending[after] - wanted else after
