"""Predictions of a game from ratings: odds of two players, probabilities of placements.

Invariants: a performance is normal around the skill, with variance sigma² + tau² + beta²; the
probabilities of all outcomes sum to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Final

from deepsea_ladder.rating import convergence
from deepsea_ladder.rating.convergence import Odds
from deepsea_ladder.rating.gaussian import cdf, pdf
from deepsea_ladder.rating.trueskill_fold import Rating, RatingParameters

PACKAGE_DEFAULTS: Final = RatingParameters(25.0, 25.0 / 3.0, 25.0 / 6.0, 25.0 / 300.0, 0.1)
"""The default parameters of the `trueskill` package."""


def odds(parameters: RatingParameters, one: Rating, other: Rating) -> Odds:
    """The probabilities that `one` is placed before, level with and behind `other`."""
    variance = one.sigma * one.sigma + other.sigma * other.sigma
    drift = 2.0 * parameters.tau * parameters.tau
    return convergence.odds(parameters, one.mu - other.mu, variance + drift)


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
