"""The API's documents about accounts, submissions and administration; others stand beside the code
that makes them.

Invariants: a document's keys are the names of its fields; none of these needs the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from deepsea_arena.coach.ladder_analyses import LadderAnalysis
from deepsea_arena.reports.games import BotLogLine, GameLine
from deepsea_arena.reports.seasons import SeasonInfo
from deepsea_ladder.accounts import CodeLine, SessionLine, TokenLine
from deepsea_ladder.limits import Limit
from deepsea_ladder.model.bots import BotState, Submission
from deepsea_ladder.model.games import Extension
from deepsea_ladder.values import Int64, Time


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What a client has to know first."""

    version: str
    url: str
    private: bool
    season: str
    submissions_until: Time | None
    """Until when the caller may submit to this season."""
    limits: tuple[Limit, ...]


@dataclass(frozen=True, slots=True)
class SeasonNames:
    """The names of seasons, the oldest first."""

    seasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SeasonControl:
    """A season, as admins direct it."""

    season: SeasonInfo
    extensions: tuple[Extension, ...]
    """The authors who may submit after the deadline, by name."""


@dataclass(frozen=True, slots=True)
class Account:
    """An author with rights."""

    author: str
    role: str
    scopes: tuple[str, ...]
    token_id: Int64
    expires_at: Time


@dataclass(frozen=True, slots=True)
class Redeemed:
    """A token, shown this one time."""

    token: str
    account: Account


@dataclass(frozen=True, slots=True)
class WhoIs:
    """Who the caller is."""

    account: Account


@dataclass(frozen=True, slots=True)
class TokenList:
    """An author's tokens."""

    tokens: tuple[TokenLine, ...]


@dataclass(frozen=True, slots=True)
class CreatedToken:
    """A token, shown this one time."""

    secret: str
    token: TokenLine


@dataclass(frozen=True, slots=True)
class SessionList:
    """An author's sessions."""

    sessions: tuple[SessionLine, ...]


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One line of the audit log."""

    at: Time
    kind: str
    subject: str
    note: str
    actor: str
    address: str


@dataclass(frozen=True, slots=True)
class AuditList:
    """Lines of the audit log."""

    entries: tuple[AuditLine, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """Empty response."""


@dataclass(frozen=True, slots=True)
class BotList:
    """Bots, by name."""

    bots: tuple[BotPlace, ...]


class Archive(Protocol):
    """The zip of a bot that is submitted, as it arrives or as it leaves."""

    @property
    def bot(self) -> str:
        """The bot's name; "" stands for the one in its bot.toml."""

    @property
    def size(self) -> int:
        """Its bytes."""

    @property
    def sha256(self) -> str:
        """The SHA-256 of its bytes, in hex."""

    @property
    def key(self) -> str:
        """The sender's: an upload with the same key is the same submission."""

    def parts(self) -> Iterator[bytes]:
        """The bytes, in parts."""


@dataclass(frozen=True, slots=True)
class SubmissionStep:
    """The present state of a submission."""

    submission: Submission


@dataclass(frozen=True, slots=True)
class SubmissionList:
    """Submissions of an author, the newest first."""

    submissions: tuple[Submission, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BotPlace:
    """A bot's place in the store."""

    bot: str
    author: str
    version: int
    state: BotState
    reason: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A bot that gets no more games."""

    bot: BotPlace


@dataclass(frozen=True, slots=True)
class GameLogs:
    """What is kept of the caller's bots, by seat."""

    logs: tuple[BotLogLine, ...]


@dataclass(frozen=True, slots=True)
class AnalysisStep:
    """The present state of an analysis."""

    analysis: LadderAnalysis


@dataclass(frozen=True, slots=True)
class GameText:
    """The record of a game."""

    record: str


@dataclass(frozen=True, slots=True)
class FramesText:
    """The frames of a game."""

    frames: str


@dataclass(frozen=True, slots=True)
class ExportLine:
    """A line of a season's chain."""

    line: str


@dataclass(frozen=True, slots=True)
class FeedGame:
    """A game that has ended."""

    game: GameLine


@dataclass(frozen=True, slots=True)
class CodeList:
    """Codes."""

    codes: tuple[CodeLine, ...]


@dataclass(frozen=True, slots=True)
class NewCode:
    """A code for an author who was reset."""

    code: CodeLine


@dataclass(frozen=True, slots=True)
class AuthorLine:
    """An author."""

    author: str
    role: str
    state: str
    bots: int
    tokens: int
    created_at: Time


@dataclass(frozen=True, slots=True)
class AuthorList:
    """All authors."""

    authors: tuple[AuthorLine, ...]


@dataclass(frozen=True, slots=True)
class ChangedAuthor:
    """An author as it is now."""

    author: AuthorLine


@dataclass(frozen=True, slots=True)
class ChangedBot:
    """A bot as it is now."""

    bot: BotPlace


@dataclass(frozen=True, slots=True)
class QuarantinedJob:
    """A job that failed too often."""

    game_id: str
    bots: tuple[str, ...]
    failures: int
    note: str


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Jobs that failed too often."""

    jobs: tuple[QuarantinedJob, ...]
