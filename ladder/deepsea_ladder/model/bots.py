"""Bots with their versions, and what authors submit until it is taken in."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from deepsea_ladder.model.tasks import TaskState
from deepsea_ladder.rating.totals import RatingTotals
from deepsea_ladder.season import Season
from deepsea_ladder.values import Int64, Time


class BotState(StrEnum):
    """Whether games are scheduled for a bot."""

    ACTIVE = "active"
    DISABLED = "disabled"
    """Taken out by the ladder, with the reason; `disable --undo` or a new version ends that."""
    WITHDRAWN = "withdrawn"
    """Taken out by its author."""


class BotVersion(Struct, frozen=True):
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


class LadderBot(Struct, frozen=True):
    """A bot, with the version that plays."""

    name: str
    author: str
    current: BotVersion
    state: BotState
    reason: str | None
    """Why it is not active."""
    changed_at: int


class BotConduct(Struct, frozen=True, kw_only=True):
    """What counts against an active bot: see `StrikeRules` for the limits."""

    bot: str
    absences: int
    """Games in a row in which it did not start, or crashed."""
    spoiled: int
    """Of its last games, those that it forfeited or had two faults in."""
    voids: int
    """Of its last attempts, those that became void while it was asked."""


class RatedVersion(Struct, frozen=True):
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


class NewSubmission(Struct, frozen=True, kw_only=True):
    """What an author uploads."""

    author_id: int
    bot: str
    """The bot's name; "" is that of its bot.toml."""
    key: str
    """Chosen by the client: the same one again is the same submission."""
    size: int
    """Of the archive, in bytes."""
    sha256: str
    """Of the archive, in hex."""
    needs_sandbox: bool = True
    """False if it can only come from the ladder's own machine: such a bot may play in a season
    without a sandbox."""
    by_machine: bool = False
    """Whether a command on the ladder's machine submits it, for which there are no limits."""


class Submission(Struct, frozen=True, kw_only=True):
    """A bot that was uploaded."""

    id: Int64
    bot: str
    """Its name; "" as long as only its bot.toml says it."""
    author: str
    state: TaskState
    ahead: int
    """Of one that waits: how many are checked before it."""
    games: int
    """Admission games that were played."""
    of_games: int
    version: int | None
    """The bot's version, if it was accepted."""
    digest: str
    """Of its files; "" before they were read."""
    found: str
    """Why it was not accepted."""
    remedy: str
    error: str
    """The author's part of a traceback."""
    log: tuple[str, ...]
    """The end of its output."""
    created_at: Time
    changed_at: Time


class SubmissionLease(Struct, frozen=True, kw_only=True):
    """A submission that its owner is to check now."""

    id: int
    author_id: int
    author: str
    bot: str
    needs_sandbox: bool
    by_machine: bool
    created_at: int
    owner: str
    attempt: int
    """The number of the lease, from 1."""


class SubmissionRefusal(Struct, frozen=True):
    """Why a submission is not accepted; the store keeps it in a form that is safe to print."""

    found: str
    remedy: str = ""
    log: tuple[str, ...] = ()
    error: str = ""
