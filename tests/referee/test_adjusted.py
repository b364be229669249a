"""The interval of a lead less its luck: as valid as that of the lead, and often narrower."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from deepsea_referee.workbench.adjusted import AdjustedSequence
from deepsea_referee.workbench.confidence import ConfidenceSequence, Interval
from deepsea_sdk.coach.chance_sum import Luck
from helpers.games import rng

ALPHA = 0.2
"""So large that wrong intervals would show in few runs."""


def leads(salt: str, mean: float, noise: float, luck: float) -> Iterator[tuple[float, Luck]]:
    """Leads between -1 and 1 and the luck in them, whose mean is 0."""
    chance = rng(salt)
    while True:
        moved = luck if chance.random() < 0.5 else -luck
        rest = mean + (noise if chance.random() < 0.5 else -noise)
        yield rest + moved, (moved, moved)


@pytest.mark.parametrize(
    ("mean", "noise", "luck"), [(0.0, 0.5, 0.5), (0.3, 0.4, 0.3), (-0.1, 0.1, 0.8), (0.0, 0.0, 1.0)]
)
def test_the_mean_is_missed_at_any_time_in_no_more_than_the_stated_share_of_runs(
    mean: float, noise: float, luck: float
) -> None:
    runs, missed = 40, 0
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
def test_what_is_out_of_bounds_is_refused(lead: float, luck: Luck) -> None:
    with pytest.raises(ValueError, match="outside"):
        AdjustedSequence(0.5, 0.4).add(lead, luck)
