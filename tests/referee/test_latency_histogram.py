"""Times of decisions: a median that needs little room and is nearly exact."""

from __future__ import annotations

import statistics

import pytest

from deepsea_referee.results.latency_histogram import LatencyHistogram, _bucket
from helpers.games import rng


def times(*us: int) -> LatencyHistogram:
    it = LatencyHistogram()
    it.add(us)
    return it


def test_short_times_are_exact() -> None:
    it = times(*range(1, 1024), 1023)
    assert (it.count, it.median_us, it.slowest_us) == (1024, 512, 1023)
    assert times(7).median_us == 7
    assert times(0, 0, 5).median_us == 0
    # The lower one of two in the middle.
    assert times(900, 100).median_us == 100


@pytest.mark.parametrize("us", [1_024, 1_025, 9_999, 100_000, 123_456_789, 86_400_000_000])
def test_long_times_are_nearly_exact_and_the_slowest_is_exact(us: int) -> None:
    it = times(us, us, us + 1_000_000)
    assert it.median_us == pytest.approx(us, rel=0.001)
    assert it.slowest_us == us + 1_000_000
    assert times(us).median_us == pytest.approx(us, rel=0.001)


def test_the_median_of_many_is_that_of_all_of_them() -> None:
    dice = rng("times")
    drawn = [dice.randrange(1 << dice.randrange(1, 30)) for _ in range(20_000)]
    it = LatencyHistogram()
    for start in range(0, len(drawn), 37):
        it.add(drawn[start : start + 37])
    assert it.count == len(drawn)
    assert it.median_us == pytest.approx(statistics.median_low(drawn), rel=0.001)
    assert it.slowest_us == max(drawn)


def test_nothing_has_no_median() -> None:
    assert (
        LatencyHistogram().count,
        LatencyHistogram().median_us,
        LatencyHistogram().slowest_us,
    ) == (0, None, None)


def test_buckets_are_few_whatever_comes() -> None:
    assert [_bucket(us) for us in range(3_000)] == sorted(_bucket(us) for us in range(3_000))
    assert _bucket(24 * 3600 * 1_000_000) < 16_000


def test_quantiles_and_counts() -> None:
    it = times(*range(1, 101))
    assert [it.quantile_us(p) for p in (1, 50, 90, 99, 100)] == [1, 50, 90, 99, 100]
    assert LatencyHistogram().quantile_us(99) is None
    assert times(5, 7, 5, 900).counts() == [(5, 2), (7, 1), (900, 1)]
