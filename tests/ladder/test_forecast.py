"""Forecasts: the probability that one bot is more skilled than another."""

import pytest

from deepsea_ladder.rating.convergence import certainty
from deepsea_ladder.rating.trueskill_fold import Rating


@pytest.mark.parametrize(
    ("one", "other", "sure"),
    [
        (Rating(25.0, 1.0), Rating(25.0, 5.0), 0.5),
        (Rating(29.0, 3.0), Rating(24.0, 4.0), 0.841344746),
        (Rating(24.0, 4.0), Rating(29.0, 3.0), 0.158655254),
    ],
)
def test_certainty(one: Rating, other: Rating, sure: float) -> None:
    assert certainty(one, other) == pytest.approx(sure)
