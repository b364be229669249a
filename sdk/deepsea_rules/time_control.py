"""Time controls: a budget for each decision and a bank for each game.

Invariants: all times are whole microseconds. A decision that takes more than its budget uses the
bank. A decision that takes more than both is a timeout; exactly both is not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import InvalidTimeControl

_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000}
_SPAN = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,6}))?(us|ms|s|m)")
LONGEST_US = 24 * 3600 * 1_000_000
"""Longest time for a decision, its bank included."""


@dataclass(frozen=True, slots=True)
class TimeControl:
    """A budget for each decision and a bank for each game, as in `100ms+2s`."""

    budget_us: int
    bank_us: int = 0

    def __post_init__(self) -> None:
        if self.budget_us < 0 or self.bank_us < 0:
            raise ValueError("a clock's times may not be negative")
        if not 0 < self.budget_us + self.bank_us <= LONGEST_US:
            raise ValueError("budget and bank together must be more than 0 and at most 24 hours")

    @classmethod
    def parse(cls, text: str) -> TimeControl:
        """Return the time control of a text such as "100ms" or "100ms+2s": a budget and a bank.

        Raise `InvalidTimeControl` for any other text.
        """
        parts = text.replace(" ", "").split("+")
        times_us = [us for part in parts if (us := _span_us(part)) is not None]
        if len(times_us) == len(parts) <= 2:
            try:
                return cls(*times_us)
            except ValueError as error:
                raise InvalidTimeControl(f"clock {text!r}: {error}") from None
        raise InvalidTimeControl(
            f"clock {text!r} is not understood: write BUDGET or BUDGET+BANK with us, ms, s or m, "
            "such as 100ms+2s"
        )

    def format(self) -> str:
        """Return the shortest text that parse() reads back."""
        budget = _span_text(self.budget_us)
        return f"{budget}+{_span_text(self.bank_us)}" if self.bank_us else budget


DEFAULT_CLOCK = TimeControl(budget_us=100_000, bank_us=2_000_000)


def _span_us(text: str) -> int | None:
    """Return the microseconds of a text such as "1.5s".

    None if it is no such text, or not a whole number of microseconds.
    """
    match = _SPAN.fullmatch(text)
    if match is None:
        return None
    whole, fraction, unit = match.groups(default="")
    # In whole numbers, so that nothing is rounded: "1.5s" is 15 seconds, divided by 10.
    us, remainder = divmod(int(whole + fraction) * _UNITS[unit], 10 ** len(fraction))
    return None if remainder else int(us)


def _span_text(us: int) -> str:
    """Return a time in the largest unit in which it is a whole number."""
    for unit in ("s", "ms"):
        if us % _UNITS[unit] == 0:
            return f"{us // _UNITS[unit]}{unit}"
    return f"{us}us"


class Bank:
    """Bank of one seat in one game."""

    __slots__ = ("_budget_us", "left_us")

    def __init__(self, budget_us: int, bank_us: int) -> None:
        self._budget_us = budget_us
        self.left_us = bank_us

    @property
    def limit_us(self) -> int:
        """Time limit of the next decision: budget plus bank."""
        return self._budget_us + self.left_us

    def spend(self, elapsed_us: int) -> None:
        """Charge one decision: its time over the budget, as far as the bank goes."""
        self.left_us -= min(max(0, elapsed_us - self._budget_us), self.left_us)


def overrun(limit_us: int) -> str:
    """Return the text of a timeout's report."""
    return f"it had {duration_text(limit_us)} for the decision"


def duration_text(us: int) -> str:
    """Return a time as tables and reports show it."""
    if us < 100:
        return f"{us} us"
    return f"{us / 1_000_000:.2f} s" if us >= 1_000_000 else f"{us / 1000:.1f} ms"
