"""The standings of a season.

Invariants: the ladder orders them; who is listed is decided here: the versions that get games, or
all that have played, or the best of each author.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from deepsea_arena.documents import Json, to_object
from deepsea_arena.reports.seasons import SeasonInfo, find_season, season_info
from deepsea_ladder.model.bots import BotState, RatedVersion
from deepsea_ladder.model.seasons import StoredSeason
from deepsea_ladder.standings import RECENT_GAMES, StandingLine, StandingRow, place, standings

if TYPE_CHECKING:
    from deepsea_ladder.rating.totals import RatingTotals
    from deepsea_ladder.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Standings:
    """The standings of a season."""

    season: SeasonInfo
    seasons: tuple[str, ...]
    """The names of all seasons, the oldest first."""
    games: int
    """The number of games of the season."""
    standings: tuple[StandingLine, ...]
    not_listed: int
    """Withdrawn and disabled bots that are not listed."""


CSV_COLUMNS: Final = tuple(field.name for field in fields(StandingLine) if field.name != "recent")
"""The columns of the standings as a table: what is one value."""


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

    everybody       also former versions, withdrawn and disabled bots
    best_of_author  the best bot of each author only
    """
    season = find_season(store, season_name)
    entries = store.ratings.entries(season)
    shown = entries if everybody else listed(store, season, entries)
    if best_of_author:
        shown = best_of_authors(shown)
    bots = {entry.version.bot for entry in shown}
    out = {entry.version.bot for entry in entries if _is_out(season, entry)} - bots
    return Standings(
        season=season_info(season),
        seasons=tuple(one.name for one in store.seasons.all()),
        games=store.history.count(season),
        standings=tuple(standing_lines(store, season, shown)),
        not_listed=0 if everybody else len(out),
    )


def listed(
    store: Store, season: StoredSeason, entries: Sequence[RatedVersion]
) -> list[RatedVersion]:
    """The versions that stand in the table: those that get games, and of a closed season those
    that played in it to its end, of each bot the last if former versions did not play on; of each
    author the best alone if the season says so."""
    if season.closed_at is None:
        there = [entry for entry in entries if entry.gets_games(season.season)]
    else:
        gone = taken_out(store, season)
        there = [one for one in entries if one.tally.games > 0 and one.version.bot not in gone]
        if not season.season.pairing.former_versions:
            ordered = sorted(there, key=lambda entry: entry.version.number)
            there = list({entry.version.bot: entry for entry in ordered}.values())
    return best_of_authors(there) if season.season.best_of_author else there


def best_of_authors(entries: Iterable[RatedVersion]) -> list[RatedVersion]:
    """Of each author the version that stands before the others, in the order of the standings."""
    best: dict[str, RatedVersion] = {}
    for entry in sorted(entries, key=lambda entry: place(row_of(entry, entry.tally))):
        best.setdefault(entry.version.author, entry)
    return list(best.values())


def taken_out(store: Store, season: StoredSeason) -> set[str]:
    """The bots that are withdrawn or disabled, of a closed season those that were at its end."""
    return {
        bot.name
        for bot in store.bots.all()
        if bot.state is not BotState.ACTIVE
        and (season.closed_at is None or bot.changed_at <= season.closed_at)
    }


def _is_out(season: StoredSeason, entry: RatedVersion) -> bool:
    """Whether its bot was taken out, of a closed season one that played."""
    return entry.state is not BotState.ACTIVE and (
        season.closed_at is None or entry.tally.games > 0
    )


def is_provisional(season: StoredSeason, entry: RatedVersion) -> bool:
    """Whether a version has played fewer games than the season asks for."""
    return entry.tally.games < season.season.pairing.provisional_games


def row_of(
    entry: RatedVersion,
    tally: RatingTotals,
    recent: Sequence[float] = (),
    *,
    provisional: bool = False,
) -> StandingRow:
    """The row of a version in the standings; `recent` and `provisional` as in StandingRow."""
    version = entry.version
    return StandingRow(
        bot=version.bot,
        author=version.author,
        version=version.number,
        tally=tally,
        recent=recent,
        state=entry.state,
        is_current=entry.is_current,
        provisional=provisional,
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
    recent = store.ratings.recent(season, RECENT_GAMES, recent_of)
    return standings(
        row_of(
            entry,
            entry.tally,
            recent.get(entry.version.id, ()),
            provisional=is_provisional(season, entry),
        )
        for entry in entries
    )
