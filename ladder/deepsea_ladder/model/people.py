"""Authors, what they log in with, and the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from deepsea_ladder.accounts import AuthorState, Role, Scope


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
    """One line of the audit log."""

    id: int
    at: int
    kind: AuditKind
    subject: str
    note: str
    actor: str = ""
    """Who did it: an author's name, `machine` for the ladder's machine, "" for nobody."""
    address: str = ""
    """From where: the first part of an address."""


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
class StoredCode:
    """A code that may be redeemed, without its secret."""

    id: int
    author: str
    """Whom it is for; "" if whoever redeems it chooses a name."""
    expires_at: int


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token that is valid, without its secret."""

    id: int
    label: str
    start: str
    """Its first characters."""
    scopes: tuple[Scope, ...]
    created_at: int
    expires_at: int
    last_used: int | None
    """The beginning of the day of its last use."""


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session of the pages that is valid, without its secret."""

    id: int
    address: str
    """The first part of where it was opened from."""
    created_at: int
    expires_at: int


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
