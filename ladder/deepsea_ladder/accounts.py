"""Accounts: roles, scopes, the form of secrets, and what is kept and shown of them.

Invariants: pure; random bytes are parameters; a secret is stored as its SHA-256 only, and one that
has not the form of a secret has no digest, so that the store is not asked about it; whatever is
logged of an address is the first part of it.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import zlib
from base64 import b32encode
from collections.abc import Iterable
from enum import IntEnum, StrEnum
from typing import NamedTuple

from msgspec import Struct

from deepsea_ladder.values import Int64, Time

TOKEN_START = "dsl_"
SHOWN = len(TOKEN_START) + 4
"""Characters of a token that are kept and shown, to tell it from others."""
FIRST_ADMIN = "admin"
"""The author that `ladder author admin` makes."""
RESERVED = frozenset({FIRST_ADMIN, "machine"})
"""Names that nobody may choose."""
ANONYMOUS = "anonymous-"
"""The beginning of the names of authors who were anonymised."""

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SECRET = 43
"""Digits of 256 bits in base 62."""
_CHECKSUM = 6
_TOKEN = re.compile(rf"{TOKEN_START}[0-9A-Za-z]{{{_SECRET + _CHECKSUM}}}")
_SESSION = re.compile(r"[0-9a-f]{64}")
_CODE_BYTES = 10
_CODE = re.compile(r"[A-Z2-7]{16}")
_LONGEST_CODE = 64
_MISREAD = str.maketrans({"0": "O", "1": "I", "8": "B", " ": None, "-": None})
"""Digits that no code has, and what they look like; what people put between its letters."""


class Role(IntEnum):
    """Who somebody is; each may do what those before may."""

    VISITOR = 0
    AUTHOR = 1
    ADMIN = 2

    @property
    def word(self) -> str:
        """Its name as people and programs read it."""
        return self.name.lower()


class Scope(StrEnum):
    """What a token may be used for."""

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"


USUAL_SCOPES = (Scope.READ, Scope.SUBMIT)


class AuthorState(StrEnum):
    ACTIVE = "active"
    BLOCKED = "blocked"
    """By an admin; bots stay."""
    ANONYMISED = "anonymised"
    """The name is gone for good; games stay."""


class Actor(NamedTuple):
    """Who does something, for the audit log."""

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


class Credential(Struct, frozen=True):
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


class NewToken(NamedTuple):
    """What is stored of a token that is made."""

    digest: str
    start: str
    label: str
    days: int
    scopes: tuple[Scope, ...]


class StoredAuthor(Struct, frozen=True):
    id: int
    name: str
    role: Role
    state: AuthorState
    created_at: int
    bots: int
    tokens: int
    """Those that are valid."""


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


class AuditEntry(Struct, frozen=True):
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


def new_token(secret: bytes) -> str:
    """The token of 32 random bytes: `dsl_`, 43 digits of base 62, and a checksum of 6."""
    assert len(secret) == 32, "a token has 256 bits"
    start = TOKEN_START + _base62(int.from_bytes(secret), _SECRET)
    return start + _base62(zlib.crc32(start.encode()), _CHECKSUM)


def token_digest(token: str) -> str | None:
    """What is stored of a token: its SHA-256 in hex; None if it has not the form of one."""
    if len(token) != len(TOKEN_START) + _SECRET + _CHECKSUM or not _TOKEN.fullmatch(token):
        return None
    start = token[:-_CHECKSUM]
    if token[-_CHECKSUM:] != _base62(zlib.crc32(start.encode()), _CHECKSUM):
        return None
    return _digest(token)


def new_session(secret: bytes) -> str:
    """The secret of a session of the pages, of 32 random bytes."""
    assert len(secret) == 32, "a session has 256 bits"
    return secret.hex()


def session_digest(session: str) -> str | None:
    """What is stored of a session; None if it has not the form of one."""
    if len(session) != 64 or not _SESSION.fullmatch(session):
        return None
    return _digest(session)


def new_code(secret: bytes) -> str:
    """A code of 80 bits, XXXX-XXXX-XXXX-XXXX in base 32, of the first of these random bytes."""
    assert len(secret) >= _CODE_BYTES, "a code has 80 bits"
    letters = b32encode(secret[:_CODE_BYTES]).decode()
    return "-".join(letters[i : i + 4] for i in range(0, len(letters), 4))


def code_digest(code: str) -> str | None:
    """What is stored of a code as somebody wrote it; None if it has not the form of one."""
    if len(code) > _LONGEST_CODE or not code.isascii():
        return None
    letters = code.strip().upper().translate(_MISREAD)
    return _digest(letters) if _CODE.fullmatch(letters) else None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _base62(number: int, digits: int) -> str:
    written = ""
    for _ in range(digits):
        number, digit = divmod(number, len(_DIGITS))
        written = _DIGITS[digit] + written
    return written


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
    """Whether a name or address is this machine."""
    parsed = _address(host)
    return host == "localhost" if parsed is None else parsed.is_loopback


def address_prefix(address: str) -> str:
    """What is kept of an address: the network of /24 or, with IPv6, of /48; "" if it is none."""
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
