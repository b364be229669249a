"""Seasons as they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from deepsea_ladder.season import Season


@dataclass(frozen=True, slots=True)
class StoredSeason:
    """A season in the store."""

    id: int
    season: Season
    commitment: str
    """SHA-256 of the season's seed, in hex."""
    method: str
    """The arithmetic that its ratings were made with, `rating.METHOD` of that time."""
    created_at: int
    closed_at: int | None
    place: int
    """The last place of its chain: its games, and its attempts without a result."""
    head: str
    """The head of its chain at that place, in hex."""
    tournament: str | None = None
    """The tournament that it was opened for, as its JSON; None for rated games."""
    embargo_until: int | None = None
    """When strangers may see its games and results; None if they always may."""
    submissions_until: int | None = None
    """After it no bots are taken in; None if they always are."""

    @property
    def name(self) -> str:
        """The season's name."""
        return self.season.name


class ClosedSeason(NamedTuple):
    """A season that gets no more games."""

    seed: str | None
    """The season's secret in hex; None as long as games are in play."""
    in_play: int
    """Games that are being played, and count."""
