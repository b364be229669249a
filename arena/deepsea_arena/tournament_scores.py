"""The scores of a tournament as people read them: while it is played, and of one that was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from deepsea_ladder.model import BotVersion
from deepsea_ladder.scheduling.tournament import Score

Kind = Literal["round-robin", "gauntlet", "elimination"]
NO_SHOW: Final = -1.0


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


def score_line(rank: int, score: Score, version: BotVersion) -> ScoreLine:
    """A score as people read it."""
    return ScoreLine(
        rank=rank,
        bot=version.bot,
        version=version.number,
        games=score.games,
        placement_score=score.share,
        wins=score.wins,
        mean_points=score.mean_points,
    )


def no_show(bot: int) -> Score:
    """The score of a bot that was withdrawn or disabled before its games: the last."""
    return Score(bot, 1, NO_SHOW, 0, 0.0)
