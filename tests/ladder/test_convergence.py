"""When the order is settled."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration import odds
from deepsea_ladder.errors import RatingError
from deepsea_ladder.rating import Rating, RatingParameters
from deepsea_ladder.standings import certainty, compare_neighbours, is_settled, level_difference

PARAMETERS = RatingParameters(beta=12.5)
ladders = st.lists(st.builds(Rating, st.floats(0.0, 50.0), st.floats(0.05, 8.0)), max_size=8).map(
    lambda ratings: dict(enumerate(ratings))
)


@pytest.mark.parametrize(
    ("upper", "lower", "verdict", "certainty"),
    [
        (Rating(30.0, 1.0), Rating(20.0, 1.0), "apart", 1.0),
        (Rating(30.0, 3.0), Rating(20.0, 4.0), "apart", 0.977),
        (Rating(25.0, 3.0), Rating(24.0, 4.0), "open", 0.579),
        (Rating(30.0, 3.0), Rating(22.0, 4.0), "open", 0.945),
        (Rating(25.0, 0.2), Rating(25.0, 0.2), "level", 1.0),
        (Rating(25.3, 0.3), Rating(25.0, 0.3), "level", 0.992),
        # The upper one stands higher because more is known of it, not because it is better.
        (Rating(25.0, 1.0), Rating(30.0, 4.0), "open", 0.113),
    ],
)
def test_two_neighbours(upper: Rating, lower: Rating, verdict: str, certainty: float) -> None:
    (pair,) = compare_neighbours(PARAMETERS, {1: upper, 2: lower})
    assert (pair.upper, pair.lower, pair.verdict) == (1, 2, verdict)
    assert pair.certainty == pytest.approx(certainty, abs=0.001)


def test_neighbours_follow_the_standings() -> None:
    ratings = {5: Rating(20.0, 1.0), 3: Rating(40.0, 1.0), 4: Rating(30.0, 1.0)}
    pairs = compare_neighbours(PARAMETERS, ratings)
    assert [(pair.upper, pair.lower) for pair in pairs] == [(3, 4), (4, 5)]


@given(ladders)
def test_nothing_is_left_to_play_unless_a_pair_is_open(ratings: dict[int, Rating]) -> None:
    pairs = compare_neighbours(PARAMETERS, ratings)
    assert len(pairs) == max(0, len(ratings) - 1)
    for pair in pairs:
        assert 0.0 <= pair.certainty <= 1.0
        assert (pair.games_left == 0) == (pair.verdict != "open")
        assert pair.least_left <= (math.inf if pair.games_left is None else pair.games_left)


@given(ladders, st.floats(0.6, 0.9))
def test_less_confidence_settles_no_later(ratings: dict[int, Rating], less: float) -> None:
    if is_settled(compare_neighbours(PARAMETERS, ratings, 0.95)):
        assert is_settled(compare_neighbours(PARAMETERS, ratings, less))


def test_one_bot_or_none_is_settled() -> None:
    assert is_settled(compare_neighbours(PARAMETERS, {}))
    assert is_settled(compare_neighbours(PARAMETERS, {1: Rating(25.0, 8.0)}))


@pytest.mark.parametrize("tolerance", [0.01, 0.03, 0.1])
def test_level_bots_beat_each_other_within_the_tolerance(tolerance: float) -> None:
    parameters = RatingParameters(tau=0.0, draw_probability=0.001)
    difference = level_difference(parameters, tolerance)
    chances = odds(parameters, Rating(25.0 + difference, 1e-6), Rating(25.0, 1e-6))
    assert chances.better + chances.level / 2 == pytest.approx(0.5 + tolerance, abs=1e-3)


@pytest.mark.parametrize("away", [0.0, 0.5, 2.0, 5.0])
def test_the_games_that_are_left_would_settle_it(away: float) -> None:
    parameters = RatingParameters(tau=0.0)
    one, other = Rating(25.0 + away, 4.0), Rating(25.0, 4.0)
    (pair,) = compare_neighbours(parameters, {1: one, 2: other})
    assert pair.games_left is not None
    gained = pair.games_left * 0.5 / parameters.beta**2
    sigma = 1.0 / math.sqrt(1.0 / 4.0**2 + gained)
    closer = {1: one._replace(sigma=sigma), 2: other._replace(sigma=sigma)}
    assert is_settled(compare_neighbours(parameters, closer))


def test_with_drift_some_pairs_are_never_settled() -> None:
    ratings = {1: Rating(25.0, 1.0), 2: Rating(25.0, 1.0)}
    assert compare_neighbours(RatingParameters(tau=0.0), ratings)[0].games_left is not None
    assert compare_neighbours(RatingParameters(tau=0.5), ratings)[0].games_left is None


@pytest.mark.parametrize("confidence", [0.5, 1.0, math.nan])
def test_a_confidence_that_makes_no_sense(confidence: float) -> None:
    with pytest.raises(RatingError, match="lies"):
        compare_neighbours(PARAMETERS, {}, confidence)


# Forecasts


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
