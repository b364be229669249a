"""The clock of a decision: it runs from the request's arrival, over budget and bank."""

from __future__ import annotations

import math

import pytest

from deepsea_sdk.bot import NO_LIMIT, Clock


class Time:
    """A time that a test sets."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> float:
        return self.seconds


def test_what_remains_shrinks_from_the_arrival_on() -> None:
    time = Time()
    clock = Clock(0.5, 2.0, now=time.now, arrived=999.9)
    assert clock.remaining() == pytest.approx(2.4)
    time.seconds += 1.5
    assert clock.remaining() == pytest.approx(0.9)
    time.seconds += 1.0
    assert clock.remaining() == 0.0


def test_a_clock_without_an_arrival_starts_when_it_is_made() -> None:
    time = Time()
    clock = Clock(0.5, now=time.now)
    time.seconds += 0.25
    assert clock.remaining() == 0.25


def test_a_deadline_is_a_share_of_budget_and_bank() -> None:
    time = Time()
    clock = Clock(1.0, 3.0, now=time.now)
    time.seconds += 7.0
    assert clock.deadline() == 1002.0
    assert clock.deadline(share=0.25) == 1001.0
    assert clock.deadline(1) - clock.now() == -3.0


@pytest.mark.parametrize("share", [0, -0.5, 1.5, math.nan])
def test_a_share_is_more_than_nothing_and_at_most_all(share: float) -> None:
    with pytest.raises(ValueError, match="a share of the time"):
        NO_LIMIT.deadline(share)


def test_without_a_limit_no_deadline_comes() -> None:
    assert NO_LIMIT.remaining() == math.inf
    assert NO_LIMIT.now() < NO_LIMIT.deadline(share=0.01) == math.inf


def test_by_default_time_is_real_and_moves() -> None:
    clock = Clock(60.0)
    first = clock.now()
    while clock.now() == first:
        pass
    assert 0.0 < clock.remaining() < 60.0
