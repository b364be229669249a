"""Ratings: what a game does to them, and the fold over many games, to the bit."""

import hashlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration import PACKAGE_DEFAULTS
from deepsea_ladder.errors import RatingError
from deepsea_ladder.rating.trueskill_fold import (
    METHOD,
    TOLERANCE,
    Fold,
    GameOutcome,
    Rating,
    RatingParameters,
    audit,
    rate,
    rate_by_package,
)
from deepsea_ladder.scheduling.random_stream import RandomStream

PARAMETERS = RatingParameters()
NEWCOMER = PARAMETERS.newcomer

GOLDEN = RatingParameters(mu=25.0, sigma=8.0, beta=12.0, tau=0.01, draw_probability=0.15)
GOLDEN_DIGEST = "fb0b7bccf00e2140936da78c22d06b56d350a35506bc1a79bda8cc16b4316fa1"
"""Of `season(400)` with these. Other bits than these need another METHOD."""


def season(count: int) -> list[GameOutcome]:
    """Games of twenty bots with 2 to 6 seats, with ties and gaps; made of chance."""
    chance = RandomStream(b"golden", "games")
    games = []
    sequence = 0
    for _ in range(count):
        sequence += 1 + chance.below(3)
        players = chance.shuffled(range(20))[: 2 + chance.below(5)]
        points = [player // 4 + chance.below(8) for player in players]
        placements = tuple(1 + len([1 for other in points if other > own]) for own in points)
        if chance.below(10):  # else it was void, and is none
            games.append(GameOutcome(sequence, tuple(players), placements))
    return games


def digest(fold: Fold) -> str:
    """SHA-256 over all ratings, to the last bit."""
    text = "".join(
        f"{player} {' '.join(fold.ratings[player].to_hex())}\n" for player in sorted(fold.ratings)
    )
    return hashlib.sha256(text.encode()).hexdigest()


def folded(games: list[GameOutcome], fold: Fold | None = None) -> Fold:
    fold = fold or Fold(PARAMETERS)
    for game in games:
        fold.add(game)
    return fold


ratings = st.builds(Rating, st.floats(0.0, 50.0), st.floats(0.5, 9.0))


# One game


def test_the_better_placed_gains_and_the_worse_placed_loses() -> None:
    first, second, third = rate(PARAMETERS, [NEWCOMER] * 3, [2, 1, 3])
    assert second.mu > first.mu > third.mu
    assert second.mu > NEWCOMER.mu > third.mu


@given(st.lists(ratings, min_size=2, max_size=6))
def test_a_game_makes_everybody_more_certain(players: list[Rating]) -> None:
    after = rate(PARAMETERS, players, range(1, len(players) + 1))
    for old, new in zip(players, after, strict=True):
        assert new.sigma**2 < old.sigma**2 + PARAMETERS.tau**2


def test_equals_that_share_a_placement_stay_equal() -> None:
    one, other = rate(PARAMETERS, [NEWCOMER, NEWCOMER], [1, 1])
    assert one == pytest.approx(other)
    assert one.mu == pytest.approx(NEWCOMER.mu)


def test_a_draw_moves_unequals_towards_each_other() -> None:
    strong, weak = rate(PARAMETERS, [Rating(35.0, 4.0), Rating(15.0, 4.0)], [1, 1])
    assert strong.mu < 35.0
    assert weak.mu > 15.0


@given(st.lists(ratings, min_size=6, max_size=6), st.permutations(range(6)), st.integers(2, 6))
def test_seats_do_not_matter(players: list[Rating], order: list[int], count: int) -> None:
    """Without ties, which are taken in the order of the seats."""
    order = [seat for seat in order if seat < count]
    usual = rate(PARAMETERS, players[:count], range(1, count + 1))
    moved = rate(PARAMETERS, [players[i] for i in order], [i + 1 for i in order])
    assert [usual[i] for i in order] == moved


@pytest.mark.parametrize(
    ("placements", "complaint"),
    [
        ([1], "no game of two or more"),
        ([1, 2], "no game of two or more"),
        ([0, 1, 2], "no placements"),
        ([1, 1, 2], "no placements"),
        ([2, 3, 4], "no placements"),
        ([1, 2, 4], "no placements"),
        ([1, 2, 2, 3], "no game of two or more"),
    ],
)
def test_what_is_no_result_is_refused(placements: list[int], complaint: str) -> None:
    with pytest.raises(RatingError, match=complaint):
        rate(PARAMETERS, [NEWCOMER] * 3, placements)


@pytest.mark.parametrize(
    "broken", [Rating(math.nan, 1.0), Rating(math.inf, 1.0), Rating(0.0, 0.0), Rating(0.0, -1.0)]
)
def test_what_is_no_rating_is_refused(broken: Rating) -> None:
    with pytest.raises(RatingError, match="is no rating"):
        rate(PARAMETERS, [broken, NEWCOMER], [1, 2])


@pytest.mark.parametrize("parameters", [PARAMETERS, PACKAGE_DEFAULTS])
@given(players=st.lists(ratings, min_size=2, max_size=6), shared=st.integers(1, 3))
def test_the_package_agrees(
    parameters: RatingParameters, players: list[Rating], shared: int
) -> None:
    placements = [1] * shared + list(range(shared + 1, 7))
    placements = placements[: len(players)]
    theirs = rate_by_package(parameters, players, placements)
    for a, b in zip(rate(parameters, players, placements), theirs, strict=True):
        assert tuple(a) == pytest.approx(tuple(b), rel=0, abs=TOLERANCE)


def test_an_audit_folds_both_ways() -> None:
    found = audit(GOLDEN, season(100))
    assert found.games == len(season(100))
    assert 0 < found.difference < TOLERANCE / 1000


# Parameters


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mu", math.nan), ("mu", 2e6),
        ("sigma", 0.0), ("sigma", -1.0), ("sigma", math.inf), ("sigma", math.nan),
        ("beta", 0.0), ("beta", 1e9), ("beta", math.nan),
        ("tau", -0.1), ("tau", 9.0), ("tau", math.nan),
        ("draw_probability", 0.0), ("draw_probability", 1.0), ("draw_probability", math.nan),
    ],
)  # fmt: skip
def test_parameters_that_make_no_sense_are_refused_by_name(key: str, value: float) -> None:
    with pytest.raises(RatingError, match=f"rating.{key} must lie"):
        RatingParameters(**{key: value})


def test_a_newcomers_conservative_rating_is_zero() -> None:
    assert NEWCOMER.conservative == pytest.approx(0.0)


# The fold


def test_the_fold_gives_the_same_bits_everywhere() -> None:
    assert METHOD == "deepsea-trueskill/1"
    assert digest(folded(season(400), Fold(GOLDEN))) == GOLDEN_DIGEST


def test_folding_on_from_stored_ratings_gives_the_same_bits() -> None:
    games = season(60)
    half = folded(games[:30])
    stored = {player: rating.to_hex() for player, rating in half.ratings.items()}
    read = {player: Rating.from_hex(*texts) for player, texts in stored.items()}
    assert folded(games[30:], Fold(PARAMETERS, read)).ratings == folded(games).ratings


@given(ratings)
def test_hex_loses_nothing(rating: Rating) -> None:
    assert Rating.from_hex(*rating.to_hex()) == rating


def test_gaps_in_the_numbers_are_no_matter() -> None:
    near = folded([GameOutcome(1, (1, 2), (1, 2)), GameOutcome(2, (2, 3), (1, 2))])
    far = folded([GameOutcome(7, (1, 2), (1, 2)), GameOutcome(99, (2, 3), (1, 2))])
    assert near.ratings == far.ratings


@pytest.mark.parametrize(
    ("game", "complaint"),
    [
        (GameOutcome(5, (1, 2), (1, 2)), "game 5 comes after game 5"),
        (GameOutcome(4, (1, 2), (1, 2)), "game 4 comes after game 5"),
        (GameOutcome(6, (1, 1), (1, 2)), "game 6 has one bot in two seats"),
        (GameOutcome(6, (1, 2), (1, 3)), "no placements"),
    ],
)
def test_a_refused_game_changes_nothing(game: GameOutcome, complaint: str) -> None:
    fold = Fold(PARAMETERS)
    fold.add(GameOutcome(5, (1, 2), (1, 2)))
    before = (fold.ratings.copy(), fold.sequence)
    with pytest.raises(RatingError, match=complaint):
        fold.add(game)
    assert (fold.ratings, fold.sequence) == before


def test_equal_bots_end_up_within_each_others_intervals() -> None:
    """The same skill under two names, among others."""
    fold = folded(season(400))
    for twin in range(0, 20, 4):
        one, other = fold.rating(twin), fold.rating(twin + 1)
        assert abs(one.mu - other.mu) < 2.0 * math.hypot(one.sigma, other.sigma)
