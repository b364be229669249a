"""Computes standings from plain rows.

Invariants: pure; ranks follow the conservative rating, and only games change it; faults
are shown beside the skill and do not change it; a bot without games has no rank.

However many games were played, standings read one row per bot: the sums over its games are kept
up in the transaction that stores a game. The details of one bot read that bot's games alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from deepsea_ladder.rating.totals import RatingTotals, SeatResult
from deepsea_ladder.rating.trueskill_fold import Rating

TREND_GAMES: Final = 20
"""A trend is the change of mu over this many of the bot's own games."""


class StandingRow(NamedTuple):
    """A bot version as the store knows it."""

    bot: str
    author: str
    version: int
    tally: RatingTotals
    earlier: Rating | None = None
    """Its rating `TREND_GAMES` of its games ago, if it has played so many."""


class Standing(NamedTuple):
    """A line of the standings. What needs games is None before the first."""

    rank: int | None
    bot: str
    author: str
    version: int
    rating: float
    """mu - 3 sigma."""
    mu: float
    low: float
    """mu - 2 sigma; the skill lies between this and `high` with a probability of 95 %."""
    high: float
    games: int
    wins: int
    mean_placement: float | None
    mean_points: float | None
    fault_rate: float | None
    """Faults per decision."""
    forfeits: int
    trend: float | None
    last_played: int | None
    """In milliseconds since 1970."""


def standings(rows: Iterable[StandingRow]) -> list[Standing]:
    """The best first; equal ratings share a rank; newcomers last, by name."""
    ordered = sorted(
        rows,
        key=lambda row: (
            row.tally.games == 0,
            -row.tally.rating.conservative,
            row.bot,
            row.version,
        ),
    )
    lines: list[Standing] = []
    for place, row in enumerate(ordered, 1):
        rank = None
        if row.tally.games:
            rank = place
            if lines and lines[-1].rating == row.tally.rating.conservative:
                rank = lines[-1].rank
        lines.append(_standing(rank, row))
    return lines


def _standing(rank: int | None, row: StandingRow) -> Standing:
    tally = row.tally
    mu, sigma = tally.rating
    return Standing(
        rank=rank,
        bot=row.bot,
        author=row.author,
        version=row.version,
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
        trend=None if row.earlier is None else mu - row.earlier.mu,
        last_played=tally.last_at if tally.games else None,
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


def head_to_head(version: int, games: Iterable[Sequence[SeatResult]]) -> dict[int, HeadToHead]:
    """A version's record against every other version, by the other's id."""
    found: dict[int, HeadToHead] = {}
    for seats in games:
        for own in seats:
            if own.version_id != version:
                continue
            for other in seats:
                if other.version_id == version:
                    continue
                before = found.get(other.version_id, HeadToHead())
                found[other.version_id] = HeadToHead(
                    before.games + 1,
                    before.better + (own.placement < other.placement),
                    before.level + (own.placement == other.placement),
                    before.worse + (own.placement > other.placement),
                )
    return dict(sorted(found.items()))


class SeatLine(NamedTuple):
    """A bot's results at tables of one size, from one seat or from all."""

    players: int
    seat: int | None
    """None for all seats together."""
    games: int
    wins: int
    mean_placement: float
    mean_points: float
    faults: int


def by_seat(version: int, games: Iterable[Sequence[SeatResult]]) -> list[SeatLine]:
    """A version's results per size of the table, then per seat."""
    sums: dict[tuple[int, int], list[int]] = {}
    for seats in games:
        for seat, own in enumerate(seats):
            if own.version_id == version:
                for key in ((len(seats), -1), (len(seats), seat)):
                    total = sums.setdefault(key, [0, 0, 0, 0, 0])
                    total[0] += 1
                    total[1] += own.placement == 1
                    total[2] += own.placement
                    total[3] += own.points
                    total[4] += own.faults
    return [
        SeatLine(
            players,
            None if seat < 0 else seat,
            games_,
            wins,
            placements / games_,
            points / games_,
            faults,
        )
        for (players, seat), (games_, wins, placements, points, faults) in sorted(sums.items())
    ]


def _mean(total: int, count: int) -> float | None:
    return total / count if count else None
