"""Clocks that jump when a test says so, and time that is shared."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepsea_referee.timing.clock import SystemClock, ThreadClock, time_limit
from deepsea_referee.timing.decision_timer import (
    STALL_US,
    Charged,
    DecisionTimer,
    SharedTime,
    TimedOut,
)
from deepsea_sdk.clock import TimeLeft
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
    assert time.at(1_000) == 0  # nothing is open, nothing is charged
    began = time.open(1, 2_000)
    assert time.at(2_600) - began == 600
    time.open(2, 2_600)
    assert time.at(2_900) - began == 700  # 300 for three
    time.close(2_900)
    time.close(2_900)
    assert time.at(3_000) - began == 800
    time.close(3_000)
    assert time.at(9_000) - began == 800


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
            charged += time.at(now_us) - began.pop()
            time.close(now_us)
    charged += sum(time.at(now_us) - share_us for share_us in began)
    assert charged == pytest.approx(busy_us)


def ns(clock: ManualClock) -> Callable[[], int]:
    return lambda: clock.now_us() * 1_000


def test_time_without_a_cpu_does_not_pass_on_a_threads_clock() -> None:
    wall, waited = ManualClock(), ManualClock()
    clock = ThreadClock(ns(wall), ns(waited))
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

    clock = ThreadClock(ns(wall), read)
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

    clock = ThreadClock(ns(wall), interrupted_read)
    assert clock.now_us() == 0
    wall.jump(10_000)
    assert clock.now_us() == 10_000


def test_a_real_threads_clock_runs() -> None:
    clock = ThreadClock()
    shown = [clock.now_us() for _ in range(1_000)]
    assert shown == sorted(shown)
    while clock.now_us() == shown[-1]:
        pass


# The timer of a decision


LEFT = TimeLeft(100_000, 20_000)
LIMIT_US = sum(LEFT)


def test_exactly_budget_and_bank_is_in_time() -> None:
    timer = DecisionTimer()
    timer.start([(1, LEFT)], 1_000)
    assert timer.due_us == 1_000 + LIMIT_US + 1
    assert timer.stop(1, 1_000 + LIMIT_US) == Charged(LIMIT_US)
    assert timer.idle
    assert timer.stop(1, 1_000 + LIMIT_US) is None


def test_a_microsecond_more_is_a_timeout_whether_it_answers_or_not() -> None:
    timer = DecisionTimer()
    timer.start([(1, LEFT)], 0)
    assert timer.stop(1, LIMIT_US + 1) == TimedOut(LIMIT_US + 1, LIMIT_US)
    timer.start([(2, LEFT)], LIMIT_US + 1)
    assert timer.look(2 * LIMIT_US + 2) == [(2, TimedOut(LIMIT_US + 1, LIMIT_US))]
    assert timer.idle


def test_a_look_before_its_time_finds_nothing_and_says_when_to_come_again() -> None:
    timer = DecisionTimer()
    timer.start([(1, LEFT)], 0)
    assert timer.look(30_000) == []
    assert timer.due_us == LIMIT_US + 1


def test_open_decisions_share_the_time() -> None:
    timer = DecisionTimer()
    timer.start([(1, LEFT), (2, LEFT)], 0)
    assert timer.stop(1, 10_000) == Charged(5_000)
    assert timer.stop(2, 20_000) == Charged(15_000)


def test_a_stream_that_ends_stops_every_clock() -> None:
    timer = DecisionTimer()
    timer.start([(1, LEFT), (2, LEFT)], 0)
    assert timer.break_off(10_000) == {1: 5_000, 2: 5_000}
    assert timer.idle


def test_the_time_of_a_blocked_loop_is_credited_once_and_only_to_those_that_were_open() -> None:
    timer = DecisionTimer()
    timer.start([(1, LEFT)], 0)
    assert timer.look(LIMIT_US + 10_000) == []
    assert timer.due_us is not None
    # It is late again, by more; a second decision has begun meanwhile.
    now_us = timer.due_us + 50_000
    timer.start([(2, LEFT)], timer.due_us)
    credit_us = 10_000 - 1 + STALL_US  # the first time
    charged_us = LIMIT_US + 10_000 + STALL_US + 25_000 - credit_us
    assert timer.look(now_us) == [(1, TimedOut(charged_us, LIMIT_US))]
    assert timer.stop(2, now_us) == Charged(25_000)
