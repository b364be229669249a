"""The written-out message passing against the `trueskill` package."""

import math

import pytest
import trueskill
from hypothesis import given, settings
from hypothesis import strategies as st

from deepsea_ladder.rating import gaussian
from deepsea_ladder.rating.trueskill_fold import updated

skills = st.tuples(st.floats(0.0, 50.0), st.floats(0.3, 9.0))
betas = st.floats(2.0, 25.0)
taus = st.floats(0.0, 0.5)
draw_probabilities = st.floats(0.05, 0.5)


@st.composite
def games(draw: st.DrawFn) -> tuple[list[tuple[float, float]], list[bool]]:
    """Skills in the order of placement, and which neighbours share one."""
    players = draw(st.lists(skills, min_size=2, max_size=6))
    ties = draw(st.lists(st.booleans(), min_size=len(players) - 1, max_size=len(players) - 1))
    return players, ties


def margin_of(draw_probability: float, beta: float) -> float:
    return gaussian.quantile(0.5 * (draw_probability + 1.0)) * math.sqrt(2.0) * beta


def by_package(
    players: list[tuple[float, float]],
    ties: list[bool],
    beta: float,
    tau: float,
    draw_probability: float,
    *,
    own_normal: bool,
) -> list[tuple[float, float]]:
    backend = (gaussian.cdf, gaussian.pdf, gaussian.quantile) if own_normal else None
    environment = trueskill.TrueSkill(
        beta=beta, tau=tau, draw_probability=draw_probability, backend=backend
    )
    ranks = [0]
    for tie in ties:
        ranks.append(ranks[-1] + (not tie))
    groups = environment.rate([(trueskill.Rating(*skill),) for skill in players], ranks=ranks)
    return [(rating.mu, rating.sigma) for (rating,) in groups]


@given(games(), betas, taus, draw_probabilities)
@settings(max_examples=300)
def test_it_gives_what_the_package_gives(
    game: tuple[list[tuple[float, float]], list[bool]],
    beta: float,
    tau: float,
    draw_probability: float,
) -> None:
    players, ties = game
    ours = updated(players, ties, beta * beta, tau * tau, margin_of(draw_probability, beta))
    theirs = by_package(players, ties, beta, tau, draw_probability, own_normal=True)
    for own, other in zip(ours, theirs, strict=True):
        # 2e-8 was seen at a very unlikely tie (15 ± 1 with 0 ± 1), at any stopping bound: rounding.
        assert own == pytest.approx(other, abs=1e-7)


@given(games(), betas, draw_probabilities)
def test_the_packages_own_normal_distribution_changes_next_to_nothing(
    game: tuple[list[tuple[float, float]], list[bool]], beta: float, draw_probability: float
) -> None:
    """It is accurate to seven digits; ours to thirteen."""
    players, ties = game
    ours = updated(players, ties, beta * beta, 0.0, margin_of(draw_probability, beta))
    theirs = by_package(players, ties, beta, 0.0, draw_probability, own_normal=False)
    for own, other in zip(ours, theirs, strict=True):
        assert own == pytest.approx(other, abs=2e-3)


@pytest.mark.parametrize("tie", [False, True])
def test_results_that_the_package_cannot_rate(tie: bool) -> None:
    """The greatest upset there can be still moves both, and leaves sound numbers."""
    loser, winner = (5000.0, 1.0), (0.0, 1.0)
    (winner_mu, winner_sigma), (loser_mu, loser_sigma) = updated(
        [winner, loser], [tie], 16.0, 0.0, 1.0
    )
    assert winner_mu > 0.0
    assert loser_mu < 5000.0
    assert 0.0 < winner_sigma < 1.0
    assert 0.0 < loser_sigma < 1.0
    with pytest.raises(FloatingPointError):
        by_package([winner, loser], [tie], 4.0, 0.0, 0.1, own_normal=True)
