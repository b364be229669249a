"""Accounts: roles, scopes, the form of secrets, and what is kept and shown of them.

Invariants: pure; random bytes are parameters; a secret is stored as its SHA-256 only, and one that
has not the form of a secret has no digest, so that the store is not asked about it; whatever is
logged of an address is the first part of it.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from base64 import b32encode
from collections.abc import Iterable
from enum import IntEnum, StrEnum
from typing import NamedTuple

from msgspec import Struct

from deepsea_ladder.model import Int64, Time

TOKEN_START = "dsl_"
SHOWN = len(TOKEN_START) + 4
"""Characters of a token that are kept and shown, to tell it from others."""
FIRST_ADMIN = "admin"
"""The author that `ladder author admin` makes."""
RESERVED = frozenset({FIRST_ADMIN, "machine"})
"""Names that nobody may choose."""
ANONYMOUS = "anonymous-"
"""The beginning of the names of authors who were anonymised."""

_ENTROPY_BYTES = 32
_CODE_BYTES = 10
_MISREAD = str.maketrans({"0": "O", "1": "I", "8": "B", " ": None, "-": None})
"""Digits that no code has, and what they look like; what people put between its letters."""


class Role(IntEnum):
    """The role of somebody; each may do what those before may."""

    VISITOR = 0
    AUTHOR = 1
    ADMIN = 2

    @property
    def word(self) -> str:
        """Its name as people and programs read it."""
        return self.name.lower()


class Scope(StrEnum):
    """The rights of a token."""

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"


USUAL_SCOPES = (Scope.READ, Scope.SUBMIT)


class SecretKind(StrEnum):
    """The purpose of a secret."""

    CODE = "code"
    """An invitation: its holder redeems it once, for a token."""
    TOKEN = "token"
    """The proof that is sent with each call of the API."""
    SESSION = "session"
    """The cookie of an author who logged in to the pages with a token."""


_FORMS = {
    SecretKind.CODE: re.compile(r"[A-Z2-7]{16}"),
    SecretKind.TOKEN: re.compile(rf"{TOKEN_START}[0-9a-f]{{64}}"),
    SecretKind.SESSION: re.compile(r"[0-9a-f]{64}"),
}
"""The form of each kind of secret; a code's is without its hyphens."""


class AuthorState(StrEnum):
    ACTIVE = "active"
    BLOCKED = "blocked"
    """By an admin; bots stay."""
    ANONYMISED = "anonymised"
    """The name is gone for good; games stay."""


class Actor(NamedTuple):
    """The author or machine that does something, for the audit log."""

    author_id: int | None = None
    """Of an author who proved it; None for others."""
    name: str = ""
    """Of others: `machine` for commands on the ladder's machine, "" for nobody."""
    address: str = ""
    """From where, as `address_prefix` has it."""


NOBODY = Actor()
"""The ladder by itself, or somebody without an account."""
MACHINE = Actor(name="machine")
"""Commands that are run on the ladder's machine."""


class Caller(Struct, frozen=True, kw_only=True):
    """A caller with its rights: the holder of a token or of a session of the pages, as the store
    proves it, a visitor, or the ladder's machine."""

    author: str = ""
    """The author's name; "" of a visitor."""
    author_id: int = 0
    role: Role = Role.VISITOR
    scopes: frozenset[Scope] = frozenset()
    secret_id: int = 0
    """Of the token or session that was used; 0 without one."""
    secret_kind: SecretKind | None = None
    """The kind of that secret: a token, or a session of the pages."""
    expires_at: int = 0
    """When that ends; 0 without one."""
    visitor: str = ""
    """SHA-256 of the cookie of a visitor of the pages, in hex; "" without one."""
    address: str = ""
    """From where; "" from the ladder's own machine."""
    is_machine: bool = False
    """True if it is a command on the ladder's machine; `author` is then whom it concerns."""

    @property
    def by(self) -> Actor:
        """The caller, for the audit log."""
        if self.is_machine:
            return MACHINE
        return Actor(self.author_id or None, "", address_prefix(self.address))

    @property
    def is_admin(self) -> bool:
        """True if the caller has the role and the scope of an admin."""
        return self.may(Role.ADMIN, Scope.ADMIN)

    def may(self, role: Role, scope: Scope | None) -> bool:
        """True if the caller has the role, and the scope if one is needed."""
        return self.role >= role and (scope is None or scope in self.scopes)

    def is_proved_by(self, holder: Caller | None) -> bool:
        """True if the holder of the token or session still has this caller's role and scopes."""
        return holder is not None and holder.role >= self.role and self.scopes <= holder.scopes


class NewToken(NamedTuple):
    """The stored fields of a new token."""

    digest: str
    start: str
    label: str
    days: int
    scopes: tuple[Scope, ...]


class AuthorLine(Struct, frozen=True):
    """An author."""

    author: str
    role: str
    state: AuthorState
    bots: int
    tokens: int
    """Those that are valid."""
    created_at: Time


class CodeLine(Struct, frozen=True):
    id: Int64
    code: str
    """The secret, which is not stored; "" in lists."""
    author: str
    """Whom it is for; "" if whoever redeems it chooses a name."""
    expires_at: Time


class TokenLine(Struct, frozen=True):
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


class SessionLine(Struct, frozen=True):
    """A login to the pages."""

    id: Int64
    address: str
    """The first part of where it was opened from."""
    created_at: Time
    expires_at: Time


class AuditKind(StrEnum):
    SUBMITTED = "submitted"
    WITHDRAWN = "withdrawn"
    SUSPENDED = "suspended"
    DISABLED = "disabled"
    ENABLED = "enabled"
    REFUSED = "refused"
    """A result that is none; the subject is the game."""
    QUARANTINED = "quarantined"
    REQUEUED = "requeued"
    CANCELLED = "cancelled"
    REWRITTEN = "rewritten"
    """The ratings of a season were computed again and replaced."""
    SETTING = "setting"
    """A setting of the ladder was changed."""
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
    BACKUP = "backup"
    """The ladder was copied to a backup."""
    RUNNER = "runner"
    """A run began with other control groups than the one before it; the note says with which."""
    OUT_OF_MEMORY = "out of memory"
    """A machine that plays had no memory left; the subject is what it did then."""
    STARVED = "starved"
    """A machine that plays was too busy to give a bot a CPU; the subject is the same."""


class AuditEntry(Struct, frozen=True):
    """One entry of the audit log: a line with its number."""

    id: Int64
    at: Time
    kind: AuditKind
    subject: str
    note: str
    actor: str = ""
    """The actor: an author's name, `machine` for the ladder's machine, "" for nobody."""
    address: str = ""
    """From where: the first part of an address."""


def new_secret(kind: SecretKind, entropy: bytes) -> tuple[str, str]:
    """A secret, made of 32 random bytes, and the digest that is stored of it.

    A token is `dsl_` and the bytes in hex, a session the bytes in hex, and a code 80 bits in base
    32, as XXXX-XXXX-XXXX-XXXX.
    """
    assert len(entropy) == _ENTROPY_BYTES, "a secret is made of 256 bits"
    secret = entropy.hex()
    if kind is SecretKind.TOKEN:
        secret = TOKEN_START + secret
    elif kind is SecretKind.CODE:
        letters = b32encode(entropy[:_CODE_BYTES]).decode()
        secret = "-".join(letters[i : i + 4] for i in range(0, len(letters), 4))
    digest = secret_digest(kind, secret)
    assert digest is not None, "a secret has the form of its kind"
    return secret, digest


def secret_digest(kind: SecretKind, secret: str) -> str | None:
    """The SHA-256 in hex that is stored of a secret; None if it has not the form of its kind.

    A code is read as people write it.
    """
    if kind is SecretKind.CODE and secret.isascii():
        secret = secret.strip().upper().translate(_MISREAD)
    return hashlib.sha256(secret.encode()).hexdigest() if _FORMS[kind].fullmatch(secret) else None


def scopes_text(scopes: Iterable[Scope]) -> str:
    """Scopes as they are stored and printed, in one order."""
    wanted = set(scopes)
    return " ".join(scope for scope in Scope if scope in wanted)


def scopes_of(text: str) -> tuple[Scope, ...]:
    """The scopes of a stored text."""
    return tuple(map(Scope, text.split()))


def source(address: str) -> str:
    """Whose failures and requests are counted together: an IPv4 address, an IPv6 network of /64.

    A text that is no address is its own source.
    """
    parsed = _address(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((int(parsed), 64), strict=False))
    return address if parsed is None else str(parsed)


def is_loopback(host: str) -> bool:
    """True if a name or address is this machine."""
    parsed = _address(host)
    return host == "localhost" if parsed is None else parsed.is_loopback


def address_prefix(address: str) -> str:
    """The stored part of an address: the network of /24 or, with IPv6, of /48; "" if it is none."""
    parsed = _address(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((int(parsed), 48), strict=False))
    return "" if parsed is None else str(ipaddress.IPv4Network((int(parsed), 24), strict=False))


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        parsed = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return mapped or parsed
