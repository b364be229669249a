"""When the order of a ladder is settled.

Invariants: pure; it is about neighbours in the standings, each two of which are either apart, the
upper one being the more skilled with the confidence asked for, or level, their difference being too
small to matter with that confidence; as long as any two are neither, the order is open.

Without "level" a ladder with equal bots would be played for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import inf, sqrt
from typing import Final, Literal, NamedTuple

from deepsea_ladder.errors import RatingError
from deepsea_ladder.rating.forecast import LEARNT, certainty
from deepsea_ladder.rating.gaussian import cdf, quantile
from deepsea_ladder.rating.trueskill_fold import Rating, RatingParameters

CONFIDENCE: Final = 0.95
TOLERANCE: Final = 0.03
"""Bots are level if the chance that one places better is within this of even."""


class Neighbours(NamedTuple):
    """Two bots that follow each other in the standings."""

    upper: int
    lower: int
    verdict: Literal["apart", "level", "open"]
    certainty: float
    """The probability of the verdict; of an open one, that the upper is the more skilled."""
    games_left: int | None
    """About how many more games each needs, if the ratings stay; None if no number is enough."""


class OrderConfidence(NamedTuple):
    """How settled the standings are."""

    neighbours: tuple[Neighbours, ...]
    settled: bool
    certainty: float
    """At least so probable is it that all verdicts are right at once."""


def order(
    parameters: RatingParameters,
    ratings: Mapping[int, Rating],
    confidence: float = CONFIDENCE,
    tolerance: float = TOLERANCE,
) -> OrderConfidence:
    """How settled the order of these bots is; who has not played should be left out."""
    if not 0.5 < confidence <= 0.9999:
        raise RatingError(f"a confidence lies above 0.5 and up to 0.9999, not {confidence}")
    if not 0.0 < tolerance < 0.5:
        raise RatingError(f"a tolerance lies between 0 and 0.5, not {tolerance}")
    level = level_difference(parameters, tolerance)
    ranked = sorted(ratings, key=lambda bot: (-ratings[bot].conservative, bot))
    found = []
    doubt = 0.0
    for upper, lower in pairwise(ranked):
        pair = _compare(parameters, ratings, upper, lower, confidence, level)
        found.append(pair)
        doubt += 1.0 - pair.certainty
    settled = all(pair.verdict != "open" for pair in found)
    return OrderConfidence(tuple(found), settled, max(0.0, 1.0 - doubt))


def level_difference(parameters: RatingParameters, tolerance: float) -> float:
    """The difference of skill that changes the chance of placing better by `tolerance`."""
    return quantile(0.5 + tolerance) * sqrt(2.0) * parameters.beta


def _compare(
    parameters: RatingParameters,
    ratings: Mapping[int, Rating],
    upper: int,
    lower: int,
    confidence: float,
    level: float,
) -> Neighbours:
    one, other = ratings[upper], ratings[lower]
    sure = certainty(one, other)
    if sure >= confidence:
        return Neighbours(upper, lower, "apart", sure, 0)
    difference = one.mu - other.mu
    spread = sqrt(one.sigma * one.sigma + other.sigma * other.sigma)
    same = cdf((level - difference) / spread) - cdf((-level - difference) / spread)
    if same >= confidence:
        return Neighbours(upper, lower, "level", same, 0)
    # Apart needs a spread that the difference exceeds, level one that fits between the limits;
    # whichever allows the greater spread comes first.
    one_sided, two_sided = quantile(confidence), quantile(0.5 + confidence / 2.0)
    away = abs(difference)
    wanted = max(away / one_sided, (level - away) / two_sided)
    left = max(_games_until(parameters, rating, wanted * wanted / 2.0) for rating in (one, other))
    return Neighbours(upper, lower, "open", sure, None if left == inf else int(left) + 1)


def _games_until(parameters: RatingParameters, rating: Rating, variance: float) -> float:
    """How many games bring the variance of a rating down to this."""
    if variance <= 0.0:
        return inf
    gain = LEARNT / (parameters.beta * parameters.beta)
    # What the drift adds and a game takes away are equal at this variance; there is no less.
    least = parameters.tau / sqrt(gain)
    if variance <= least:
        return inf
    return max(0.0, (1.0 / variance - 1.0 / (rating.sigma * rating.sigma)) / gain)
