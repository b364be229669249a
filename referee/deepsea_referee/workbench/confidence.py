"""Confidence sequences, valid at all times together; means of a fixed number of observations.

Invariants of a sequence: if you look after every block and stop at any time, the error probability
is still at most alpha; the only assumptions are bounds of the observations and that they have the
same distribution (each block has its own seed). Bets follow from earlier observations alone. What
is taken off a lead is its luck, whose mean is 0: so the mean stays that of the lead, and the
interval is as valid.

The method is the hedged capital confidence sequence with predictable plug-in bets: I. Waudby-Smith
and A. Ramdas, "Estimating means of bounded random variables by betting", Journal of the Royal
Statistical Society B 86 (2024), Theorem 3. For every mean m that is possible, two gamblers start
with 1: one bets that the mean is larger than m, one that it is smaller. If m is the mean, neither
is likely ever to own 2 / alpha; where one does, m is excluded for good.

A lead less its luck may be larger than any lead, and the more so, the smaller the bets have to be.
But a gambler who bets on a lead is only afraid of luck that was better than the lead, and who bets
against it, of luck that was worse: each has the luck with a bound on one side only, which leaves
more of it in the sum. Bets on such a lead are those with which a capital grows fastest if the mean
is a standard error more than it has been (the approximate GRAPA of the paper, with that much hope).
On plain leads they save nothing; where there is less variance, more can be bet than on these.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from deepsea_sdk.coach.chance_sum import Luck

ALPHA = 0.05
"""The probability of a wrong verdict that is accepted, unless another one is asked for."""
MARGIN = 0.05
"""The largest difference in placement score that counts as none, unless another is asked for."""
LARGEST_STAKE = 0.75
"""The largest share of its capital that a gambler risks in one bet: the constant c of the paper."""
STEPS = 500
"""The resolution of possible means, in parts of the whole width; intervals are rounded outward
to such a part."""
_PAIR_STAKE = 0.9
"""The largest share of its capital that a gambler risks on a pair: the mean of a round is far from
the bounds of a game's score, so more than for a lead is safe."""
_ADJUSTED_STAKE = 0.9
"""The largest share of its capital that a gambler risks: a lead less its luck is seldom near its
bounds."""


class Interval(NamedTuple):
    """An interval for the mean."""

    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0

    def within(self, margin: float) -> bool:
        return -margin <= self.low and self.high <= margin


class Elo(NamedTuple):
    """A difference in Elo points with its interval; infinite where a score is 0 or 1."""

    difference: float
    interval: Interval


def elo_of(score: float) -> float:
    """Elo points above opponents against whom a bot has this score in games of two seats."""
    if 0 < score < 1:
        return 400 * math.log10(score / (1 - score))
    return math.copysign(math.inf, score - 0.5)


def elo_difference(mean: float, interval: Interval, middle: float = 0.5, bots: int = 2) -> Elo:
    """The Elo difference of two bots in games of two seats, from that of their placement scores.

    mean    the difference of their scores, with its interval
    middle  the mean of their two scores
    bots    how many bots meet each other
    """
    # A bot does not meet itself, so the stronger one of two has weaker opponents. Two bots alone
    # have the scores s and 1 - s, and the difference is that of s.
    share = 1 - 1 / bots

    def elo(lead: float) -> float:
        return share * (elo_of(middle + lead / 2) - elo_of(middle - lead / 2))

    return Elo(elo(mean), Interval(elo(interval.low), elo(interval.high)))


class ConfidenceSequence:
    """The mean of observations that lie between `low` and `high`, with confidence 1 - alpha."""

    largest_stake = LARGEST_STAKE

    def __init__(self, low: float, high: float, alpha: float = ALPHA) -> None:
        self._low = low
        self._width = high - low
        self._log = math.log(2 / alpha)
        self._limit = 2 / alpha
        self.count = 0
        self._sum = 0.0
        self._squares = 0.0
        self._larger = [1.0] * (STEPS + 1)
        """For each possible mean the capital of the gambler who bets that the mean is larger,"""
        self._smaller = [1.0] * (STEPS + 1)
        """and of the one who bets that it is smaller."""
        # The possible means that are not excluded. The capital of the gambler who bets on larger
        # falls with m and the other's rises, so these means are contiguous.
        self._first = 0
        self._last = STEPS

    def add(self, value: float) -> None:
        """Add one observation."""
        x = (value - self._low) / self._width
        if not -1e-9 <= x <= 1 + 1e-9:
            raise ValueError(f"{value} is outside of the bounds of this sequence")
        # The bet depends on earlier observations only: the proof needs that.
        self._play(x, self._next_bet())
        self._sum += x
        mean = (0.5 + self._sum) / (self.count + 1)
        self._squares += (x - mean) ** 2

    @property
    def _possible(self) -> range:
        """The possible means that are not excluded, in steps."""
        return range(self._first, self._last + 1)

    def _next_bet(self) -> float:
        """The gamblers' next bet, before it is limited to the largest stake."""
        following = self.count + 1
        variance = (0.25 + self._squares) / following
        return math.sqrt(2 * self._log / (variance * following * math.log(1 + following)))

    def _play(self, x: float, bet: float) -> None:
        """Let the gamblers bet on an observation, in parts of the width above the lower bound."""
        self.count += 1
        stake = self.largest_stake
        for i in self._possible:
            m = i / STEPS
            self._larger[i] *= 1 + min(bet, stake / m if m else bet) * (x - m)
            self._smaller[i] *= 1 - min(bet, stake / (1 - m) if m < 1 else bet) * (x - m)
        self._exclude()

    def _exclude(self) -> None:
        """Exclude the means against which a gambler has won enough, from the ends inwards."""
        while self._first < self._last and self._larger[self._first] >= self._limit:
            self._first += 1
        while self._first < self._last and self._smaller[self._last] >= self._limit:
            self._last -= 1

    @property
    def mean(self) -> float:
        """The mean of the observations; without any, the middle of the bounds."""
        share = self._sum / self.count if self.count else 0.5
        return self._low + self._width * share

    @property
    def interval(self) -> Interval:
        """The interval for the true mean."""
        low, high = max(0, self._first - 1), min(STEPS, self._last + 1)
        return Interval(
            self._low + self._width * low / STEPS, self._low + self._width * high / STEPS
        )


# Leads less their luck


class AdjustedSequence(ConfidenceSequence):
    """The mean of leads between -bound and bound, whose luck is known.

    luck_bound  the luck is at most that, or at least minus that
    """

    def __init__(self, bound: float, luck_bound: float, alpha: float = ALPHA) -> None:
        super().__init__(-bound, bound, alpha)
        self._bound = bound
        self._luck_bound = luck_bound
        beyond = luck_bound / (2 * bound)
        self._for_more, self._for_less = _Gambler(beyond), _Gambler(beyond)

    def add(self, value: float, luck: Luck = (0.0, 0.0)) -> None:
        at_most, at_least = luck
        largest = self._luck_bound * (1 + 1e-9)
        if abs(value) > self._bound * (1 + 1e-9) or at_most > largest or at_least < -largest:
            raise ValueError(f"{value} and {luck} are outside of the bounds of this sequence")
        more = 0.5 + (value - at_most) / (2 * self._bound)
        less = 0.5 - (value - at_least) / (2 * self._bound)
        means = [i / STEPS for i in self._possible]
        larger = self._for_more.bets(means)
        smaller = self._for_less.bets([1 - m for m in means])
        for i, m, up, down in zip(self._possible, means, larger, smaller, strict=True):
            self._larger[i] *= 1 + up * (more - m)
            self._smaller[i] *= 1 + down * (less - (1 - m))
        self._for_more.add(more)
        self._for_less.add(less)
        self.count += 1
        self._exclude()

    @property
    def mean(self) -> float:
        """The mean of the leads less their luck."""
        return self._bound * (self._for_more.mean - self._for_less.mean)


class _Gambler:
    """Bets that the mean of what it sees is larger.

    It sees observations in parts of the width above the lower bound, or up to `beyond` below that.
    Their variance is guessed as if there had been one deviation of a half before.
    """

    def __init__(self, beyond: float) -> None:
        self._beyond = beyond
        self._count = 0
        self._sum = 0.0
        self._squares = 0.25

    @property
    def mean(self) -> float:
        return self._sum / self._count if self._count else 0.5

    def add(self, x: float) -> None:
        self._count += 1
        self._sum += x
        self._squares += (x - (0.5 + self._sum) / (self._count + 1)) ** 2

    def bets(self, means: Iterable[float]) -> list[float]:
        """What it bets next that the mean is larger than each of these."""
        variance = self._squares / (self._count + 1)
        hope = self.mean + math.sqrt(variance / (self._count + 1))
        return [
            min(lead / (variance + lead * lead), _ADJUSTED_STAKE / (m + self._beyond))
            if (lead := hope - m) > 0
            else 0.0
            for m in means
        ]


# A fixed number of observations

_SURE = 1.959964
"""Standard errors of a normal distribution on each side of an interval of 95 %."""


class PairSequence(ConfidenceSequence):
    """The difference of two bots' strengths, from rounds in which both play."""

    largest_stake = _PAIR_STAKE

    def __init__(self, alpha: float) -> None:
        super().__init__(-1.0, 1.0, alpha)


class Mean(NamedTuple):
    """An estimate from independent observations, all made before anybody looked."""

    mean: float
    error: float
    """Its standard error."""
    degrees: float
    """Degrees of freedom of Student's t, with which the mean is about normal."""

    @property
    def half_width(self) -> float:
        """That of its interval of 95 %."""
        n = self.degrees
        normal = _SURE * (8 * n + 3) / (8 * n + 1)
        return self.error * math.sqrt(n * math.expm1(normal * normal / n))

    def chance(self, least: float) -> float:
        """The probability of such a mean or a larger one where the true one is `least`."""
        if not self.error:
            return float(self.mean <= least)
        t, n = (self.mean - least) / self.error, self.degrees
        # Wallace, Annals of Mathematical Statistics 30 (1959): a little too large in the tail.
        normal = (8 * n + 1) / (8 * n + 3) * math.sqrt(n * math.log1p(t * t / n))
        return math.erfc(math.copysign(normal, t) / math.sqrt(2)) / 2


def mean_of(values: Sequence[float]) -> Mean:
    """The mean of two observations or more."""
    count = len(values)
    mean = math.fsum(values) / count
    squares = math.fsum([(value - mean) ** 2 for value in values])
    return Mean(mean, math.sqrt(squares / (count - 1) / count), count - 1)


def difference(one: Mean, other: Mean) -> Mean:
    """The first mean less the second one, of other observations: Welch's test."""
    squares, others = one.error**2, other.error**2
    if not squares + others:
        return Mean(one.mean - other.mean, 0.0, one.degrees + other.degrees)
    degrees = (squares + others) ** 2 / (squares**2 / one.degrees + others**2 / other.degrees)
    return Mean(one.mean - other.mean, math.sqrt(squares + others), degrees)


def holm(chances: Sequence[float], alpha: float = ALPHA) -> list[bool]:
    """Which of several hypotheses are rejected, with a chance of alpha that any is true.

    However they depend on each other: S. Holm, Scandinavian Journal of Statistics 6 (1979).
    """
    rejected = [False] * len(chances)
    for rank, index in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        if chances[index] > alpha / (len(chances) - rank):
            break
        rejected[index] = True
    return rejected
