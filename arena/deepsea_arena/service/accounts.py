"""One's own account: codes that become tokens, tokens, sessions, and what the audit log has.

Invariants: a method touches the caller's author and nobody else; a secret is shown once, in the
response that makes it, and stored as its hash; a token never gives more than the one that made it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from deepsea_arena.service.caller import Caller
from deepsea_arena.service.errors import Kind, ServiceError
from deepsea_arena.service.service import LadderService
from deepsea_arena.service.table import Method
from deepsea_arena.wire.json import Int64, utc_time
from deepsea_ladder.accounts import (
    SHOWN,
    USUAL_SCOPES,
    Role,
    Scope,
    address_prefix,
    code_digest,
    new_token,
    token_digest,
)
from deepsea_ladder.errors import CodeRefused
from deepsea_ladder.model.people import AuditEntry, Credential, StoredToken
from deepsea_ladder.store.account_rows import NewToken
from deepsea_referee.errors import UserError
from deepsea_rules.printable import printable, quoted

LONGEST_LABEL: Final = 60
AUDIT: Final = 100
MOST_AUDIT: Final = 1000


@dataclass(frozen=True, slots=True)
class Account:
    """An author with rights."""

    author: str
    role: str
    scopes: tuple[str, ...]
    token_id: Int64
    expires_at: datetime


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
class TokenLine:
    """A token without its secret."""

    id: Int64
    label: str
    start: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime
    last_used: str
    """The day, such as 2026-01-31; "" before the first use."""


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
class SessionLine:
    """A login to the pages."""

    id: Int64
    address: str
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class SessionList:
    """An author's sessions."""

    sessions: tuple[SessionLine, ...]


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One line of the audit log."""

    at: datetime
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
    """Nothing is to be said."""


def redeem(
    service: LadderService, caller: Caller, *, code: str = "", author: str = "", label: str = ""
) -> Redeemed:
    """Turn a code into a token; a wrong code is counted by address, and a valid one passes."""
    secret, token = token_to_be(service, label, USUAL_SCOPES, service.limits.token_days)
    digest = code_digest(code)
    try:
        if digest is None:
            raise CodeRefused("this is no code: it has the form XXXX-XXXX-XXXX-XXXX")
        prefix = address_prefix(caller.address)
        found = service.store.accounts.redeem(digest, author, token, prefix)
    except CodeRefused:
        service.failures.add(caller.address)
        raise
    return Redeemed(secret, account_of(found))


def who_am_i(service: LadderService, caller: Caller) -> WhoIs:
    """Who the caller is."""
    _own(caller)
    found = service.store.accounts.still(caller.token_id, caller.session_id)
    if found is None:
        raise ServiceError(Kind.UNAUTHENTICATED, "this token is no longer valid")
    return WhoIs(account_of(found))


def list_tokens(service: LadderService, caller: Caller) -> TokenList:
    """The tokens of the caller's author."""
    return TokenList(tuple(map(token_line, service.store.accounts.tokens(_own(caller)))))


def create_token(
    service: LadderService,
    caller: Caller,
    *,
    label: str = "",
    scopes: Sequence[str] = (),
    days: int = 0,
) -> CreatedToken:
    """Another token of the caller's author, of at most the caller's scopes."""
    author_id = _own(caller)
    wanted = tuple(map(_scope, scopes)) or tuple(
        one for one in USUAL_SCOPES if one in caller.scopes
    )
    if not caller.scopes >= set(wanted):
        raise ServiceError(Kind.DENIED, "a token cannot give more than the one that makes it")
    most = service.limits.token_days
    if not 0 <= days <= most:
        raise UserError(f"days is a number from 1 to {most}")
    secret, token = token_to_be(service, label, wanted, days or most)
    made = service.store.accounts.create_token(author_id, token, service.limits.tokens, caller.by)
    return CreatedToken(secret, token_line(made))


def revoke_token(service: LadderService, caller: Caller, *, id: int = 0) -> Done:  # noqa: A002
    """End a token of the caller's author at once, and the sessions that it opened."""
    _may_end(caller, own=id == caller.token_id)
    service.store.accounts.revoke_token(_own(caller), id, caller.by)
    return Done()


def list_sessions(service: LadderService, caller: Caller) -> SessionList:
    """The sessions of the caller's author in the pages."""
    found = service.store.sessions.of(_own(caller))
    return SessionList(
        tuple(
            SessionLine(
                Int64(one.id), one.address, utc_time(one.created_at), utc_time(one.expires_at)
            )
            for one in found
        )
    )


def end_session(service: LadderService, caller: Caller, *, id: int = 0) -> Done:  # noqa: A002
    """End a session of the caller's author at once."""
    _may_end(caller, own=id == caller.session_id)
    service.store.sessions.end(_own(caller), id, caller.by)
    return Done()


def list_audit(
    service: LadderService, caller: Caller, *, limit: int = 0, everybody: bool = False
) -> AuditList:
    """What the audit log has of the caller's author, or of everybody, for an admin."""
    if not 0 <= limit <= MOST_AUDIT:
        raise UserError(f"limit is a number from 1 to {MOST_AUDIT}")
    if everybody and not caller.may(Role.ADMIN, Scope.ADMIN):
        raise ServiceError(Kind.DENIED, "this needs an admin's token with the scope admin")
    author_id = None if everybody else _own(caller)
    found = service.store.audit.latest(limit or AUDIT, author_id=author_id)
    return AuditList(tuple(map(audit_line, found)))


def token_to_be(
    service: LadderService, label: str, scopes: Sequence[Scope], days: int
) -> tuple[str, NewToken]:
    """A new token: its secret, and what is stored of it."""
    if len(label) > LONGEST_LABEL:
        raise UserError(f"a label has at most {LONGEST_LABEL} characters")
    secret = new_token(service.entropy())
    digest = token_digest(secret)
    assert digest is not None
    start = secret[:SHOWN]
    return secret, NewToken(digest, start, printable(label.strip()), days, tuple(scopes))


def account_of(found: Credential) -> Account:
    """What a credential proves, as people and programs read it."""
    return Account(
        author=found.author,
        role=found.role.word,
        scopes=tuple(found.scopes),
        token_id=Int64(found.token_id),
        expires_at=utc_time(found.expires_at),
    )


def token_line(token: StoredToken) -> TokenLine:
    """A stored token, as people and programs read it."""
    used = token.last_used
    return TokenLine(
        id=Int64(token.id),
        label=token.label,
        start=token.start,
        scopes=tuple(token.scopes),
        created_at=utc_time(token.created_at),
        expires_at=utc_time(token.expires_at),
        last_used="" if used is None else utc_time(used).date().isoformat(),
    )


def audit_line(entry: AuditEntry) -> AuditLine:
    """An entry of the audit log, as people and programs read it."""
    return AuditLine(
        at=utc_time(entry.at),
        kind=entry.kind,
        subject=entry.subject,
        note=entry.note,
        actor=entry.actor,
        address=entry.address,
    )


def _own(caller: Caller) -> int:
    if not caller.author_id:
        raise UserError("this is about one's own account, and the machine has none")
    return caller.author_id


def _may_end(caller: Caller, *, own: bool) -> None:
    if not own and Scope.SUBMIT not in caller.scopes:
        raise ServiceError(Kind.DENIED, "this needs a token with the scope submit")


def _scope(word: str) -> Scope:
    try:
        return Scope(word)
    except ValueError:
        choices = ", ".join(Scope)
        raise UserError(f"there is no scope {quoted(word)}; choose from {choices}") from None


ACCOUNTS: Final = (
    Method(name="Redeem", handler=redeem, verb="POST", path="/redeem", always=True),
    Method(name="WhoAmI", handler=who_am_i, role=Role.AUTHOR, path="/account"),
    Method(
        name="ListTokens",
        handler=list_tokens,
        role=Role.AUTHOR,
        scope=Scope.READ,
        path="/account/tokens",
    ),
    Method(
        name="CreateToken",
        handler=create_token,
        role=Role.AUTHOR,
        scope=Scope.SUBMIT,
        verb="POST",
        path="/account/tokens",
    ),
    Method(
        name="RevokeToken",
        handler=revoke_token,
        role=Role.AUTHOR,
        verb="DELETE",
        path="/account/tokens/{id}",
    ),
    Method(
        name="ListSessions",
        handler=list_sessions,
        role=Role.AUTHOR,
        scope=Scope.READ,
        path="/account/sessions",
    ),
    Method(
        name="EndSession",
        handler=end_session,
        role=Role.AUTHOR,
        verb="DELETE",
        path="/account/sessions/{id}",
    ),
    Method(
        name="ListAudit",
        handler=list_audit,
        role=Role.AUTHOR,
        scope=Scope.READ,
        path="/audit",
    ),
)
