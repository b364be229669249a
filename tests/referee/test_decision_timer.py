"""The pure timer of a bot's decisions: no stream, made-up times and readings."""

from __future__ import annotations

from deepsea_referee.timing.decision_timer import STALL_US, Charged, DecisionTimer, TimedOut
from deepsea_sdk.clock import TimeLeft

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
