"""One's own account: codes that become tokens, tokens, sessions, and what the audit log has.

Invariants: a method touches the caller's author and nobody else; a secret is shown once, in the
response that makes it, and stored as its hash; a token never gives more than the one that made it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from deepsea_arena.api.declarations import Done, LadderPart, method
from deepsea_arena.api.errors import ApiError, Kind
from deepsea_ladder.accounts import (
    MACHINE,
    SHOWN,
    USUAL_SCOPES,
    AuditEntry,
    Caller,
    NewToken,
    Role,
    Scope,
    SecretKind,
    SessionLine,
    TokenLine,
    address_prefix,
    new_secret,
    secret_digest,
)
from deepsea_ladder.errors import CodeRefused
from deepsea_ladder.model import Int64, Time, utc_time
from deepsea_referee.errors import UserError
from deepsea_rules.printable import printable, quoted

LONGEST_LABEL = 60
AUDIT = 100
MOST_AUDIT = 1000


class Account(Struct, frozen=True):
    """An author with rights."""

    author: str
    role: str
    scopes: tuple[str, ...]
    token_id: Int64
    expires_at: Time


class Redeemed(Struct, frozen=True):
    """A token, shown this one time."""

    token: str
    account: Account


class CreatedToken(Struct, frozen=True):
    """A token, shown this one time."""

    secret: str
    token: TokenLine


class AccountMethods(LadderPart):
    """The methods of one's own account."""

    @method("POST", "/redeem", always=True)
    def redeem(self, *, code: str = "", author: str = "", label: str = "") -> Redeemed:
        """Redeem a code for a token; a wrong code is counted by address."""
        secret, token = self._new_token(label, USUAL_SCOPES, self.limits.token_days)
        digest = secret_digest(SecretKind.CODE, code)
        try:
            if digest is None:
                raise CodeRefused("this is no code: it has the form XXXX-XXXX-XXXX-XXXX")
            prefix = address_prefix(self.caller.address)
            found = self.store.accounts.redeem(digest, author, token, prefix)
        except CodeRefused:
            self.service.count_failure(self.caller.address)
            raise
        return Redeemed(secret, account_of(found))

    @method("GET", "/account", role=Role.AUTHOR, key="account")
    def who_am_i(self) -> Account:
        """Describe the caller: author, role, scopes."""
        assert self.own_id
        found = self.store.accounts.still(self.caller.secret_id)
        if found is None:
            raise ApiError(Kind.UNAUTHENTICATED, "this token is no longer valid")
        return account_of(found)

    @method("GET", "/account/tokens", role=Role.AUTHOR, scope=Scope.READ, key="tokens")
    def tokens(self) -> tuple[TokenLine, ...]:
        """List the tokens of the caller's author, without their secrets."""
        return tuple(self.store.accounts.tokens(self.own_id))

    @method("POST", "/account/tokens", role=Role.AUTHOR, scope=Scope.SUBMIT)
    def create_token(
        self, *, label: str = "", scopes: Sequence[str] = (), days: int = 0
    ) -> CreatedToken:
        """Create another token of the caller's author, of at most the caller's scopes."""
        author_id = self.own_id
        wanted = tuple(map(_scope, scopes)) or tuple(
            one for one in USUAL_SCOPES if one in self.caller.scopes
        )
        if not self.caller.scopes >= set(wanted):
            raise ApiError(Kind.DENIED, "a token cannot give more than the one that makes it")
        most = self.limits.token_days
        if not 0 <= days <= most:
            raise UserError(f"days is a number from 1 to {most}")
        secret, token = self._new_token(label, wanted, days or most)
        made = self.store.accounts.create_token(
            author_id, token, self.limits.tokens, self.caller.by
        )
        return CreatedToken(secret, made)

    @method("DELETE", "/account/tokens/{id}", role=Role.AUTHOR)
    def revoke_token(self, *, id: int) -> Done:  # noqa: A002  (the name in the path)
        """End a token of the caller's author at once, and the sessions that it opened."""
        return self._revoke(SecretKind.TOKEN, id)

    @method("GET", "/account/sessions", role=Role.AUTHOR, scope=Scope.READ, key="sessions")
    def sessions(self) -> tuple[SessionLine, ...]:
        """List the logins of the caller's author to the pages."""
        return tuple(self.store.accounts.sessions(self.own_id))

    @method("DELETE", "/account/sessions/{id}", role=Role.AUTHOR)
    def end_session(self, *, id: int) -> Done:  # noqa: A002
        """End a login of the caller's author at once."""
        return self._revoke(SecretKind.SESSION, id)

    @method("GET", "/audit", role=Role.AUTHOR, scope=Scope.READ, key="entries")
    def audit(self, *, limit: int = 0, everybody: bool = False) -> tuple[AuditEntry, ...]:
        """List the audit log of the caller's author, or of everybody, for an admin."""
        if not 0 <= limit <= MOST_AUDIT:
            raise UserError(f"limit is a number from 1 to {MOST_AUDIT}")
        if everybody:
            self.check_admin()
        author_id = None if everybody else self.own_id
        return tuple(self.store.audit.latest(limit or AUDIT, author_id=author_id))

    def admin_token(self, author: str = "", label: str = "") -> Redeemed:
        """Make an admin of an author, by default of `admin`, with a token of every scope; for the
        machine alone."""
        assert self.caller.is_machine
        secret, token = self._new_token(label, tuple(Scope), self.limits.token_days)
        made = self.store.accounts.admin_token(author, token, MACHINE)
        return Redeemed(secret, account_of(made))

    def _new_token(self, label: str, scopes: Sequence[Scope], days: int) -> tuple[str, NewToken]:
        """A new token: its secret, and what is stored of it."""
        if len(label) > LONGEST_LABEL:
            raise UserError(f"a label has at most {LONGEST_LABEL} characters")
        secret, digest = new_secret(SecretKind.TOKEN, self.service.entropy())
        start = secret[:SHOWN]
        return secret, NewToken(digest, start, printable(label.strip()), days, tuple(scopes))

    def _revoke(self, kind: SecretKind, secret_id: int) -> Done:
        """End a token or session of the caller's author."""
        if secret_id != self.caller.secret_id and Scope.SUBMIT not in self.caller.scopes:
            raise ApiError(Kind.DENIED, "this needs a token with the scope submit")
        self.store.accounts.revoke(kind, secret_id, self.caller.by, self.own_id)
        return Done()


def account_of(holder: Caller) -> Account:
    """The account of a token or session."""
    return Account(
        author=holder.author,
        role=holder.role.word,
        scopes=tuple(scope for scope in Scope if scope in holder.scopes),
        token_id=Int64(holder.secret_id if holder.secret_kind is SecretKind.TOKEN else 0),
        expires_at=utc_time(holder.expires_at),
    )


def _scope(word: str) -> Scope:
    try:
        return Scope(word)
    except ValueError:
        choices = ", ".join(Scope)
        raise UserError(f"there is no scope {quoted(word)}; choose from {choices}") from None
