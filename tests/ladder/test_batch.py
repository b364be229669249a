"""The batch rating: against integrals, against TrueSkill, and in any order of the games."""

import math
from collections.abc import Sequence
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepsea_ladder.errors import RatingError
from deepsea_ladder.rating.batch import BatchRatings, Joint, Ties, add_ties, batch_ratings
from deepsea_ladder.rating.trueskill_fold import (
    Fold,
    GameOutcome,
    RatingParameters,
    rate,
    rate_by_package,
)
from deepsea_ladder.scheduling.random_stream import RandomStream

PARAMETERS = RatingParameters(tau=0.0)
Game = tuple[tuple[int, ...], tuple[int, ...]]
"""Players and placements by seat."""


def rated(
    games: Sequence[Game], parameters: RatingParameters = PARAMETERS, **how: float
) -> BatchRatings:
    outcomes = [GameOutcome(number, *game) for number, game in enumerate(games, 1)]
    return batch_ratings(parameters, outcomes, **how)  # type: ignore[arg-type]


def joint(batch: BatchRatings, parameters: RatingParameters = PARAMETERS) -> Joint:
    means = {player: rating.mu for player, rating in batch.ratings.items()}
    return Joint(means, batch.ties, parameters.sigma)


def a_season(bots: int, games: int, seats: int = 4) -> list[Game]:
    """Games with ties, made of chance; bots with greater numbers are better."""
    chance = RandomStream(b"batch", "games")
    found = []
    for _ in range(games):
        players = tuple(chance.shuffled(range(bots))[:seats])
        points = [player + chance.below(2 * bots) for player in players]
        placements = tuple(1 + len([1 for other in points if other > own]) for own in points)
        found.append((players, placements))
    return found


# A slow reference


def upto(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def chance_of(game: Game, skills: Sequence[float], parameters: RatingParameters) -> float:
    """The probability of a result of two or three players, by the trapezium rule over the
    performance of the second."""
    order = sorted(range(len(game[0])), key=game[1].__getitem__)
    shares = [game[1][a] == game[1][b] for a, b in pairwise(order)]
    margin = parameters.draw_margin / parameters.beta
    middle = skills[game[0][order[1]]]
    total = 0.0
    for z in (step / 4.0 for step in range(-20, 21)):
        found = math.exp(-0.5 * z * z)
        for seat, sign, share in zip((order[0], *order[2:]), (1.0, -1.0), shares, strict=False):
            ahead = sign * ((skills[game[0][seat]] - middle) / parameters.beta - z)
            worse = upto(-margin - ahead)
            found *= upto(margin - ahead) - worse if share else upto(ahead - margin)
        total += found
    return total


def integrated(
    games: Sequence[Game], count: int, parameters: RatingParameters
) -> tuple[list[float], list[list[float]]]:
    """Each player's mean skill, and the variances of all differences, on a grid of skills.

    Only differences matter to the games, so the last player's skill is 0 and the mean of all,
    which the games do not change, is put back.
    """
    sigma = parameters.sigma
    steps = [sigma * step / 2.0 for step in range(-14, 15)]
    weight, sums = 0.0, [0.0] * count
    products = [[0.0] * count for _ in range(count)]
    for free in product(steps, repeat=count - 1):
        skills = [*free, 0.0]
        mean = math.fsum(skills) / count
        skills = [skill - mean for skill in skills]
        here = math.exp(-0.5 * math.fsum(skill * skill for skill in skills) / (sigma * sigma))
        if here < 1e-12:
            continue
        for game in games:
            here *= chance_of(game, skills, parameters)
        weight += here
        for i in range(count):
            sums[i] += here * skills[i]
            for j in range(count):
                products[i][j] += here * (skills[i] - skills[j]) ** 2
    means = [value / weight for value in sums]
    return [parameters.mu + mean for mean in means], [
        [products[i][j] / weight - (means[i] - means[j]) ** 2 for j in range(count)]
        for i in range(count)
    ]


TWO: list[list[Game]] = [
    [((0, 1), (1, 2))],
    [((0, 1), (1, 1))],
    [((0, 1), (1, 2)), ((1, 0), (1, 2)), ((0, 1), (1, 1)), ((0, 1), (1, 2))],
]
THREE: list[list[Game]] = [
    [((0, 1, 2), (2, 1, 3))],
    [((0, 1, 2), (1, 1, 3))],
    [((0, 1, 2), (1, 1, 1))],
    [((0, 1, 2), (1, 2, 2)), ((2, 0, 1), (1, 2, 3)), ((0, 1), (1, 2))],
]


@pytest.mark.parametrize("games", [*TWO, *THREE])
def test_it_is_what_the_integral_over_all_skills_gives(games: list[Game]) -> None:
    """Exactly for one game of two; else a normal distribution is not quite the right one."""
    count = 1 + max(max(players) for players, _ in games)
    means, variances = integrated(games, count, PARAMETERS)
    batch = rated(games)
    together = joint(batch)
    exact = count == 2 and len(games) == 1
    for i in range(count):
        assert batch.ratings[i].mu == pytest.approx(means[i], abs=1e-5 if exact else 0.04)
        for j in range(i):
            (found,) = together.variances(i, [j])
            assert found == pytest.approx(variances[i][j], rel=1e-5 if exact else 0.005)


# Against TrueSkill


MORE_PLACEMENTS = [(1, 2), (1, 1, 3), (2, 4, 1, 2)]


@pytest.mark.parametrize(
    "placements",
    [
        *((1, 1), (3, 1, 2)),
        *(pytest.param(some, marks=pytest.mark.release) for some in MORE_PLACEMENTS),
    ],
)
def test_one_game_is_rated_as_by_trueskill(placements: tuple[int, ...]) -> None:
    """The package stops at messages that change by 0.0001; with two players there are no rounds."""
    players = tuple(range(len(placements)))
    batch = rated([(players, placements)])
    newcomers = [PARAMETERS.newcomer] * len(players)
    near = 1e-9 if len(players) == 2 else 5e-4
    for reference in (rate_by_package, rate):
        expected = reference(PARAMETERS, newcomers, placements)
        for player in players:
            assert tuple(batch.ratings[player]) == pytest.approx(expected[player], abs=near)


def test_a_season_is_rated_about_as_by_the_fold() -> None:
    games = a_season(8, 150)
    fold = Fold(PARAMETERS)
    for number, game in enumerate(games, 1):
        fold.add(GameOutcome(number, *game))
    batch = rated(games)
    for player, rating in fold.ratings.items():
        assert abs(batch.ratings[player].mu - rating.mu) < rating.sigma
        assert batch.ratings[player].sigma == pytest.approx(rating.sigma, rel=0.1)


# Order and sweeps


@given(st.permutations(range(40)))
@settings(max_examples=10)
def test_no_order_of_the_games_changes_anything(order: list[int]) -> None:
    games = a_season(6, 40)
    usual, moved = rated(games), rated([games[number] for number in order])
    assert (moved.ratings, moved.ties) == (usual.ratings, usual.ties)


@pytest.mark.parametrize("shift", [1, 7])
def test_the_order_in_which_games_are_taken_does_not_matter_either(shift: int) -> None:
    """Other numbers of the players are another order of the sweep."""
    games = a_season(6, 40)
    names = {player: (player * 5 + shift) % 7 for player in range(6)}
    moved = rated([(tuple(names[player] for player in who), how) for who, how in games])
    for player, rating in rated(games).ratings.items():
        assert tuple(moved.ratings[names[player]]) == pytest.approx(rating, abs=1e-6)


@pytest.mark.parametrize(("bots", "games", "seats"), [(2, 100, 2), (5, 60, 3), (12, 40, 4)])
def test_more_sweeps_change_nothing(bots: int, games: int, seats: int) -> None:
    season = a_season(bots, games, seats)
    usual, longer = rated(season), rated(season, settled=0.0, most_sweeps=60)
    assert usual.settled
    assert usual.sweeps < 20 < longer.sweeps
    for player, rating in usual.ratings.items():
        assert tuple(longer.ratings[player]) == pytest.approx(rating, abs=1e-6)


def test_too_few_sweeps_say_that_they_are_too_few() -> None:
    batch = rated(a_season(6, 40), most_sweeps=3)
    assert (batch.settled, batch.sweeps) == (False, 3)


def test_who_never_met_is_rated_apart() -> None:
    """Two ladders in one give what each gives alone, and as quickly."""
    games = a_season(5, 60, 3)
    others = [(tuple(player + 10 for player in players), how[::-1]) for players, how in games]
    both = rated([*games, *others])
    alone = (rated(games), rated(others))
    assert both.sweeps == max(batch.sweeps for batch in alone)
    for player, rating in both.ratings.items():
        assert tuple(rating) == pytest.approx(alone[player >= 10].ratings[player], abs=1e-6)
    assert math.fsum(both.ratings[player].mu - 25.0 for player in range(5)) == pytest.approx(0.0)
    together = joint(both)
    assert together.variances(0, [10])[0] > 2 * together.variances(0, [1])[0]


# What is no game, and what is extreme


def test_no_games_are_no_ratings() -> None:
    batch = rated([])
    assert (batch.ratings, batch.ties, batch.sweeps, batch.settled) == ({}, {}, 0, True)


@pytest.mark.parametrize(
    ("game", "complaint"),
    [
        (((1, 1), (1, 2)), "game 1 has one bot in two seats"),
        (((1, 2), (1, 3)), "no placements"),
        (((1, 2, 3), (1, 2)), "game 1: 2 placements and 3 players"),
        (((1,), (1,)), "1 placements and 1 players"),
    ],
)
def test_what_is_no_result_is_refused(game: Game, complaint: str) -> None:
    with pytest.raises(RatingError, match=complaint):
        rated([game])


@pytest.mark.parametrize(
    "parameters",
    [
        RatingParameters(beta=0.1),
        RatingParameters(beta=800.0),
        RatingParameters(draw_probability=0.001),
        RatingParameters(draw_probability=0.9),
        RatingParameters(mu=-1e6, sigma=1e6, beta=1e6, tau=0.0),
    ],
)
@pytest.mark.parametrize("games", [a_season(5, 30), a_season(2, 60, 2), [((0, 1), (1, 2))] * 60])
def test_extreme_parameters_give_ratings(parameters: RatingParameters, games: list[Game]) -> None:
    batch = rated(games, parameters)
    for rating in batch.ratings.values():
        assert math.isfinite(rating.mu)
        assert 0.0 < rating.sigma < parameters.sigma
    players = sorted(batch.ratings)
    assert all(0.0 <= joint(batch, parameters).stronger(players[0], p) <= 1.0 for p in players)


# The joint uncertainty


def test_two_bots_that_met_often_are_told_apart_better_than_each_alone() -> None:
    batch = rated(a_season(2, 100, 2))
    (together,) = joint(batch).variances(0, [1])
    alone = batch.ratings[0].sigma ** 2 + batch.ratings[1].sigma ** 2
    assert together < 0.6 * alone


def test_the_chances_of_being_stronger_add_up() -> None:
    batch = rated(a_season(5, 30))
    found = joint(batch)
    assert found.stronger(3, 3) == 0.5
    for one, other in ((0, 1), (4, 2)):
        assert found.stronger(one, other) == pytest.approx(1.0 - found.stronger(other, one))
    assert found.stronger(4, 0) > 0.95


def test_others_between_two_bots_tie_them_together() -> None:
    """Who never met is compared through those whom both met."""
    chain = [((0, 1), (1, 2)), ((1, 2), (1, 2))] * 20
    found = joint(rated(chain))
    apart = 2.0 * PARAMETERS.sigma**2
    assert found.variances(0, [1])[0] < found.variances(0, [2])[0] < apart


@pytest.mark.parametrize("precisions", [[0.3], [0.2, 0.0], [0.1, 2.0, 0.5, 0.01, 30.0]])
def test_ties_are_what_is_left_of_a_game_without_its_performances(precisions: list[float]) -> None:
    """What performances, known up to beta, say about skills: the identity less the inverse of their
    own precision, in units of beta²."""
    ties: Ties = {}
    players = [7, 3, 5, 1, 9, 2][: len(precisions) + 1]
    add_ties(ties, players, precisions, 4.0)
    count = len(players)
    own = [[float(i == j) for j in range(count)] for i in range(count)]
    for i, precision in enumerate(precisions):
        for row, column, sign in ((i, i, 1), (i + 1, i + 1, 1), (i, i + 1, -1), (i + 1, i, -1)):
            own[row][column] += sign * 4.0 * precision
    inverse = [[4.0 * ties.get((min(a, b), max(a, b)), 0.0) for b in players] for a in players]
    for i, line in enumerate(inverse):
        line[i] = 1.0 - math.fsum(line)
    for i, j in product(range(count), repeat=2):
        found = math.fsum(own[i][k] * inverse[k][j] for k in range(count))
        assert found == pytest.approx(float(i == j), abs=1e-12)
