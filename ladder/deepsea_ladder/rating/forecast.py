"""Forecasts a game from ratings: probabilities of placements, match quality.

Invariants: a performance is normal around the skill, with variance sigma² + tau² + beta²; the
probabilities of all outcomes sum to 1; the same arithmetic as the ratings, so the same bits
everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Final, NamedTuple

from deepsea_ladder.rating.gaussian import cdf, exp, pdf
from deepsea_ladder.rating.trueskill_fold import Rating, RatingParameters

LEARNT: Final = 0.5
"""The part of 1 / beta² that a game adds to the precision of each player's rating: measured 0.3
with two seats, 0.6 with four, 0.7 with six. An estimate for planning, never used to rate."""


class Odds(NamedTuple):
    """Probabilities that one bot places better than, level with and worse than another."""

    better: float
    draw: float
    worse: float


def odds(parameters: RatingParameters, one: Rating, other: Rating) -> Odds:
    """The probabilities that `one` places better than, level with and worse than `other`."""
    spread = sqrt(
        one.sigma * one.sigma
        + other.sigma * other.sigma
        + 2.0 * (parameters.tau * parameters.tau + parameters.beta * parameters.beta)
    )
    difference = one.mu - other.mu
    margin = parameters.draw_margin
    better = cdf((difference - margin) / spread)
    worse = cdf((-difference - margin) / spread)
    return Odds(better, max(0.0, 1.0 - better - worse), worse)


def certainty(one: Rating, other: Rating) -> float:
    """The probability that `one` is more skilled than `other`."""
    return cdf((one.mu - other.mu) / sqrt(one.sigma * one.sigma + other.sigma * other.sigma))


_STEP: Final = 0.25
_NODES: Final = tuple(_STEP * i for i in range(-24, 25))
_WEIGHTS: Final = tuple(_STEP * pdf(node) for node in _NODES)
"""The trapezium rule; for integrals over a normal density its error is far below 1e-6."""


def placement_chances(parameters: RatingParameters, ratings: Sequence[Rating]) -> list[list[float]]:
    """For each player the probabilities of the first, second, ... place, ignoring draws."""
    extra = parameters.tau * parameters.tau + parameters.beta * parameters.beta
    spreads = [sqrt(rating.sigma * rating.sigma + extra) for rating in ratings]
    players = range(len(ratings))
    chances = []
    for i in players:
        row = [0.0] * len(ratings)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            performance = ratings[i].mu + node * spreads[i]
            # How many of the others do better: one more with each of them, or not.
            ahead = [weight]
            for j in players:
                if j != i:
                    better = cdf((ratings[j].mu - performance) / spreads[j])
                    ahead.append(0.0)
                    for k in range(len(ahead) - 1, 0, -1):
                        ahead[k] += better * (ahead[k - 1] - ahead[k])
                    ahead[0] -= better * ahead[0]
            for place in players:
                row[place] += ahead[place]
        chances.append(row)
    return chances


def match_quality(parameters: RatingParameters, ratings: Sequence[Rating]) -> float:
    """The expected closeness of a game: TrueSkill's draw probability relative to the greatest.

    1 for players whose skills are known and equal; the package computes the same by matrices.
    """
    beta_squared = parameters.beta * parameters.beta
    precisions = 0.0
    mean = 0.0
    product = 1.0
    for mu, sigma in ratings:
        precision = 1.0 / (sigma * sigma + beta_squared)
        precisions += precision
        mean += precision * mu
        product *= beta_squared * precision
    mean /= precisions
    distance = 0.0
    for mu, sigma in ratings:
        away = mu - mean
        distance += away * away / (sigma * sigma + beta_squared)
    return exp(-0.5 * distance) * sqrt(product * len(ratings) / (precisions * beta_squared))
