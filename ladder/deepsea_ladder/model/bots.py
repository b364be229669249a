"""Bots and their versions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from deepsea_ladder.rating.totals import RatingTotals
from deepsea_ladder.season import Season
from deepsea_ladder.strikes import Conduct


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


class BotConduct(NamedTuple):
    """What counts against a bot."""

    bot: str
    conduct: Conduct


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
