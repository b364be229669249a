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
        entries = standings_candidates(store, season)
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


def standings_candidates(
    store: Store, season: StoredSeason, former_ids: Collection[int] = ()
) -> list[RatedVersion]:
    """Return the versions that may be in a season's standings; `listed` chooses among them.

    In a closed season these are all versions that played in it. In an open one they are the present
    version of each bot, and the former versions with the ids in `former_ids`.
    """
    is_closed = season.closed_at is not None
    return store.ratings.entries(season, None if is_closed else former_ids)


def listed(
    store: Store, season: StoredSeason, entries: Sequence[RatedVersion]
) -> list[RatedVersion]:
    """Return those of the candidates for a season's standings that are listed there.

    In an open season these are the versions that get games, in a closed one those that count at its
    end. If the season's settings ask for it, only the best one of each author is listed.
    """
    if season.closed_at is None:
        listed_entries = [entry for entry in entries if entry.takes_part(season.settings)]
    else:
        listed_entries = _final_versions(store, season, entries)
    if season.settings.best_of_author:
        return best_of_authors(listed_entries)
    return listed_entries


def _final_versions(
    store: Store, season: StoredSeason, entries: Sequence[RatedVersion]
) -> list[RatedVersion]:
    """Return the versions that count at the end of a closed season.

    They have played in it, and their bots were not taken out before its end. If former versions did
    not play on, only the newest version of each bot counts.
    """
    absent_bots = taken_out(store, season)
    played = [
        entry for entry in entries if entry.tally.games > 0 and entry.version.bot not in absent_bots
    ]
    if season.settings.pairing.former_versions:
        return played
    newest_of_bot: dict[str, RatedVersion] = {}
    for entry in sorted(played, key=lambda entry: entry.version.number):
        newest_of_bot[entry.version.bot] = entry  # replaces an older version
    return list(newest_of_bot.values())


def best_of_authors(entries: Iterable[RatedVersion]) -> list[RatedVersion]:
    """Return the best version of each author, in the order of the standings."""
    best: dict[str, RatedVersion] = {}
    for entry in sorted(entries, key=by_standing):
        best.setdefault(entry.version.author, entry)
    return list(best.values())


def taken_out(store: Store, season: StoredSeason) -> set[str]:
    """Return the names of the bots that are taken out: withdrawn, suspended or disabled.

    For a closed season, return only those that were taken out before its end.
    """
    absent_bots = set()
    for bot in store.bots.all():
        was_in_time = season.closed_at is None or bot.changed_at <= season.closed_at
        if bot.state is not BotState.ACTIVE and was_in_time:
            absent_bots.add(bot.name)
    return absent_bots


def _is_out(season: StoredSeason, entry: RatedVersion) -> bool:
    """Return True if a version is missing from the standings since its bot was taken out.

    A version that never played in a closed season is not missing.
    """
    is_taken_out = entry.state is not BotState.ACTIVE
    may_be_listed = season.closed_at is None or entry.tally.games > 0
    return is_taken_out and may_be_listed


def standing_lines(
    store: Store,
    season: StoredSeason,
    entries: Sequence[RatedVersion],
    recent_of: int | None = None,
) -> list[StandingLine]:
    """Return the rows of the standings for these versions, the best first.

    A row has the trend of the version's last games. If `recent_of` is given, only the version with
    that id has it, which is quicker.
    """
    has_former_versions = any(not entry.is_current for entry in entries)
    recent_ratings = store.ratings.recent(
        season, RECENT_GAMES, recent_of, former=has_former_versions
    )
    return standings(entries, recent_ratings, pairing=season.settings.pairing)


def games_in_words(least_games: int, most_games: int | None) -> str:
    """Return how many games may settle the order of bots, in words that follow "about".

    The arguments are the estimates of an `OrderReport`. `most_games` is None if there is no upper
    one.
    """
    if most_games is None:
        return f"at least {least_games:,} games, and some bots may be too close to tell"
    if most_games > least_games:
        return f"{least_games:,} to {most_games:,} games, fewer if bots differ"
    noun = "game" if least_games == 1 else "games"
    return f"{least_games:,} {noun}"


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
    """Return a table with the results of some bots of a season against each other.

    It leaves out the first `start` bots of the standings, and has at most `size` of the others.
    """
    season = find_season(store, season_name)
    entries = listed(store, season, standings_candidates(store, season))
    id_of_version = {
        (entry.version.bot, entry.version.number): entry.version.id for entry in entries
    }
    all_rows = standing_lines(store, season, entries)
    table_rows = tuple(all_rows[start : start + size])
    version_ids = [id_of_version[row.bot, row.version] for row in table_rows]
    results = store.sums.pairs(season, version_ids)
    cells = tuple(
        tuple(results.get((own_id, other_id)) for other_id in version_ids) for own_id in version_ids
    )
    return PairTable(
        season=season_info(season),
        bots=table_rows,
        cells=cells,
        start=start,
        total=len(all_rows),
    )
