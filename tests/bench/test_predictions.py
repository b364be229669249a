"""Predictions of games: chances that add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration import odds, placement_chances
from deepsea_ladder.rating.trueskill_fold import Rating, RatingParameters

PARAMETERS = RatingParameters()
ratings = st.builds(Rating, st.floats(0.0, 50.0), st.floats(0.1, 9.0))
tables = st.lists(ratings, min_size=2, max_size=6)


@given(ratings, ratings)
def test_odds_add_up_and_turn_round(one: Rating, other: Rating) -> None:
    there, back = odds(PARAMETERS, one, other), odds(PARAMETERS, other, one)
    assert there.better + there.level + there.worse == pytest.approx(1.0)
    assert min(there) >= 0.0
    assert tuple(there) == pytest.approx(tuple(reversed(back)))
    favourite = there if one.mu >= other.mu else back
    assert favourite.better >= favourite.worse


@given(tables)
def test_everybody_gets_a_place_and_every_place_somebody(table: list[Rating]) -> None:
    chances = placement_chances(PARAMETERS, table)
    for row in chances:
        assert sum(row) == pytest.approx(1.0, abs=1e-6)
        assert min(row) >= -1e-12
    for column in zip(*chances, strict=True):
        assert sum(column) == pytest.approx(1.0, abs=1e-6)


def test_equals_have_equal_chances_of_every_place() -> None:
    for row in placement_chances(PARAMETERS, [PARAMETERS.newcomer] * 4):
        assert row == pytest.approx([0.25] * 4, abs=1e-6)


@given(ratings, ratings)
def test_with_two_seats_the_first_place_goes_to_the_better(one: Rating, other: Rating) -> None:
    chances = odds(RatingParameters(draw_probability=0.001), one, other)
    placements = placement_chances(PARAMETERS, [one, other])
    assert placements[0][0] == pytest.approx(chances.better, abs=1e-3)


def test_two_equal_bots_draw_as_often_as_the_parameter_says() -> None:
    known = Rating(25.0, 1e-6)
    parameters = RatingParameters(tau=0.0, draw_probability=0.3)
    assert odds(parameters, known, known).level == pytest.approx(0.3, abs=1e-6)
