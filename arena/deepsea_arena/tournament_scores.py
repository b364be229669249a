"""The scores of a tournament as people read them: while it is played, and of one that was."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from deepsea_ladder.model.bots import BotVersion
from deepsea_ladder.scheduling.tournament import Score

Kind = Literal["round-robin", "gauntlet", "elimination"]
_OUT: Final = -1.0
"""Less than any share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreLine:
    """A bot's results in a tournament."""

    rank: int
    bot: str
    version: int
    games: int
    placement_score: float
    """The mean share of the others at its tables that it was ahead of; level counts half."""
    wins: int
    """First places, shared ones too."""
    mean_points: float
    best_rank: int | None = None
    """Ranks by skill that the tournament's games leave open, from their batch rating; None where
    they were not asked for."""
    worst_rank: int | None = None


def score_line(
    rank: int, score: Score, version: BotVersion, ranks: tuple[int, int] | None = None
) -> ScoreLine:
    """A score as people read it; `ranks` are the best and the worst one that are left open."""
    best, worst = ranks or (None, None)
    return ScoreLine(
        best_rank=best,
        worst_rank=worst,
        rank=rank,
        bot=version.bot,
        version=version.number,
        games=score.games,
        placement_score=score.share,
        wins=score.wins,
        mean_points=score.mean_points,
    )


def table_results(
    table: Sequence[int], meetings: int, scores: Mapping[int, Score], out: Collection[int]
) -> list[Score]:
    """The scores by which bots of a table of an elimination advance.

    A bot in `out`, withdrawn or disabled, is behind the others unless all games were played.
    """
    results = []
    for bot in table:
        score = scores.get(bot, Score(bot, 1, 0.0, 0, 0.0))
        if bot in out and (bot not in scores or score.games < len(table) * meetings):
            score = Score(bot, 1, _OUT, 0, 0.0)
        results.append(score)
    return results
