"""The interval covers the mean at all times together, whatever is observed, and it shrinks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepsea_referee.workbench.confidence import LARGEST_STAKE, ConfidenceSequence, Interval
from helpers.games import rng

ALPHA = 0.2
"""So large that wrong intervals would show in few runs."""
POOLS = {
    "coins": [-1.0, 1.0],
    "seldom": [-0.05] * 19 + [0.95],
    "narrow": [-0.01, 0.0, 0.01],
    "skewed": [-0.9, 0.1, 0.2, 0.3, 0.3],
}


def test_nothing_is_known_before_the_first_observation() -> None:
    sequence = ConfidenceSequence(-2, 3)
    assert sequence.interval == Interval(-2, 3)
    assert sequence.mean == 0.5
    assert sequence.count == 0


@pytest.mark.parametrize("value", [-1.1, 1.1])
def test_what_is_out_of_bounds_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="outside"):
        ConfidenceSequence(-1, 1).add(value)


@given(st.lists(st.floats(-1, 1), max_size=15))
@settings(max_examples=30)
def test_intervals_only_shrink_and_turn_with_the_observations(values: list[float]) -> None:
    sequence, mirrored = ConfidenceSequence(-1, 1), ConfidenceSequence(-1, 1)
    before = sequence.interval
    for value in values:
        sequence.add(value)
        mirrored.add(-value)
        low, high = sequence.interval
        assert before.low <= low <= high <= before.high
        assert mirrored.interval == pytest.approx((-high, -low))
        before = sequence.interval


@pytest.mark.parametrize("pool", POOLS)
def test_the_mean_is_missed_at_any_time_in_no_more_than_the_stated_share_of_runs(
    pool: str,
) -> None:
    values = POOLS[pool]
    mean = sum(values) / len(values)
    runs = 40
    missed = 0
    for run in range(runs):
        chance = rng(f"{pool}/{run}")
        sequence = ConfidenceSequence(-1, 1, ALPHA)
        for _ in range(60):
            sequence.add(chance.choice(values))
        # Intervals only shrink: whoever was left out before is out now.
        missed += not sequence.interval.low <= mean <= sequence.interval.high
    assert missed <= ALPHA * runs


def test_a_bet_does_not_depend_on_the_observation_that_it_is_for() -> None:
    def bets(values: Sequence[float]) -> list[float]:
        found: list[float] = []

        class Noted(ConfidenceSequence):
            def play(self, x: float, bet: float, stake: float = LARGEST_STAKE) -> None:
                found.append(bet)
                super().play(x, bet, stake)

        sequence = Noted(-1, 1)
        for value in values:
            sequence.add(value)
        return found

    whole = bets([0.5, -0.3, 0.9, 0.2])
    assert whole == bets([0.5, -0.3, 0.9, -1.0]) == bets([0.5, -0.3, 0.9, 1.0])
    assert len(set(whole)) == 4


def test_a_clear_difference_shows_soon() -> None:
    sequence = ConfidenceSequence(-1, 1)
    while not sequence.interval.excludes_zero:
        sequence.add(1.0)
    assert sequence.count < 10
    assert sequence.interval.low > 0


def test_no_difference_shows_too() -> None:
    sequence = ConfidenceSequence(-1, 1)
    while not sequence.interval.within(0.05):
        sequence.add(0.0)
    assert sequence.count < 150
    assert not sequence.interval.excludes_zero


def test_a_small_alpha_asks_for_more() -> None:
    counts = []
    for alpha in (0.2, 0.05, 0.001):
        sequence = ConfidenceSequence(-1, 1, alpha)
        while not sequence.interval.excludes_zero:
            sequence.add(0.4)
        counts.append(sequence.count)
    assert counts == sorted(set(counts))
