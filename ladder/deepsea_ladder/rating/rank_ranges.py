"""The ranks that a bot may as well have.

Invariants: pure; who is ahead or behind with less confidence than asked for may be either. How
uncertain the difference of two skills is, the caller says: `apart` for ratings each by itself,
`Joint.variances` for those of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deepsea_ladder.rating.convergence import CONFIDENCE
from deepsea_ladder.rating.gaussian import quantile
from deepsea_ladder.rating.trueskill_fold import Rating

Variances = Callable[[int], Sequence[float]]
"""Of the differences of the skill in one place and those in all places."""


def apart(ratings: Sequence[Rating]) -> Variances:
    """The variances if each rating is uncertain by itself."""
    squares = [rating.sigma * rating.sigma for rating in ratings]

    def of(one: int) -> Sequence[float]:
        own = squares[one]
        return [own + square for square in squares]

    return of


def rank_ranges(means: Sequence[float], variances: Variances) -> list[tuple[int, int]]:
    """The best and the worst rank of each, in the order of `means`."""
    needed = quantile(CONFIDENCE) ** 2
    ahead, behind = [0] * len(means), [0] * len(means)
    # By mu, and every pair once: certainty() of all pairs would take ten times as long.
    order = sorted(range(len(means)), key=lambda one: -means[one])
    for place, upper in enumerate(order):
        mu, row = means[upper], variances(upper)
        for lower in order[place + 1 :]:
            distance = mu - means[lower]
            if distance * distance >= needed * row[lower]:
                behind[upper] += 1
                ahead[lower] += 1
    return [
        (1 + ahead[one], max(1 + ahead[one], len(means) - behind[one])) for one in range(len(means))
    ]
