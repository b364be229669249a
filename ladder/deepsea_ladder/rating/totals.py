"""A bot's sums over its games, and their update by one more game.

Invariants: pure; the store uses it when a result comes in and when it recomputes everything, so
both give the same numbers, to the bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deepsea_ladder.rating.trueskill_fold import Fold, GameOutcome, Rating, RatingParameters
from deepsea_rules.faults import FATAL
from deepsea_rules.record import GameRecord


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
