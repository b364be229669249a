"""Clocks, alarms and timeouts.

Invariants: all times are whole microseconds. Only SystemClock and ThreadClock read real time;
everything else gets a Clock. Budgets and banks are in deepsea_rules.time_control.
"""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol

_SAME_NS = 100_000
"""Two readings of a thread's waiting time that are closer have no wait between them."""


class Alarm(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Do not make the call; harmless if it has been made."""


class Clock(Protocol):
    """A source of time and alarms."""

    def now_us(self) -> int:
        """Microseconds since an arbitrary moment; never decreases."""

    def at(self, when_us: int, ring: Callable[[], object]) -> Alarm:
        """Schedule a call of `ring` from the event loop at `when_us` or soon after."""


class EarliestAlarm:
    """One alarm for several times: rings at the earliest of them, then waits for another."""

    def __init__(self, clock: Clock, ring: Callable[[], object]) -> None:
        self._clock = clock
        self._call = ring
        self._alarm: Alarm | None = None
        self._when_us = 0

    def ring_by(self, when_us: int) -> None:
        """Set it to this time, unless it rings earlier anyway."""
        if self._alarm is not None:
            if self._when_us <= when_us:
                return
            self._alarm.cancel()
        self._when_us = when_us
        self._alarm = self._clock.at(when_us, self._ring)

    def cancel(self) -> None:
        """Do not ring."""
        if self._alarm is not None:
            self._alarm.cancel()

    def _ring(self) -> None:
        self._alarm = None
        self._call()


class SystemClock:
    """The machine's monotonic clock: setting the time of day does not touch it."""

    def now_us(self) -> int:
        return time.monotonic_ns() // 1_000

    def at(self, when_us: int, ring: Callable[[], object]) -> Alarm:
        delay = max(0, when_us - self.now_us()) / 1_000_000
        return asyncio.get_running_loop().call_later(delay, ring)


class ThreadClock:
    """The time in which the thread that made it ran or slept, for bots in this process.

    Time in which the thread was ready but had no CPU does not pass here. Linux counts that time;
    elsewhere only CPU time passes, and sleep is free. The count is read every REFRESH_US and not at
    every call, because it takes as long as a decision of a fast bot: what this clock says of an
    interval may be short by REFRESH_US, never long.
    """

    REFRESH_US: Final = 2_000

    def __init__(
        self,
        wall_ns: Callable[[], int] = time.monotonic_ns,
        waited_ns: Callable[[], int] | None = None,
    ) -> None:
        """The two readings may be given: the time, and how long the thread has had no CPU."""
        self._wall_ns = wall_ns
        self._read_waited_ns = waited_ns or self._thread_waits()
        self._waited_ns = 0
        self._due_ns = 0
        self._shown_ns = 0

    def now_us(self) -> int:
        """Microseconds since an arbitrary moment; never decreases."""
        wall_ns = self._wall_ns()
        if wall_ns >= self._due_ns:
            wall_ns = self._refresh()
        shown_ns = wall_ns - self._waited_ns
        if shown_ns > self._shown_ns:  # not back, when a wait is found that was not known of
            self._shown_ns = shown_ns
        return self._shown_ns // 1_000

    def _refresh(self) -> int:
        """Read the waits; returns the time at which they were."""
        after_ns = self._read_waited_ns()
        while True:
            wall_ns, before_ns, after_ns = self._wall_ns(), after_ns, self._read_waited_ns()
            # A wait between these readings would be in one of them alone.
            if after_ns - before_ns < _SAME_NS:
                break
        self._waited_ns = after_ns
        self._due_ns = wall_ns + self.REFRESH_US * 1_000
        return wall_ns

    def _thread_waits(self) -> Callable[[], int]:
        try:
            file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        except OSError:
            return lambda: time.monotonic_ns() - time.thread_time_ns()
        weakref.finalize(self, os.close, file)
        read_at: Callable[[int, int, int], bytes] = getattr(os, "pread")  # noqa: B009  (Linux's)
        return lambda: int(read_at(file, 100, 0).split()[1])


@asynccontextmanager
async def time_limit(clock: Clock, limit_us: int) -> AsyncIterator[None]:
    """A timeout like asyncio.timeout, by the given clock: raises TimeoutError."""
    async with asyncio.timeout(None) as scope:
        alarm = clock.at(clock.now_us() + limit_us, lambda: scope.reschedule(0))
        try:
            yield
        finally:
            alarm.cancel()
