"""Verdicts on versions of bots, and the profile of a bot in a season.

A verdict says how a version does against the bot's former version, or against a bot of the panel,
on the same luck. Start reading at `show_verdicts` and `bot_profile`.

Invariants: a verdict follows from one comparison, so that it does not depend on other bots; the
record of a game with faults is read once; a profile has tracebacks only if it is made for the bot's
author or an admin.
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
from deepsea_arena.standings import listed, standing_lines, standings_candidates
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
"""Number of points, about, that the courses of all versions have together."""
OPPONENTS = 100
"""Number of opponents that are listed, those that the version met most often."""
NEWEST = 20
"""Number of games that are listed, the newest ones."""
FAULTY = 50
"""Number of games with faults, the newest ones, that are listed and whose kinds are counted."""
ANALYSED = 100
"""Number of games with an analysis, the newest ones, from which weaknesses are taken."""


class VerdictLine(Struct, frozen=True, kw_only=True):
    """The comparison of a version with its bot's former version, or with a bot of the panel."""

    author: str
    bot: str
    version: int
    against: str
    """The other bot: "version 2" of the same one, or a name in the panel."""
    is_panel: bool
    """True if the other bot is one of the panel."""
    beats: Literal["yes", "no", "open"]
    decided_at: Time | None
    verdict: Verdict | None
    lead: float
    """Mean placement score by which the version is ahead, less the luck in it."""
    low: float
    high: float
    """The ends of the interval of the lead, which holds with 95 % however often one looks."""
    margin: float
    """The largest lead, up or down, that is called level."""
    blocks: int
    blocks_to_go: int | None
    """Estimate of the blocks until a verdict; None if there is no estimate, or a verdict."""
    faults: int
    """Number of faults of the version in these games."""
    cpu_seconds: float
    state: TaskState
    seed: str
    """The text with which `compare --seed` plays the same luck."""
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
    """Return the verdicts of a season: how versions do against former versions and the panel.

    bot      only the verdicts on this bot; "" takes all bots
    version  only those on this version of the bot; 0 takes all its versions

    Raises NotOnLadder if the bot has no such version.
    """
    season = find_season(store, season_name)
    version_ids = None
    if bot:
        versions = store.bots.versions(bot)
        version_ids = [known.id for known in versions if version in (0, known.number)]
        if not version_ids:
            raise NotOnLadder(f"{bot} has the versions 1 to {len(versions)}, not {version}")
    return Verdicts(season=season.name, verdicts=verdict_lines(store, season, version_ids))


def verdict_lines(
    store: Store, season: StoredSeason, version_ids: list[int] | None
) -> tuple[VerdictLine, ...]:
    """Return a line for each comparison of a season, or of these versions in it; None is all."""
    is_closed = season.closed_at is not None
    return tuple(
        verdict_line(comparison, is_closed=is_closed)
        for comparison in store.comparisons.of_season(season, version_ids)
    )


def verdict_line(comparison: StoredComparison, *, is_closed: bool = False) -> VerdictLine:
    """Return the verdict of a comparison of two bots as a line of a table.

    `is_closed` is True in a closed season: an open comparison is not continued then, so that the
    line has no estimate of the blocks until its end.
    """
    figures, version = comparison.standing, comparison.version
    goes_on = not (is_closed or comparison.state.is_final)
    is_decided = comparison.state is TaskState.DECIDED
    beats: Literal["yes", "no", "open"] = "open"
    if is_decided:
        beats = "yes" if figures.verdict == "better" else "no"
    return VerdictLine(
        author=version.author,
        bot=version.bot,
        version=version.number,
        against=comparison.against,
        is_panel=bool(comparison.panel),
        beats=beats,
        verdict=figures.verdict,
        lead=figures.lead,
        low=figures.low,
        high=figures.high,
        margin=figures.margin,
        blocks=figures.blocks,
        blocks_to_go=figures.blocks_to_go if goes_on else None,
        faults=figures.faults,
        decided_at=utc_time(comparison.changed_at) if is_decided else None,
        cpu_seconds=comparison.cpu_ms / 1000,
        state=comparison.state,
        seed=comparison.seed,
        words=_verdict_words(comparison, is_closed=is_closed),
    )


def _verdict_words(comparison: StoredComparison, *, is_closed: bool) -> str:
    """Return a comparison in words: its verdict with the figures, or why it has no verdict yet.

    `is_closed` is True in a closed season.
    """
    standing, opponent = comparison.standing, comparison.against
    blocks = "1 block" if standing.blocks == 1 else f"{standing.blocks:,} blocks"
    interval = f"{standing.low:+.2f} to {standing.high:+.2f}"
    figures = f" ({standing.lead:+.2f} placement score, 95 %: {interval}, {blocks})"
    match standing.verdict:
        case "better" | "worse":
            return f"{standing.verdict} than {opponent}{figures}"
        case "level":
            return f"level with {opponent} within {standing.margin:g}{figures}"
    if comparison.state.is_final:
        status = comparison.reason
    elif is_closed:
        status = "the season is closed"
    elif standing.blocks_to_go is not None:
        rounded_blocks = float(f"{standing.blocks_to_go:.1e}")  # to two digits
        status = f"about {rounded_blocks:,.0f} blocks to go"
    elif standing.blocks:
        status = "it goes on"
    else:
        status = "not begun"
    return f"open against {opponent}: {status}{figures if standing.blocks else ''}"


# ------------------------------------------------------------------------------------- the profile


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
    """The answer of the bot that was no legal action, or how its program ended; None if unknown."""
    faults: int
    """The number of its faults in the game."""
    forfeit: str | None
    """The fault that forfeited the seat."""
    error: str | None
    """The faults with their tracebacks, as `ladder log` shows them.

    None for readers who may not see them, and if they were not stored.
    """


class VersionCourse(Struct, frozen=True, kw_only=True):
    """The rating of one version in the season."""

    version: int
    submitted_at: Time
    games: int
    before: int
    """Number of games of the bot's former versions in the season."""
    points: tuple[CoursePoint, ...]
    """The rating after some of its games, evenly spread, with the first and the last."""


class RatedGame(Struct, frozen=True, kw_only=True):
    """A game, and the change of the bot's rating by it."""

    game: GameLine
    seat: int
    """The bot's seat."""
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
    """The reason why it is not active; None if it is."""
    versions: tuple[VersionLine, ...]
    """The oldest first."""
    season: SeasonInfo
    seasons: tuple[str, ...]
    """The names of all seasons, the oldest first."""
    version: int
    """Number of the version that the fields below are about, except `course`."""
    standing: StandingLine | None
    """None for a former version that has not played in the season."""
    course: tuple[VersionCourse, ...]
    """The rating of every version that has played in the season, the oldest first."""
    opponents: tuple[OpponentLine, ...]
    """The versions that it met most often, those first."""
    opponents_of: int
    """Number of all opponents that it met, of which `opponents` may be a part."""
    seats: tuple[SeatLine, ...]
    newest: tuple[RatedGame, ...]
    """The newest games, newest first."""
    faulty_games: int
    """The number of games with faults of its own."""
    fault_kinds: tuple[FaultKindLine, ...]
    """The kinds of faults of the newest of these games, the most frequent first."""
    fault_kinds_of: int
    """Number of games that `fault_kinds` counts."""
    faults: tuple[FaultLine, ...]
    """One for each of the newest of these games, the newest first."""
    verdicts: tuple[VerdictLine, ...]
    """Verdicts against the former version, and against the panel."""
    weaknesses: Weaknesses | None = None
    """The weaknesses, and their changes since the version before it; None without analyses."""


def bot_profile(
    store: Store,
    name: str,
    *,
    version: int | None = None,
    season_name: str | None = None,
    reader: Caller = VISITOR,
) -> BotProfile:
    """Return the profile of a bot, by default in the open season.

    version  number of the version; None takes the newest, or in a closed season the last one that
             played in it
    reader   the profile has tracebacks if the reader is the bot's author or an admin

    Raises NotOnLadder if there is no such bot or version.
    """
    season = find_season(store, season_name)
    bot, versions = store.bots.with_versions(name)
    version_ids = [known.id for known in versions]
    entries = {
        entry.version.id: entry for entry in standings_candidates(store, season, version_ids)
    }
    chosen = bot.current
    if version is None and season.closed_at is not None:
        for candidate in versions:  # the newest last
            if candidate.id in entries and entries[candidate.id].tally.games:
                chosen = candidate
    elif version is not None:
        by_number = {known.number: known for known in versions}
        if version not in by_number:
            raise NotOnLadder(f"{bot.name} has the versions 1 to {len(versions)}, not {version}")
        chosen = by_number[version]
    opponents, opponent_count = store.sums.opponents(season, chosen.id, OPPONENTS)
    is_own = bool(reader.author) and names.same(reader.author, bot.author)
    logs = store.logs.of_bot(bot.name) if is_own or reader.is_admin else {}
    games = store.history.latest_of(season, chosen.id, NEWEST + 1, FAULTY)
    faulty = [game for game in games if game.seats[_seat_of(game, chosen)].faults][:FAULTY]
    records = store.history.records(faulty)
    faults = [
        (game, _seat_faults(records[game.seq], _seat_of(game, chosen)))
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
            VersionLine(known.number, known.digest, utc_time(known.created_at))
            for known in versions
        ),
        season=season_info(season),
        seasons=tuple(stored.name for stored in store.seasons.all()),
        version=chosen.number,
        standing=_standing(store, season, entries, chosen),
        course=_courses(store, season, versions, entries),
        opponents=tuple(opponents),
        opponents_of=opponent_count,
        seats=tuple(seats),
        newest=_newest_games(season, chosen, games[: NEWEST + 1]),
        faulty_games=faulty_games,
        fault_kinds=_fault_kinds(game_faults for _, game_faults in faults),
        fault_kinds_of=len(faults),
        faults=tuple(_fault_line(game, chosen, game_faults, logs) for game, game_faults in faults),
        verdicts=verdict_lines(store, season, [chosen.id]),
        weaknesses=_weaknesses(store, season, versions, chosen),
    )


def _weaknesses(
    store: Store, season: StoredSeason, versions: Sequence[BotVersion], chosen: BotVersion
) -> Weaknesses | None:
    """Return the weaknesses of the chosen version, and their changes since the version before it.

    `versions` are all versions of the bot. Return None if no game of the chosen one has an
    analysis.
    """
    games = store.analyses.of_version(season, chosen.id, ANALYSED)
    if not games:
        return None
    former_games: tuple[AnalysedGame, ...] = ()
    for version in versions:
        if version.number == chosen.number - 1:
            former_games = store.analyses.of_version(season, version.id, ANALYSED)
    return _weaknesses_in_games(store, chosen.label, games, former_games)


@lru_cache(maxsize=64)
def _weaknesses_in_games(
    store: Store, bot: str, games: tuple[AnalysedGame, ...], former_games: tuple[AnalysedGame, ...]
) -> Weaknesses:
    """Return a bot's weaknesses in these games, compared with the games of its former version.

    The result is cached, since analyses do not change.
    """
    deviations = list(_deviations_in_games(store, games))
    former_deviations = list(_deviations_in_games(store, former_games))
    return find_weaknesses(bot, deviations, former_deviations)


def _deviations_in_games(
    store: Store, games: Iterable[AnalysedGame]
) -> Iterator[Sequence[Deviation]]:
    """Yield, for each game, the decisions in which the bot deviated from the coach's policy.

    Games whose analysis cannot be read, or is by another policy than the present one, are skipped.
    """
    from deepsea_arena.analysis_document import read_analysis
    from deepsea_arena.weaknesses import deviations_of  # loads the SDK
    from deepsea_sdk.coach.roll_outs import COACH_VERSION

    for game in games:
        with suppress(DocumentError, StoreDamaged):  # the page of the game reports it
            document = read_analysis(document_of(store, game.game_id))
            if document.policy != COACH_VERSION:
                continue
            record = GameRecord.from_json(store.games.record(game.game_id))
            all_deviations = list(deviations_of(document.analysis(record)))
            yield [deviation for deviation in all_deviations if deviation.seat == game.seat]


def _standing(
    store: Store, season: StoredSeason, entries: dict[int, RatedVersion], version: BotVersion
) -> StandingLine | None:
    """Return a version's row in the standings; None if the version has not played in the season.

    `entries` has the rated versions by id. A version that the standings do not list gets a row
    without a rank.
    """
    entry = entries.get(version.id)
    if entry is None:
        return None
    listed_entries = listed(store, season, list(entries.values()))
    if entry not in listed_entries:
        unranked_rows = standing_lines(store, season, [entry], version.id)
        return structs.replace(unranked_rows[0], rank=None)
    rows = standing_lines(store, season, listed_entries, version.id)
    row_of_version = {(row.bot, row.version): row for row in rows}
    return row_of_version[version.bot, version.number]


def _courses(
    store: Store,
    season: StoredSeason,
    versions: Sequence[BotVersion],
    entries: Mapping[int, RatedVersion],
) -> tuple[VersionCourse, ...]:
    """Return the rating course of every version that has played in the season, the oldest first.

    About `POINTS` points are shared among the versions by their numbers of games.
    """
    games = {known.id: entries[known.id].tally.games for known in versions if known.id in entries}
    total_games = sum(games.values())
    tallies_and_points = {
        version_id: (entries[version_id].tally, max(2, POINTS * game_count // total_games))
        for version_id, game_count in games.items()
        if game_count
    }
    points = store.ratings.courses(season, tallies_and_points)
    courses, games_before = [], 0
    for version in versions:
        game_count = games.get(version.id, 0)
        if not game_count:
            continue
        courses.append(
            VersionCourse(
                version=version.number,
                submitted_at=utc_time(version.created_at),
                games=game_count,
                before=games_before,
                points=tuple(points[version.id]),
            )
        )
        games_before += game_count
    return tuple(courses)


def _newest_games(
    season: StoredSeason, version: BotVersion, games: Sequence[GameLine]
) -> tuple[RatedGame, ...]:
    """Return a version's newest games, at most `NEWEST`, each with the change of the rating by it.

    `games` are the newest `NEWEST + 1` games of the version, the newest first, or all if it has
    played fewer. The additional one gives the rating before the others.
    """
    rated_games: list[RatedGame] = []
    rating_before = season.settings.rating.newcomer.conservative
    for game in reversed(games):
        seat = _seat_of(game, version)
        rating = game.seats[seat].rating.conservative
        rated_games.append(
            RatedGame(game=game, seat=seat, rating=rating, change=rating - rating_before)
        )
        rating_before = rating
    rated_games.reverse()
    return tuple(rated_games[:NEWEST])


def _seat_of(game: GameLine, version: BotVersion) -> int:
    """Return the seat of a version in a game."""
    return [seat.label for seat in game.seats].index(version.label)


@lru_cache(maxsize=4 * FAULTY)
def _seat_faults(record: str, seat: int) -> tuple[tuple[int, Decision], ...]:
    """Return the decisions of a seat that were faults, each with its index in the game.

    The result is cached, since records do not change and pages are read often. Call it only for a
    seat with faults according to the store: raises StoreDamaged if the record has none.
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
    """Return a row about the faults of a version in one game: the first fault, and how many.

    faults  the faulty decisions, each with its index in the game
    logs    the stored logs by the number of the game and the seat
    """
    seat = _seat_of(game, version)
    result, log = game.seats[seat], logs.get((game.seq, seat))
    first_index, first_fault = faults[0]
    return FaultLine(
        game_id=game.game_id,
        seat=seat,
        decision=first_index,
        fault=str(first_fault.fault),
        detail=first_fault.came,
        faults=result.faults,
        forfeit=result.forfeit,
        error=None if log is None else log.error,
    )


def _fault_kinds(games: Iterable[Sequence[tuple[int, Decision]]]) -> tuple[FaultKindLine, ...]:
    """Return, for each kind of fault, the number of faults and of games with it; frequent first.

    `games` has the faulty decisions of each game, with their indices in it.
    """
    fault_counts, game_counts = Counter[str](), Counter[str]()
    for game_faults in games:
        kinds_in_game = Counter(str(decision.fault) for _, decision in game_faults)
        fault_counts += kinds_in_game
        game_counts.update(kinds_in_game.keys())  # one for each kind
    return tuple(
        FaultKindLine(fault=kind, faults=fault_count, games=game_counts[kind])
        for kind, fault_count in fault_counts.most_common()
    )


def evenly_spaced(course: Sequence[CoursePoint], count: int) -> list[CoursePoint]:
    """Return about `count` points of a rating's course, evenly spaced over the games.

    The course is the rating after each game, the oldest first. The last point is always among those
    that are returned. If a game at an even distance has no point, take the nearest one that has.
    """
    if not course or not course[-1].games:
        return []
    game_count = course[-1].games
    numbers_with_point = [point.games for point in course]
    even_numbers = {max(1, game_count * step // count) for step in range(1, count + 1)}
    indices = {_nearest_index(numbers_with_point, number) for number in even_numbers}
    return [course[index] for index in sorted(indices)]


def _nearest_index(ascending: Sequence[int], target: int) -> int:
    """Return the index of the number that is nearest to the target; of two, the lower one's."""
    after = min(bisect_left(ascending, target), len(ascending) - 1)
    before = max(after - 1, 0)
    return before if target - ascending[before] <= ascending[after] - target else after
