"""What a ladder answers about itself, accounts and submissions; docs/api.md has the fields.

Invariant: pages of the ladder, such as its standings, are the arena's own dataclasses.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from deepsea_arena.games import BotLogLine
from deepsea_arena.ladder_analyses import LadderAnalysis
from deepsea_arena.wire.json import Int64


@dataclass(frozen=True, slots=True)
class Limit:
    """One line of the table of limits."""

    name: str
    value: Int64


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What a client has to know first."""

    version: str
    grpc_address: str
    limits: tuple[Limit, ...]

    def limit(self, name: str) -> int | None:
        """A limit by its name; None if it has none."""
        return next((int(one.value) for one in self.limits if one.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An author with rights."""

    author: str
    role: str
    scopes: tuple[str, ...]
    token_id: Int64
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Who:
    """Who the caller is."""

    account: Account


@dataclass(frozen=True, slots=True)
class Redeemed:
    """A token, shown this one time."""

    token: str
    account: Account


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token without its secret."""

    id: Int64
    label: str
    start: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime
    last_used: str


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens that are valid."""

    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Nothing:
    """It was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A bot that was uploaded."""

    id: Int64
    bot: str
    author: str
    state: str
    ahead: int
    games: int
    of_games: int
    version: int | None
    digest: str
    found: str
    remedy: str
    error: str
    log: tuple[str, ...]
    created_at: datetime | None
    changed_at: datetime | None

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in FINAL


FINAL: Final = ("accepted", "refused", "failed")


@dataclass(frozen=True, slots=True)
class Step:
    """The present state of a submission."""

    submission: Submission


@dataclass(frozen=True, slots=True)
class Submissions:
    """Submissions of the caller's, the newest first."""

    submissions: tuple[Submission, ...]


@dataclass(frozen=True, slots=True)
class LadderBot:
    """A bot's place in the store."""

    bot: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A bot that gets no more games."""

    bot: LadderBot


@dataclass(frozen=True, slots=True)
class Logs:
    """What one's own bots left of a game."""

    logs: tuple[BotLogLine, ...]


@dataclass(frozen=True, slots=True)
class GameText:
    """The record of a game."""

    record: str


@dataclass(frozen=True, slots=True)
class AnalysisStep:
    """The present state of an analysis."""

    analysis: LadderAnalysis
