"""The joint uncertainty of a batch's ratings: what is known of the difference of two skills.

Invariants: pure; the skills are one normal distribution of as many dimensions as there are players,
whose precision is a newcomer's, and for each two players what the games say about their difference.

Two ratings that rest on the same games are uncertain together: sigma² + sigma² of two bots that met
often overstates how uncertain their difference is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

from deepsea_ladder.rating.gaussian import cdf

Ties = dict[tuple[int, int], float]
"""Precision by pair of players, the smaller first: of a spring between the two skills, so to speak;
where there are others between them, these say something about their difference too."""


def add_ties(
    ties: Ties, players: Sequence[int], precisions: Sequence[float], beta_squared: float
) -> None:
    """Add what a game ties together.

    players       the winner first
    precisions    of what it says about the performances of each two neighbours
    """
    # The performances' precision is tridiagonal, and so is its inverse's factors: with
    # a = precisions * beta², element i, j > i of the inverse is beta² times
    # upto[i] * a[i] * ... * a[j - 1] * after[j + 1] / upto[all].
    a = [precision * beta_squared for precision in precisions]
    count = len(players)
    diagonal = [1.0 + x + y for x, y in zip([0.0, *a], [*a, 0.0], strict=True)]
    upto, after = [1.0, diagonal[0]], [diagonal[-1], 1.0]
    for i in range(1, count):
        upto.append(diagonal[i] * upto[-1] - a[i - 1] * a[i - 1] * upto[-2])
        back = count - 1 - i
        after.insert(0, diagonal[back] * after[0] - a[back] * a[back] * after[1])
    for i in range(count - 1):
        product = upto[i] / (upto[count] * beta_squared)
        for j in range(i + 1, count):
            product *= a[j - 1]
            pair = (min(players[i], players[j]), max(players[i], players[j]))
            ties[pair] = ties.get(pair, 0.0) + product * after[j + 1]


class Joint:
    """The joint distribution of the skills of a batch's players."""

    def __init__(self, means: Mapping[int, float], ties: Ties, sigma: float) -> None:
        """`means` has mu by player; `sigma` is a newcomer's. It takes time by the cube of their
        number: a thirtieth of a second for 100, half a minute for 1,000."""
        self.means = dict(means)
        self._place = {player: place for place, player in enumerate(self.means)}
        self._covariance = _inverse(self._precision(ties, sigma))

    def _precision(self, ties: Ties, sigma: float) -> list[list[float]]:
        prior = 1.0 / (sigma * sigma)
        rows = [[0.0] * place + [prior] for place in range(len(self.means))]
        for pair, precision in ties.items():
            j, i = sorted(self._place[player] for player in pair)
            rows[i][j] -= precision
            rows[i][i] += precision
            rows[j][j] += precision
        return rows

    def variances(self, player: int, others: Sequence[int]) -> list[float]:
        """The variances of the differences of a player's skill and others'."""
        one = self._place[player]
        places = [self._place[other] for other in others]
        return [
            max(0.0, self._of(one, one) + self._of(place, place) - 2.0 * self._of(one, place))
            for place in places
        ]

    def stronger(self, one: int, other: int) -> float:
        """The probability that `one` is more skilled than `other`; of a player itself one half."""
        (variance,) = self.variances(one, [other])
        difference = self.means[one] - self.means[other]
        return cdf(difference / sqrt(variance)) if variance else 0.5

    def _of(self, i: int, j: int) -> float:
        return self._covariance[i][j] if j <= i else self._covariance[j][i]


def _inverse(rows: list[list[float]]) -> list[list[float]]:
    """The inverse of a positive definite matrix; of both the rows up to the diagonal.

    Gauss and Jordan, in place: after each step the matrix is that of the equations solved for one
    more unknown, with the sign that keeps it symmetric.
    """
    for k, pivot_row in enumerate(rows):
        column = [*pivot_row, *(row[k] for row in rows[k + 1 :])]
        pivot = 1.0 / column[k]
        for i, row in enumerate(rows):
            factor = column[i] * pivot
            row[:] = [own - factor * x for own, x in zip(row, column, strict=False)]
            if i > k:
                row[k] = factor
        pivot_row[:] = [pivot * x for x in column[:k]] + [-pivot]
    return [[-value for value in row] for row in rows]
