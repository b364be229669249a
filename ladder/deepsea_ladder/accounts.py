"""Accounts: roles, scopes, the forms of secrets, and the documents about them.

Invariants: pure; random bytes are parameters; a secret is stored as its SHA-256 only; a text that
has not the form of a secret has no digest, so that the store is never searched for it; only the
first part of an address is stored.
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
"""Number of characters of a token that are stored and shown, to tell it from others."""
FIRST_ADMIN = "admin"
"""The author that `ladder author admin` creates."""
RESERVED = frozenset({FIRST_ADMIN, "machine"})
"""Names that nobody may choose."""
ANONYMOUS = "anonymous-"
"""The beginning of the names of authors who were anonymised."""

_ENTROPY_BYTES = 32
_CODE_BYTES = 10
_CODE_AS_TYPED = str.maketrans({"0": "O", "1": "I", "8": "B", " ": None, "-": None})
"""Replaces digits that no code has by the letters that they look like, and removes separators."""


class Role(IntEnum):
    """The role of a caller; a role has all rights of those before it."""

    VISITOR = 0
    AUTHOR = 1
    ADMIN = 2

    @property
    def word(self) -> str:
        """The name of the role as people and programs read it."""
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
"""The form of each kind of secret; a code is matched without its hyphens."""


class AuthorState(StrEnum):
    """The state of an author's account."""

    ACTIVE = "active"
    BLOCKED = "blocked"
    """An admin has blocked the author, whose bots stay on the ladder."""
    ANONYMISED = "anonymised"
    """The author's name was removed for good; the games stay."""


class Actor(NamedTuple):
    """The author or machine that makes a change, for the audit log."""

    author_id: int | None = None
    """The id of an author who proved the identity by a secret; None for others."""
    name: str = ""
    """`machine` for a command on the ladder's machine; else ""."""
    address: str = ""
    """The first part of the network address, as `address_prefix` returns it."""


NOBODY = Actor()
"""The actor of changes by the ladder itself, and by people without an account."""
MACHINE = Actor(name="machine")
"""The actor of commands on the ladder's machine."""


class Caller(Struct, frozen=True, kw_only=True):
    """A caller with its rights.

    It is the holder of a token or of a session of the pages, as the store proves it, a visitor, or
    the ladder's machine.
    """

    author: str = ""
    """The author's name; "" for a visitor."""
    author_id: int = 0
    role: Role = Role.VISITOR
    scopes: frozenset[Scope] = frozenset()
    secret_id: int = 0
    """The id of the token or session; 0 without one."""
    secret_kind: SecretKind | None = None
    """The kind of that secret: a token, or a session of the pages; None without one."""
    expires_at: int = 0
    """The end of that secret, in milliseconds since 1970; 0 without one."""
    visitor: str = ""
    """SHA-256 of the cookie of a visitor of the pages, in hex; "" without a cookie."""
    address: str = ""
    """The caller's network address; "" on the ladder's own machine."""
    is_machine: bool = False
    """True for a command on the ladder's machine; `author` is then the author that it concerns."""

    @property
    def by(self) -> Actor:
        """The caller as the actor of a change, for the audit log."""
        if self.is_machine:
            return MACHINE
        return Actor(self.author_id or None, "", address_prefix(self.address))

    @property
    def is_admin(self) -> bool:
        """Return True if the caller has the role and the scope of an admin."""
        return self.may(Role.ADMIN, Scope.ADMIN)

    def may(self, role: Role, scope: Scope | None) -> bool:
        """Return True if the caller has the role, and the scope if one is needed."""
        return self.role >= role and (scope is None or scope in self.scopes)

    def is_proved_by(self, holder: Caller | None) -> bool:
        """Return True if the holder of the secret still has this caller's role and scopes."""
        return holder is not None and holder.role >= self.role and self.scopes <= holder.scopes


class NewToken(NamedTuple):
    """The stored fields of a new token."""

    digest: str
    """SHA-256 of the token, in hex."""
    start: str
    """The token's first characters."""
    label: str
    """The author's name for the token."""
    days: int
    """Days until it expires."""
    scopes: tuple[Scope, ...]


class AuthorLine(Struct, frozen=True):
    """An author."""

    author: str
    role: str
    state: AuthorState
    bots: int
    tokens: int
    """The number of valid tokens."""
    created_at: Time


class CodeLine(Struct, frozen=True):
    """An invitation code."""

    id: Int64
    code: str
    """The secret, which is not stored; "" in lists."""
    author: str
    """The author that it is for; "" if its holder chooses a name."""
    expires_at: Time


class TokenLine(Struct, frozen=True):
    """A token without its secret."""

    id: Int64
    label: str
    start: str
    """The token's first characters."""
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
    """The kinds of entries of the audit log."""

    SUBMITTED = "submitted"
    WITHDRAWN = "withdrawn"
    SUSPENDED = "suspended"
    DISABLED = "disabled"
    ENABLED = "enabled"
    REFUSED = "refused"
    """A runner reported an invalid result; the subject is the game."""
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
    """An author was added, or has another role, name or state."""
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
    """A run began with other control groups than the one before it; the note names them."""
    OUT_OF_MEMORY = "out of memory"
    """A machine that plays had no memory left; the subject is the task that it was doing."""
    STARVED = "starved"
    """A machine that plays was too busy to give a bot a CPU; the subject is its task."""


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
    """The first part of the actor's network address."""


def new_secret(kind: SecretKind, entropy: bytes) -> tuple[str, str]:
    """Return a new secret of the given kind, and the digest to store for it.

    A token is `dsl_` and the random bytes in hex, a session only the bytes in hex. A code has the
    first 80 bits in base 32, as XXXX-XXXX-XXXX-XXXX.

    entropy  32 random bytes, never used before
    """
    assert len(entropy) == _ENTROPY_BYTES, "a secret is made of 256 bits"
    secret = entropy.hex()
    if kind is SecretKind.TOKEN:
        secret = TOKEN_START + secret
    elif kind is SecretKind.CODE:
        letters = b32encode(entropy[:_CODE_BYTES]).decode()
        groups = [letters[i : i + 4] for i in range(0, len(letters), 4)]
        secret = "-".join(groups)
    digest = secret_digest(kind, secret)
    assert digest is not None, "a secret has the form of its kind"
    return secret, digest


def secret_digest(kind: SecretKind, secret: str) -> str | None:
    """Return the digest under which a secret is stored: its SHA-256 in hex.

    Return None if the text does not have the form of a secret of this kind, so that there can be no
    such secret. A code may be typed in small letters, with spaces, and with 0 for O, 1 for I and 8
    for B.
    """
    if kind is SecretKind.CODE and secret.isascii():
        secret = secret.strip().upper().translate(_CODE_AS_TYPED)
    if not _FORMS[kind].fullmatch(secret):
        return None
    return hashlib.sha256(secret.encode()).hexdigest()


def scopes_text(scopes: Iterable[Scope]) -> str:
    """Return scopes as a text to store and print, always in the same order."""
    present = set(scopes)
    return " ".join(scope for scope in Scope if scope in present)


def scopes_of(text: str) -> tuple[Scope, ...]:
    """Return the scopes of a text that `scopes_text` made."""
    return tuple(map(Scope, text.split()))


def address_key(address: str) -> str:
    """Return the key under which requests and failed logins from an address are counted.

    An IPv4 address is its own key. An IPv6 address has the key of its /64 network, since one person
    usually has a whole network. A text that is no address is its own key.
    """
    parsed = _parse_address(address)
    if parsed is None:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((int(parsed), 64), strict=False))
    return str(parsed)


def is_loopback(host: str) -> bool:
    """Return True if a host name or address means this machine."""
    parsed = _parse_address(host)
    return host == "localhost" if parsed is None else parsed.is_loopback


def address_prefix(address: str) -> str:
    """Return the part of a network address that may be stored, since it identifies no person.

    That is its /24 network, or its /48 network for IPv6; "" if the text is no address.
    """
    parsed = _parse_address(address)
    if parsed is None:
        return ""
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((int(parsed), 48), strict=False))
    return str(ipaddress.IPv4Network((int(parsed), 24), strict=False))


def _parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IP address of a text without its zone (`%eth0`); None if it is no address.

    An IPv4 address that is written as IPv6 (`::ffff:192.0.2.1`) is returned as IPv4.
    """
    text_without_zone, _, _ = text.partition("%")
    try:
        parsed = ipaddress.ip_address(text_without_zone)
    except ValueError:
        return None
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped
    return parsed
