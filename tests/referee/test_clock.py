"""Clocks that jump when a test says so, and time that is shared."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepsea_referee.clock import (
    BEAT_US,
    LATE_US,
    PULSE,
    Pulse,
    SystemClock,
    ThreadClock,
    ThreadTimes,
    time_limit,
)
from deepsea_referee.decision_timer import (
    STALL_US,
    Charge,
    DecisionTimer,
    SharedTime,
    Timeout,
)
from deepsea_sdk.bot import TimeLeft
from helpers.manual_clock import ManualClock


def test_alarms_ring_in_order_each_at_its_own_moment() -> None:
    clock = ManualClock()
    rung: list[tuple[str, int]] = []

    def alarm(name: str) -> None:
        rung.append((name, clock.now_us()))
        if name == "b":
            clock.at(250, lambda: alarm("set by b"))

    clock.at(300, lambda: alarm("c"))
    clock.at(100, lambda: alarm("a"))
    clock.at(200, lambda: alarm("b"))
    clock.at(150, lambda: alarm("cancelled")).cancel()
    clock.at(301, lambda: alarm("too late"))
    assert clock.alarms == 4
    clock.jump(300)
    assert rung == [("a", 100), ("b", 200), ("set by b", 250), ("c", 300)]
    assert clock.now_us() == 300
    with pytest.raises(ValueError, match="back"):
        clock.jump(-1)


async def test_the_system_clock_rings_from_the_event_loop_and_not_early() -> None:
    clock = SystemClock()
    rung = asyncio.get_running_loop().create_future()
    when_us = clock.now_us() + 2_000
    clock.at(when_us, lambda: rung.set_result(clock.now_us()))
    clock.at(when_us, lambda: rung.set_result("cancelled alarms do not ring")).cancel()
    # The loop's timers may be early by its own resolution, which is below a microsecond.
    assert await rung >= when_us - 1


async def test_a_time_limit_ends_the_block_by_its_clock() -> None:
    clock = ManualClock()

    async def wait_for_ever() -> None:
        async with time_limit(clock, 1_000):
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait_for_ever())
    while not clock.alarms:
        await asyncio.wait({waiting}, timeout=0)
    clock.jump(999)
    await asyncio.wait({waiting}, timeout=0)
    assert not waiting.done()
    clock.jump(1)
    with pytest.raises(TimeoutError):
        await waiting
    async with time_limit(clock, 1_000):
        pass
    assert clock.alarms == 0


def test_time_is_shared_by_what_is_open() -> None:
    time = SharedTime()
    assert time.total_us(1_000) == 0  # nothing is open, nothing is charged
    began = time.open(1, 2_000)
    assert time.total_us(2_600) - began == 600
    time.open(2, 2_600)
    assert time.total_us(2_900) - began == 700  # 300 for three
    time.close(2_900)
    time.close(2_900)
    assert time.total_us(3_000) - began == 800
    time.close(3_000)
    assert time.total_us(9_000) - began == 800


@given(st.lists(st.tuples(st.integers(0, 10_000), st.booleans()), max_size=30))
def test_what_is_charged_adds_up_to_the_time_that_something_was_open(
    steps: list[tuple[int, bool]],
) -> None:
    time, now_us, busy_us, charged = SharedTime(), 0, 0, 0.0
    began: list[float] = []
    for us, opens in steps:
        busy_us += us if began else 0
        now_us += us
        if opens:
            began.append(time.open(1, now_us))
        elif began:
            charged += time.total_us(now_us) - began.pop()
            time.close(now_us)
    charged += sum(time.total_us(now_us) - share_us for share_us in began)
    assert charged == pytest.approx(busy_us)


def ns(clock: ManualClock) -> Callable[[], int]:
    return lambda: clock.now_us() * 1_000


def test_time_without_a_cpu_does_not_pass_on_a_threads_clock() -> None:
    wall, waited = ManualClock(), ManualClock()
    clock = ThreadClock(ns(wall), ns(waited), Pulse())
    began_us = clock.now_us()
    wall.jump(165_000)  # 20 ms of work on a busy host
    waited.jump(145_000)
    assert clock.now_us() - began_us == 20_000
    wall.jump(50_000)  # sleep is time that passes
    assert clock.now_us() - began_us == 70_000


def test_a_threads_clock_is_never_late_and_seldom_reads_the_waits() -> None:
    wall, waited, readings = ManualClock(), ManualClock(), []

    def read() -> int:
        readings.append(ns(waited)())
        return readings[-1]

    clock = ThreadClock(ns(wall), read, Pulse())
    shown = [clock.now_us()]
    for _ in range(100):
        wall.jump(100)
        shown.append(clock.now_us())
    assert shown == sorted(shown)
    assert len(readings) <= 2 + 2 * 10_000 // ThreadClock.REFRESH_US
    # The wait before a decision began may be credited to it, but by one refresh at most.
    wall.jump(ThreadClock.REFRESH_US - 101)
    waited.jump(ThreadClock.REFRESH_US - 101)
    began_us = clock.now_us()
    wall.jump(50_000)
    assert 50_000 - ThreadClock.REFRESH_US <= clock.now_us() - began_us <= 50_000


def test_a_wait_between_the_two_readings_is_in_both_or_in_none() -> None:
    wall, waited = ManualClock(), ManualClock()
    interruptions = [30_000, 0, 0]

    def interrupted_read() -> int:
        us = interruptions.pop(0) if interruptions else 0
        wall.jump(us)
        waited.jump(us)
        return ns(waited)()

    clock = ThreadClock(ns(wall), interrupted_read, Pulse())
    assert clock.now_us() == 0
    wall.jump(10_000)
    assert clock.now_us() == 10_000


def test_a_real_threads_clock_runs() -> None:
    clock = ThreadClock()
    shown = [clock.now_us() for _ in range(1_000)]
    assert shown == sorted(shown)
    while clock.now_us() == shown[-1]:
        pass


# Time in which the process did not run


class Machine:
    """A machine with one thread, the pulse's; each of its sleeps takes as long as a test says."""

    def __init__(self, *beats: dict[str, int]) -> None:
        """Of each beat: `late`, and how much of that the thread `ran`, `waited`, in `turns`."""
        self.wall_ns = 0
        self.times = ThreadTimes()
        self._beats = [*beats]
        self.pulse = Pulse(lambda: self.wall_ns, self._sleep, lambda: self.times)

    def run(self) -> int:
        """Beat to the end; the time that was missing, in microseconds."""
        self.pulse._run(threading.Event())
        return self.pulse.missing_ns // 1_000

    def _sleep(self, ended: threading.Event, seconds: float) -> None:
        if not self._beats:
            ended.set()
            return
        beat = self._beats.pop(0)
        self.wall_ns += round(seconds * 1e9) + beat["late"] * 1_000
        ran_ns, waited_ns, turns = self.times
        ran_ns += beat.get("ran", 0) * 1_000
        waited_ns += beat.get("waited", 0) * 1_000
        self.times = ThreadTimes(ran_ns, waited_ns, turns + beat.get("turns", 1))


S = 1_000_000


@pytest.mark.parametrize(
    ("beats", "missing_us"),
    [
        pytest.param([{"late": 0}] * 3, 0, id="in time"),
        pytest.param([{"late": LATE_US}], 0, id="as late as a timer may be"),
        pytest.param([{"late": 3 * S}], 3 * S + BEAT_US, id="stopped, and nobody knows since when"),
        pytest.param([{"late": 3 * S, "turns": 3}], 3 * S + BEAT_US, id="stopped and continued"),
        pytest.param(
            [{"late": 3 * S}, {"late": 0}, {"late": S}], 4 * S + 2 * BEAT_US, id="stopped twice"
        ),
        pytest.param([{"late": 3 * S, "waited": 3 * S}], 0, id="without a CPU on a busy host"),
        pytest.param(
            [{"late": 30_000, "waited": 20_000}] * 50, 0, id="a little later than it waited"
        ),
        pytest.param(
            [{"late": 3 * S, "waited": S, "turns": 3}],
            2 * S + BEAT_US,
            id="stopped on a busy host, which is charged as before",
        ),
        pytest.param([{"late": S, "turns": 201}], 0, id="somebody had Python's lock all the time"),
        pytest.param([{"late": S, "ran": S}], 0, id="it ran"),
    ],
)
def test_what_is_missing_is_neither_work_nor_a_wait_for_a_cpu_or_for_pythons_lock(
    beats: Sequence[dict[str, int]], missing_us: int
) -> None:
    assert Machine(*beats).run() == missing_us


def test_the_sleep_of_a_system_that_tells_nothing_of_threads_is_missing_if_it_is_too_long() -> None:
    machine = Machine({"late": LATE_US}, {"late": 500_000, "turns": 0})
    machine.pulse._times = ThreadTimes
    assert machine.run() == 500_000 + BEAT_US
    assert machine.pulse.missing_share() == pytest.approx(520 / 560)


def test_a_system_clock_stands_still_until_as_much_has_passed_as_it_showed_before() -> None:
    machine = Machine()
    clock = SystemClock(machine.pulse)
    machine.wall_ns = 5_000_000
    assert clock.now_us() == 5_000
    machine.wall_ns += 2_600_000_000  # it is stopped here, after some part of a beat
    machine.pulse.missing_ns = 2_600_000_000 + 3_000_000
    assert clock.now_us() == 5_000
    machine.wall_ns += 4_000_000
    assert clock.now_us() == 6_000


def test_a_threads_clock_leaves_out_the_same() -> None:
    wall, waited, pulse = ManualClock(), ManualClock(), Pulse()
    clock = ThreadClock(ns(wall), ns(waited), pulse)
    began_us = clock.now_us()
    wall.jump(30_000)  # its own sleep
    wall.jump(2_600_000)
    pulse.missing_ns = 2_600_000_000
    wall.jump(10_000)  # a busy host
    waited.jump(10_000)
    assert clock.now_us() - began_us == 30_000


class Counted(threading.Condition):
    """A condition that says when somebody begins to wait for it."""

    def __init__(self, awaited: threading.Event) -> None:
        super().__init__()
        self._awaited = awaited

    def wait(self, timeout: float | None = None) -> bool:
        self._awaited.set()
        return super().wait(timeout)


def test_a_clock_that_is_read_before_a_stop_is_counted_waits_for_the_pulse() -> None:
    machine, stopped, awaited = Machine(), threading.Event(), threading.Event()
    pulse = machine.pulse

    def sleep(ended: threading.Event, _seconds: float) -> None:
        if stopped.is_set():
            ended.wait(60)
        else:
            machine.wall_ns += 3 * S * 1_000
            stopped.set()
            awaited.wait(60)

    pulse._sleep = sleep
    pulse._condition = Counted(awaited)
    with pulse.beating():
        assert stopped.wait(60)
        assert SystemClock(pulse).now_us() == 0
        assert pulse.missing_ns == 3 * S * 1_000


def test_a_clock_does_not_wait_for_a_pulse_that_has_ended_with_its_thread() -> None:
    machine = Machine()
    machine.pulse.due_ns = 1_000_000  # as in a child of a process that has forked
    machine.wall_ns = 7_000_000
    assert SystemClock(machine.pulse).now_us() == 7_000
    assert machine.pulse.due_ns > 2**62


async def test_an_alarm_waits_on_for_time_that_has_not_passed() -> None:
    machine = Machine()
    times_ns = [0, 400_000, 999_000, 1_000_000]
    machine.pulse.now_ns = lambda: times_ns.pop(0) if len(times_ns) > 1 else times_ns[0]
    clock = SystemClock(machine.pulse)
    rung = asyncio.get_running_loop().create_future()
    clock.at(1_000, lambda: rung.set_result(clock.now_us()))
    assert await rung == 1_000
    assert len(times_ns) == 1


def test_the_pulse_of_this_process_beats_while_somebody_uses_it() -> None:
    with PULSE.beating():
        with PULSE.beating():
            thread = PULSE._thread
        assert PULSE._thread is thread
    assert thread is not None
    assert not thread.is_alive()


# The timer of a decision


LEFT = TimeLeft(100_000, 20_000)
LIMIT_US = sum(LEFT)


def test_exactly_budget_and_bank_is_in_time() -> None:
    timer = DecisionTimer()
    timer.start([(1, LEFT)], 1_000)
    assert timer.due_us == 1_000 + LIMIT_US + 1
    assert timer.stop(1, 1_000 + LIMIT_US) == Charge(LIMIT_US)
    assert timer.is_idle
    assert timer.stop(1, 1_000 + LIMIT_US) is None


def test_a_microsecond_more_is_a_timeout_whether_it_answers_or_not() -> None:
    timer = DecisionTimer()
    timer.start([(1, LEFT)], 0)
    assert timer.stop(1, LIMIT_US + 1) == Timeout(LIMIT_US + 1, LIMIT_US)
    timer.start([(2, LEFT)], LIMIT_US + 1)
    assert timer.check(2 * LIMIT_US + 2) == [(2, Timeout(LIMIT_US + 1, LIMIT_US))]
    assert timer.is_idle


def test_a_look_before_its_time_finds_nothing_and_says_when_to_come_again() -> None:
    timer = DecisionTimer()
    timer.start([(1, LEFT)], 0)
    assert timer.check(30_000) == []
    assert timer.due_us == LIMIT_US + 1


def test_open_decisions_share_the_time() -> None:
    timer = DecisionTimer()
    timer.start([(1, LEFT), (2, LEFT)], 0)
    assert timer.stop(1, 10_000) == Charge(5_000)
    assert timer.stop(2, 20_000) == Charge(15_000)


def test_a_stream_that_ends_stops_every_clock() -> None:
    timer = DecisionTimer()
    timer.start([(1, LEFT), (2, LEFT)], 0)
    assert timer.stop_all(10_000) == {1: 5_000, 2: 5_000}
    assert timer.is_idle


def test_the_time_of_a_blocked_loop_is_credited_once_and_only_to_those_that_were_open() -> None:
    timer = DecisionTimer()
    timer.start([(1, LEFT)], 0)
    assert timer.check(LIMIT_US + 10_000) == []
    assert timer.due_us is not None
    # It is late again, by more; a second decision has begun meanwhile.
    now_us = timer.due_us + 50_000
    timer.start([(2, LEFT)], timer.due_us)
    credit_us = 10_000 + STALL_US  # the first time
    charged_us = LIMIT_US + 10_000 + STALL_US + 1 + 25_000 - credit_us
    assert timer.check(now_us) == [(1, Timeout(charged_us, LIMIT_US))]
    assert timer.stop(2, now_us) == Charge(25_000)
