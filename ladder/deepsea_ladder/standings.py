"""Standings, and results of bots against each other and by seat.

Invariants: pure; ranks follow the conservative rating, and only games change it; faults
are shown beside the skill and do not change it; a bot without games has no rank.

However many games were played, standings need one row per bot: the sums over its games are kept
up in the transaction that stores a game.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import final

from msgspec import Struct

from deepsea_ladder.model.bots import BotState, RatedVersion
from deepsea_ladder.rating.convergence import ranges_of
from deepsea_ladder.season import PairingSettings
from deepsea_ladder.values import Time, utc_time

RECENT_GAMES = 30
"""How many of a bot's last games a line shows the rating of."""
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
