"""TrueSkill ratings, computed game after game, and the totals of a bot over its games.

Start reading at `after_game`, which gives the totals after one more game. The store calls it when a
result comes in and when it computes everything again, so both give the same numbers to the bit.

Invariants: pure; games are applied in the order of their sequence numbers, with the same bits on
every run, system and Python version, since the only arithmetic is that of `gaussian.py`; shared
placements are draws; the placements already rank forfeits last; messages, their order and the
stopping rule are those of the package `trueskill`, for games where every player is a team of its
own. `rate` is ten times faster than the package, which remains the reference: `audit` compares
both. No other module uses the package.

Each player's performance is a normal variable; for each two neighbours in the order of placement
the game says that one was better by a margin, or that they were within the margin. Messages about
these differences go down and up the row of players until they no longer change.
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
from deepsea_ladder.gaussian import condition_above_zero, condition_near_zero
from deepsea_rules.faults import FATAL
from deepsea_rules.game import GameRecord

METHOD = "deepsea-trueskill/1"
"""The name of the arithmetic. It changes when the same games would give other bits than before."""
LOWEST_DRAW_PROBABILITY = 0.001
"""The smallest permitted draw probability: below it a draw's update of ratings makes no sense."""
ROUNDS = 10
"""The largest number of rounds of messages down and up, as in the package."""
CLOSE = 0.0001
"""A message that changes less than this has converged, as in the package."""
_CLOSE_PRECISION = CLOSE * CLOSE
"""The same for the square root of a precision's change, so that no root has to be taken."""
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
        """The upper end of this interval."""
        return self.mu + self.margin

    def to_hex(self) -> tuple[str, str]:
        """Return mu and sigma as hexadecimal texts, which lose no bit."""
        return self.mu.hex(), self.sigma.hex()

    @classmethod
    def from_hex(cls, mu: str, sigma: str) -> Rating:
        """Return the rating of the two texts that `to_hex` returned."""
        return cls(float.fromhex(mu), float.fromhex(sigma))


class RatingParameters(Struct, frozen=True, forbid_unknown_fields=True):
    """A season's parameters of TrueSkill; only their ratios matter (docs/rating.md)."""

    mu: float = 25.0
    """A new bot's mean: three times sigma, so that its conservative rating is 0."""
    sigma: float = 25.0 / 3.0
    """A new bot's uncertainty: the standard deviation of bots' skills."""
    beta: float = 12.0
    """The standard deviation of a performance around the skill: the luck in one game."""
    tau: float = 25.0 / 3000.0
    """The standard deviation of a skill's drift from game to game."""
    draw_probability: float = 0.13
    """The probability that two equal bots share a placement."""

    def __post_init__(self) -> None:
        """Raise `RatingError` for a parameter with which ratings make no sense."""
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
        """The rating of a bot before its first game."""
        return Rating(self.mu, self.sigma)

    @property
    def draw_margin(self) -> float:
        """The largest difference of two performances that share a placement."""
        return _draw_margin(self.beta, self.draw_probability)


@lru_cache(maxsize=256)  # since a quantile is slow and each season has one
def _draw_margin(beta: float, draw_probability: float) -> float:
    """Return the margin within which two equal players draw with this probability.

    The difference of their performances is normal, with a standard deviation of sqrt(2) * beta.
    """
    # Differences from -margin to margin have this probability, and half of the others are below
    # -margin. So margin is the quantile of p + (1 - p) / 2 = (p + 1) / 2.
    return gaussian.quantile(0.5 * (draw_probability + 1.0)) * sqrt(2.0) * beta


class GameOutcome(NamedTuple):
    """The players and placements of a game by seat, from which ratings are computed."""

    sequence: int
    players: tuple[int, ...]
    placements: tuple[int, ...]


class Fold:
    """The ratings of all players after the games that were added."""

    def __init__(
        self,
        parameters: RatingParameters,
        ratings: Mapping[int, Rating] | None = None,
    ) -> None:
        """Begin with the ratings of some players before the first game; by default with none."""
        self.parameters = parameters
        self.ratings = dict(ratings or {})
        """The rating by player; a player without games is missing."""
        self.sequence = 0
        """The number of the last game; the next game's must be greater, with gaps or without."""

    def rating(self, player: int) -> Rating:
        """Return a player's present rating, which is a newcomer's before the first game."""
        return self.ratings.get(player) or self.parameters.newcomer

    def add(self, game: GameOutcome) -> list[Rating]:
        """Apply the next game, and return its players' new ratings by seat.

        Raises `RatingError`, and changes nothing, if the game is out of order or invalid.
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
    """Return the ratings of a game's players after the game, by seat.

    ratings     their ratings before the game, by seat
    placements  their placements by seat; 1 is best, and tied seats share one
    Tied seats are processed in their order. Raises `RatingError` for invalid arguments.
    """
    seats = _seats_by_placement(ratings, placements)
    after = update_skills(
        [ratings[seat] for seat in seats],
        [placements[better] == placements[worse] for better, worse in pairwise(seats)],
        parameters.beta * parameters.beta,
        parameters.tau * parameters.tau,
        parameters.draw_margin,
    )
    result = list(ratings)
    for seat, (mu, sigma) in zip(seats, after, strict=True):
        result[seat] = Rating(mu, sigma)
    return result


def _seats_by_placement(ratings: Sequence[Rating], placements: Sequence[int]) -> list[int]:
    """Return the seats of a game by placement, the winner's first; tied seats by their number.

    Raises `RatingError` unless there are a valid rating and a valid placement for each seat.
    """
    if len(ratings) != len(placements) or len(placements) < 2:
        raise RatingError(
            f"{len(placements)} placements and {len(ratings)} ratings are no game of two or more"
        )
    for rating in ratings:
        if not (isfinite(rating.mu) and 0.0 < rating.sigma < 1e9):
            raise RatingError(f"mu {rating.mu!r} with sigma {rating.sigma!r} is no rating")
    seats = sorted(range(len(placements)), key=lambda seat: placements[seat])
    last_placement = 1
    for position, seat in enumerate(seats, 1):
        # Either the seat is tied with the one before it, or its placement is its position.
        if placements[seat] not in (last_placement, position):
            raise RatingError(f"{list(placements)} are no placements: 1 is best, ties share one")
        last_placement = placements[seat]
    return seats


def update_skills(
    skills: Sequence[tuple[float, float]],
    ties: Sequence[bool],
    beta_squared: float,
    tau_squared: float,
    margin: float,
) -> list[tuple[float, float]]:
    """Return (mu, sigma) of each player after a game, the winner first.

    A normal distribution is written as its precision p = 1 / variance and q = p * mean, since
    independent information adds up in these two numbers.

    skills        (mu, sigma) of each player, the winner first
    ties          for each two neighbours, True if they share a placement; one fewer than skills
    beta_squared  variance of a performance around the skill
    tau_squared   variance that a skill gains between games
    margin        the largest difference of performances that is a draw; above 0
    """
    # Each performance as it is expected from the skill alone.
    own_p, own_q = [], []
    for mu, sigma in skills:
        precision = 1.0 / (sigma * sigma + tau_squared + beta_squared)
        own_p.append(precision)
        own_q.append(precision * mu)
    game_p, game_q = _performance_messages(own_p, own_q, ties, margin)
    after = []
    for (mu, sigma), p, q in zip(skills, game_p, game_q, strict=True):
        # The game tells less of the skill than of the performance, which has luck in it: the
        # variance 1 / p grows by beta**2, so the precision is 1 / (1 / p + beta**2) = share * p.
        share = 1.0 / (1.0 + beta_squared * p)
        precision_before = 1.0 / (sigma * sigma + tau_squared)
        precision = precision_before + share * p
        after.append(((precision_before * mu + share * q) / precision, sqrt(1.0 / precision)))
    return after


def _performance_messages(
    own_p: Sequence[float], own_q: Sequence[float], ties: Sequence[bool], margin: float
) -> tuple[list[float], list[float]]:
    """Return what a game says about each player's performance, as two lists p and q.

    Messages are passed down and up the row of players, the winner first, until they hardly change
    (belief propagation). A normal distribution is its precision p = 1 / variance and q = p * mean,
    in which independent information adds up.

    own_p, own_q    the distribution of each performance without the game
    ties            for each two neighbours, True if they share a placement
    margin          the largest difference of performances that is a draw
    """
    players = len(own_p)
    # The game's message about the difference of the neighbours i and i + 1:
    game_p, game_q = [0.0] * (players - 1), [0.0] * (players - 1)
    # The messages into performance i about its neighbour to the left and to the right:
    left_p, left_q = [0.0] * players, [0.0] * players
    right_p, right_q = [0.0] * players, [0.0] * players

    def update_difference(i: int) -> float:
        """Update what the result of players i and i + 1 says about the difference of performances.

        i places better than i + 1, or as well. Return by how much the message changes. A normal
        distribution is written as its precision p = 1 / variance and q = p * mean.
        """
        better_p = own_p[i] + left_p[i]
        better_q = own_q[i] + left_q[i]
        worse_p = own_p[i + 1] + right_p[i + 1]
        worse_q = own_q[i + 1] + right_q[i + 1]
        # The difference before the result is known, and then measured in standard deviations.
        mean = better_q / better_p - worse_q / worse_p
        inverse_deviation = sqrt(1.0 / (1.0 / better_p + 1.0 / worse_p))
        scaled_mean = mean * inverse_deviation
        scaled_margin = margin * inverse_deviation
        if ties[i]:
            shift, variance = condition_near_zero(scaled_mean, scaled_margin)
        else:
            shift, variance = condition_above_zero(scaled_mean - scaled_margin)
        # The message is the distribution after the result, divided by the one before it: p and q
        # after the result, less those before. `variance` and `shift` are in scaled units, so the
        # precision after the result is precision / variance, and the mean has moved by
        # shift / inverse_deviation.
        precision = inverse_deviation * inverse_deviation
        new_p = precision * (1.0 - variance) / variance
        new_q = (mean * precision * (1.0 - variance) + inverse_deviation * shift) / variance
        change_p = abs(new_p - game_p[i])
        change_q = abs(new_q - game_q[i])
        game_p[i] = new_p
        game_q[i] = new_q
        if change_p <= _CLOSE_PRECISION:  # its root is small enough, and need not be taken
            return change_q
        return max(change_q, sqrt(change_p))

    def pass_down(i: int) -> None:
        """Update what is known about performance i + 1 from the players above it.

        It is performance i minus the difference of the two, as the result of the game tells it.
        Both are normal distributions, written as p = 1 / variance and q = p * mean.
        """
        p = own_p[i] + left_p[i]
        q = own_q[i] + left_q[i]
        # Variances add up: the new precision, 1 / (1 / p + 1 / game_p), is share * game_p.
        share = p / (p + game_p[i])
        left_p[i + 1] = share * game_p[i]
        left_q[i + 1] = share * (game_p[i] * (q / p) - game_q[i])

    def pass_up(i: int) -> None:
        """Update what is known about performance i from the players below it.

        It is performance i + 1 plus the difference of the two, as the result of the game tells it.
        Both are normal distributions, written as p = 1 / variance and q = p * mean.
        """
        p = own_p[i + 1] + right_p[i + 1]
        q = own_q[i + 1] + right_q[i + 1]
        # Variances add up: the new precision, 1 / (1 / p + 1 / game_p), is share * game_p.
        share = p / (p + game_p[i])
        right_p[i] = share * game_p[i]
        right_q[i] = share * (game_p[i] * (q / p) + game_q[i])

    last = players - 2  # the last difference; with two players the only one
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
    # The ends of the row get their messages last, since no other message depends on them.
    pass_up(0)
    pass_down(last)
    for i in range(players):
        left_p[i] += right_p[i]
        left_q[i] += right_q[i]
    return left_p, left_q


class Audit(NamedTuple):
    """A comparison of this module's ratings with those of the package `trueskill`."""

    games: int
    difference: float
    """The largest difference of mu or sigma after any game."""
    sequence: int
    """The number of the game after which it appeared; 0 if there is no difference."""


def audit(parameters: RatingParameters, games: Iterable[GameOutcome]) -> Audit:
    """Rate games by this module and by the package `trueskill`; return their largest difference.

    Each of the two continues with its own ratings after every game, so that differences would add
    up. Raises `RatingError` for a result that is too unlikely for the package.
    """
    own_ratings = Fold(parameters)
    package_ratings = Fold(parameters)
    game_count = 0
    largest_difference = 0.0
    sequence_of_largest = 0
    for game in games:
        game_count += 1
        own_after = own_ratings.add(game)
        package_before = [package_ratings.rating(player) for player in game.players]
        try:
            package_after = rate_by_package(parameters, package_before, game.placements)
        except FloatingPointError:
            raise RatingError(f"game {game.sequence} is too unlikely for the package") from None
        package_ratings.ratings.update(zip(game.players, package_after, strict=True))
        for own, other in zip(own_after, package_after, strict=True):
            difference = max(abs(own.mu - other.mu), abs(own.sigma - other.sigma))
            if difference > largest_difference:
                largest_difference = difference
                sequence_of_largest = game.sequence
    return Audit(game_count, largest_difference, sequence_of_largest)


def rate_by_package(
    parameters: RatingParameters, ratings: Sequence[Rating], placements: Sequence[int]
) -> list[Rating]:
    """Return the ratings after a game, by seat, as the package `trueskill` computes them.

    They differ from those of `rate` by rounding only, since the package takes powers from the C
    library; it uses the normal distribution of this project. Raises `FloatingPointError` for a
    result so unlikely that the package fails, and `RatingError` for invalid arguments.
    """
    import trueskill  # which is slow to import, and needed by audits alone

    _seats_by_placement(ratings, placements)  # raises for invalid arguments
    environment: Any = trueskill.TrueSkill(
        mu=parameters.mu,
        sigma=parameters.sigma,
        beta=parameters.beta,
        tau=parameters.tau,
        draw_probability=parameters.draw_probability,
        backend=(gaussian.cdf, gaussian.pdf, gaussian.quantile),
    )
    # The package rates teams: each player is a team of one.
    teams = [(trueskill.Rating(rating.mu, rating.sigma),) for rating in ratings]
    teams_after = environment.rate(teams, ranks=list(placements))
    return [Rating(float(player.mu), float(player.sigma)) for (player,) in teams_after]


class SeatResult(NamedTuple):
    """The result of a bot version in one seat of a game."""

    version_id: int
    points: int
    placement: int
    decisions: int
    faults: int
    forfeit: str | None
    """The fault that forfeited the seat; None if the seat was not forfeited."""

    @property
    def absent(self) -> bool:
        """True if the seat was forfeited by a fault that ends the bot's stream, such as a crash."""
        return self.forfeit in FATAL


@dataclass(frozen=True, slots=True)
class RatingTotals:
    """A bot version's rating in a season, and the sums over its games."""

    rating: Rating
    games: int = 0
    wins: int = 0
    """First places, shared ones too."""
    placements: int = 0
    """The sum of placements, for the mean."""
    points: int = 0
    decisions: int = 0
    faults: int = 0
    forfeits: int = 0
    last_seq: int = 0
    """The sequence number of the last game; 0 before the first."""
    last_at: int = 0
    """The end of the last game in milliseconds since 1970, by the database's clock."""

    def plus(self, seat: SeatResult, rating: Rating, seq: int, at: int) -> RatingTotals:
        """Return the totals after one more game.

        seat    the version's result in the game
        rating  its rating after the game
        seq     the game's sequence number
        at      the end of the game in milliseconds since 1970
        """
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
    """Return the result of each seat of a recorded game.

    lineup  the ids of the bot versions by seat
    """
    forfeits = {forfeit.seat: str(forfeit.fault) for forfeit in record.forfeits}
    decisions = Counter(decision.seat for decision in record.decisions)
    faults = Counter(decision.seat for decision in record.decisions if decision.fault is not None)
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
    """Return the outcome of a game from the results of its seats and its sequence number."""
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
    """Return the rating and the sums of each of a game's bot versions after it, by version id.

    before  the same before the game; a version that is missing plays its first game
    seats   the game's results by seat
    seq     the game's sequence number, which must be greater than that of any game before it
    at      the end of the game in milliseconds since 1970
    """
    game = outcome_of(seq, seats)
    newcomer = RatingTotals(parameters.newcomer)
    totals = {version: before.get(version, newcomer) for version in game.players}
    fold = Fold(parameters, {version: total.rating for version, total in totals.items()})
    ratings_after = fold.add(game)
    return {
        seat.version_id: totals[seat.version_id].plus(seat, rating, seq, at)
        for seat, rating in zip(seats, ratings_after, strict=True)
    }
