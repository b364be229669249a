"""The interval covers the mean at all times together, whatever is observed, and it shrinks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepsea_referee.workbench.confidence import (
    AdjustedSequence,
    ConfidenceSequence,
    Interval,
    Mean,
    difference,
    holm,
    mean_of,
)
from deepsea_sdk.coach.formula import LuckSums
from helpers.games import rng
from helpers.tiers import daily

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


@pytest.mark.parametrize("pool", daily(POOLS, ["seldom", "skewed"]))
def test_the_mean_is_missed_at_any_time_in_no_more_than_the_stated_share_of_runs(pool: str) -> None:
    values = POOLS[pool]
    mean = sum(values) / len(values)
    runs = 20
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
            def _place_bets(self, x: float, bet: float) -> None:
                found.append(bet)
                super()._place_bets(x, bet)

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


# The interval of a lead less its luck: as valid as that of the lead, and often narrower


def leads(salt: str, mean: float, noise: float, luck: float) -> Iterator[tuple[float, LuckSums]]:
    """Leads between -1 and 1 and the luck in them, whose mean is 0."""
    chance = rng(salt)
    while True:
        moved = luck if chance.random() < 0.5 else -luck
        rest = mean + (noise if chance.random() < 0.5 else -noise)
        yield rest + moved, (moved, moved)


@pytest.mark.parametrize(
    ("mean", "noise", "luck"),
    daily(
        [(0.0, 0.5, 0.5), (0.3, 0.4, 0.3), (-0.1, 0.1, 0.8), (0.0, 0.0, 1.0)],
        [(0.3, 0.4, 0.3), (-0.1, 0.1, 0.8)],
    ),
)
def test_the_adjusted_mean_is_missed_at_any_time_in_no_more_than_the_stated_share_of_runs(
    mean: float, noise: float, luck: float
) -> None:
    runs, missed = 20, 0
    for run in range(runs):
        sequence = AdjustedSequence(1.0, 1.0, ALPHA)
        for lead, moved in islice(leads(f"{mean}/{noise}/{run}", mean, noise, luck), 60):
            sequence.add(lead, moved)
        missed += not sequence.interval.low <= mean <= sequence.interval.high
    assert missed <= ALPHA * runs


def blocks_to_verdict(mean: float, noise: float, luck: float, run: int) -> tuple[int, int]:
    """Observations until 0 is excluded: by the leads, and by the leads less their luck."""
    needed = []
    for sequence in (ConfidenceSequence(-1, 1), AdjustedSequence(1.0, luck)):
        for lead, moved in leads(f"verdict {run}", mean, noise, luck):
            if isinstance(sequence, AdjustedSequence):
                sequence.add(lead, moved)
            else:
                sequence.add(lead)
            if sequence.interval.excludes_zero:
                break
        needed.append(sequence.count)
    return needed[0], needed[1]


def test_luck_taken_off_saves_observations_between_nearly_equal_bots() -> None:
    found = [blocks_to_verdict(0.15, 0.4, 0.4, run) for run in range(7)]
    plain, adjusted = (sorted(column)[3] for column in zip(*found, strict=True))
    assert adjusted < 0.8 * plain


def test_luck_taken_off_costs_little_where_the_lead_is_large() -> None:
    found = [blocks_to_verdict(0.7, 0.2, 0.1, run) for run in range(7)]
    plain, adjusted = (sorted(column)[3] for column in zip(*found, strict=True))
    assert plain < 12
    assert adjusted <= plain + 3


def test_figures() -> None:
    sequence = AdjustedSequence(0.5, 0.5)
    assert (sequence.mean, sequence.interval) == (0.0, Interval(-0.5, 0.5))
    sequence.add(0.25, (0.125, 0.125))
    sequence.add(-0.5, (0.5, 1.0))
    assert sequence.mean == pytest.approx((0.125 - 1.25) / 2)
    assert sequence.count == 2


@pytest.mark.parametrize(
    ("lead", "luck"), [(0.6, (0.0, 0.0)), (0.0, (0.45, 0.3)), (0.0, (-0.3, -0.45))]
)
def test_an_adjusted_lead_out_of_bounds_is_refused(lead: float, luck: LuckSums) -> None:
    with pytest.raises(ValueError, match="outside"):
        AdjustedSequence(0.5, 0.4).add(lead, luck)


# A fixed number of observations


@pytest.mark.parametrize(
    ("degrees", "t", "chance"),
    [(4, 2.1318, 0.05), (9, 2.2622, 0.025), (9, 4.2968, 0.001), (39, 3.3128, 0.001), (39, 0, 0.5)],
)
def test_the_tail_is_that_of_students_distribution(degrees: int, t: float, chance: float) -> None:
    assert Mean(1 + t / 2, 0.5, degrees).chance(1) == pytest.approx(chance, rel=0.04)
    assert Mean(1 - t / 2, 0.5, degrees).chance(1) == pytest.approx(1 - chance, abs=0.001)
    assert Mean(0, 1, degrees).half_width == pytest.approx(
        {4: 2.7764, 9: 2.2622, 39: 2.0227}[degrees], rel=0.01
    )


def test_a_mean_and_a_difference_have_the_error_of_their_spread() -> None:
    one, other = mean_of([1.0, 2.0, 3.0, 4.0]), mean_of([1.0, 1.0, 1.0])
    assert one == pytest.approx((2.5, 0.6455, 3), abs=1e-4)
    assert other == pytest.approx((1, 0, 2))
    assert (other.chance(0.5), other.chance(1), other.half_width) == (0, 1, 0)
    assert difference(one, other) == pytest.approx((1.5, 0.6455, 3), abs=1e-4)
    assert difference(one, one) == pytest.approx((0, 0.9129, 6), abs=1e-4)
    assert difference(other, other).error == 0


def test_holm_rejects_from_the_smallest_on_until_one_stays() -> None:
    assert holm([]) == []
    assert holm([0.04, 0.01, 0.02]) == [True, True, True]
    assert holm([0.03, 0.01, 0.03]) == [False, True, False]
    assert holm([0.2, 0.02, 0.2]) == [False, False, False]
