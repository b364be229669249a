"""TrueSkill ratings as a fold over games. The only module that uses the package `trueskill`.

Invariants: games are applied in sequence order, with the same bits on every run, system and
Python version; shared placements are draws; the placements already rank
forfeits last. `rate` is ten times faster than the package, which remains the reference: `audit`
compares both folds.
"""

from __future__ import annotations

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
"""The name of the arithmetic. It changes when the same games would give other bits than before."""

LOWEST_DRAW_PROBABILITY: Final = 0.001
"""With a smaller one a draw would be so unlikely that its update makes no sense."""


class Rating(NamedTuple):
    """The estimate of a bot's skill: a normal distribution."""

    mu: float
    sigma: float

    @property
    def conservative(self) -> float:
        """The sort key of standings: the skill is above it with a probability of 99.9 %."""
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
    """A season's parameters of TrueSkill. Only ratios matter; docs/rating.md has their origin."""

    mu: float = 25.0
    """A new bot's mean. Three times sigma, so that a new bot's conservative rating is 0."""
    sigma: float = 25.0 / 3.0
    """A new bot's uncertainty: how far bots' skills lie apart."""
    beta: float = 12.0
    """How far a performance in one game deviates from the skill: the luck in the game."""
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


@lru_cache(maxsize=256)
def _draw_margin(beta: float, draw_probability: float) -> float:
    return gaussian.quantile(0.5 * (draw_probability + 1.0)) * sqrt(2.0) * beta


def rate(
    parameters: RatingParameters, ratings: Sequence[Rating], placements: Sequence[int]
) -> list[Rating]:
    """The ratings after a game, by seat. Placements are by seat too: 1 is best, ties share one.

    Ties are processed in the order of the seats. Raises `RatingError` for invalid results.
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
    """Check ratings and placements; return the seats by placement."""
    if not 2 <= len(ratings) == len(placements):
        raise RatingError(
            f"{len(placements)} placements and {len(ratings)} ratings are no game of two or more"
        )
    for rating in ratings:
        if not (isfinite(rating.mu) and 0.0 < rating.sigma < 1e9):
            raise RatingError(f"mu {rating.mu!r} with sigma {rating.sigma!r} is no rating")
    return seats_by_placement(placements)


def seats_by_placement(placements: Sequence[int]) -> list[int]:
    """The seats, the winner first, those that share a placement in their order.

    Raises `RatingError` for what are no placements.
    """
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

    def check_players(self) -> None:
        """Raise `RatingError` if one bot has two seats."""
        if len(set(self.players)) != len(self.players):
            raise RatingError(f"game {self.sequence} has one bot in two seats and cannot be rated")


class Fold:
    """The ratings after the games so far."""

    def __init__(
        self,
        parameters: RatingParameters,
        ratings: Mapping[int, Rating] | None = None,
    ) -> None:
        self.parameters = parameters
        self.ratings = dict(ratings or {})
        """By player; a player without games has none yet."""
        self.sequence = 0
        """The number of the last game; the next one must be greater, with gaps or without."""

    def rating(self, player: int) -> Rating:
        """A player's rating now."""
        return self.ratings.get(player) or self.parameters.newcomer

    def add(self, game: GameOutcome) -> list[Rating]:
        """Apply the next game; returns its players' new ratings, by seat.

        Raises `RatingError`, changing nothing, if the game is out of order or invalid.
        """
        if game.sequence <= self.sequence:
            raise RatingError(
                f"game {game.sequence} comes after game {self.sequence}: ratings need the games "
                "in order"
            )
        game.check_players()
        before = [self.rating(player) for player in game.players]
        after = rate(self.parameters, before, game.placements)
        self.ratings.update(zip(game.players, after, strict=True))
        self.sequence = game.sequence
        return after


# The package, as reference


def rate_by_package(
    parameters: RatingParameters, ratings: Sequence[Rating], placements: Sequence[int]
) -> list[Rating]:
    """The result of `rate`, computed by the `trueskill` package with the same normal distribution.

    Equal except for rounding: the package takes powers from the C library. It raises
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


TOLERANCE: Final = 1e-6
"""The largest difference from the package that rounding explains, in points of mu and sigma."""


class Audit(NamedTuple):
    """A fold, compared with that of the package."""

    games: int
    difference: float
    """The largest difference of mu or sigma after any game."""
    sequence: int
    """The number of the game after which it was found; 0 if there is none."""


def audit(parameters: RatingParameters, games: Iterable[GameOutcome]) -> Audit:
    """Fold games both ways, each from its own ratings, and compare after each of them.

    Raises `RatingError` for a result that is too unlikely for the package.
    """
    ours, theirs = Fold(parameters), Fold(parameters)
    found = Audit(0, 0.0, 0)
    for game in games:
        after = ours.add(game)
        found = found._replace(games=found.games + 1)
        before = [theirs.rating(player) for player in game.players]
        try:
            package = rate_by_package(parameters, before, game.placements)
        except FloatingPointError:
            raise RatingError(f"game {game.sequence} is too unlikely for the package") from None
        theirs.ratings.update(zip(game.players, package, strict=True))
        for a, b in zip(after, package, strict=True):
            difference = max(abs(a.mu - b.mu), abs(a.sigma - b.sigma))
            if difference > found.difference:
                found = found._replace(difference=difference, sequence=game.sequence)
    return found
