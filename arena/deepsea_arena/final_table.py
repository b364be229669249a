"""The end of a season: its table, who won, how sure that is, and what all games at once say.

Invariant: the final order is that of the standings, mu - 3 sigma of the fold, and the batch stands
beside it as a check. A season has one order, before its end and after it: the one that every page,
document and export of it shows, and that `refold` recomputes to the last bit; nobody loses a first
rank because a season is closed. Where the batch rules a rank out, the table says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from deepsea_arena.reports.seasons import find_season
from deepsea_arena.reports.standings import Standings, listed, show_standings
from deepsea_arena.season_close import SeasonCheck, check_season
from deepsea_ladder.rating.forecast import certainty
from deepsea_ladder.standings import StandingLine
from deepsea_ladder.store import Store


@dataclass(frozen=True, slots=True)
class FinalTable:
    """A season's standings, and its winner."""

    standings: Standings
    winner: StandingLine | None
    """The first; None if nobody has played, or two have the same rating."""
    second: StandingLine | None
    certainty: float | None
    """The probability that the winner is more skilled than the second; None without one."""
    check: SeasonCheck


def final_table(store: Store, season_name: str) -> FinalTable:
    """The table of a season as it stands now."""
    season = find_season(store, season_name)
    page = show_standings(store, season_name)
    check = check_season(store, page)
    ranked = [line for line in page.standings if line.rank is not None]
    if not ranked or [line.rank for line in ranked[:2]] == [1, 1]:
        return FinalTable(page, None, None, None, check)
    if len(ranked) == 1:
        return FinalTable(page, ranked[0], None, None, check)
    ratings = {
        (entry.version.bot, entry.version.number): entry.tally.rating
        for entry in listed(store, season, store.ratings.entries(season))
    }
    first, second = (ratings[line.bot, line.version] for line in ranked[:2])
    return FinalTable(page, ranked[0], ranked[1], certainty(first, second), check)
