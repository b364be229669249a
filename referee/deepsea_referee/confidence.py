"""Confidence sequences: intervals that hold at all times at once.

Laws: whoever looks after every block and stops when the answer pleases is still wrong with
probability alpha at most; nothing is assumed of the observations but their bounds and that they
are alike (each block is played with a seed of its own).

The method is the predictable plug-in empirical Bernstein confidence sequence: I. Waudby-Smith and
A. Ramdas, "Estimating means of bounded random variables by betting", Journal of the Royal
Statistical Society B 86 (2024), Theorem 2.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

_LARGEST_BET: Final = 0.5
"""The bound c of the paper, which keeps early bets from risking too much."""


class Interval(NamedTuple):
    """Where the mean lies."""

    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside."""
        return self.low > 0 or self.high < 0

    def within(self, margin: float) -> bool:
        """Whether everything in it is at most `margin` away from zero."""
        return -margin <= self.low and self.high <= margin


class ConfidenceSequence:
    """The mean of observations that lie between `low` and `high`, with confidence 1 - alpha."""

    def __init__(self, low: float, high: float, alpha: float = 0.05) -> None:
        self._low = low
        self._width = high - low
        self._log = math.log(2 / alpha)
        self.count = 0
        self._sum = 0.0
        self._squares = 0.0
        self._bets = 0.0
        self._weighted = 0.0
        self._price = self._log
        self._interval = Interval(0.0, 1.0)

    def add(self, value: float) -> None:
        """Take one more observation in."""
        x = (value - self._low) / self._width
        if not -1e-9 <= x <= 1 + 1e-9:
            raise ValueError(f"{value} is outside of the bounds of this sequence")
        # The bet and the guess use only what came before: that is what makes them honest.
        guess = (0.5 + self._sum) / (self.count + 1)
        variance = (0.25 + self._squares) / (self.count + 1)
        self.count += 1
        spread = variance * self.count * math.log(1 + self.count)
        bet = min(math.sqrt(2 * self._log / spread), _LARGEST_BET)
        self._bets += bet
        self._weighted += bet * x
        self._price += (x - guess) ** 2 * (-math.log(1 - bet) - bet)
        self._sum += x
        mean = (0.5 + self._sum) / (self.count + 1)
        self._squares += (x - mean) ** 2
        center = self._weighted / self._bets
        radius = self._price / self._bets
        # All former intervals hold together, so the mean lies in what they share.
        low = max(self._interval.low, center - radius)
        high = min(self._interval.high, center + radius)
        self._interval = Interval(min(low, high), max(low, high))

    @property
    def mean(self) -> float:
        """The mean of what was observed; the middle of the bounds before that."""
        share = self._sum / self.count if self.count else 0.5
        return self._low + self._width * share

    @property
    def interval(self) -> Interval:
        """Where the true mean lies."""
        low, high = self._interval
        return Interval(self._low + self._width * low, self._low + self._width * high)
