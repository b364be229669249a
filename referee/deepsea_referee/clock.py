"""Clocks, alarms and timeouts, and the time in which this process did not run.

Invariants: all times are whole microseconds. In the code that times games, only SystemClock,
ThreadClock and the pulse read real time; everything else gets a Clock. (Waits for killed processes
to vanish have deadlines of their own.) Budgets and banks are in deepsea_rules.time_control.

Time in which this process did not run does not pass on its clocks: it was stopped (Ctrl-Z), frozen
with its container, or suspended with the machine. The pulse notices that, in this one place, for
every way in which bots are run: a thread sleeps for BEAT_US, again and again, and wakes much too
late. A thread without a CPU on a busy machine is late, too, and that is for the gauge to judge
(pauses.py). So time counts as missing only if the thread neither ran nor waited for a CPU nor asked
for Python's lock meanwhile, as far as Linux counts this; if Linux does not count it, no time is
missing. On other systems, where bots are their author's own, all lateness counts as missing.
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
"""The interval of the pulse."""
LATE_US: Final = 20_000
"""The lateness of the pulse that does not count.

Timers of Windows are 16 ms late on an idle machine.
"""
FREE_TURNS: Final = 3
"""The largest number of turns on a CPU in a beat without a wait for Python's lock."""
_CATCH_UP_S = 0.25
"""The longest time for which a clock waits for the pulse's thread, if that gets no CPU."""
_NEVER_NS = 1 << 63
"""A time that never comes."""
_SAME_NS = 100_000
"""Two readings of a thread's times that differ by less have no wait between them."""


class Alarm(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call; do nothing if it was made already."""


class Clock(Protocol):
    """A source of time and alarms."""

    def now_us(self) -> int:
        """Return the microseconds since an arbitrary moment; they never decrease."""

    def at(self, when_us: int, ring: Callable[[], object]) -> Alarm:
        """Let the event loop call `ring` at the time `when_us`, or soon after it."""


class EarliestAlarm:
    """An alarm for several times: it rings at the earliest of them, and then must be set again."""

    def __init__(self, clock: Clock, ring: Callable[[], object]) -> None:
        self._clock = clock
        self._call = ring
        self._alarm: Alarm | None = None
        self._when_us = 0

    def ring_by(self, when_us: int) -> None:
        """Set the alarm to this time, unless it is set to an earlier one."""
        if self._alarm is not None:
            if self._when_us <= when_us:
                return
            self._alarm.cancel()
        self._when_us = when_us
        self._alarm = self._clock.at(when_us, self._ring)

    def cancel(self) -> None:
        """Cancel the alarm, if it is set."""
        if self._alarm is not None:
            self._alarm.cancel()

    def _ring(self) -> None:
        self._alarm = None
        self._call()


class ThreadTimes(NamedTuple):
    """The scheduling statistics of a thread since its start, as Linux counts them."""

    ran_ns: int = 0
    """The time for which it had a CPU."""
    waited_ns: int = 0
    """The time for which it was ready to run but had no CPU."""
    turns: int = 0
    """The number of times that it got a CPU."""


class OwnTimes:
    """Reads the times of the thread that creates it; OSError if Linux does not count them."""

    def __init__(self) -> None:
        self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        self._read_at: Callable[[int, int, int], bytes] = getattr(os, "pread")  # noqa: B009  (Linux's)

    def __call__(self) -> ThreadTimes:
        return ThreadTimes(*map(int, self._read_at(self._file, 100, 0).split()))


class Pulse:
    """Counts the time in which this process did not run, by a thread that wakes regularly.

    If the thread wakes much too late although it was not busy, the process was stopped meanwhile.
    """

    def __init__(
        self,
        now_ns: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[threading.Event, float], object] = threading.Event.wait,
        times: Callable[[], ThreadTimes] | None = None,
    ) -> None:
        """Prepare a pulse, which `start` starts.

        now_ns  the clock of the system
        sleep   sleeps for so many seconds, or until the event is set
        times   reads the times of the pulse's thread; by default the statistics of the system
        """
        self.now_ns = now_ns
        self.missing_ns = 0
        """The total time in which this process did not run."""
        self.due_ns = _NEVER_NS
        """The time from which on the next beat is so late that clocks must wait for it."""
        self._sleep = sleep
        self._times = times
        self._condition = threading.Condition()
        """Notified when a beat was counted; its lock protects the fields below."""
        self._users = 0
        self._began_ns = 0
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Count the time in which this process is stopped, as long as the `with` block runs."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    def start(self) -> None:
        """Count the time in which this process is stopped, until `stop` is called as often as this.

        The first call starts the thread that counts.
        """
        with self._condition:
            self._users += 1
            if not self._began_ns:
                self._began_ns = self.now_ns()
            # A thread does not survive a fork of the process: then it is started again.
            if self._thread is None or not self._thread.is_alive():
                self._ended = threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(self._ended,), name="pulse", daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """Undo one call of `start`; after the last one, end the thread and wait for its end."""
        with self._condition:
            self._users -= 1
            if self._users or self._thread is None:
                return
            self._ended.set()
            thread = self._thread
            self._thread = None
            self.due_ns = _NEVER_NS  # no clock waits for a beat any more
        # Without the lock, which the thread needs in order to see that it must end.
        thread.join()

    def catch_up(self) -> None:
        """Wait for the next beat of the thread if it is late, so that `missing_ns` is up to date.

        The wait is short, since the thread sets another `due_ns` as soon as it runs.
        """
        due_ns = self.due_ns
        if self.now_ns() < due_ns:
            return
        # Without the lock: after a fork, a thread that does not exist any more may hold it forever.
        if self._thread is None or not self._thread.is_alive():
            self.due_ns = _NEVER_NS
            return
        with self._condition:
            self._condition.wait_for(lambda: self.due_ns != due_ns, _CATCH_UP_S)

    def missing_share(self) -> float:
        """Return the missing time as a share of the time since the first start; 0 before it."""
        if not self.missing_ns:
            return 0.0
        return self.missing_ns / (self.now_ns() - self._began_ns)

    def _run(self, ended: threading.Event) -> None:
        """Sleep again and again until `ended` is set; runs in a thread.

        After each sleep, the time for which the process was stopped meanwhile is added to
        `missing_ns`, and the clocks that wait for this are woken.
        """
        read_times = self._times or _pulse_times()
        if read_times is None:  # the system does not count a thread's times: no time is missing
            return
        now_ns, thread_times = self._read_now(read_times)
        absent_ns = 0
        while True:
            with self._condition:
                if ended.is_set():
                    return
                self.missing_ns += absent_ns
                self.due_ns = now_ns + (BEAT_US + LATE_US) * 1_000
                self._condition.notify_all()
            self._sleep(ended, BEAT_US / 1_000_000)
            before_ns, times_before = now_ns, thread_times
            now_ns, thread_times = self._read_now(read_times)
            absent_ns = missing_ns(now_ns - before_ns, times_before, thread_times)

    def _read_now(self, read_times: Callable[[], ThreadTimes]) -> tuple[int, ThreadTimes]:
        """Return the time, and the thread's times at this moment."""
        return _read_together(self.now_ns, read_times, lambda times: times.ran_ns + times.waited_ns)


def missing_ns(passed_ns: int, before: ThreadTimes, after: ThreadTimes) -> int:
    """Return for how long this process was stopped between two readings; 0 if it was not.

    In this time one of its threads slept for BEAT_US. If the process was stopped, that sleep counts
    as missing, too, since it is not known how much of it was over before.

    passed_ns      the time between the readings
    before, after  the times of the sleeping thread at the readings
    """
    ran_ns = after.ran_ns - before.ran_ns
    waited_for_cpu_ns = after.waited_ns - before.waited_ns
    # A thread that waits for Python's lock gets a CPU once in each switch interval, to request the
    # lock. So its turns on a CPU, above the usual number, tell for how long it has waited.
    lock_requests = max(0, after.turns - before.turns - FREE_TURNS)
    waited_for_lock_ns = round(lock_requests * sys.getswitchinterval() * 1_000_000_000)
    absent_ns = passed_ns - ran_ns - waited_for_cpu_ns - waited_for_lock_ns
    was_stopped = absent_ns > (BEAT_US + LATE_US) * 1_000
    return absent_ns if was_stopped else 0


def _read_together(
    now_ns: Callable[[], int], read: Callable[[], _T], count_ns: Callable[[_T], int]
) -> tuple[int, _T]:
    """Read a clock and the counters of the calling thread at the same moment; return both.

    If the thread waits for a CPU between the two, they do not fit together, and are read again. So
    the counters are read before and after the clock, to see whether they have grown by a wait.

    now_ns    reads the clock
    read      reads the counters
    count_ns  returns a time of the counters that grows while the thread waits for a CPU
    """
    after = read()
    while True:
        before = after
        wall_ns = now_ns()
        after = read()
        if count_ns(after) - count_ns(before) < _SAME_NS:
            return wall_ns, after


def _linux_times() -> OwnTimes | None:
    """Return a reader of the calling thread's times; None if Linux does not count them."""
    try:
        return OwnTimes()
    except OSError:
        return None


def _pulse_times() -> Callable[[], ThreadTimes] | None:
    """Return a function that reads for how long the calling thread ran and waited for a CPU.

    Return None if this Linux does not count that. On other systems the function returns zeros, so
    that a thread that wakes late looks as if its process was stopped.
    """
    # ThreadTimes without arguments has zeros.
    return _linux_times() if sys.platform == "linux" else ThreadTimes


PULSE = Pulse()
"""The pulse of this process, which beats while bots run or a thread waits for their games."""


class SystemClock:
    """The machine's monotonic clock, minus the time in which this process did not run.

    Setting the time of day does not change it. After the process was stopped, it may stand still
    for the time of a beat.
    """

    def __init__(self, pulse: Pulse | None = None) -> None:
        """Prepare a clock; by default with the pulse of this process."""
        self._pulse = pulse or PULSE
        self._wall_ns = self._pulse.now_ns
        self._shown_ns = 0

    def now_us(self) -> int:
        """Return the microseconds since an arbitrary moment; they never decrease.

        The time in which this process did not run is left out. If the thread that counts it (the
        pulse) is late, the process may just have been stopped: then this waits for the count.
        """
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
    """An alarm of the running event loop; it waits longer if the clock has stood still."""

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
        """Make the call if its time has come by the clock, else wait for the remaining time."""
        remaining_us = self._when_us - self._clock.now_us()
        if remaining_us > 1:  # the loop's timers may be early by less than a microsecond
            self._wait(remaining_us)
        else:
            self._call()


class ThreadClock:
    """A clock for bots in this process: the time in which its thread ran or slept.

    It stands still while the thread is ready but has no CPU, and while the process does not run.
    Linux counts the waits for a CPU; on other systems only CPU time passes, and sleep is free. The
    count is read every REFRESH_US and not at every call, because reading takes as long as a
    decision of a fast bot. So a measured interval may be too short by REFRESH_US, never too long.
    """

    REFRESH_US: Final = 2_000

    def __init__(
        self,
        wall_ns: Callable[[], int] = time.monotonic_ns,
        waited_ns: Callable[[], int] | None = None,
        pulse: Pulse | None = None,
    ) -> None:
        """Prepare the clock of the calling thread.

        wall_ns    the clock of the system
        waited_ns  returns how long the thread has waited for a CPU; by default by the system
        pulse      the pulse; by default that of this process
        """
        self._wall_ns = wall_ns
        self._pulse = pulse or PULSE
        self._read_waited_ns = waited_ns or self._thread_waits()
        self._waited_ns = 0
        self._due_ns = 0
        self._shown_ns = 0

    def now_us(self) -> int:
        """Return the microseconds since an arbitrary moment; they never decrease.

        The time in which the thread waited for a CPU is left out. That time is read from the system
        only now and then, because reading is slow.
        """
        wall_ns = self._wall_ns()
        if wall_ns >= self._due_ns:
            wall_ns = self._refresh()
        shown_ns = wall_ns - self._waited_ns
        # After a refresh the time may be earlier than one that was returned before, by a wait that
        # was not known then: the clock stands still until it is later.
        if shown_ns > self._shown_ns:
            self._shown_ns = shown_ns
        return self._shown_ns // 1_000

    def _refresh(self) -> int:
        """Read the waits for a CPU; return the time of the reading."""
        self._pulse.catch_up()
        wall_ns, self._waited_ns = _read_together(self._wall_ns, self._all_waits_ns, int)
        self._due_ns = wall_ns + self.REFRESH_US * 1_000
        return wall_ns

    def _all_waits_ns(self) -> int:
        """Return the time in which the thread had no CPU, or the process did not run."""
        return self._read_waited_ns() + self._pulse.missing_ns

    def _thread_waits(self) -> Callable[[], int]:
        """Return a function that returns how long the calling thread has waited for a CPU."""
        if (times := _linux_times()) is not None:
            return lambda: times().waited_ns
        # Everything but CPU time counts as a wait; the missing time is added by the caller.
        return lambda: time.monotonic_ns() - time.thread_time_ns() - self._pulse.missing_ns


@asynccontextmanager
async def time_limit(clock: Clock, limit_us: int) -> AsyncIterator[None]:
    """Limit the time of the `async with` block by this clock, not by that of the event loop.

    Raises TimeoutError after the limit, as asyncio.timeout does.
    """
    async with asyncio.timeout(None) as scope:
        # The time 0 of the event loop is past, so that rescheduling to it ends the block at once.
        alarm = clock.at(clock.now_us() + limit_us, lambda: scope.reschedule(0))
        try:
            yield
        finally:
            alarm.cancel()
