"""A game of the ladder with what it changed, and the games since one that a reader knows.

Invariants: everything comes from the store as it was given, so one that is public shows no game
under embargo; a game never changes, so its report is the same until its season's seed is shown
or somebody asks for its analysis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepsea_arena.coach.ladder_analyses import LadderAnalyses, analyses_of
from deepsea_arena.reports.games import GameLine, game_line
from deepsea_arena.reports.seasons import SeasonInfo, season_info
from deepsea_ladder.model.games import StoredGame
from deepsea_rules.record import GameRecord

if TYPE_CHECKING:
    from deepsea_ladder.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingChange:
    """What a game did to a seat's rating, which is mu - 3 sigma."""

    before: float
    after: float
    mu_before: float
    mu_after: float
    first: bool
    """Whether it was the version's first game of the season."""

    @property
    def change(self) -> float:
        """The change of the rating."""
        return self.after - self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class GameReport:
    """A game that was played."""

    game: GameLine
    season: SeasonInfo
    changes: tuple[RatingChange, ...]
    """By seat."""
    record: str
    """One line of JSON, to be verified."""
    seed: str
    """The game's seed in hex, and the SHA-256 of it that bots were sent before."""
    commitment: str
    season_seed: str | None
    """From which the seeds of its games follow; None while the season is open."""
    analyses: LadderAnalyses
    """What was asked for, and what there is."""


def game_report(store: Store, game_id: str) -> GameReport:
    """The report of a game. Raises StoreError if there is none."""
    stored = store.history.get(game_id)
    season = store.seasons.get(stored.season)
    record = GameRecord.from_json(stored.record)
    return GameReport(
        game=game_line(stored),
        season=season_info(season),
        changes=_changes(store, stored),
        record=stored.record,
        seed=record.seed.hex(),
        commitment=record.commitment,
        season_seed=store.seasons.revealed_seed(season),
        analyses=analyses_of(store, game_id),
    )


def _changes(store: Store, game: StoredGame) -> tuple[RatingChange, ...]:
    season = store.seasons.get(game.season)
    changes = []
    for seat in game.seats:
        before = store.history.before(season, game.seq, seat.version.id)
        start = before or season.season.rating.newcomer
        changes.append(
            RatingChange(
                before=start.conservative,
                after=seat.rating.conservative,
                mu_before=start.mu,
                mu_after=seat.rating.mu,
                first=before is None,
            )
        )
    return tuple(changes)


def games_since(store: Store, seq: int, limit: int) -> list[GameLine]:
    """The first games that were rated after one, in their order; at most `limit`."""
    return [game_line(game) for game in store.history.since(seq, limit)]
