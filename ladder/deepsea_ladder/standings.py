"""Computes standings from plain rows.

Invariants: pure; ranks follow the conservative rating, and only games change it; faults
are shown beside the skill and do not change it; a bot without games has no rank.

However many games were played, standings read one row per bot: the sums over its games are kept
up in the transaction that stores a game.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, final

from deepsea_ladder.model.bots import BotState
from deepsea_ladder.rating.convergence import Variances, apart, rank_ranges
from deepsea_ladder.rating.totals import RatingTotals
from deepsea_ladder.values import Time, utc_time

RECENT_GAMES: Final = 30
"""How many of a bot's last games a line shows the rating of."""
TREND_GAMES: Final = 20
"""A trend is the change of mu over this many of the bot's own games."""


class StandingRow(NamedTuple):
    """A bot version as the store knows it."""

    bot: str
    author: str
    version: int
    tally: RatingTotals
    recent: Sequence[float] = ()
    """mu after the last of its games, the oldest first, up to now."""
    state: BotState = BotState.ACTIVE
    """The bot's."""
    is_current: bool = True
    provisional: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StandingLine:
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
    """Whether it is the bot's newest version."""
    provisional: bool
    """Whether it has played too few games for its rank to mean much."""
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


def alone(rows: Sequence[StandingRow]) -> Variances:
    """The uncertainty of ratings, each by itself."""
    return apart([row.tally.rating for row in rows])


def place(row: StandingRow) -> tuple[bool, float, str, int]:
    """The sort key of rows: the best first, newcomers last, by name."""
    return row.tally.games == 0, -row.tally.rating.conservative, row.bot, row.version


def standings(
    rows: Iterable[StandingRow],
    uncertainty: Callable[[Sequence[StandingRow]], Variances] = alone,
) -> list[StandingLine]:
    """The lines in the order of `place`; equal ratings share a rank.

    `uncertainty` gives, for rows with games, the variances for the range of their ranks.
    """
    ordered = sorted(rows, key=place)
    played = [row for row in ordered if row.tally.games]
    ranges = rank_ranges([row.tally.rating.mu for row in played], uncertainty(played))
    lines: list[StandingLine] = []
    for number, row in enumerate(ordered, 1):
        rank = None
        if row.tally.games:
            rank = number
            if lines and lines[-1].rating == row.tally.rating.conservative:
                rank = lines[-1].rank
        best, worst = ranges[number - 1] if rank else (None, None)
        if rank and best and worst:
            # A wide rating may be ranked behind those whom it is certainly ahead of.
            best, worst = min(best, rank), max(worst, rank)
        lines.append(_line(rank, best, worst, row))
    return lines


def _line(rank: int | None, best: int | None, worst: int | None, row: StandingRow) -> StandingLine:
    tally = row.tally
    mu, sigma = tally.rating
    return StandingLine(
        rank=rank,
        best_rank=best,
        worst_rank=worst,
        bot=row.bot,
        author=row.author,
        version=row.version,
        state=row.state,
        is_current=row.is_current,
        provisional=row.provisional,
        rating=tally.rating.conservative,
        mu=mu,
        low=mu - 2.0 * sigma,
        high=mu + 2.0 * sigma,
        games=tally.games,
        wins=tally.wins,
        mean_placement=_mean(tally.placements, tally.games),
        mean_points=_mean(tally.points, tally.games),
        fault_rate=_mean(tally.faults, tally.decisions),
        forfeits=tally.forfeits,
        trend=mu - row.recent[-1 - TREND_GAMES] if len(row.recent) > TREND_GAMES else None,
        recent=tuple(row.recent[-RECENT_GAMES:]),
        last_played_at=utc_time(tally.last_at) if tally.games else None,
    )


class HeadToHead(NamedTuple):
    """A bot's results against another, in the games that both played."""

    games: int = 0
    better: int = 0
    level: int = 0
    worse: int = 0

    @property
    def share(self) -> float:
        """The share of games in which it was better, level counting half."""
        return (self.better + 0.5 * self.level) / self.games

    @property
    def turned(self) -> HeadToHead:
        """The same meetings as the other bot sees them."""
        return HeadToHead(self.games, self.worse, self.level, self.better)

    def plus(self, more: HeadToHead) -> HeadToHead:
        """The sum of the meetings and others of the same two."""
        return HeadToHead(*(map(sum, zip(self, more, strict=True))))


@dataclass(frozen=True, slots=True)
class SeatLine:
    """A bot's results at tables of one size, from one seat or from all."""

    players: int
    seat: int | None
    """None for all seats together."""
    games: int
    wins: int
    mean_placement: float
    mean_points: float
    faults: int


def _mean(total: int, count: int) -> float | None:
    return total / count if count else None
