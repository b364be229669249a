"""The time for a decision: the one module of the SDK that reads a clock.

Invariants: times are seconds on one monotonic clock, which is a parameter; they are counted from
the arrival of the request, not from the call of the bot.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import NamedTuple

monotonic = time.monotonic


def now_us() -> int:
    """Return the time of the monotonic clock in whole microseconds."""
    return time.monotonic_ns() // 1000


class TimeLeft(NamedTuple):
    """The time left for a decision, in microseconds."""

    budget_us: int
    """Time for this decision; what is not used is lost."""
    bank_us: int
    """Time for all further decisions of the game, where they go beyond their budgets."""


NO_CLOCK = TimeLeft(2**62, 0)
"""Time left where time is not measured."""


class Clock:
    """The time for the current decision: `Bot.clock`, a new one for each decision.

        deadline = self.clock.deadline(share=0.5)
        while self.clock.now() < deadline:
            ...  # try out some more

    `budget` and `bank` are the seconds that were left when the request arrived.
    """

    __slots__ = ("_arrived", "_now", "bank", "budget")

    def __init__(
        self,
        budget: float = math.inf,
        bank: float = 0.0,
        *,
        now: Callable[[], float] = monotonic,
        arrived: float | None = None,
    ) -> None:
        """Make a clock for one decision, without a limit by default.

        budget   seconds for this decision
        bank     seconds for the rest of the game, where decisions go beyond their budgets
        now      function that returns the time in seconds, from any origin
        arrived  time when the request arrived; by default the time of this call
        """
        self.budget = budget
        self.bank = bank
        self._now = now
        self._arrived = now() if arrived is None else arrived

    @classmethod
    def of(cls, time_left: TimeLeft, *, now: Callable[[], float], arrived: float) -> Clock:
        """Return the clock of a request that arrived with so much time left."""
        budget_us, bank_us = time_left
        if budget_us == NO_CLOCK.budget_us:
            return cls(now=now, arrived=arrived)
        return cls(budget_us / 1e6, bank_us / 1e6, now=now, arrived=arrived)

    def now(self) -> float:
        """Return the time in seconds, to be compared with a deadline."""
        return self._now()

    def remaining(self) -> float:
        """Return the seconds until a timeout, bank included; infinity without a limit."""
        return max(0.0, self._arrived + self.budget + self.bank - self._now())

    def deadline(self, share: float = 0.5) -> float:
        """Return the time, as of `now()`, when this share of budget and bank is used up.

        The rest is a reserve for a busy machine. With a share of 0.5, a decision takes at most half
        of the budget and half of what is left in the bank, so the bank never runs out.
        """
        if not 0 < share <= 1:
            raise ValueError(f"a share of the time is more than 0 and at most 1, not {share}")
        return self._arrived + share * (self.budget + self.bank)


NO_LIMIT = Clock(now=lambda: 0.0)
"""A clock without a limit, for example in a bot's own tests."""
