"""Forecasts from ratings: who is likely to be more skilled, and what a game is going to tell.

Invariant: the same arithmetic as the ratings, so the same bits everywhere.
"""

from __future__ import annotations

from math import sqrt
from typing import Final, NamedTuple

from deepsea_ladder.rating.gaussian import cdf
from deepsea_ladder.rating.trueskill_fold import Rating, RatingParameters

LEARNT: Final = 0.5
"""The part of 1 / beta² that a game adds to the precision of each player's rating: measured 0.3
with two seats, 0.6 with four, 0.7 with six. An estimate for planning, never used to rate."""


def certainty(one: Rating, other: Rating) -> float:
    """The probability that `one` is more skilled than `other`."""
    return cdf((one.mu - other.mu) / sqrt(one.sigma * one.sigma + other.sigma * other.sigma))


class Odds(NamedTuple):
    """Probabilities that one bot is placed before, level with and behind another in a game."""

    better: float
    level: float
    worse: float


def odds(parameters: RatingParameters, difference: float, variance: float = 0.0) -> Odds:
    """The odds of a bot whose skill is by so much greater; `variance` is that of the difference."""
    spread = sqrt(variance + 2.0 * parameters.beta * parameters.beta)
    margin = parameters.draw_margin
    better = cdf((difference - margin) / spread)
    worse = cdf((-difference - margin) / spread)
    return Odds(better, max(0.0, 1.0 - better - worse), worse)
