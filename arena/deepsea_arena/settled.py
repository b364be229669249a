"""Whether the order of a season's bots is settled, and between whom it is open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from deepsea_arena.reports.standings import is_provisional
from deepsea_ladder.model.seasons import StoredSeason
from deepsea_ladder.rating.convergence import CONFIDENCE, order
from deepsea_ladder.store import Store

LOOKS: Final = 4
"""During a run the order is computed after so many games of a table each; on a large ladder it
takes too long to do it after every game."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourLine:
    """Two adjacent bots of the standings."""

    upper: str
    lower: str
    verdict: Literal["apart", "level", "open"]
    certainty: float
    """The probability of the verdict; of an open one, that the upper is the more skilled."""
    games_left: int | None
    """Estimate of the games that each still needs; None if no number is enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderReport:
    """The verdicts on the order of a season's standings."""

    settled: bool
    confidence: float
    """The confidence for each two neighbours."""
    certainty: float
    """A lower bound of the probability that all verdicts are right at once."""
    neighbours: tuple[NeighbourLine, ...]
    open_pairs: int
    """Neighbours whose order is open."""
    provisional: tuple[str, ...]
    """Bots that have played too few games; as long as there are any, nothing is settled."""
    least_games: int
    """About how many more games it takes if neighbours prove to be further apart than it seems now,
    by a standard deviation, and only those play that need games."""
    most_games: int | None
    """About how many if they are as far apart as it seems now, newcomers being level, and all play
    alike; None if no number is enough for two of them."""


def order_report(store: Store, season: StoredSeason, confidence: float = CONFIDENCE) -> OrderReport:
    """Judge the present order of the active bots."""
    entries = [entry for entry in store.ratings.entries(season) if entry.gets_games(season.season)]
    several = season.season.pairing.former_versions
    names = {
        entry.version.id: entry.version.label if several else entry.version.bot for entry in entries
    }
    ratings = {entry.version.id: entry.tally.rating for entry in entries}
    found = order(season.season.rating, ratings, confidence)
    provisional = tuple(
        names[entry.version.id] for entry in entries if is_provisional(season, entry)
    )
    # What each bot needs: to be provisional no longer, and to be apart from both of its neighbours.
    asked = season.season.pairing.provisional_games
    fewest = {entry.version.id: max(0, asked - entry.tally.games) for entry in entries}
    most = max(fewest.values(), default=0)
    for pair in found.neighbours:
        most = max(most, pair.games_left or 0)
        for bot in (pair.upper, pair.lower):
            fewest[bot] = max(fewest[bot], pair.least_left)
    endless = any(pair.games_left is None for pair in found.neighbours)
    return OrderReport(
        settled=found.settled and not provisional,
        confidence=confidence,
        certainty=found.certainty,
        neighbours=tuple(
            NeighbourLine(
                upper=names[pair.upper],
                lower=names[pair.lower],
                verdict=pair.verdict,
                certainty=pair.certainty,
                games_left=pair.games_left,
            )
            for pair in found.neighbours
        ),
        open_pairs=sum(pair.verdict == "open" for pair in found.neighbours),
        provisional=provisional,
        least_games=-(-sum(fewest.values()) // max(season.season.seats)),
        most_games=None if endless else -(-most * len(entries) // min(season.season.seats)),
    )


class UntilSettled:
    """The goal of a run: called after every game, judges the order at intervals."""

    def __init__(self, store: Store, season: StoredSeason, confidence: float) -> None:
        self._store = store
        self._season = season
        self._confidence = confidence
        self._asked = 0
        self._every = 1

    def __call__(self) -> bool:
        self._asked += 1
        if self._asked % self._every:
            return False
        report = self.report()
        self._every = max(1, len(report.neighbours) // LOOKS)
        return report.settled

    def report(self) -> OrderReport:
        """The order now."""
        return order_report(self._store, self._season, self._confidence)
