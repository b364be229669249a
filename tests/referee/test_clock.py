"""Time controls, banks, and clocks that can be told to jump."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepsea_referee.errors import UserError
from deepsea_referee.timing.clock import (
    Bank,
    ManualClock,
    SharedTime,
    SystemClock,
    TimeControl,
    time_limit,
)
from helpers.peers import run

DAY_US = 24 * 3600 * 1_000_000
CONTROLS = st.builds(
    TimeControl,
    budget_us=st.integers(1, 10_000_000),
    bank_us=st.integers(0, 100_000_000),
)


@pytest.mark.parametrize(
    ("text", "budget_us", "bank_us", "formatted"),
    [
        ("100ms+2s", 100_000, 2_000_000, "100ms+2s"),
        ("50ms", 50_000, 0, "50ms"),
        ("1s+500ms", 1_000_000, 500_000, "1s+500ms"),
        ("250us", 250, 0, "250us"),
        ("1.5s", 1_500_000, 0, "1500ms"),
        ("0.000001s", 1, 0, "1us"),
        ("1001us+1ms", 1_001, 1_000, "1001us+1ms"),
        ("0ms+3s", 0, 3_000_000, "0s+3s"),
        ("2m", 120_000_000, 0, "120s"),
        (" 1s + 2s ", 1_000_000, 2_000_000, "1s+2s"),
        ("1440m", DAY_US, 0, "86400s"),
    ],
)
def test_a_time_control_is_budget_and_bank(
    text: str, budget_us: int, bank_us: int, formatted: str
) -> None:
    control = TimeControl.parse(text)
    assert control == TimeControl(budget_us, bank_us)
    assert control.format() == formatted


NONSENSE = """
+ 100 ms 1h -1s 1s+ +1s 1s+1s+1s 1e3ms 1,5s 0.0000001s 0s 0ms+0s 1441m 86400s+1us ٣s 1S
999999999999s 1..5s nan 1s;2s
"""


@pytest.mark.parametrize("text", ["", *NONSENSE.split()])
def test_nonsense_is_refused_with_one_line_that_quotes_it(text: str) -> None:
    with pytest.raises(UserError) as caught:
        TimeControl.parse(text)
    assert repr(text) in str(caught.value)
    assert "\n" not in str(caught.value)


@given(CONTROLS)
def test_format_and_parse_are_a_round_trip(control: TimeControl) -> None:
    assert TimeControl.parse(control.format()) == control


@pytest.mark.parametrize(("budget_us", "bank_us"), [(-1, 5), (5, -1), (0, 0), (DAY_US, 1)])
def test_a_time_control_gives_something_and_at_most_a_day(budget_us: int, bank_us: int) -> None:
    with pytest.raises(ValueError, match="clock"):
        TimeControl(budget_us, bank_us)


@pytest.mark.parametrize(
    ("elapsed_us", "in_time", "left_us"),
    [
        (0, True, 500),
        (99, True, 500),
        (100, True, 500),
        (101, True, 499),
        (600, True, 0),
        (601, False, 0),
        (10_000, False, 0),
    ],
)
def test_what_goes_beyond_the_budget_is_drawn_from_the_bank(
    elapsed_us: int, in_time: bool, left_us: int
) -> None:
    bank = Bank(TimeControl(100, 500))
    assert bank.limit_us == 600
    assert bank.spend(elapsed_us) is in_time
    assert bank.left_us == left_us
    assert bank.limit_us == 100 + left_us


@given(CONTROLS, st.lists(st.integers(0, 20_000_000), max_size=30))
def test_a_bank_pays_for_overruns_and_for_nothing_else(
    control: TimeControl, elapsed: list[int]
) -> None:
    bank = Bank(control)
    for us in elapsed:
        before_us, limit_us = bank.left_us, bank.limit_us
        assert bank.spend(us) is (us <= limit_us)
        assert bank.left_us == max(0, before_us - max(0, us - control.budget_us))


def test_many_small_overruns_use_up_the_bank() -> None:
    bank = Bank(TimeControl(1_000, 100))
    assert [bank.spend(1_010) for _ in range(12)] == [True] * 10 + [False, False]
    assert bank.spend(1_000)


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


def test_the_system_clock_rings_from_the_event_loop_and_not_early() -> None:
    async def test() -> None:
        clock = SystemClock()
        rung = asyncio.get_running_loop().create_future()
        when_us = clock.now_us() + 2_000
        clock.at(when_us, lambda: rung.set_result(clock.now_us()))
        clock.at(when_us, lambda: rung.set_result("cancelled alarms do not ring")).cancel()
        # The loop's timers may be early by its own resolution, which is below a microsecond.
        assert await rung >= when_us - 1

    run(test())


def test_a_time_limit_ends_the_block_by_its_clock() -> None:
    async def test() -> None:
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

    run(test())


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
