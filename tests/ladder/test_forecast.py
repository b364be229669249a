"""Forecasts: chances that add up, and match quality as the package has it."""

import pytest
import trueskill
from hypothesis import given, settings
from hypothesis import strategies as st

from deepsea_ladder.rating.forecast import certainty, match_quality, odds, placement_chances
from deepsea_ladder.rating.trueskill_fold import PACKAGE_DEFAULTS, Rating, RatingParameters

PARAMETERS = RatingParameters()
ratings = st.builds(Rating, st.floats(0.0, 50.0), st.floats(0.1, 9.0))
tables = st.lists(ratings, min_size=2, max_size=6)


@given(tables)
@settings(deadline=None)
def test_match_quality_is_the_packages(table: list[Rating]) -> None:
    environment = trueskill.TrueSkill()
    theirs = environment.quality([(trueskill.Rating(*rating),) for rating in table])
    assert match_quality(PACKAGE_DEFAULTS, table) == pytest.approx(theirs, rel=1e-9, abs=1e-300)


def test_match_quality_is_best_for_known_equals() -> None:
    known = Rating(25.0, 1e-9)
    assert match_quality(PARAMETERS, [known] * 4) == pytest.approx(1.0)
    assert match_quality(PARAMETERS, [known] * 3 + [Rating(26.0, 1e-9)]) < 1.0
    assert match_quality(PARAMETERS, [known] * 3 + [Rating(25.0, 3.0)]) < 1.0


@given(ratings, ratings)
@settings(deadline=None)
def test_odds_add_up_and_turn_round(one: Rating, other: Rating) -> None:
    there, back = odds(PARAMETERS, one, other), odds(PARAMETERS, other, one)
    assert there.better + there.draw + there.worse == pytest.approx(1.0)
    assert min(there) >= 0.0
    assert tuple(there) == pytest.approx(tuple(reversed(back)))
    favourite = there if one.mu >= other.mu else back
    assert favourite.better >= favourite.worse


@given(tables)
@settings(deadline=None)
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
@settings(deadline=None)
def test_with_two_seats_the_first_place_goes_to_the_better(one: Rating, other: Rating) -> None:
    chances = odds(RatingParameters(draw_probability=0.001), one, other)
    placements = placement_chances(PARAMETERS, [one, other])
    assert placements[0][0] == pytest.approx(chances.better, abs=1e-3)


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
