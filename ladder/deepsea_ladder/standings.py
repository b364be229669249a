"""Standings: their lines, how sure their order is, and results of bots against each other and by
seat.

Invariants: pure; ranks follow the conservative rating, and only games change it; faults are shown
beside the skill and do not change it; a bot without games has no rank. The certainty of an order is
made by the same arithmetic as the ratings, so the same bits everywhere. Two neighbours in the
standings are apart if the upper one is more skilled with the requested confidence, level if with
that confidence their difference is too small to matter; if any two are neither, the order is open.
Without "level" a ladder with equal bots would never settle.

However many games were played, standings need for each bot one row of sums, which the transaction
that stores a game updates, and the ratings after its last `RECENT_GAMES`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf, isqrt, sqrt
from typing import Literal, NamedTuple, final

from msgspec import Struct

from deepsea_ladder.errors import RatingError
from deepsea_ladder.gaussian import cdf, quantile
from deepsea_ladder.model import BotState, Int64, RatedVersion, Time, utc_time
from deepsea_ladder.rating import Rating, RatingParameters
from deepsea_ladder.season import PairingSettings

RECENT_GAMES = 30
"""The number of a bot's last games whose ratings a line shows."""
TREND_GAMES = 20
"""A trend is the change of mu over this many of the bot's own games."""


@final
class StandingLine(Struct, frozen=True, kw_only=True):
    """One bot version in the standings. What needs games is None before the first."""

    rank: int | None
    best_rank: int | None
    """Ranks that it may as well have: who is ahead or behind with less confidence than 95 % may be
    either."""
    worst_rank: int | None
    bot: str
    author: str
    version: int
    state: BotState
    is_current: bool
    """True if it is the bot's newest version."""
    provisional: bool
    """True if it has played too few games for its rank to mean much."""
    rating: float
    """mu - 3 sigma; it sets the rank."""
    mu: float
    low: float
    """mu - 2 sigma; the skill lies between this and `high` with a probability of 95 %."""
    high: float
    games: int
    wins: int
    """First places, shared ones too."""
    mean_placement: float | None
    mean_points: float | None
    fault_rate: float | None
    """Faults per decision."""
    forfeits: int
    trend: float | None
    """The change of mu over its last games; None if it has played too few."""
    recent: tuple[float, ...]
    """mu after each of its last games, the oldest first; at most `RECENT_GAMES`."""
    last_played_at: Time | None


def by_standing(entry: RatedVersion) -> tuple[bool, float, str, int]:
    """The sort key of versions: the best first, newcomers last, by name."""
    tally, version = entry.tally, entry.version
    return tally.games == 0, -tally.rating.conservative, version.bot, version.number


def standings(
    entries: Iterable[RatedVersion],
    recent: Mapping[int, Sequence[float]] | None = None,
    *,
    pairing: PairingSettings | None = None,
) -> list[StandingLine]:
    """The lines in the order of `by_standing`; equal ratings share a rank.

    recent   of each version, by its id, mu after the last of its games, the oldest first
    pairing  says which versions are provisional; without it none is
    """
    ordered = sorted(entries, key=by_standing)
    ranges = ranges_of([entry.tally.rating for entry in ordered if entry.tally.games])
    lines: list[StandingLine] = []
    for number, entry in enumerate(ordered, 1):
        rank = None
        if entry.tally.games:
            rank = number
            if lines and lines[-1].rating == entry.tally.rating.conservative:
                rank = lines[-1].rank
        best, worst = ranges[number - 1] if rank else (None, None)
        if rank and best and worst:
            # A wide rating may be ranked behind those whom it is certainly ahead of.
            best, worst = min(best, rank), max(worst, rank)
        tally, version = entry.tally, entry.version
        rating = tally.rating
        course = (recent or {}).get(version.id, ())
        lines.append(
            StandingLine(
                rank=rank,
                best_rank=best,
                worst_rank=worst,
                bot=version.bot,
                author=version.author,
                version=version.number,
                state=entry.state,
                is_current=entry.is_current,
                provisional=pairing is not None and pairing.lacking(tally.games) > 0,
                rating=rating.conservative,
                mu=rating.mu,
                low=rating.low,
                high=rating.high,
                games=tally.games,
                wins=tally.wins,
                mean_placement=_mean(tally.placements, tally.games),
                mean_points=_mean(tally.points, tally.games),
                fault_rate=_mean(tally.faults, tally.decisions),
                forfeits=tally.forfeits,
                trend=rating.mu - course[-1 - TREND_GAMES] if len(course) > TREND_GAMES else None,
                recent=tuple(course[-RECENT_GAMES:]),
                last_played_at=utc_time(tally.last_at) if tally.games else None,
            )
        )
    return lines


def _mean(total: int, count: int) -> float | None:
    return total / count if count else None


class CoursePoint(Struct, frozen=True, kw_only=True):
    """A rating after one game."""

    games: int
    """The number of games of the season that the version had played then."""
    seq: Int64
    """The game's place in the order in which games are rated."""
    rating: float
    """mu - 3 sigma."""
    mu: float
    sigma: float


class OpponentLine(Struct, frozen=True, kw_only=True):
    """A bot's results against another version, in the games that both played."""

    bot: str
    version: int
    games: int
    better: int
    level: int
    worse: int
    share: float
    """The share of games in which it was better, level counting half."""


class PairCell(Struct, frozen=True, kw_only=True):
    """The games at one table of the row's bot and the column's."""

    games: int
    share: float
    """The share in which the row's bot was placed before the column's, level counting half."""


class SeatLine(Struct, frozen=True):
    """A bot's results at tables of one size, from one seat or from all."""

    players: int
    seat: int | None
    """None for all seats together."""
    games: int
    wins: int
    mean_placement: float
    mean_points: float
    faults: int


# The order

LEARNT = 0.5
"""The part of 1 / beta² that a game adds to the precision of each player's rating: measured 0.3
with two seats, 0.6 with four, 0.7 with six. An estimate for planning, never used to rate."""
CONFIDENCE = 0.95
_NEEDED = quantile(CONFIDENCE) * quantile(CONFIDENCE)
"""A difference is certain if its square is at least so many times its variance."""
_ROUNDED = 1.0 + 1e-9
"""Rounding changes no comparison of numbers that differ by more than this factor."""
TOLERANCE = 0.03
"""Bots are level if the probability that one places better is within this of one half."""


class Neighbours(NamedTuple):
    """Two adjacent bots of the standings."""

    upper: int
    """The id of a version, as given."""
    lower: int
    verdict: Literal["apart", "level", "open"]
    certainty: float
    """The probability of the verdict; of an open one, that the upper is the more skilled."""
    games_left: int | None
    """Estimate of the games that each still needs, if mu stays; None if no number is enough."""
    least_left: int = 0
    """The same if they prove to be further apart by a standard deviation of their difference."""


def certainty(one: Rating, other: Rating) -> float:
    """The probability that `one` is more skilled than `other`."""
    return cdf((one.mu - other.mu) / sqrt(one.sigma * one.sigma + other.sigma * other.sigma))


def order(
    parameters: RatingParameters,
    ratings: Mapping[int, Rating],
    confidence: float = CONFIDENCE,
) -> tuple[Neighbours, ...]:
    """The verdicts on all neighbours of the standings; leave out bots without games."""
    if not 0.5 < confidence <= 0.9999:
        raise RatingError(f"a confidence lies above 0.5 and up to 0.9999, not {confidence}")
    level = level_difference(parameters, TOLERANCE)
    ranked = sorted(ratings, key=lambda bot: (-ratings[bot].conservative, bot))
    return tuple(
        _compare(parameters, ratings, upper, lower, confidence, level)
        for upper, lower in pairwise(ranked)
    )


def is_settled(neighbours: Iterable[Neighbours]) -> bool:
    """True if the order of no two is open."""
    return all(pair.verdict != "open" for pair in neighbours)


def level_difference(parameters: RatingParameters, tolerance: float) -> float:
    """The difference of skill that changes the chance of placing better by `tolerance`."""
    return quantile(0.5 + tolerance) * sqrt(2.0) * parameters.beta


def _compare(
    parameters: RatingParameters,
    ratings: Mapping[int, Rating],
    upper: int,
    lower: int,
    confidence: float,
    level: float,
) -> Neighbours:
    one, other = ratings[upper], ratings[lower]
    sure = certainty(one, other)
    if sure >= confidence:
        return Neighbours(upper, lower, "apart", sure, 0)
    difference = one.mu - other.mu
    spread = sqrt(one.sigma * one.sigma + other.sigma * other.sigma)
    same = cdf((level - difference) / spread) - cdf((-level - difference) / spread)
    if same >= confidence:
        return Neighbours(upper, lower, "level", same, 0)
    # Apart needs a spread that the difference exceeds, level one that fits between the limits;
    # whichever allows the greater spread comes first.
    one_sided, two_sided = quantile(confidence), quantile(0.5 + confidence / 2.0)
    away = abs(difference)
    wanted = max(away / one_sided, (level - away) / two_sided)
    left, least = (
        max(_games_until(parameters, rating, most * most / 2.0) for rating in (one, other))
        for most in (wanted, max(wanted, (away + spread) / one_sided))
    )
    return Neighbours(upper, lower, "open", sure, _whole(left), _whole(least) or 0)


def _whole(games: float) -> int | None:
    return None if games == inf else int(games) + 1


def _games_until(parameters: RatingParameters, rating: Rating, variance: float) -> float:
    """The number of games that reduces the variance of a rating to this."""
    if variance <= 0.0:
        return inf
    gain = LEARNT / (parameters.beta * parameters.beta)
    # At this variance the drift adds as much as a game removes; it cannot become smaller.
    least = parameters.tau / sqrt(gain)
    if variance <= least:
        return inf
    return max(0.0, (1.0 / variance - 1.0 / (rating.sigma * rating.sigma)) / gain)


def ranges_of(ratings: Sequence[Rating]) -> list[tuple[int, int]]:
    """The best and the worst rank of each, which is uncertain by itself."""
    squares = [rating.sigma * rating.sigma for rating in ratings]
    means = [rating.mu for rating in ratings]
    ahead = _certainly_below([-mean for mean in means], squares)
    behind = _certainly_below(means, squares)
    count = len(ratings)
    return [(1 + up, max(1 + up, count - down)) for up, down in zip(ahead, behind, strict=True)]


def _certainly_below(means: Sequence[float], squares: Sequence[float]) -> list[int]:
    """Of each, how many are certainly less than it.

    In groups of about the same uncertainty and in order, so that of hardly any pair one has to look
    at both: 10,000 ratings have 50 million pairs.
    """
    order = sorted(range(len(means)), key=lambda one: squares[one])
    size = max(1, 5 * isqrt(len(means)))
    groups = []
    for start in range(0, len(means), size):
        some = order[start : start + size]
        group = sorted((means[one], squares[one]) for one in some)
        groups.append((group, [mean for mean, _ in group], squares[some[0]], squares[some[-1]]))
    found = []
    for mean, own in zip(means, squares, strict=True):
        below = 0
        for group, theirs, least, most in groups:
            sure = bisect_right(theirs, mean - sqrt(_NEEDED * (own + most)) * _ROUNDED)
            maybe = bisect_right(theirs, mean - sqrt(_NEEDED * (own + least)) / _ROUNDED, sure)
            below += sure
            for other, square in group[sure:maybe]:
                distance = mean - other
                below += distance * distance >= _NEEDED * (own + square)
        found.append(below)
    return found
