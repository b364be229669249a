"""Confidence sequences, which hold at all times together, and means of a fixed sample.

Invariants of a sequence: if you look after every block and stop at any time, the error probability
is still at most alpha; the only assumptions are bounds of the observations and that they have the
same distribution (each block has its own seed). Bets follow from earlier observations alone. The
luck that is subtracted from a lead has the mean 0: so the mean stays that of the lead, and the
interval is as valid.

The method is the hedged capital confidence sequence with predictable plug-in bets: I. Waudby-Smith
and A. Ramdas, "Estimating means of bounded random variables by betting", Journal of the Royal
Statistical Society B 86 (2024), Theorem 3. For every mean m that is possible, two gamblers start
with 1: one bets that the mean is larger than m, one that it is smaller. If m is the mean, neither
is likely ever to own 2 / alpha; where one does, m is excluded for good.

A lead less its luck may be larger than any lead, and the more so, the smaller the bets have to be.
But a gambler who bets on a lead is only endangered by luck that was better than the lead, and a
gambler who bets against it by luck that was worse: each has the luck with a bound on one side only,
which leaves more of it in the sum. Bets on such a lead are those with which a capital grows fastest
if the mean is a standard error more than it has been (the approximate GRAPA of the paper, with that
much hope). On plain leads they save nothing; where there is less variance, larger bets are
possible.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from deepsea_sdk.coach.formula import LuckSums

ALPHA = 0.05
"""The default of the accepted probability of a wrong verdict."""
MARGIN = 0.05
"""The default of the largest difference in placement score that counts as none."""
LARGEST_STAKE = 0.75
"""The largest share of its capital that a gambler risks in one bet: the constant c of the paper."""
STEPS = 500
"""The number of steps into which the range of possible means is divided.

Intervals are rounded outward to a whole step.
"""
_PAIR_STAKE = 0.9
"""The largest share of its capital that a gambler risks in one bet on a pair of a ranking.

It may be larger than for a lead, because the mean of a round is far from the bounds of a game's
score.
"""
_ADJUSTED_STAKE = 0.9
"""The largest share of its capital that a gambler risks in one bet on a luck-adjusted lead.

It may be larger than for a plain lead, because a lead minus its luck is seldom near its bounds.
"""


class Interval(NamedTuple):
    """A confidence interval for a mean."""

    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0

    def within(self, margin: float) -> bool:
        """Return True if the whole interval is at most `margin` away from 0."""
        return -margin <= self.low and self.high <= margin


class Elo(NamedTuple):
    """A difference in Elo points with its interval; infinite where a score is 0 or 1."""

    difference: float
    interval: Interval


def elo_of(score: float) -> float:
    """Return the Elo points by which a bot is above opponents against which it has this score.

    The score is the mean placement score in games of two seats: 1 for a win, 0.5 for a tie. The
    result is infinite for the scores 0 and 1.
    """
    if 0 < score < 1:
        return 400 * math.log10(score / (1 - score))
    return math.copysign(math.inf, score - 0.5)


def elo_difference(mean: float, interval: Interval, middle: float = 0.5, bots: int = 2) -> Elo:
    """Convert a difference of placement scores of two bots into Elo points, in games of two seats.

    mean      the difference of their scores
    interval  the interval of that difference
    middle    the mean of their two scores
    bots      the number of bots that play each other
    """
    # `elo_of` compares a bot with its opponents, but a difference of two bots needs the distance of
    # each from the mean of all bots. That is smaller, as the bot itself is in the mean: a bot that
    # is 30 points above two opponents is 20 points above the mean of the three.
    factor = 1 - 1 / bots

    def elo_of_difference(difference: float) -> float:
        higher, lower = middle + difference / 2, middle - difference / 2
        return factor * (elo_of(higher) - elo_of(lower))

    elo_interval = Interval(elo_of_difference(interval.low), elo_of_difference(interval.high))
    return Elo(elo_of_difference(mean), elo_interval)


class ConfidenceSequence:
    """The mean of observations that lie between `low` and `high`, with confidence 1 - alpha."""

    largest_stake = LARGEST_STAKE

    def __init__(self, low: float, high: float, alpha: float = ALPHA) -> None:
        self._low = low
        self._width = high - low
        self._log_limit = math.log(2 / alpha)
        self._limit = 2 / alpha
        """The capital of a gambler that excludes the mean against which it has bet."""
        self.count = 0
        self._sum = 0.0
        """The sum of the observations, each scaled to 0 to 1 as for `_place_bets`."""
        self._squares = 0.0
        """The sum of the squared differences of observations from the mean at their time."""
        self._capital_on_larger = [1.0] * (STEPS + 1)
        """The capital of the gambler who bets that the mean is larger, for each possible mean."""
        self._capital_on_smaller = [1.0] * (STEPS + 1)
        """The capital of the gambler who bets that the mean is smaller, for each possible mean."""
        # The lowest and the highest mean that is not excluded, in steps above the lower bound. The
        # capital of the gambler who bets on larger falls with m and the other's rises, so no mean
        # between these two is excluded.
        self._lowest = 0
        self._highest = STEPS

    def add(self, value: float) -> None:
        """Add one observation. Raises ValueError if it is outside of the sequence's bounds."""
        x = (value - self._low) / self._width  # from 0 to 1, but for rounding errors
        if not -1e-9 <= x <= 1 + 1e-9:
            raise ValueError(f"{value} is outside of the bounds of this sequence")
        # The bet is chosen before x is counted: the proof needs bets from earlier observations.
        self._place_bets(x, self._next_bet())
        self._sum += x
        # The mean as if there had been one observation of 0.5 before.
        mean = (0.5 + self._sum) / (self.count + 1)
        self._squares += (x - mean) ** 2

    @property
    def _possible(self) -> range:
        """The possible means that are not excluded, as numbers of steps above the lower bound."""
        return range(self._lowest, self._highest + 1)

    def _next_bet(self) -> float:
        """Return the bet of all gamblers on the next observation, from the earlier ones.

        It is the predictable plug-in bet of Waudby-Smith and Ramdas (2024), not yet limited to the
        largest stake: sqrt(2 * log(2 / alpha) / (variance * t * log(1 + t))) for observation t. The
        variance is estimated as if there had been one deviation of 0.5 before.
        """
        t = self.count + 1  # the number of the next observation
        variance = (0.25 + self._squares) / t
        return math.sqrt(2 * self._log_limit / (variance * t * math.log(1 + t)))

    def _place_bets(self, x: float, bet: float) -> None:
        """Let the gamblers bet on an observation, and exclude means against which one has won.

        For each mean m that is still possible, one gambler bets that the true mean is larger, and
        one that it is smaller. The first loses most, bet * m, at x = 0, the other one
        bet * (1 - m) at x = 1. Neither may risk more than `largest_stake` of its capital.

        x    the observation, scaled so that the lower bound is 0 and the upper bound is 1
        bet  the factor by which a capital changes is 1 plus or minus bet * (x - m)
        """
        self.count += 1
        stake = self.largest_stake
        for step in self._possible:
            m = step / STEPS
            bet_on_larger = min(bet, stake / m) if m > 0 else bet
            bet_on_smaller = min(bet, stake / (1 - m)) if m < 1 else bet
            self._capital_on_larger[step] *= 1 + bet_on_larger * (x - m)
            self._capital_on_smaller[step] *= 1 - bet_on_smaller * (x - m)
        self._exclude_means()

    def _exclude_means(self) -> None:
        """Exclude the means against which a gambler's capital has reached the limit.

        The means are excluded from both ends inwards. The last one is never excluded, so that the
        interval is not empty.
        """
        on_larger, on_smaller = self._capital_on_larger, self._capital_on_smaller
        while self._lowest < self._highest and on_larger[self._lowest] >= self._limit:
            self._lowest += 1
        while self._lowest < self._highest and on_smaller[self._highest] >= self._limit:
            self._highest -= 1

    @property
    def mean(self) -> float:
        """The mean of the observations; the middle of the bounds if there are none."""
        share = self._sum / self.count if self.count else 0.5
        return self._low + self._width * share

    @property
    def interval(self) -> Interval:
        """The interval for the true mean, rounded outward to whole steps."""
        low, high = max(0, self._lowest - 1), min(STEPS, self._highest + 1)
        return Interval(
            self._low + self._width * low / STEPS, self._low + self._width * high / STEPS
        )


# Leads less their luck


class AdjustedSequence(ConfidenceSequence):
    """The mean of leads between -bound and bound, from which the luck in them is subtracted."""

    def __init__(self, bound: float, luck_bound: float, alpha: float = ALPHA) -> None:
        """Begin without observations.

        bound       the largest lead, in either direction
        luck_bound  the limit of the luck: at most that for one gambler, at least minus that for
                    the other one
        """
        super().__init__(-bound, bound, alpha)
        self._bound = bound
        self._luck_bound = luck_bound
        # Observations are scaled so that the leads, from -bound to bound, are from 0 to 1.
        beyond = luck_bound / (2 * bound)
        self._bets_on_larger, self._bets_on_smaller = _Gambler(beyond), _Gambler(beyond)

    def add(self, value: float, luck: LuckSums = (0.0, 0.0)) -> None:
        """Add one observation: a lead, from which the luck in it is subtracted.

        There are two sums of the luck. The first is limited from above, for the gamblers who bet
        that the mean is larger: they lose most if the lead is small and the luck large. The second
        is limited from below, for those who bet that it is smaller. These see all mirrored at 0, so
        that a small lead is a large observation for them. Raises ValueError if a bound is exceeded.
        """
        luck_limited_above, luck_limited_below = luck
        largest_luck = self._luck_bound * (1 + 1e-9)  # a little more, for rounding errors
        if (
            abs(value) > self._bound * (1 + 1e-9)
            or luck_limited_above > largest_luck
            or luck_limited_below < -largest_luck
        ):
            raise ValueError(f"{value} and {luck} are outside of the bounds of this sequence")
        # Scaled so that leads without luck are from 0 to 1.
        x = 0.5 + (value - luck_limited_above) / (2 * self._bound)
        mirrored_x = 0.5 - (value - luck_limited_below) / (2 * self._bound)
        means = [step / STEPS for step in self._possible]
        bets_on_larger = self._bets_on_larger.next_bets(means)
        bets_on_smaller = self._bets_on_smaller.next_bets([1 - m for m in means])
        for step, m, bet_on_larger, bet_on_smaller in zip(
            self._possible, means, bets_on_larger, bets_on_smaller, strict=True
        ):
            self._capital_on_larger[step] *= 1 + bet_on_larger * (x - m)
            self._capital_on_smaller[step] *= 1 + bet_on_smaller * (mirrored_x - (1 - m))
        # After the bets: a bet may depend on earlier observations only.
        self._bets_on_larger.add(x)
        self._bets_on_smaller.add(mirrored_x)
        self.count += 1
        self._exclude_means()

    @property
    def mean(self) -> float:
        """The mean of the leads minus their luck: the middle of the means of both gamblers."""
        # Scaled back, their means are bound * (2 * larger - 1) and bound * (1 - 2 * smaller).
        return self._bound * (self._bets_on_larger.mean - self._bets_on_smaller.mean)


class _Gambler:
    """A gambler who bets that the mean of the observations is larger than a possible mean.

    Observations are scaled so that the bounds of a lead are 0 and 1; with the luck subtracted, they
    may be as low as `-beyond`. Their variance is estimated as if there had been one deviation of
    0.5 before.
    """

    def __init__(self, beyond: float) -> None:
        self._beyond = beyond
        self._count = 0
        self._sum = 0.0
        self._squares = 0.25

    @property
    def mean(self) -> float:
        """The mean of the observations; 0.5 if there are none."""
        return self._sum / self._count if self._count else 0.5

    def add(self, observation: float) -> None:
        """Add an observation to the mean and the variance, on which later bets depend."""
        self._count += 1
        self._sum += observation
        # The mean as if there had been one observation of 0.5 before.
        mean = (0.5 + self._sum) / (self._count + 1)
        self._squares += (observation - mean) ** 2

    def next_bets(self, means: Iterable[float]) -> list[float]:
        """Return for each m of `means` the next bet that the true mean is larger than m.

        The gambler assumes that the true mean is one standard error above that of the observations.
        It bets nothing if m is above this assumed mean. Otherwise it bets so that its capital would
        grow fastest if the assumption were true (the approximate GRAPA of Waudby-Smith and Ramdas),
        but it never risks more than `_ADJUSTED_STAKE` of its capital.
        """
        variance = self._squares / (self._count + 1)
        assumed_mean = self.mean + math.sqrt(variance / (self._count + 1))
        bets = []
        for m in means:
            distance = assumed_mean - m
            if distance <= 0:
                bets.append(0.0)
                continue
            # A bet b lets the logarithm of the capital grow by about
            # b * distance - b**2 * (variance + distance**2) / 2, which is largest for this b.
            fastest_bet = distance / (variance + distance * distance)
            # The smallest observation is -beyond: a bet loses at most bet * (m + beyond).
            largest_bet = _ADJUSTED_STAKE / (m + self._beyond)
            bets.append(min(fastest_bet, largest_bet))
        return bets


# A fixed number of observations

_NORMAL_95 = 1.959964
"""The half width of a 95 % interval of a normal distribution, in standard errors."""


class PairSequence(ConfidenceSequence):
    """The difference of two bots' strengths in a ranking, from rounds in which both play."""

    largest_stake = _PAIR_STAKE

    def __init__(self, alpha: float) -> None:
        super().__init__(-1.0, 1.0, alpha)


class Mean(NamedTuple):
    """The mean of a fixed number of independent observations.

    Unlike a confidence sequence, it is only valid if the number of observations was fixed before.
    """

    mean: float
    error: float
    """The standard error of the mean."""
    degrees: float
    """The degrees of freedom of the Student's t distribution of the mean."""

    @property
    def half_width(self) -> float:
        """The half width of the 95 % confidence interval of the mean.

        It is the standard error times the quantile of Student's t distribution.
        """
        n = self.degrees
        # The quantile of t is computed from that of a normal distribution. D. L. Wallace (1959, see
        # `chance`): z = (8n + 1) / (8n + 3) * sqrt(n * log(1 + t * t / n)), here solved for t.
        z = _NORMAL_95 * (8 * n + 3) / (8 * n + 1)
        t = math.sqrt(n * math.expm1(z * z / n))
        return self.error * t

    def chance(self, true_mean: float) -> float:
        """Return the probability to observe this mean or a larger one, given the true mean.

        This is the p-value of the hypothesis that the true mean is at most `true_mean`.
        """
        if not self.error:
            return float(self.mean <= true_mean)
        t, n = (self.mean - true_mean) / self.error, self.degrees
        # The z of a normal distribution with about the same tail as Student's t: D. L. Wallace,
        # Annals of Mathematical Statistics 30 (1959). The tail is a little too large.
        z = (8 * n + 1) / (8 * n + 3) * math.sqrt(n * math.log1p(t * t / n))
        return math.erfc(math.copysign(z, t) / math.sqrt(2)) / 2


def mean_of(values: Sequence[float]) -> Mean:
    """Return the mean of two or more observations, with its standard error."""
    count = len(values)
    mean = math.fsum(values) / count
    squares = math.fsum([(value - mean) ** 2 for value in values])
    variance = squares / (count - 1)  # of one observation
    return Mean(mean, error=math.sqrt(variance / count), degrees=count - 1)


def difference(first: Mean, second: Mean) -> Mean:
    """Return the first mean minus the second one, with its standard error.

    The means must come from different observations, so that they are independent. The degrees of
    freedom are those of Welch's t-test.
    """
    variance_1, variance_2 = first.error**2, second.error**2
    variance = variance_1 + variance_2
    if not variance:  # Welch's formula would divide by 0
        return Mean(first.mean - second.mean, 0.0, first.degrees + second.degrees)
    degrees = variance**2 / (variance_1**2 / first.degrees + variance_2**2 / second.degrees)
    return Mean(first.mean - second.mean, math.sqrt(variance), degrees)


def holm(p_values: Sequence[float], alpha: float = ALPHA) -> list[bool]:
    """Return for each hypothesis whether it is rejected, by the p-values of all of them.

    The probability that any true hypothesis is rejected is at most alpha, however the hypotheses
    depend on each other: S. Holm, Scandinavian Journal of Statistics 6 (1979).
    """
    count = len(p_values)
    is_rejected = [False] * count
    most_significant_first = sorted(range(count), key=lambda index: p_values[index])
    for rank, index in enumerate(most_significant_first):
        if p_values[index] > alpha / (count - rank):
            break
        is_rejected[index] = True
    return is_rejected
