"""Time: what a bot may use, how it is counted, and where it comes from.

All times are whole microseconds. Only SystemClock reads real time; whoever needs time is given a
Clock. A decision's budget is free; what goes beyond it is drawn from the game's bank; a decision
that takes more than both is a timeout, one that takes exactly both is not.
"""

from __future__ import annotations

import asyncio
import heapq
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from deepsea_referee.errors import UserError

_UNITS: Final = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000}
_SPAN: Final = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,6}))?(us|ms|s|m)")
_LONGEST_US: Final = 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class TimeControl:
    """A budget for each decision and a bank for each game, as in `100ms+2s`."""

    budget_us: int
    bank_us: int = 0

    def __post_init__(self) -> None:
        if self.budget_us < 0 or self.bank_us < 0:
            raise ValueError("a clock's times may not be negative")
        if not 0 < self.budget_us + self.bank_us <= _LONGEST_US:
            raise ValueError("a clock gives more than nothing and at most 24 hours")

    @classmethod
    def parse(cls, text: str) -> TimeControl:
        """Read `BUDGET` or `BUDGET+BANK`, each a number with us, ms, s or m; else UserError."""
        parts = text.replace(" ", "").split("+")
        spans = [_span_us(part) for part in parts]
        if len(parts) <= 2 and None not in spans:
            try:
                return cls(*(span for span in spans if span is not None))
            except ValueError as error:
                raise UserError(f"clock {text!r}: {error}") from None
        raise UserError(
            f"clock {text!r} is not understood: write BUDGET or BUDGET+BANK with us, ms, s or m, "
            "such as 100ms+2s"
        )

    def format(self) -> str:
        """The shortest text that parse() reads back."""
        budget = _span_text(self.budget_us)
        return f"{budget}+{_span_text(self.bank_us)}" if self.bank_us else budget


def _span_us(text: str) -> int | None:
    match = _SPAN.fullmatch(text)
    if match is None:
        return None
    whole, part, unit = match.groups(default="")
    us, rest = divmod(int(whole + part) * _UNITS[unit], 10 ** len(part))
    return None if rest else int(us)  # finer than a microsecond is no time


def _span_text(us: int) -> str:
    for unit in ("s", "ms"):
        if us % _UNITS[unit] == 0:
            return f"{us // _UNITS[unit]}{unit}"
    return f"{us}us"


class Bank:
    """What one seat has left in one game."""

    __slots__ = ("_budget_us", "left_us")

    def __init__(self, control: TimeControl) -> None:
        self._budget_us = control.budget_us
        self.left_us = control.bank_us

    @property
    def limit_us(self) -> int:
        """The longest that the next decision may take."""
        return self._budget_us + self.left_us

    def spend(self, elapsed_us: int) -> bool:
        """Account for one decision; False if it took more than budget and bank together."""
        overrun = elapsed_us - self._budget_us
        if overrun <= 0:
            return True
        in_time = overrun <= self.left_us
        self.left_us = self.left_us - overrun if in_time else 0
        return in_time


class SharedTime:
    """The time of a bot that has several decisions in hand, shared among them.

    While n decisions are open each is charged one nth of the time that passes: a message with n
    requests has n times the budget, and what is charged adds up to the time that has passed.
    """

    __slots__ = ("_at_us", "_open", "_share_us")

    def __init__(self) -> None:
        self._open = 0
        self._share_us = 0.0
        self._at_us = 0

    @property
    def idle(self) -> bool:
        """Whether no decision is open."""
        return not self._open

    def at(self, now_us: int) -> float:
        """What one decision would be charged that was open from the beginning until now.

        The difference between two moments is what a decision is charged that is open in between.
        """
        if self._open:
            self._share_us += (now_us - self._at_us) / self._open
        self._at_us = now_us
        return self._share_us

    def open(self, count: int, now_us: int) -> float:
        """So many more decisions are in hand from now on; returns `at(now_us)`."""
        share_us = self.at(now_us)
        self._open += count
        return share_us

    def close(self, now_us: int) -> None:
        """One of them is done."""
        self.at(now_us)
        self._open -= 1


class Alarm(Protocol):
    """A call that is still to come."""

    def cancel(self) -> None:
        """Forget it; harmless if it has rung."""


class Clock(Protocol):
    """Where time comes from."""

    def now_us(self) -> int:
        """Microseconds since some moment; never goes back."""

    def at(self, when_us: int, ring: Callable[[], object]) -> Alarm:
        """Call `ring` from the event loop once it is `when_us`, or soon after."""


class SystemClock:
    """The machine's monotonic clock: setting the time of day does not touch it."""

    def now_us(self) -> int:
        return time.monotonic_ns() // 1_000

    def at(self, when_us: int, ring: Callable[[], object]) -> Alarm:
        delay = max(0, when_us - self.now_us()) / 1_000_000
        return asyncio.get_running_loop().call_later(delay, ring)


class ManualClock:
    """A clock that stands still until it is told to jump. For tests, also of other programs."""

    def __init__(self, now_us: int = 0) -> None:
        self._now_us = now_us
        self._alarms: list[_ManualAlarm] = []

    def now_us(self) -> int:
        return self._now_us

    def at(self, when_us: int, ring: Callable[[], object]) -> Alarm:
        alarm = _ManualAlarm(when_us, ring)
        heapq.heappush(self._alarms, alarm)
        return alarm

    @property
    def alarms(self) -> int:
        """How many alarms are still to ring."""
        return sum(not alarm.cancelled for alarm in self._alarms)

    def jump(self, us: int) -> None:
        """Let time pass; alarms ring in order, each at its own moment."""
        if us < 0:
            raise ValueError("time does not go back")
        end_us = self._now_us + us
        while self._alarms and self._alarms[0].when_us <= end_us:
            alarm = heapq.heappop(self._alarms)
            self._now_us = max(self._now_us, alarm.when_us)
            if not alarm.cancelled:
                alarm.ring()
        self._now_us = end_us


@dataclass(slots=True)
class _ManualAlarm:
    when_us: int
    ring: Callable[[], object]
    cancelled: bool = False

    def __lt__(self, other: _ManualAlarm) -> bool:
        return self.when_us < other.when_us

    def cancel(self) -> None:
        self.cancelled = True


@asynccontextmanager
async def time_limit(clock: Clock, limit_us: int) -> AsyncIterator[None]:
    """Like asyncio.timeout, by the given clock: TimeoutError when the block takes longer."""
    async with asyncio.timeout(None) as scope:
        alarm = clock.at(clock.now_us() + limit_us, lambda: scope.reschedule(0))
        try:
            yield
        finally:
            alarm.cancel()
