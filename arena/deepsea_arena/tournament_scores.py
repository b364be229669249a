"""The scores of a tournament as people read them: while it is played, and of one that was."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from deepsea_ladder.model.bots import BotVersion
from deepsea_ladder.rating.batch import batch_ratings
from deepsea_ladder.rating.joint import Joint
from deepsea_ladder.rating.rank_ranges import rank_ranges
from deepsea_ladder.rating.totals import SeatResult, outcome_of
from deepsea_ladder.rating.trueskill_fold import RatingParameters
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


def rank_sets(
    parameters: RatingParameters, games: Iterable[Sequence[SeatResult]]
) -> dict[int, tuple[int, int]]:
    """By bot version the best and the worst rank by skill that these games leave open.

    All games are rated at once, in no order; who is ahead with less confidence than 95 % may be
    behind.
    """
    outcomes = [outcome_of(number, seats) for number, seats in enumerate(games, 1)]
    batch = batch_ratings(parameters, outcomes)
    means = {version: rating.mu for version, rating in batch.ratings.items()}
    joint = Joint(means, batch.ties, parameters.sigma)
    versions = list(means)
    ranges = rank_ranges(
        list(means.values()), lambda place: joint.variances(versions[place], versions)
    )
    return dict(zip(versions, ranges, strict=True))
