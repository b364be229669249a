"""TrueSkill: what a game does to the ratings of its players. The one module that knows `trueskill`.

Invariants: ratings are a fold over games in sequence order, with the same bits on every run, system
and Python version; void games change nothing; shared placements are draws; who forfeited stands
last in the placements already. `rate` is ten times faster than the package, which remains the
judge: `rate_by_package` is what the tests and `audit` compare it with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import isfinite, sqrt
from typing import Any, Final, NamedTuple

from deepsea_ladder.errors import RatingError
from deepsea_ladder.rating import gaussian
from deepsea_ladder.rating.factor_graph import updated

METHOD: Final = "deepsea-trueskill/1"
"""Names the arithmetic. It changes when the same games would give other bits than before."""

LOWEST_DRAW_PROBABILITY: Final = 0.001
"""A smaller one would make any draw an event from which nothing sensible follows."""


class Rating(NamedTuple):
    """What is known of a bot's skill: a normal distribution."""

    mu: float
    sigma: float

    @property
    def conservative(self) -> float:
        """What standings sort by: the skill is above this with a probability of 99.9 %."""
        return self.mu - 3.0 * self.sigma

    def to_hex(self) -> tuple[str, str]:
        """Both numbers without loss, as text."""
        return self.mu.hex(), self.sigma.hex()

    @classmethod
    def from_hex(cls, mu: str, sigma: str) -> Rating:
        """Read back what `to_hex` gave."""
        return cls(float.fromhex(mu), float.fromhex(sigma))


@dataclass(frozen=True, slots=True)
class RatingParameters:
    """The environment of a season. Only ratios matter; docs/rating.md says where these are from."""

    mu: float = 25.0
    """A newcomer's mean. Three times sigma, so that a newcomer's conservative rating is 0."""
    sigma: float = 25.0 / 3.0
    """A newcomer's uncertainty: how far bots' skills lie apart."""
    beta: float = 12.0
    """How far a bot's performance in one game strays from its skill: the luck in the game."""
    tau: float = 25.0 / 3000.0
    """How far a skill may drift from game to game."""
    draw_probability: float = 0.13
    """How often two equal bots share a placement."""

    def __post_init__(self) -> None:
        if not abs(self.mu) <= 1e6:
            raise RatingError(f"rating.mu must lie within a million, not {self.mu}")
        if not 0.001 <= self.sigma <= 1e6:
            raise RatingError(
                f"rating.sigma must lie between 0.001 and a million, not {self.sigma}"
            )
        if not self.sigma / 100.0 <= self.beta <= self.sigma * 100.0:
            raise RatingError(
                f"rating.beta must lie between a hundredth and the hundredfold of sigma, "
                f"not {self.beta}"
            )
        if not 0.0 <= self.tau <= self.sigma:
            raise RatingError(f"rating.tau must lie between 0 and sigma, not {self.tau}")
        if not LOWEST_DRAW_PROBABILITY <= self.draw_probability <= 0.9:
            raise RatingError(
                f"rating.draw_probability must lie between {LOWEST_DRAW_PROBABILITY} and 0.9, "
                f"not {self.draw_probability}"
            )

    @property
    def newcomer(self) -> Rating:
        """The rating before the first game."""
        return Rating(self.mu, self.sigma)

    @property
    def draw_margin(self) -> float:
        """Performances closer than this share a placement."""
        return _draw_margin(self.beta, self.draw_probability)


PACKAGE_DEFAULTS: Final = RatingParameters(25.0, 25.0 / 3.0, 25.0 / 6.0, 25.0 / 300.0, 0.1)
"""The parameters that the `trueskill` package has when none are given."""


@lru_cache(maxsize=256)
def _draw_margin(beta: float, draw_probability: float) -> float:
    return gaussian.quantile(0.5 * (draw_probability + 1.0)) * sqrt(2.0) * beta


def rate(
    parameters: RatingParameters, ratings: Sequence[Rating], placements: Sequence[int]
) -> list[Rating]:
    """The ratings after a game, by seat. Placements are by seat too: 1 is best, ties share one.

    Ties are taken in the order of the seats. Raises `RatingError` for what is no result of a game.
    """
    order = _order(ratings, placements)
    after = updated(
        [ratings[seat] for seat in order],
        [placements[a] == placements[b] for a, b in pairwise(order)],
        parameters.beta * parameters.beta,
        parameters.tau * parameters.tau,
        parameters.draw_margin,
    )
    result = list(ratings)
    for seat, (mu, sigma) in zip(order, after, strict=True):
        result[seat] = Rating(mu, sigma)
    return result


def _order(ratings: Sequence[Rating], placements: Sequence[int]) -> list[int]:
    """The seats by placement, having looked whether all of it makes sense."""
    if not 2 <= len(ratings) == len(placements):
        raise RatingError(
            f"{len(placements)} placements and {len(ratings)} ratings are no game of two or more"
        )
    for rating in ratings:
        if not (isfinite(rating.mu) and 0.0 < rating.sigma < 1e9):
            raise RatingError(f"mu {rating.mu!r} with sigma {rating.sigma!r} is no rating")
    order = sorted(range(len(placements)), key=placements.__getitem__)
    rank = 1
    for place, seat in enumerate(order, 1):
        if placements[seat] != rank:
            rank = place
        if placements[seat] != rank:
            raise RatingError(f"{list(placements)} are no placements: 1 is best, ties share one")
    return order


class GameOutcome(NamedTuple):
    """A game as the ratings need it; players and placements by seat."""

    sequence: int
    players: tuple[int, ...]
    placements: tuple[int, ...]
    void: bool = False


class Fold:
    """Ratings as they follow from the games so far."""

    def __init__(
        self,
        parameters: RatingParameters,
        ratings: Mapping[int, Rating] | None = None,
        sequence: int = 0,
    ) -> None:
        self.parameters = parameters
        self.ratings = dict(ratings or {})
        """By player; who has not played has none yet."""
        self.sequence = sequence
        """The number of the last game; the next one's must be greater, but gaps are no matter."""

    def rating(self, player: int) -> Rating:
        """A player's rating now."""
        return self.ratings.get(player) or self.parameters.newcomer

    def add(self, game: GameOutcome) -> list[Rating]:
        """Take in the next game; returns its players' new ratings, by seat.

        Raises `RatingError`, changing nothing, if the game comes out of order or is none.
        """
        if game.sequence <= self.sequence:
            raise RatingError(
                f"game {game.sequence} comes after game {self.sequence}: ratings need the games "
                "in their order"
            )
        if len(set(game.players)) != len(game.players):
            raise RatingError(f"game {game.sequence} has one bot in two seats and cannot be rated")
        before = [self.rating(player) for player in game.players]
        after = before if game.void else rate(self.parameters, before, game.placements)
        if not game.void:
            self.ratings.update(zip(game.players, after, strict=True))
        self.sequence = game.sequence
        return after

    def add_all(self, games: Iterable[GameOutcome]) -> None:
        """Take in games in their order."""
        for game in games:
            self.add(game)

    def digest(self) -> str:
        """SHA-256 over all ratings, to the last bit; equal digests are equal ratings."""
        text = "".join(
            f"{player} {' '.join(self.ratings[player].to_hex())}\n"
            for player in sorted(self.ratings)
        )
        return hashlib.sha256(text.encode()).hexdigest()


# The package, as judge


def rate_by_package(
    parameters: RatingParameters, ratings: Sequence[Rating], placements: Sequence[int]
) -> list[Rating]:
    """What `rate` gives, computed by the `trueskill` package with the same normal distribution.

    Equal but for rounding: the package takes powers from the C library. It raises
    `FloatingPointError` for results so unlikely that its differences of large numbers fail.
    """
    import trueskill

    _order(ratings, placements)
    environment: Any = trueskill.TrueSkill(
        mu=parameters.mu,
        sigma=parameters.sigma,
        beta=parameters.beta,
        tau=parameters.tau,
        draw_probability=parameters.draw_probability,
        backend=(gaussian.cdf, gaussian.pdf, gaussian.quantile),
    )
    groups = [(trueskill.Rating(rating.mu, rating.sigma),) for rating in ratings]
    after = environment.rate(groups, ranks=list(placements))
    return [Rating(float(group[0].mu), float(group[0].sigma)) for group in after]


def audit(
    parameters: RatingParameters, ratings: Sequence[Rating], placements: Sequence[int]
) -> float:
    """How far `rate` and the package lie apart at most for one game; rounding is below 1e-6."""
    ours = rate(parameters, ratings, placements)
    theirs = rate_by_package(parameters, ratings, placements)
    return max(
        max(abs(a.mu - b.mu), abs(a.sigma - b.sigma)) for a, b in zip(ours, theirs, strict=True)
    )
