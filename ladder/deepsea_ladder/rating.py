"""TrueSkill ratings as a fold over games. The only module that uses the package `trueskill`.

Invariants: games are applied in sequence order, with the same bits on every run, system and Python
version, since the only arithmetic is that of `gaussian.py`; shared placements are draws; the
placements already rank forfeits last; messages, their order and the stopping rule are those of the
package, for games where every player is a team of its own. `rate` is ten times faster than the
package, which remains the reference: `audit` compares both folds.

Each player's performance is a normal variable; for each two neighbours in the order of placement
the game says that one was better by a margin, or that they were within the margin. Messages about
these differences go down and up the row of players until they no longer change.

A bot's sums over its games, and their update by one more game.

Invariants: pure; the store uses it when a result comes in and when it recomputes everything, so
both give the same numbers, to the bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import isfinite, sqrt
from typing import Any, NamedTuple

from msgspec import Struct

from deepsea_ladder import gaussian
from deepsea_ladder.errors import RatingError
from deepsea_ladder.gaussian import above, within
from deepsea_rules.faults import FATAL
from deepsea_rules.game import GameRecord

METHOD = "deepsea-trueskill/1"
"""The name of the arithmetic. It changes when the same games would give other bits than before."""
LOWEST_DRAW_PROBABILITY = 0.001
"""With a smaller one a draw would be so unlikely that its update makes no sense."""
ROUNDS = 10
"""The most rounds of messages down and up, as in the package."""
CLOSE = 0.0001
"""A message that changes less than this has converged, as in the package."""
_CLOSE_PRECISION = CLOSE * CLOSE
TOLERANCE = 1e-6
"""The largest difference from the package that rounding explains, in points of mu and sigma."""


class Rating(NamedTuple):
    """The estimate of a bot's skill: a normal distribution."""

    mu: float
    sigma: float

    @property
    def conservative(self) -> float:
        """The sort key of standings: the skill is above it with a probability of 99.9 %."""
        return self.mu - 3.0 * self.sigma

    @property
    def margin(self) -> float:
        """Half of the interval in which the skill lies with a probability of 95 %."""
        return 2.0 * self.sigma

    @property
    def low(self) -> float:
        """The lower end of this interval."""
        return self.mu - self.margin

    @property
    def high(self) -> float:
        """Its upper end."""
        return self.mu + self.margin

    def to_hex(self) -> tuple[str, str]:
        """Both numbers without loss, as text."""
        return self.mu.hex(), self.sigma.hex()

    @classmethod
    def from_hex(cls, mu: str, sigma: str) -> Rating:
        """Read back what `to_hex` gave."""
        return cls(float.fromhex(mu), float.fromhex(sigma))


class RatingParameters(Struct, frozen=True, forbid_unknown_fields=True):
    """A season's parameters of TrueSkill. Only ratios matter; docs/rating.md has their origin."""

    mu: float = 25.0
    """A new bot's mean. Three times sigma, so that a new bot's conservative rating is 0."""
    sigma: float = 25.0 / 3.0
    """A new bot's uncertainty: how far bots' skills lie apart."""
    beta: float = 12.0
    """The deviation of a performance in one game from the skill: the luck in the game."""
    tau: float = 25.0 / 3000.0
    """The drift of a skill from game to game."""
    draw_probability: float = 0.13
    """The share of games in which two equal bots share a placement."""

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


class GameOutcome(NamedTuple):
    """A game as the ratings need it; players and placements by seat."""

    sequence: int
    players: tuple[int, ...]
    placements: tuple[int, ...]


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
        if len(set(game.players)) != len(game.players):
            raise RatingError(f"game {game.sequence} has one bot in two seats and cannot be rated")
        before = [self.rating(player) for player in game.players]
        after = rate(self.parameters, before, game.placements)
        self.ratings.update(zip(game.players, after, strict=True))
        self.sequence = game.sequence
        return after


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
    """The seats, the winner first, those that share a placement in their order.

    Raises `RatingError` for what are no ratings or no placements.
    """
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


def updated(
    skills: Sequence[tuple[float, float]],
    ties: Sequence[bool],
    beta_squared: float,
    tau_squared: float,
    margin: float,
) -> list[tuple[float, float]]:
    """The skills after a game.

    skills        (mu, sigma) of each player, the winner first
    ties          for each two neighbours whether they share a placement; one fewer than skills
    beta_squared  variance of a performance around the skill
    tau_squared   variance that a skill gains between games
    margin        performances closer than this are a draw; above 0
    """
    own_p, own_q = [], []
    for mu, sigma in skills:
        precision = 1.0 / (sigma * sigma + tau_squared + beta_squared)
        own_p.append(precision)
        own_q.append(precision * mu)
    seen_p, seen_q = _settle(own_p, own_q, ties, margin)
    after = []
    for (mu, sigma), p, q in zip(skills, seen_p, seen_q, strict=True):
        share = 1.0 / (1.0 + beta_squared * p)
        before = 1.0 / (sigma * sigma + tau_squared)
        precision = before + share * p
        after.append(((before * mu + share * q) / precision, sqrt(1.0 / precision)))
    return after


def _settle(
    own_p: Sequence[float], own_q: Sequence[float], ties: Sequence[bool], margin: float
) -> tuple[list[float], list[float]]:
    """Pass messages along the row of players; returns what the game says about each performance.

    Normal distributions are precision p = 1 / variance and q = p * mean, in which information
    adds up.

    own_p, own_q    what is known of each performance without the game, the winner first
    ties, margin    as in `updated`
    """
    players = len(own_p)
    # What the game says about the difference of each two neighbours:
    game_p, game_q = [0.0] * (players - 1), [0.0] * (players - 1)
    # Message into performance i from the game to its left and right:
    left_p, left_q = [0.0] * players, [0.0] * players
    right_p, right_q = [0.0] * players, [0.0] * players

    def update_difference(i: int) -> float:
        """Update the message of the game between players i and i + 1; returns its change."""
        better_p = own_p[i] + left_p[i]
        better_q = own_q[i] + left_q[i]
        worse_p = own_p[i + 1] + right_p[i + 1]
        worse_q = own_q[i + 1] + right_q[i + 1]
        mean = better_q / better_p - worse_q / worse_p
        root = sqrt(1.0 / (1.0 / better_p + 1.0 / worse_p))
        x = mean * root
        shift, rest = within(x, margin * root) if ties[i] else above(x - margin * root)
        precision = root * root
        new_p = precision * (1.0 - rest) / rest
        new_q = (mean * precision * (1.0 - rest) + root * shift) / rest
        change_p, change_q = abs(new_p - game_p[i]), abs(new_q - game_q[i])
        game_p[i], game_q[i] = new_p, new_q
        return change_q if change_p <= _CLOSE_PRECISION else max(change_q, sqrt(change_p))

    def pass_down(i: int) -> None:
        """Player i + 1 is player i less the difference."""
        p, q = own_p[i] + left_p[i], own_q[i] + left_q[i]
        share = p / (p + game_p[i])
        left_p[i + 1] = share * game_p[i]
        left_q[i + 1] = share * (game_p[i] * (q / p) - game_q[i])

    def pass_up(i: int) -> None:
        """Player i is player i + 1 plus the difference."""
        p, q = own_p[i + 1] + right_p[i + 1], own_q[i + 1] + right_q[i + 1]
        share = p / (p + game_p[i])
        right_p[i] = share * game_p[i]
        right_q[i] = share * (game_p[i] * (q / p) + game_q[i])

    last = players - 2
    for _ in range(ROUNDS):
        change = 0.0
        if last == 0:
            change = update_difference(0)
        for i in range(last):
            change = max(change, update_difference(i))
            pass_down(i)
        for i in range(last, 0, -1):
            change = max(change, update_difference(i))
            pass_up(i)
        if change <= CLOSE:
            break
    pass_up(0)
    pass_down(last)
    for i in range(players):
        left_p[i] += right_p[i]
        left_q[i] += right_q[i]
    return left_p, left_q


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


class SeatResult(NamedTuple):
    version_id: int
    points: int
    placement: int
    decisions: int
    faults: int
    forfeit: str | None
    """The fault that forfeited the seat."""

    @property
    def absent(self) -> bool:
        """True if it forfeited by a fault that ends its stream, such as a crash."""
        return self.forfeit in FATAL


@dataclass(frozen=True, slots=True)
class RatingTotals:
    """A bot version's rating in a season, and the sums over its games."""

    rating: Rating
    games: int = 0
    wins: int = 0
    """First places, shared ones too."""
    placements: int = 0
    points: int = 0
    decisions: int = 0
    faults: int = 0
    forfeits: int = 0
    last_seq: int = 0
    last_at: int = 0
    """In milliseconds since 1970, by the database's clock."""

    def plus(self, seat: SeatResult, rating: Rating, seq: int, at: int) -> RatingTotals:
        """The totals after one more game."""
        return RatingTotals(
            rating=rating,
            games=self.games + 1,
            wins=self.wins + (seat.placement == 1),
            placements=self.placements + seat.placement,
            points=self.points + seat.points,
            decisions=self.decisions + seat.decisions,
            faults=self.faults + seat.faults,
            forfeits=self.forfeits + (seat.forfeit is not None),
            last_seq=seq,
            last_at=at,
        )


def seat_results(record: GameRecord, lineup: Sequence[int]) -> list[SeatResult]:
    """The result of a game for each version of its line-up."""
    forfeits = {forfeit.seat: str(forfeit.fault) for forfeit in record.forfeits}
    decisions = Counter(decision.seat for decision in record.decisions)
    faults = Counter(one.seat for one in record.decisions if one.fault is not None)
    return [
        SeatResult(
            version,
            record.points[seat],
            record.placements[seat],
            decisions[seat],
            faults[seat],
            forfeits.get(seat),
        )
        for seat, version in enumerate(lineup)
    ]


def outcome_of(sequence: int, seats: Sequence[SeatResult]) -> GameOutcome:
    """A game as the ratings need it."""
    return GameOutcome(
        sequence,
        tuple(seat.version_id for seat in seats),
        tuple(seat.placement for seat in seats),
    )


def after_game(
    parameters: RatingParameters,
    before: Mapping[int, RatingTotals],
    seats: Sequence[SeatResult],
    seq: int,
    at: int,
) -> dict[int, RatingTotals]:
    """The totals of a game's versions after it; a version that is not in `before` is new."""
    game = outcome_of(seq, seats)
    known = {player: before[player] for player in game.players if player in before}
    fold = Fold(parameters, {player: tally.rating for player, tally in known.items()})
    ratings = fold.add(game)
    return {
        seat.version_id: known.get(seat.version_id, RatingTotals(parameters.newcomer)).plus(
            seat, rating, seq, at
        )
        for seat, rating in zip(seats, ratings, strict=True)
    }
