"""What ratings foretell of two bots' results, and what they do not."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepsea_arena.season_check import BY_CHANCE, SURPRISING, surprise
from deepsea_ladder.rating.batch import batch_ratings
from deepsea_ladder.rating.convergence import odds
from deepsea_ladder.rating.trueskill_fold import GameOutcome, RatingParameters

PARAMETERS = RatingParameters(tau=0.0)


def test_equal_bots_are_level_as_often_as_the_season_says() -> None:
    found = odds(PARAMETERS, 0.0)
    assert found.level == pytest.approx(0.13)
    assert found.better == found.worse


def test_doubt_about_the_skills_brings_odds_nearer_to_even() -> None:
    assert 0.5 < odds(PARAMETERS, 10.0, 50.0).better < odds(PARAMETERS, 10.0).better


def test_what_was_foretold_surprises_nobody() -> None:
    even = odds(PARAMETERS, 0.0)
    assert surprise(even, 1000, 0.5) == pytest.approx((0.5, 0.0))


def test_errors_are_those_of_the_mean_of_many_games() -> None:
    """Near the forecast the measure is the distance over the standard error."""
    even = odds(PARAMETERS, 0.0)
    error = math.sqrt((even.better + 0.25 * even.level - 0.25) / 10_000)
    _, found = surprise(even, 10_000, 0.5 + 3.5 * error)
    assert found == pytest.approx(3.5, rel=0.01)
    _, worse = surprise(even, 10_000, 0.5 - 3.5 * error)
    assert worse == pytest.approx(-found)


def test_one_lost_game_of_five_against_a_clear_favourite_is_no_surprise() -> None:
    """It happens once in twenty times, though it is four standard errors by the variance."""
    clear = odds(PARAMETERS, 40.0)
    assert 0.98 < clear.better + 0.5 * clear.level < 1.0
    assert -SURPRISING < surprise(clear, 5, 0.8)[1] < -1.0


@given(st.floats(-1e4, 1e4), st.integers(1, 10_000), st.floats(0.0, 1.0))
def test_every_result_has_a_finite_measure(difference: float, games: int, share: float) -> None:
    foretold, errors = surprise(odds(PARAMETERS, difference), games, share)
    assert 0.0 < foretold < 1.0
    assert math.isfinite(errors)
    assert errors * (share - foretold) >= 0.0


@pytest.mark.parametrize(("third", "surprising"), [(10, 3), (98, 0)])
def test_three_in_a_circle_are_found_and_three_in_a_row_are_not(
    third: int, surprising: int
) -> None:
    """The first beats the second in 90 of 100 games, that the third, and the first the third in
    10 or 98."""
    won = {(0, 1): 90, (1, 2): 90, (0, 2): third}
    games = [(pair, (1, 2)) for pair, wins in won.items() for _ in range(wins)]
    games += [(pair, (2, 1)) for pair, wins in won.items() for _ in range(100 - wins)]
    ratings = batch_ratings(
        PARAMETERS, [GameOutcome(number, *game) for number, game in enumerate(games, 1)]
    ).ratings
    found = 0
    for (one, other), wins in won.items():
        chances = odds(PARAMETERS, ratings[one].mu - ratings[other].mu)
        found += abs(surprise(chances, 100, wins / 100)[1]) >= SURPRISING
    assert found == surprising


def test_by_chance_is_what_three_standard_errors_are() -> None:
    assert pytest.approx(0.0027, abs=1e-5) == BY_CHANCE
