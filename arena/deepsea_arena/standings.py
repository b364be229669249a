"""The standings of a season, how sure their order is, and the table of pairs.

Invariants: the ladder orders them; this module chooses the versions that are listed: those that
get games, or all that have played, or the best of each author.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import Struct

from deepsea_arena.documents import Json, TableColumn, to_object
from deepsea_arena.seasons import SeasonInfo, find_season, season_info
from deepsea_ladder.model import BotState, RatedVersion, StoredSeason
from deepsea_ladder.standings import (
    CONFIDENCE,
    RECENT_GAMES,
    TREND_GAMES,
    Neighbours,
    PairCell,
    StandingLine,
    by_standing,
    compare_neighbours,
    is_settled,
    standings,
)

if TYPE_CHECKING:
    from deepsea_ladder.store import Store


COLUMNS = (
    TableColumn(
        "rank",
        "rank",
        beside=("best_rank", "worst_rank"),
        meaning="by the rating; equal ratings share one, and a bot without games has none; "
        "`best_rank` and `worst_rank` count those ahead or behind with less than 95 % certainty "
        "as either",
    ),
    TableColumn(
        "bot",
        "bot",
        "text",
        beside=("state", "is_current", "provisional"),
        meaning="the name of the bot",
    ),
    TableColumn(
        "ver",
        "version",
        spare=7,
        on_page=False,
        meaning="the version of the bot, beside it on pages",
    ),
    TableColumn(
        "author",
        "author",
        "text",
        spare=8,
        on_page=False,
        meaning="the author of the bot, beside it on pages",
    ),
    TableColumn(
        "rating",
        "rating",
        meaning="mu − 3 sigma, the skill that a bot has with 99.9 % certainty; it sets the rank",
    ),
    TableColumn(
        "skill",
        "mu",
        beside=("low", "high"),
        spare=3,
        meaning="mu ± 2 sigma, the interval of 95 %",
    ),
    TableColumn("games", "games", spare=1, meaning="rated games of the season"),
    TableColumn(
        "wins",
        "wins",
        spare=5,
        on_page=False,
        meaning="first places, shared ones too; pages have them on the bot's own",
    ),
    TableColumn(
        "placement",
        "mean_placement",
        digits=2,
        spare=2,
        title="Place",
        meaning="the mean over all games; with tables of several sizes, see the bot's page for "
        "each size",
    ),
    TableColumn("points", "mean_points", spare=4, meaning="the mean over all games"),
    TableColumn(
        "faults",
        "fault_rate",
        "percent",
        beside=("forfeits",),
        spare=6,
        meaning="faults per decision; they and forfeits do not change the rating",
    ),
    TableColumn(
        "trend",
        "trend",
        "change",
        beside=("recent",),
        spare=9,
        meaning=f"change of mu over the bot's last {TREND_GAMES} games; `recent`, of JSON alone, "
        f"is mu after each of the last {RECENT_GAMES}",
    ),
    TableColumn(
        "last game",
        "last_played_at",
        spare=10,
        meaning="when the last of these games was played",
    ),
)
"""The columns of the table in the terminal, on the page and in docs/rating.md."""
CSV_COLUMNS = tuple(name for name in StandingLine.__struct_fields__ if name != "recent")
"""The columns of the standings as CSV: fields with one value."""
LOOKS = 4
"""During a run the order is computed after so many games of a table each; on a large ladder it
takes too long to do it after every game."""


class Standings(Struct, frozen=True, kw_only=True):
    """The standings of a season."""

    season: SeasonInfo
    seasons: tuple[str, ...]
    """The names of all seasons, the oldest first."""
    games: int
    """The number of games of the season."""
    standings: tuple[StandingLine, ...]
    not_listed: int
    """Bots that were taken out and are not listed."""


class OrderReport(Struct, frozen=True, kw_only=True):
    """The verdicts on the order of a season's standings."""

    settled: bool
    confidence: float
    """The confidence for each two neighbours."""
    neighbours: tuple[Neighbours, ...]
    provisional: tuple[str, ...]
    """Bots that have played too few games; as long as there are any, nothing is settled."""
    least_games: int
    """About how many more games it takes if neighbours prove to be further apart than it seems now,
    by a standard deviation, and only those play that need games."""
    most_games: int | None
    """About how many if they are as far apart as it seems now, newcomers being level, and all play
    alike; None if no number is enough for two of them."""

    @property
    def open_pairs(self) -> int:
        """The number of neighbours whose order is open."""
        return sum(pair.verdict == "open" for pair in self.neighbours)


class PairTable(Struct, frozen=True, kw_only=True):
    """Some bots of a season against each other, in the order of the standings."""

    season: SeasonInfo
    bots: tuple[StandingLine, ...]
    cells: tuple[tuple[PairCell | None, ...], ...]
    """By row and column; None where two were never at one table."""
    start: int
    """The number of bots of the standings before the first."""
    total: int
    """The number of bots in the standings."""


def csv_rows(page: Standings) -> Iterator[Mapping[str, Json]]:
    """The rows of the standings as a table."""
    for line in page.standings:
        row = to_object(line)
        yield {name: row[name] for name in CSV_COLUMNS}


def show_standings(
    store: Store,
    season_name: str | None = None,
    *,
    everybody: bool = False,
    best_of_author: bool = False,
) -> Standings:
    """The standings.

    everybody       also former versions, and bots that were taken out
    best_of_author  the best bot of each author only
    """
    season = find_season(store, season_name)
    entries = store.ratings.entries(season) if everybody else eligible(store, season)
    shown = entries if everybody else listed(store, season, entries)
    if best_of_author:
        shown = best_of_authors(shown)
    bots = {entry.version.bot for entry in shown}
    out = {entry.version.bot for entry in entries if _is_out(season, entry)} - bots
    return Standings(
        season=season_info(season),
        seasons=tuple(one.name for one in store.seasons.all()),
        games=season.games,
        standings=tuple(standing_lines(store, season, shown)),
        not_listed=0 if everybody else len(out),
    )


def eligible(
    store: Store, season: StoredSeason, former: Collection[int] = ()
) -> list[RatedVersion]:
    """All versions of which `listed` are some, and these former ones.

    In a closed season bots stand with the versions that they had.
    """
    return store.ratings.entries(season, former if season.closed_at is None else None)


def listed(
    store: Store, season: StoredSeason, entries: Sequence[RatedVersion]
) -> list[RatedVersion]:
    """The versions that stand in the table: those that get games, and of a closed season those
    that played in it to its end, of each bot the last if former versions did not play on; of each
    author the best alone if the season says so."""
    if season.closed_at is None:
        there = [entry for entry in entries if entry.takes_part(season.settings)]
    else:
        gone = taken_out(store, season)
        there = [one for one in entries if one.tally.games > 0 and one.version.bot not in gone]
        if not season.settings.pairing.former_versions:
            ordered = sorted(there, key=lambda entry: entry.version.number)
            there = list({entry.version.bot: entry for entry in ordered}.values())
    return best_of_authors(there) if season.settings.best_of_author else there


def best_of_authors(entries: Iterable[RatedVersion]) -> list[RatedVersion]:
    """Of each author the version that stands before the others, in the order of the standings."""
    best: dict[str, RatedVersion] = {}
    for entry in sorted(entries, key=by_standing):
        best.setdefault(entry.version.author, entry)
    return list(best.values())


def taken_out(store: Store, season: StoredSeason) -> set[str]:
    """The bots that are taken out, of a closed season those that were at its end."""
    return {
        bot.name
        for bot in store.bots.all()
        if bot.state is not BotState.ACTIVE
        and (season.closed_at is None or bot.changed_at <= season.closed_at)
    }


def _is_out(season: StoredSeason, entry: RatedVersion) -> bool:
    """True if its bot was taken out, of a closed season one that played."""
    return entry.state is not BotState.ACTIVE and (
        season.closed_at is None or entry.tally.games > 0
    )


def standing_lines(
    store: Store,
    season: StoredSeason,
    entries: Sequence[RatedVersion],
    recent_of: int | None = None,
) -> list[StandingLine]:
    """The lines of these versions, the best first.

    recent_of  the one version whose last games, and with them its trend, are wanted; by default all
    """
    former = any(not entry.is_current for entry in entries)
    recent = store.ratings.recent(season, RECENT_GAMES, recent_of, former=former)
    return standings(entries, recent, pairing=season.settings.pairing)


def games_in_words(least_games: int, most_games: int | None) -> str:
    """The numbers of games of an `OrderReport`, after "about"."""
    if most_games is None:
        return f"at least {least_games:,} games, and some bots may be too close to tell"
    if most_games > least_games:
        return f"{least_games:,} to {most_games:,} games, fewer if bots differ"
    return f"{least_games:,} game{'s' * (least_games != 1)}"


def order_report(
    store: Store,
    season: StoredSeason,
    confidence: float = CONFIDENCE,
    *,
    among: Collection[int] = (),
) -> OrderReport:
    """Judge the present order of the active bots, or of those `among` some versions that played."""
    entries = [
        entry
        for entry in store.ratings.entries(season, among)
        if (
            entry.version.id in among and entry.tally.games
            if among
            else entry.takes_part(season.settings)
        )
    ]
    pairing = season.settings.pairing
    ratings = {entry.version.id: entry.tally.rating for entry in entries}
    neighbours = compare_neighbours(season.settings.rating, ratings, confidence)
    # What each bot needs: to be provisional no longer, and to be apart from both of its neighbours.
    fewest = {entry.version.id: pairing.lacking(entry.tally.games) for entry in entries}
    provisional = tuple(
        entry.version.label if pairing.former_versions else entry.version.bot
        for entry in entries
        if fewest[entry.version.id]
    )
    most = max(fewest.values(), default=0)
    for pair in neighbours:
        most = max(most, pair.games_left or 0)
        for bot in (pair.upper, pair.lower):
            fewest[bot] = max(fewest[bot], pair.least_left)
    endless = any(pair.games_left is None for pair in neighbours)
    return OrderReport(
        settled=is_settled(neighbours) and not provisional,
        confidence=confidence,
        neighbours=neighbours,
        provisional=provisional,
        least_games=-(-sum(fewest.values()) // max(season.settings.seats)),
        most_games=None if endless else -(-most * len(entries) // min(season.settings.seats)),
    )


@dataclass(slots=True)
class UntilSettled:
    """The goal of a run: called after every game, judges the order at intervals."""

    store: Store
    season: StoredSeason
    confidence: float
    _asked: int = 0
    _every: int = 1

    def __call__(self) -> bool:
        self._asked += 1
        if self._asked % self._every:
            return False
        report = self.report()
        self._every = max(1, len(report.neighbours) // LOOKS)
        return report.settled

    def report(self) -> OrderReport:
        """The order now."""
        return order_report(self.store, self.season, self.confidence)


def pair_table(store: Store, season_name: str | None, *, start: int, size: int) -> PairTable:
    """The table of `size` bots of the standings that follow on the first `start`."""
    season = find_season(store, season_name)
    entries = listed(store, season, eligible(store, season))
    ids = {(entry.version.bot, entry.version.number): entry.version.id for entry in entries}
    lines = standing_lines(store, season, entries)
    bots = tuple(lines[start : start + size])
    versions = [ids[line.bot, line.version] for line in bots]
    cells = store.sums.pairs(season, versions)
    return PairTable(
        season=season_info(season),
        bots=bots,
        cells=tuple(tuple(cells.get((row, column)) for column in versions) for row in versions),
        start=start,
        total=len(lines),
    )
