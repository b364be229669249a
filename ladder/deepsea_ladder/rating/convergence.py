"""Decides when the order of a ladder is settled.

Invariants: pure; it compares neighbours in the standings. Two neighbours are apart if the upper one
is more skilled with the requested confidence, level if with that confidence their difference is
too small to matter; if any two are neither, the order is open.

Without "level" a ladder with equal bots would never settle.
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
"""Bots are level if the probability that one places better is within this of one half."""


class Neighbours(NamedTuple):
    """Two adjacent bots of the standings."""

    upper: int
    lower: int
    verdict: Literal["apart", "level", "open"]
    certainty: float
    """The probability of the verdict; of an open one, that the upper is the more skilled."""
    games_left: int | None
    """Estimate of the games that each still needs, if mu stays; None if no number is enough."""
    least_left: int = 0
    """The same if they prove to be further apart by a standard deviation of their difference."""


class OrderConfidence(NamedTuple):
    """The verdicts on all neighbours of the standings."""

    neighbours: tuple[Neighbours, ...]
    settled: bool
    certainty: float
    """A lower bound of the probability that all verdicts are right at once."""


def order(
    parameters: RatingParameters,
    ratings: Mapping[int, Rating],
    confidence: float = CONFIDENCE,
) -> OrderConfidence:
    """Judge the order of these bots; leave out bots without games."""
    if not 0.5 < confidence <= 0.9999:
        raise RatingError(f"a confidence lies above 0.5 and up to 0.9999, not {confidence}")
    level = level_difference(parameters, TOLERANCE)
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
    left, least = (
        max(_games_until(parameters, rating, most * most / 2.0) for rating in (one, other))
        for most in (wanted, max(wanted, (away + spread) / one_sided))
    )
    return Neighbours(upper, lower, "open", sure, _whole(left), _whole(least) or 0)


def _whole(games: float) -> int | None:
    return None if games == inf else int(games) + 1


def _games_until(parameters: RatingParameters, rating: Rating, variance: float) -> float:
    """The number of games that reduces the variance of a rating to this."""
    if variance <= 0.0:
        return inf
    gain = LEARNT / (parameters.beta * parameters.beta)
    # At this variance the drift adds as much as a game removes; it cannot become smaller.
    least = parameters.tau / sqrt(gain)
    if variance <= least:
        return inf
    return max(0.0, (1.0 / variance - 1.0 / (rating.sigma * rating.sigma)) / gain)
