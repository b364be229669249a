"""Standings of a season, the certainty of their order, and documents of a bot's results.

Start reading at `standings` for the table and at `compare_neighbours` for the certainty.

Invariants: pure; ranks follow the conservative rating, and only games change it; faults are shown
beside the skill and do not change it; a bot without games has no rank. The certainty of an order is
computed by the same arithmetic as the ratings, so it has the same bits everywhere. Two neighbours
are apart if the upper one is more skilled with the requested confidence, and level if with that
confidence their difference is too small to matter; else their order is open. Without "level" a
ladder with equal bots would never settle.

However many games were played, standings need for each version one row of sums, which the
transaction that stores a game updates, and the ratings after its last `RECENT_GAMES`.
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
    """Return the key by which versions are sorted in the standings.

    The best conservative rating (mu - 3 sigma) comes first; equal ratings are sorted by name.
    Versions without games come last.
    """
    has_no_games = entry.tally.games == 0
    rating = entry.tally.rating.conservative
    return has_no_games, -rating, entry.version.bot, entry.version.number


def standings(
    entries: Iterable[RatedVersion],
    recent: Mapping[int, Sequence[float]] | None = None,
    *,
    pairing: PairingSettings | None = None,
) -> list[StandingLine]:
    """Return the lines of the standings, the best version first; equal ratings share a rank.

    recent   mu after each of a version's last games, the oldest first, by the version's id
    pairing  the settings that decide which versions are provisional; without them none is
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
            # A version with a large sigma may rank behind one that it is certainly ahead of.
            best, worst = min(best, rank), max(worst, rank)
        tally, version = entry.tally, entry.version
        rating = tally.rating
        recent_mu = (recent or {}).get(version.id, ())
        trend = None
        if len(recent_mu) > TREND_GAMES:
            trend = rating.mu - recent_mu[-1 - TREND_GAMES]
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
                trend=trend,
                recent=tuple(recent_mu[-RECENT_GAMES:]),
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


# ----- The certainty of the order

LEARNT = 0.5
"""The part of 1 / beta² that a game adds to the precision of each player's rating: measured 0.3
with two seats, 0.6 with four, 0.7 with six. An estimate for planning, never used to rate."""
CONFIDENCE = 0.95
"""The usual probability from which a verdict is certain."""
_CERTAIN_RATIO = quantile(CONFIDENCE) * quantile(CONFIDENCE)
"""A difference of skills is certain if its square is at least this many times its variance."""
_ROUNDING = 1.0 + 1e-9
"""Rounding changes no comparison of numbers that differ by more than this factor."""
TOLERANCE = 0.03
"""Bots are level if the probability that one places better is within this of one half."""


class Neighbours(NamedTuple):
    """Two adjacent bots of the standings, and the verdict on their order."""

    upper: int
    """The id of the upper bot's version."""
    lower: int
    """The id of the lower bot's version."""
    verdict: Literal["apart", "level", "open"]
    certainty: float
    """The probability of the verdict; for an open order, that the upper bot is more skilled."""
    games_left: int | None
    """Estimate of the games that each bot needs until the order is certain, if their mu stay; None
    if no number is enough."""
    least_left: int = 0
    """The same estimate if the bots prove to be one standard deviation further apart."""


def certainty(one: Rating, other: Rating) -> float:
    """Return the probability that the bot rated `one` is more skilled than the one rated `other`.

    The difference of two normal variables is normal, and their variances add up.
    """
    return cdf((one.mu - other.mu) / sqrt(one.sigma * one.sigma + other.sigma * other.sigma))


def compare_neighbours(
    parameters: RatingParameters,
    ratings: Mapping[int, Rating],
    confidence: float = CONFIDENCE,
) -> tuple[Neighbours, ...]:
    """Return the verdict on each two neighbours of the standings, the best first.

    Two bots are apart if the upper one is certainly more skilled, and level if their difference is
    certainly too small to matter; otherwise their order is open.

    ratings     by version id, without the bots that have no games
    confidence  the probability that counts as certain
    """
    if not 0.5 < confidence <= 0.9999:
        raise RatingError(f"a confidence lies above 0.5 and up to 0.9999, not {confidence}")
    level_limit = level_difference(parameters, TOLERANCE)
    ranked = sorted(ratings, key=lambda version: (-ratings[version].conservative, version))
    return tuple(
        _compare_pair(parameters, ratings, upper, lower, confidence, level_limit)
        for upper, lower in pairwise(ranked)
    )


def is_settled(neighbours: Iterable[Neighbours]) -> bool:
    """Return True if no two neighbours' order is open."""
    return all(pair.verdict != "open" for pair in neighbours)


def level_difference(parameters: RatingParameters, tolerance: float) -> float:
    """Return the difference of skill that changes the chance of placing better by `tolerance`."""
    return quantile(0.5 + tolerance) * sqrt(2.0) * parameters.beta


def _compare_pair(
    parameters: RatingParameters,
    ratings: Mapping[int, Rating],
    upper: int,
    lower: int,
    confidence: float,
    level_limit: float,
) -> Neighbours:
    """Return the verdict on two neighbours, and the games that they need until it is certain.

    level_limit  the largest difference of mu that is too small to matter
    """
    upper_rating, lower_rating = ratings[upper], ratings[lower]
    p_apart = certainty(upper_rating, lower_rating)
    if p_apart >= confidence:
        return Neighbours(upper, lower, "apart", p_apart, games_left=0)
    difference = upper_rating.mu - lower_rating.mu
    deviation = sqrt(
        upper_rating.sigma * upper_rating.sigma + lower_rating.sigma * lower_rating.sigma
    )
    # The probability that the true difference lies between -level_limit and level_limit.
    p_level = cdf((level_limit - difference) / deviation) - cdf(
        (-level_limit - difference) / deviation
    )
    if p_level >= confidence:
        return Neighbours(upper, lower, "level", p_level, games_left=0)

    # The deviation shrinks with more games. "Apart" is certain once the difference exceeds
    # one_sided deviations; "level" once two_sided deviations fit between the difference and the
    # limit. The verdict that permits the greater deviation comes first.
    one_sided, two_sided = quantile(confidence), quantile(0.5 + confidence / 2.0)
    distance = abs(difference)
    target = max(distance / one_sided, (level_limit - distance) / two_sided)
    optimistic_target = max(target, (distance + deviation) / one_sided)

    def games_until(target_deviation: float) -> float:
        # Half of the variance of the difference comes from each rating.
        variance = target_deviation * target_deviation / 2.0
        return max(
            _games_until(parameters, rating, variance) for rating in (upper_rating, lower_rating)
        )

    return Neighbours(
        upper,
        lower,
        "open",
        p_apart,
        games_left=_whole_games(games_until(target)),
        least_left=_whole_games(games_until(optimistic_target)) or 0,
    )


def _whole_games(games: float) -> int | None:
    """Return the next larger whole number of games; None if no number is enough."""
    return None if games == inf else int(games) + 1


def _games_until(parameters: RatingParameters, rating: Rating, variance: float) -> float:
    """Return about how many more games a bot needs until the variance of its rating is this small.

    Each game adds a fixed amount to the precision, which is 1 / variance. Return `inf` if no number
    of games is enough.
    """
    if variance <= 0.0:
        return inf
    precision_per_game = LEARNT / (parameters.beta * parameters.beta)  # as it was measured
    # At this variance the drift of the skill adds as much as a game removes: it is the smallest.
    smallest_variance = parameters.tau / sqrt(precision_per_game)
    if variance <= smallest_variance:
        return inf
    present_precision = 1.0 / (rating.sigma * rating.sigma)
    return max(0.0, (1.0 / variance - present_precision) / precision_per_game)


def ranges_of(ratings: Sequence[Rating]) -> list[tuple[int, int]]:
    """Return the best and the worst rank that each rating may have, in the order of `ratings`.

    The best rank counts only the ratings that are certainly higher, the worst rank all that are not
    certainly lower.
    """
    means = [rating.mu for rating in ratings]
    variances = [rating.sigma * rating.sigma for rating in ratings]
    # With the signs of all means changed, the higher ratings are the lower ones.
    certainly_higher = _count_certainly_below([-mean for mean in means], variances)
    certainly_lower = _count_certainly_below(means, variances)
    ranges = []
    for higher, lower in zip(certainly_higher, certainly_lower, strict=True):
        best = 1 + higher
        worst = max(best, len(ratings) - lower)
        ranges.append((best, worst))
    return ranges


def _count_certainly_below(means: Sequence[float], variances: Sequence[float]) -> list[int]:
    """Return for each normal variable how many of the others are certainly smaller.

    Comparing every pair would be slow: 10,000 ratings have 50 million pairs. So the variables are
    put in groups of about the same variance, each sorted by the mean. In a group two binary
    searches with its extreme variances leave only a few that have to be compared one by one.
    """
    by_variance = sorted(range(len(means)), key=lambda i: variances[i])
    size = max(1, 5 * isqrt(len(means)))  # about the fastest
    # Each group: (mean, variance) sorted, its means alone, its smallest and largest variance.
    groups = []
    for start in range(0, len(means), size):
        members = by_variance[start : start + size]
        group = sorted((means[i], variances[i]) for i in members)
        group_means = [mean for mean, _ in group]
        groups.append((group, group_means, variances[members[0]], variances[members[-1]]))
    counts = []
    for mean, variance in zip(means, variances, strict=True):
        below = 0
        for group, group_means, smallest, largest in groups:
            # All before `certain` are smaller even with the largest variance; none from `possible`
            # on is, even with the smallest. The factor keeps rounding from deciding.
            certain = bisect_right(
                group_means, mean - sqrt(_CERTAIN_RATIO * (variance + largest)) * _ROUNDING
            )
            possible = bisect_right(
                group_means,
                mean - sqrt(_CERTAIN_RATIO * (variance + smallest)) / _ROUNDING,
                certain,
            )
            below += certain
            for other_mean, other_variance in group[certain:possible]:
                distance = mean - other_mean
                below += distance * distance >= _CERTAIN_RATIO * (variance + other_variance)
        counts.append(below)
    return counts
