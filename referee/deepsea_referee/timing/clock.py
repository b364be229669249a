"""Clocks, alarms and timeouts, and the time in which this process did not run.

Invariants: all times are whole microseconds. Of what times games, only SystemClock, ThreadClock
and the pulse read real time; everything else gets a Clock. (Waits for killed processes to vanish
have deadlines of their own.) Budgets and banks are in deepsea_rules.time_control.

Time in which this process did not run does not pass on its clocks: it was stopped (Ctrl-Z), frozen
with its container, or suspended with the machine. The pulse notices that, in this one place, for
every way in which bots are run: a thread sleeps for BEAT_US, again and again, and wakes much too
late. A thread without a CPU on a busy machine is late, too, and that is for the gauge to judge
(host_load.py). So time counts as missing only if the thread neither ran nor waited for a CPU nor
asked for Python's lock meanwhile, as Linux tells. Nothing counts where Linux does not tell; on
other systems, where bots are their author's own, all that is too late does.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, NamedTuple, Protocol, TypeVar

_T = TypeVar("_T")

BEAT_US: Final = 20_000
"""Interval of the pulse."""
LATE_US: Final = 20_000
"""Lateness of the pulse that does not count: the timers of Windows are 16 ms late when quiet."""
FREE_TURNS: Final = 3
"""Turns on a CPU within a beat that show no wait for Python's lock: to wake, stop and go on."""
_CATCH_UP_S = 0.25
"""The longest that a clock waits for the pulse's thread, which has no CPU then."""
_NEVER_NS = 1 << 63
_SAME_NS = 100_000
"""Two readings of a thread's times that are closer have no wait between them."""


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


class ThreadTimes(NamedTuple):
    """What Linux tells of a thread, since it began."""

    ran_ns: int = 0
    waited_ns: int = 0
    """It was ready to run but had no CPU."""
    turns: int = 0
    """The number of times that it got a CPU."""


class OwnTimes:
    """Reads the times of the thread that makes it; OSError where there are none."""

    def __init__(self) -> None:
        self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        self._read_at: Callable[[int, int, int], bytes] = getattr(os, "pread")  # noqa: B009  (Linux's)

    def __call__(self) -> ThreadTimes:
        return ThreadTimes(*map(int, self._read_at(self._file, 100, 0).split()))


class Pulse:
    """Counts the time in which this process did not run; see the module."""

    def __init__(
        self,
        now_ns: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[threading.Event, float], object] = threading.Event.wait,
        times: Callable[[], ThreadTimes] | None = None,
    ) -> None:
        """Prepare it.

        sleep  sleeps for so many seconds, or until the event is set
        times  reads those of the thread that beats; by default what the system tells of it
        """
        self.now_ns = now_ns
        self.missing_ns = 0
        """The sum of the time that did not pass."""
        self.due_ns = _NEVER_NS
        """The time from which on the next beat is so late that a clock has to wait for it."""
        self._sleep = sleep
        self._times = times
        self._counted = threading.Condition()
        """Notified when a beat has been counted; its lock guards what follows."""
        self._users = 0
        self._began_ns = 0
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Measure while the body runs."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    def start(self) -> None:
        """Measure from now on, until `stop` has been called as often as this."""
        with self._counted:
            self._users += 1
            self._began_ns = self._began_ns or self.now_ns()
            # A thread does not survive a fork of the process.
            if self._thread is None or not self._thread.is_alive():
                self._ended = threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(self._ended,), name="pulse", daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """End one `start`; after the last one its thread has ended."""
        with self._counted:
            self._users -= 1
            if self._users or self._thread is None:
                return
            self._ended.set()
            ending, self._thread = self._thread, None
            self.due_ns = _NEVER_NS
        ending.join()

    def catch_up(self) -> None:
        """Wait for the next beat if it is late, so that `missing_ns` is true of this moment."""
        due_ns = self.due_ns
        if self.now_ns() < due_ns:
            return
        # Without the lock: after a fork, a thread that is not there may have it for ever.
        if self._thread is None or not self._thread.is_alive():
            self.due_ns = _NEVER_NS
            return
        with self._counted:
            self._counted.wait_for(lambda: self.due_ns != due_ns, _CATCH_UP_S)

    def missing_share(self) -> float:
        """The part of the time since it first began to beat."""
        return self.missing_ns and self.missing_ns / (self.now_ns() - self._began_ns)

    def _run(self, ended: threading.Event) -> None:
        times = self._times or _pulse_times()
        if times is None:
            return
        wall_ns, own = self._reading(times)
        absent_ns = 0
        while True:
            with self._counted:
                if ended.is_set():
                    return
                self.missing_ns += absent_ns
                self.due_ns = wall_ns + (BEAT_US + LATE_US) * 1_000
                self._counted.notify_all()
            self._sleep(ended, BEAT_US / 1_000_000)
            before_ns, before = wall_ns, own
            wall_ns, own = self._reading(times)
            absent_ns = missing_ns(wall_ns - before_ns, before, own)

    def _reading(self, times: Callable[[], ThreadTimes]) -> tuple[int, ThreadTimes]:
        """The time, and the thread's times at it."""
        return _read_together(self.now_ns, times, lambda own: own.ran_ns + own.waited_ns)


def missing_ns(passed_ns: int, before: ThreadTimes, after: ThreadTimes) -> int:
    """The time in which a thread that slept for BEAT_US did not run since its last reading.

    If it was not there, not even the sleep counts as time that passed: nobody knows how much of it
    was over before.
    """
    busy_ns = after.ran_ns + after.waited_ns - before.ran_ns - before.waited_ns
    # A thread that wants Python's lock wakes at this interval to ask for it.
    asks = max(0, after.turns - before.turns - FREE_TURNS)
    busy_ns += round(asks * sys.getswitchinterval() * 1_000_000_000)
    absent_ns = passed_ns - busy_ns
    return absent_ns if absent_ns > (BEAT_US + LATE_US) * 1_000 else 0


def _read_together(
    now_ns: Callable[[], int], read: Callable[[], _T], count_ns: Callable[[_T], int]
) -> tuple[int, _T]:
    """The time, and what is read at it: a wait between the two would be in one of them alone."""
    after = read()
    while True:
        wall_ns, before, after = now_ns(), after, read()
        if count_ns(after) - count_ns(before) < _SAME_NS:
            return wall_ns, after


def _linux_times() -> OwnTimes | None:
    """The times of the calling thread, if Linux tells them."""
    try:
        return OwnTimes()
    except OSError:
        return None


def _pulse_times() -> Callable[[], ThreadTimes] | None:
    """The times of the calling thread: none on other systems; None if Linux does not tell them."""
    return _linux_times() if sys.platform == "linux" else ThreadTimes


PULSE = Pulse()
"""The pulse of this process: it beats while bots run, or while somebody waits for their games."""


class SystemClock:
    """The machine's monotonic clock, less the time in which this process did not run.

    Setting the time of day does not touch it. It stands still for up to a beat after a stop.
    """

    def __init__(self, pulse: Pulse | None = None) -> None:
        """`pulse` is that of this process unless another one is given."""
        self._pulse = pulse or PULSE
        self._wall_ns = self._pulse.now_ns
        self._shown_ns = 0

    def now_us(self) -> int:
        wall_ns = self._wall_ns()
        if wall_ns >= self._pulse.due_ns:
            self._pulse.catch_up()
            wall_ns = self._wall_ns()
        shown_ns = wall_ns - self._pulse.missing_ns
        if shown_ns > self._shown_ns:
            self._shown_ns = shown_ns
        return self._shown_ns // 1_000

    def at(self, when_us: int, ring: Callable[[], object]) -> Alarm:
        return _LoopAlarm(self, when_us, ring)


class _LoopAlarm:
    """An alarm of the running event loop, which waits on if time has not passed meanwhile."""

    __slots__ = ("_call", "_clock", "_handle", "_when_us")

    def __init__(self, clock: SystemClock, when_us: int, call: Callable[[], object]) -> None:
        self._clock = clock
        self._when_us = when_us
        self._call = call
        self._wait(when_us - clock.now_us())

    def cancel(self) -> None:
        self._handle.cancel()

    def _wait(self, us: int) -> None:
        self._handle = asyncio.get_running_loop().call_later(max(0, us) / 1_000_000, self._ring)

    def _ring(self) -> None:
        # The loop's timers may be early by less than a microsecond.
        if (left_us := self._when_us - self._clock.now_us()) > 1:
            self._wait(left_us)
        else:
            self._call()


class ThreadClock:
    """The time in which the thread that made it ran or slept, for bots in this process.

    Time in which the thread was ready but had no CPU does not pass here, nor that in which the
    process did not run. Linux counts that time; elsewhere only CPU time passes, and sleep is free.
    The count is read every REFRESH_US and not at every call, because it takes as long as a decision
    of a fast bot: what this clock says of an interval may be short by REFRESH_US, never long.
    """

    REFRESH_US: Final = 2_000

    def __init__(
        self,
        wall_ns: Callable[[], int] = time.monotonic_ns,
        waited_ns: Callable[[], int] | None = None,
        pulse: Pulse | None = None,
    ) -> None:
        """Readings that may be given: the time, how long the thread has had no CPU, the pulse."""
        self._wall_ns = wall_ns
        self._pulse = pulse or PULSE
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
        self._pulse.catch_up()
        wall_ns, self._waited_ns = _read_together(self._wall_ns, self._all_waits_ns, int)
        self._due_ns = wall_ns + self.REFRESH_US * 1_000
        return wall_ns

    def _all_waits_ns(self) -> int:
        return self._read_waited_ns() + self._pulse.missing_ns

    def _thread_waits(self) -> Callable[[], int]:
        if (times := _linux_times()) is not None:
            return lambda: times().waited_ns
        # All but CPU time, of which nothing is missing.
        return lambda: time.monotonic_ns() - time.thread_time_ns() - self._pulse.missing_ns


@asynccontextmanager
async def time_limit(clock: Clock, limit_us: int) -> AsyncIterator[None]:
    """A timeout like asyncio.timeout, by the given clock: raises TimeoutError."""
    async with asyncio.timeout(None) as scope:
        alarm = clock.at(clock.now_us() + limit_us, lambda: scope.reschedule(0))
        try:
            yield
        finally:
            alarm.cancel()
