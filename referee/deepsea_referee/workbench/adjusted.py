"""The confidence sequence of a lead, part of which was luck.

Invariants: what is taken off a lead is its luck, whose mean is 0, times a factor from 0 to 1 that
follows from earlier observations alone: so the mean stays that of the lead, and the interval is as
valid as that of the lead itself.

A lead less its luck may be larger than any lead, and so the gamblers of confidence.py may bet less
on it. Between bots that are nearly equal small bets are best anyway, and luck makes up much of the
variance. Where the lead is large, large bets are better. So before each block that factor is chosen
with which a gambler's capital is expected to grow fastest, going by the blocks so far.
"""

from __future__ import annotations

import math
from typing import Final

from .confidence import LARGEST_STAKE, ConfidenceSequence

_FACTORS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
_HOPE: Final = 0.25
"""Standard errors that are added to the lead so far, to guess how fast a capital grows."""
_STAKE: Final = 0.9
"""The largest share of a capital that is risked on a lead less its luck: it is seldom near its
bounds."""


class AdjustedSequence(ConfidenceSequence):
    """The mean of leads between -bound and bound, whose luck is known.

    luck_bound  the luck is between -luck_bound and luck_bound
    """

    def __init__(self, bound: float, luck_bound: float, alpha: float = 0.05) -> None:
        super().__init__(-bound, bound, alpha)
        self._bound = bound
        self._luck_bound = luck_bound
        self._leads = 0.0
        self._adjusted = 0.0
        # Squared deviations, in parts of the width; as if there had been one of a half before.
        self._spread_of_leads = 0.25
        self._spread_of_adjusted = 0.25

    def add(self, value: float, luck: float = 0.0) -> None:
        """Add a lead and its luck."""
        bounds = self._bound * (1 + 1e-9), self._luck_bound * (1 + 1e-9)
        if abs(value) > bounds[0] or abs(luck) > bounds[1]:
            raise ValueError(f"{value} and {luck} are outside of the bounds of this sequence")
        factor, bet, stake = self._choice()
        x = (value - factor * luck) / (2 * self._bound) + 0.5
        self.play(x, bet, self._beyond(factor), stake)
        lead, adjusted = value / (2 * self._bound), (value - luck) / (2 * self._bound)
        self._leads += lead
        self._adjusted += adjusted
        self._spread_of_leads += (lead - self._leads / (self.count + 1)) ** 2
        self._spread_of_adjusted += (adjusted - self._adjusted / (self.count + 1)) ** 2

    def _choice(self) -> tuple[float, float, float]:
        """The factor of the next luck, the bet and the largest stake."""
        following = self.count + 1
        plain, least = self._spread_of_leads / following, self._spread_of_adjusted / following
        mean = abs(self._adjusted / self.count) if self.count else 0.0
        hoped = mean + _HOPE * math.sqrt(least / following)
        found = []
        for factor in _FACTORS:
            variance = least + (plain - least) * (1 - factor) ** 2
            bet, stake = self.bet(variance), _STAKE if factor else LARGEST_STAKE
            risked = min(bet, stake / (0.5 + self._beyond(factor)))  # against a lead of 0
            growth = risked * hoped - risked * risked * variance / 2
            found.append((growth, factor, bet, stake))
        return max(found, key=lambda one: one[0])[1:]

    def _beyond(self, factor: float) -> float:
        """By how much luck times a factor exceeds the bounds of a lead, in parts of the width."""
        return factor * self._luck_bound / (2 * self._bound)

    @property
    def mean(self) -> float:
        """The mean of the leads less their luck."""
        return 2 * self._bound * self._adjusted / self.count if self.count else 0.0
