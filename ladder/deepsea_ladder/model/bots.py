"""Bots and their versions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from deepsea_ladder.rating.totals import RatingTotals
from deepsea_ladder.season import Season


class BotState(StrEnum):
    """Whether games are scheduled for a bot."""

    ACTIVE = "active"
    DISABLED = "disabled"
    """Taken out by the ladder, with the reason; `enable` or a new version brings it back."""
    WITHDRAWN = "withdrawn"
    """Taken out by its author."""


@dataclass(frozen=True, slots=True)
class BotVersion:
    """One version of a bot: what plays, under the name that records give it."""

    id: int
    bot: str
    author: str
    number: int
    digest: str
    created_at: int

    @property
    def label(self) -> str:
        """The name in records: the bot and its version."""
        return f"{self.bot} v{self.number}"


@dataclass(frozen=True, slots=True)
class LadderBot:
    """A bot, with the version that plays."""

    name: str
    author: str
    current: BotVersion
    state: BotState
    reason: str | None
    """Why it is not active."""
    changed_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BotConduct:
    """What counts against an active bot: see `StrikeRules` for the limits."""

    bot: str
    absences: int
    """Games in a row in which it did not start, or crashed."""
    spoiled: int
    """Of its last 10 games, those that it forfeited or had two faults in."""
    voids: int
    """Of its last 20 attempts, those that became void while it was asked."""


@dataclass(frozen=True, slots=True)
class RatedVersion:
    """A bot version in a season's standings."""

    version: BotVersion
    tally: RatingTotals
    state: BotState
    """The bot's."""
    is_current: bool
    """Whether this is the bot's newest version."""

    def gets_games(self, season: Season) -> bool:
        """Whether it plays in that season."""
        playing = self.is_current or season.pairing.former_versions
        return playing and self.state is BotState.ACTIVE
