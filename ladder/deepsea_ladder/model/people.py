"""Authors, what they log in with, and the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from deepsea_ladder.accounts import AuthorState, Role, Scope
from deepsea_ladder.values import Int64, Time


class AuditKind(StrEnum):
    """The kind of an entry of the audit log."""

    SUBMITTED = "submitted"
    WITHDRAWN = "withdrawn"
    DISABLED = "disabled"
    ENABLED = "enabled"
    REFUSED = "refused"
    """A result that is none; the subject is the game."""
    QUARANTINED = "quarantined"
    REQUEUED = "requeued"
    CANCELLED = "cancelled"
    REWRITTEN = "rewritten"
    """The ratings of a season were computed again and replaced."""
    SEASON = "season"
    """A season was opened or closed."""
    AUTHOR = "author"
    """An author came, or has another role, name or state."""
    CODE = "code"
    """A code was made, redeemed or revoked."""
    TOKEN = "token"
    """A token was made or revoked."""
    SESSION = "session"
    """A session of the pages was opened or ended."""
    RESTORED = "restored"
    """The ladder comes from a backup: codes, tokens and sessions of that time have ended."""


class AuditEntry(NamedTuple):
    """One entry of the audit log: a line with its number."""

    id: Int64
    at: Time
    kind: AuditKind
    subject: str
    note: str
    actor: str = ""
    """Who did it: an author's name, `machine` for the ladder's machine, "" for nobody."""
    address: str = ""
    """From where: the first part of an address."""


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
class StoredAuthor:
    """An author."""

    id: int
    name: str
    role: Role
    state: AuthorState
    created_at: int
    bots: int
    tokens: int
    """Those that are valid."""


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A code."""

    id: Int64
    code: str
    """The secret, which is not stored; "" in lists."""
    author: str
    """Whom it is for; "" if whoever redeems it chooses a name."""
    expires_at: Time


@dataclass(frozen=True, slots=True)
class TokenLine:
    """A token without its secret."""

    id: Int64
    label: str
    start: str
    """Its first characters."""
    scopes: tuple[str, ...]
    created_at: Time
    expires_at: Time
    last_used: str
    """The day, such as 2026-01-31; "" before the first use."""


@dataclass(frozen=True, slots=True)
class SessionLine:
    """A login to the pages."""

    id: Int64
    address: str
    """The first part of where it was opened from."""
    created_at: Time
    expires_at: Time


@dataclass(frozen=True, slots=True)
class Credential:
    """What a token or a session proves."""

    author_id: int
    author: str
    role: Role
    scopes: tuple[Scope, ...]
    token_id: int
    """0 for a session."""
    session_id: int
    """0 for a token."""
    expires_at: int
