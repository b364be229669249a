"""Whether the order of a season's bots is settled, and between whom it is open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from deepsea_arena.standings import is_provisional
from deepsea_ladder.model import StoredSeason
from deepsea_ladder.rating.convergence import CONFIDENCE, order
from deepsea_ladder.store import Store

LOOKS: Final = 4
"""During a run the order is computed after so many games of a table each; on a large ladder it
takes too long to do it after every game."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourLine:
    """Two bots that follow each other in the standings."""

    upper: str
    lower: str
    verdict: Literal["apart", "level", "open"]
    certainty: float
    """The probability of the verdict; of an open one, that the upper is the more skilled."""
    games_left: int | None
    """About how many more games each needs; None if no number is enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderReport:
    """How settled the standings of a season are."""

    settled: bool
    confidence: float
    """How sure each two neighbours have to be."""
    certainty: float
    """At least so probable is it that all verdicts are right at once."""
    neighbours: tuple[NeighbourLine, ...]
    open_pairs: int
    """Neighbours whose order is not sure."""
    provisional: tuple[str, ...]
    """Bots that have played too few games; as long as there are any, nothing is settled."""


def order_report(store: Store, season: StoredSeason, confidence: float = CONFIDENCE) -> OrderReport:
    """How settled the order of the bots that get games is now."""
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
    )


class UntilSettled:
    """A run's goal: asked after every game, it looks at the order now and then."""

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
        """How settled it is now."""
        return order_report(self._store, self._season, self._confidence)
