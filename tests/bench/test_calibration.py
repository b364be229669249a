"""Calibration: forecasts are charged for what happened, and the fit finds what made the games."""

import math

import pytest

from calibration import PACKAGE_DEFAULTS, calibrate, fit, pair_loss
from deepsea_ladder.gaussian import quantile
from deepsea_ladder.pairing import RandomStream
from deepsea_ladder.rating import GameOutcome, RatingParameters

PARAMETERS = RatingParameters()


def normal(chance: RandomStream) -> float:
    """A standard normal number."""
    return quantile(0.0001 + 0.9998 * chance.unit())


def made_ladder(
    parameters: RatingParameters, games: int, seed: str, players: int = 3
) -> list[GameOutcome]:
    """Games that came about as the parameters say: ten bots, skills and performances drawn."""
    chance = RandomStream(seed.encode(), "ladder")
    skills = [parameters.sigma * normal(chance) for _ in range(10)]
    played = []
    for number in range(1, games + 1):
        bots = chance.shuffled(range(10))[:players]
        shown = {bot: skills[bot] + parameters.beta * normal(chance) for bot in bots}
        # Who is within the margin of the next better one shares its place.
        placements: dict[int, int] = {}
        ordered = sorted(bots, key=lambda bot: -shown[bot])
        for place, bot in enumerate(ordered, 1):
            placements[bot] = place
            if place > 1 and shown[ordered[place - 2]] - shown[bot] < parameters.draw_margin:
                placements[bot] = placements[ordered[place - 2]]
        played.append(GameOutcome(number, tuple(bots), tuple(placements[bot] for bot in bots)))
    return played


def test_of_the_first_game_nothing_is_known() -> None:
    parameters = RatingParameters(draw_probability=0.001)
    game = GameOutcome(1, (1, 2), (1, 2))
    assert pair_loss(parameters, [[game]]) == pytest.approx(math.log(2.0), abs=0.01)
    assert calibrate(parameters, [[game]]).placement_loss == pytest.approx(math.log(2.0), abs=0.01)


def test_what_was_predicted_costs_less_the_more_often_it_happens() -> None:
    games = [GameOutcome(number, (1, 2), (1, 2)) for number in range(1, 30)]
    losses = [pair_loss(PARAMETERS, [games[:count]]) for count in (1, 5, 15, 29)]
    assert losses == sorted(losses, reverse=True)


def test_ladders_do_not_know_of_each_other() -> None:
    games = [GameOutcome(number, (1, 2), (1, 2)) for number in range(1, 10)]
    assert pair_loss(PARAMETERS, [games, games]) == pytest.approx(pair_loss(PARAMETERS, [games]))


def test_both_measures_agree() -> None:
    ladder = made_ladder(PARAMETERS, 40, "agree")
    report = calibrate(PARAMETERS, [ladder])
    assert report.pair_loss == pytest.approx(pair_loss(PARAMETERS, [ladder]))
    assert report.games == 40
    assert report.pairs == 120
    assert sum(bin_.forecasts for bin_ in report.bins) == report.pairs


def test_the_parameters_that_made_the_games_are_calibrated() -> None:
    ladders = [made_ladder(PARAMETERS, 150, str(seed)) for seed in range(3)]
    report = calibrate(PARAMETERS, ladders, bins=4)
    for bin_ in report.bins:
        assert bin_.happened == pytest.approx(bin_.predicted, abs=4.0 * 0.5 / bin_.forecasts**0.5)
    assert report.pair_loss < pair_loss(PACKAGE_DEFAULTS, ladders)


@pytest.mark.release  # when the parameters may change
def test_the_fit_finds_back_to_the_parameters_that_made_the_games() -> None:
    truth = RatingParameters(beta=12.0, tau=0.001, draw_probability=0.2)
    ladders = [made_ladder(truth, 200, str(seed), players=2) for seed in range(2)]
    found = fit(ladders, PACKAGE_DEFAULTS, smallest_step=0.2)
    assert found.mu == PACKAGE_DEFAULTS.mu
    assert found.sigma == PACKAGE_DEFAULTS.sigma
    assert 7.0 < found.beta < 20.0
    assert 0.12 < found.draw_probability < 0.3
    assert pair_loss(found, ladders) <= pair_loss(truth, ladders) + 0.002


def test_no_games_say_nothing() -> None:
    assert pair_loss(PARAMETERS, []) == 0.0
    assert calibrate(PARAMETERS, [[]]).bins == ()
