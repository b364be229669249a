"""The confidence sequence of a lead, part of which was luck.

Invariants: what is taken off a lead is its luck, whose mean is 0; bets follow from earlier
observations alone: so the mean stays that of the lead, and the interval is as valid as that of the
lead itself.

A lead less its luck may be larger than any lead, and the more so, the smaller the bets of
confidence.py have to be. But a gambler who bets on a lead is only afraid of luck that was better
than the lead, and who bets against it, of luck that was worse: each has the luck with a bound on
one side only, which leaves more of it in the sum.

Bets are those with which a capital grows fastest if the mean is a standard error more than it has
been (the approximate GRAPA of the paper that confidence.py names, with that much hope). On plain
leads they save nothing; where there is less variance, more can be bet than confidence.py does.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from .confidence import STEPS, ConfidenceSequence

if TYPE_CHECKING:
    from deepsea_sdk.coach.chance_sum import Luck

_STAKE: Final = 0.9
"""The largest share of its capital that a gambler risks: a lead less its luck is seldom near its
bounds."""


class AdjustedSequence(ConfidenceSequence):
    """The mean of leads between -bound and bound, whose luck is known.

    luck_bound  the luck is at most that, or at least minus that
    """

    def __init__(self, bound: float, luck_bound: float, alpha: float = 0.05) -> None:
        super().__init__(-bound, bound, alpha)
        self._bound = bound
        self._luck_bound = luck_bound
        beyond = luck_bound / (2 * bound)
        self._for_more, self._for_less = _Gambler(beyond), _Gambler(beyond)

    def add(self, value: float, luck: Luck = (0.0, 0.0)) -> None:
        """Add a lead and its luck."""
        at_most, at_least = luck
        largest = self._luck_bound * (1 + 1e-9)
        if abs(value) > self._bound * (1 + 1e-9) or at_most > largest or at_least < -largest:
            raise ValueError(f"{value} and {luck} are outside of the bounds of this sequence")
        more = 0.5 + (value - at_most) / (2 * self._bound)
        less = 0.5 - (value - at_least) / (2 * self._bound)
        for i in self._possible:
            m = i / STEPS
            self._larger[i] *= 1 + self._for_more.bet(m) * (more - m)
            self._smaller[i] *= 1 + self._for_less.bet(1 - m) * (less - (1 - m))
        self._for_more.saw(more)
        self._for_less.saw(less)
        self.count += 1
        self._exclude()

    @property
    def mean(self) -> float:
        """The mean of the leads less their luck."""
        return self._bound * (self._for_more.mean - self._for_less.mean)


class _Gambler:
    """Bets that the mean of what it sees is larger.

    It sees observations in parts of the width above the lower bound, or up to `beyond` below that.
    """

    def __init__(self, beyond: float) -> None:
        self._beyond = beyond
        self._count = 0
        self._sum = 0.0
        self._squares = 0.25
        """Squared deviations; as if there had been one of a half before."""
        self._hoped = 1.0
        """A standard error above the mean so far,"""
        self._variance = 0.25
        """and the variance."""

    @property
    def mean(self) -> float:
        """The mean of what it has seen."""
        return self._sum / self._count if self._count else 0.5

    def bet(self, m: float) -> float:
        """What it bets next that the mean is larger than m."""
        hoped = self._hoped - m
        if hoped <= 0:
            return 0.0
        return min(hoped / (self._variance + hoped * hoped), _STAKE / (m + self._beyond))

    def saw(self, x: float) -> None:
        """Note an observation."""
        self._count += 1
        self._sum += x
        self._squares += (x - (0.5 + self._sum) / (self._count + 1)) ** 2
        self._variance = self._squares / (self._count + 1)
        self._hoped = self.mean + math.sqrt(self._variance / (self._count + 1))
