"""Limits of submissions, and the order in which they are checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepsea_ladder.errors import LimitReached
from deepsea_ladder.limits import (
    DAY_MS,
    HOUR_MS,
    RemoteLimits,
    Usage,
    check_analysis_rate,
    check_bot_count,
    check_submission_limits,
    order_of_checks,
)

LIMITS = RemoteLimits()
NOTHING = Usage(open=0, times=(), archives=0, waiting=0, checks=())
NOW = 10 * DAY_MS
MIB = 1 << 20


@pytest.mark.parametrize(
    ("used", "size"),
    [
        (NOTHING, 16 * MIB),
        (NOTHING._replace(open=2), 1),
        (NOTHING._replace(times=[NOW - 1] * 9), 1),
        (NOTHING._replace(times=[NOW - HOUR_MS] * 39), 1),
        (NOTHING._replace(times=[NOW - DAY_MS] * 100), 1),
        (NOTHING._replace(archives=184 * MIB), 16 * MIB),
        (NOTHING._replace(waiting=99), 1),
        (NOTHING._replace(checks=[(NOW - 1, 599_999)]), 1),
        (NOTHING._replace(checks=[(NOW - HOUR_MS, 900_000)]), 1),
    ],
)
def test_what_is_within_the_limits_is_taken(used: Usage, size: int) -> None:
    check_submission_limits(LIMITS, used, size, NOW)


@pytest.mark.parametrize(
    ("used", "size", "words", "back"),
    [
        (NOTHING._replace(open=3), 1, "3 submissions of yours wait", 30),
        (NOTHING._replace(times=[NOW - HOUR_MS + 5000, *[NOW - 1] * 9]), 1, "10 times", 5),
        (NOTHING._replace(times=[NOW - DAY_MS + 60_001, *[NOW - HOUR_MS] * 39]), 1, "a day", 61),
        (NOTHING._replace(archives=184 * MIB + 1), 16 * MIB, "an author has 200 MiB", None),
        (NOTHING._replace(waiting=100), 1, "100 submissions wait already", 30),
        (NOTHING._replace(checks=[(NOW - 10_000, 600_000)]), 1, "600 s within", 3590),
        # When the first of three has left the hour, the others still take it all.
        (
            NOTHING._replace(checks=[(NOW - 9000, 1), (NOW - 5000, 300_000), (NOW, 300_000)]),
            1,
            "within an hour",
            3595,
        ),
    ],
)
def test_each_limit_says_what_it_is_and_when_to_come_back(
    used: Usage, size: int, words: str, back: int | None
) -> None:
    with pytest.raises(LimitReached, match=words) as refused:
        check_submission_limits(LIMITS, used, size, NOW)
    assert refused.value.retry_after == back


def test_coming_back_when_told_is_soon_enough() -> None:
    used = NOTHING._replace(times=[NOW - 3000 * i for i in range(12, 0, -1)])
    with pytest.raises(LimitReached) as refused:
        check_submission_limits(LIMITS, used, 1, NOW)
    assert refused.value.retry_after is not None
    check_submission_limits(LIMITS, used, 1, NOW + 1000 * refused.value.retry_after)


def _submissions(times: Sequence[int], at: int) -> None:
    check_submission_limits(LIMITS, NOTHING._replace(times=times), 1, at)


def _analyses(times: Sequence[int], at: int) -> None:
    check_analysis_rate(LIMITS, times, at)


@pytest.mark.parametrize(
    ("check", "bounds"),
    [(_submissions, [(10, HOUR_MS), (40, DAY_MS)]), (_analyses, [(20, DAY_MS)])],
)
def test_no_border_of_an_hour_or_a_day_has_twice_the_limit(
    check: Callable[[Sequence[int], int], None], bounds: list[tuple[int, int]]
) -> None:
    """Any hour and any day has at most the limit, of one who comes back as soon as it may be."""
    times: list[int] = []
    at = NOW
    while len(times) < 100:
        try:
            check([time for time in times if time > at - DAY_MS], at)
            times.append(at)
        except LimitReached as refused:
            at += 1000 * (refused.retry_after or 0)
    for most, period in bounds:
        assert all(later - time >= period for time, later in zip(times, times[most:], strict=False))
    assert times[-1] - NOW < 5 * DAY_MS


def test_an_author_has_so_many_bots() -> None:
    check_bot_count(LIMITS, 4)
    with pytest.raises(LimitReached, match="at most 5"):
        check_bot_count(LIMITS, 5)
    check_bot_count(replace(LIMITS, bots=6), 5)


A, B, C = 1, 2, 3


@pytest.mark.parametrize(
    ("waiting", "begun", "busy", "order"),
    [
        ([], {}, [], []),
        ([(10, A)], {}, [], [10]),
        # One of each author in turn, however many one has.
        ([(10, A), (11, A), (12, A), (13, B), (14, C)], {}, [], [10, 13, 14, 11, 12]),
        # Who was checked last waits longest.
        ([(10, A), (11, B)], {A: 500}, [], [11, 10]),
        ([(10, A), (11, B), (12, C)], {A: 500, B: 400}, [], [12, 11, 10]),
        # Whose submission is being checked comes after the others.
        ([(10, A), (11, B)], {A: 500, B: 600}, [A], [11, 10]),
        # Of two who were never checked, who came first.
        ([(10, B), (11, A)], {}, [], [10, 11]),
    ],
)
def test_the_order_is_round_robin_by_author(
    waiting: list[tuple[int, int]], begun: dict[int, int], busy: list[int], order: list[int]
) -> None:
    assert order_of_checks(waiting, begun, busy) == order


@given(st.lists(st.integers(1, 5), max_size=30), st.dictionaries(st.integers(1, 5), st.integers(0)))
def test_nobody_is_left_out_and_nobody_is_passed_twice(
    authors: list[int], begun: dict[int, int]
) -> None:
    waiting = list(enumerate(authors))
    order = order_of_checks(waiting, begun, ())
    assert sorted(order) == [number for number, _ in waiting]
    for author in set(authors):
        own = [place for place, number in enumerate(order) if authors[number] == author]
        assert [order[place] for place in own] == sorted(order[place] for place in own)
        for first, second in pairwise(own):
            between = [authors[order[place]] for place in range(first + 1, second)]
            assert len(between) == len(set(between))
