"""The standings of a season, the certainty of their order, and the table of pairs.

Start reading at `show_standings`, `order_report` and `pair_table`.

Invariants: `deepsea_ladder.standings` orders versions; this module chooses which versions are
listed: those that get games, or all that have played, or the best of each author.
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
NEIGHBOURS_PER_GAME = 4
"""Number of pairs of neighbours for each game that a run waits before it computes the order again.

On a large ladder it takes too long to do that after every game.
"""


class Standings(Struct, frozen=True, kw_only=True):
    """The standings of a season."""

    season: SeasonInfo
    seasons: tuple[str, ...]
    """The names of all seasons, the oldest first."""
    games: int
    """The number of games of the season."""
    standings: tuple[StandingLine, ...]
    not_listed: int
    """Number of bots that were taken out and are not listed."""


class OrderReport(Struct, frozen=True, kw_only=True):
    """The certainty of the order of a season's standings."""

    settled: bool
    """True if the order of all neighbours is certain, and no bot is provisional."""
    confidence: float
    """The confidence with which the order of two neighbours has to be certain."""
    neighbours: tuple[Neighbours, ...]
    provisional: tuple[str, ...]
    """Bots that have played too few games. The order is open while there are any."""
    least_games: int
    """About how many more games it takes in a good case.

    Neighbours prove to be further apart than it seems now, by a standard deviation, and only bots
    that need games play.
    """
    most_games: int | None
    """About how many more games it takes if neighbours are as far apart as it seems now.

    All bots play alike, and newcomers are level. None if no number is enough for two neighbours.
    """

    @property
    def open_pairs(self) -> int:
        """The number of pairs of neighbours whose order is open."""
        return sum(pair.verdict == "open" for pair in self.neighbours)


class PairTable(Struct, frozen=True, kw_only=True):
    """Some bots of a season against each other, in the order of the standings."""

    season: SeasonInfo
    bots: tuple[StandingLine, ...]
    cells: tuple[tuple[PairCell | None, ...], ...]
    """The results by row and column; None for two bots that never met."""
    start: int
    """Number of bots in the standings before the first of these."""
    total: int
    """The number of bots in the standings."""


def csv_rows(page: Standings) -> Iterator[Mapping[str, Json]]:
    """Yield the rows of the standings with the columns of CSV."""
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
    """Return the standings of a season.

    everybody       also list former versions, and bots that were taken out
    best_of_author  list only the best bot of each author
    """
    season = find_season(store, season_name)
    if everybody:
        entries = store.ratings.entries(season)
        shown = entries
    else:
        entries = eligible(store, season)
        shown = listed(store, season, entries)
    if best_of_author:
        shown = best_of_authors(shown)
    shown_bots = {entry.version.bot for entry in shown}
    unlisted_bots = {entry.version.bot for entry in entries if _is_out(season, entry)} - shown_bots
    return Standings(
        season=season_info(season),
        seasons=tuple(stored.name for stored in store.seasons.all()),
        games=season.games,
        standings=tuple(standing_lines(store, season, shown)),
        not_listed=0 if everybody else len(unlisted_bots),
    )


def eligible(
    store: Store, season: StoredSeason, former: Collection[int] = ()
) -> list[RatedVersion]:
    """Return the versions from which `listed` chooses, and the former ones with these ids.

    In an open season these are the present versions of bots, in a closed one all that played in it.
    """
    return store.ratings.entries(season, former if season.closed_at is None else None)


def listed(
    store: Store, season: StoredSeason, entries: Sequence[RatedVersion]
) -> list[RatedVersion]:
    """Return the versions that the standings list.

    In an open season these are the versions that get games. In a closed season they are the
    versions that played in it, without bots that were taken out before its end; of a bot only the
    newest one, unless former versions played on. If the season lists the best bot of each author,
    the others are left out.
    """
    if season.closed_at is None:
        candidates = [entry for entry in entries if entry.takes_part(season.settings)]
    else:
        absent = taken_out(store, season)
        candidates = [
            entry for entry in entries if entry.tally.games > 0 and entry.version.bot not in absent
        ]
        if not season.settings.pairing.former_versions:
            newest: dict[str, RatedVersion] = {}
            for entry in sorted(candidates, key=lambda entry: entry.version.number):
                newest[entry.version.bot] = entry
            candidates = list(newest.values())
    return best_of_authors(candidates) if season.settings.best_of_author else candidates


def best_of_authors(entries: Iterable[RatedVersion]) -> list[RatedVersion]:
    """Return the best version of each author, in the order of the standings."""
    best: dict[str, RatedVersion] = {}
    for entry in sorted(entries, key=by_standing):
        best.setdefault(entry.version.author, entry)
    return list(best.values())


def taken_out(store: Store, season: StoredSeason) -> set[str]:
    """Return the names of bots that are taken out.

    For a closed season these are the bots that were taken out before its end.
    """
    return {
        bot.name
        for bot in store.bots.all()
        if bot.state is not BotState.ACTIVE
        and (season.closed_at is None or bot.changed_at <= season.closed_at)
    }


def _is_out(season: StoredSeason, entry: RatedVersion) -> bool:
    """Return True if a version's bot was taken out.

    In a closed season only a version that played in it counts.
    """
    return entry.state is not BotState.ACTIVE and (
        season.closed_at is None or entry.tally.games > 0
    )


def standing_lines(
    store: Store,
    season: StoredSeason,
    entries: Sequence[RatedVersion],
    recent_of: int | None = None,
) -> list[StandingLine]:
    """Return the rows of these versions in the standings, the best first.

    recent_of  id of the only version whose last games, and with them its trend, are read; None
               reads those of all
    """
    former = any(not entry.is_current for entry in entries)
    recent = store.ratings.recent(season, RECENT_GAMES, recent_of, former=former)
    return standings(entries, recent, pairing=season.settings.pairing)


def games_in_words(least_games: int, most_games: int | None) -> str:
    """Return the numbers of games of an `OrderReport` in words that follow "about"."""
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
    """Return the certainty of the present order of the active bots.

    among  ids of versions; if there are any, only those of them that have played are ordered
    """
    entries = store.ratings.entries(season, among)
    if among:
        entries = [entry for entry in entries if entry.version.id in among and entry.tally.games]
    else:
        entries = [entry for entry in entries if entry.takes_part(season.settings)]
    pairing = season.settings.pairing
    ratings = {entry.version.id: entry.tally.rating for entry in entries}
    neighbours = compare_neighbours(season.settings.rating, ratings, confidence)
    # Games that each bot needs to be provisional no longer, and to differ from its neighbours.
    needed = {entry.version.id: pairing.lacking(entry.tally.games) for entry in entries}
    provisional = tuple(
        entry.version.label if pairing.former_versions else entry.version.bot
        for entry in entries
        if needed[entry.version.id]
    )
    most_needed = max(needed.values(), default=0)
    for pair in neighbours:
        most_needed = max(most_needed, pair.games_left or 0)
        for bot in (pair.upper, pair.lower):
            needed[bot] = max(needed[bot], pair.least_left)
    is_endless = any(pair.games_left is None for pair in neighbours)
    # A game counts for every bot at its table. Both numbers are rounded up.
    least_games = -(-sum(needed.values()) // max(season.settings.seats))
    most_games = -(-most_needed * len(entries) // min(season.settings.seats))
    return OrderReport(
        settled=is_settled(neighbours) and not provisional,
        confidence=confidence,
        neighbours=neighbours,
        provisional=provisional,
        least_games=least_games,
        most_games=None if is_endless else most_games,
    )


@dataclass(slots=True)
class UntilSettled:
    """The goal of a run until the order is settled: the run calls it after every game.

    It computes the order only at intervals, which are longer on a large ladder.
    """

    store: Store
    season: StoredSeason
    confidence: float
    _calls: int = 0
    _interval: int = 1
    """The number of calls for each computation of the order."""

    def __call__(self) -> bool:
        """Return True if the order is settled, as far as it is computed at this call."""
        self._calls += 1
        if self._calls % self._interval:
            return False
        report = self.report()
        self._interval = max(1, len(report.neighbours) // NEIGHBOURS_PER_GAME)
        return report.settled

    def report(self) -> OrderReport:
        """Return the certainty of the order now."""
        return order_report(self.store, self.season, self.confidence)


def pair_table(store: Store, season_name: str | None, *, start: int, size: int) -> PairTable:
    """Return the results of bots of the standings against each other.

    The table has at most `size` bots, which follow on the first `start` ones.
    """
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
