"""One's own account: codes that become tokens, tokens, sessions, and what the audit log has.

Invariants: a method touches the caller's author and nobody else; a secret is shown once, in the
response that makes it, and stored as its hash; a token never gives more than the one that made it.
"""

from __future__ import annotations

from collections.abc import Sequence

from deepsea_arena.api.callers import MACHINE
from deepsea_arena.api.errors import ApiError, Kind
from deepsea_arena.api.service import LadderPart
from deepsea_arena.api.types import (
    Account,
    AuditLine,
    AuditList,
    CreatedToken,
    Done,
    Redeemed,
    SessionList,
    TokenList,
    WhoIs,
)
from deepsea_ladder.accounts import (
    SHOWN,
    USUAL_SCOPES,
    Credential,
    Scope,
    address_prefix,
    code_digest,
    new_token,
    token_digest,
)
from deepsea_ladder.errors import CodeRefused
from deepsea_ladder.store.accounts import NewToken
from deepsea_ladder.values import Int64, utc_time
from deepsea_referee.errors import UserError
from deepsea_rules.printable import printable, quoted

LONGEST_LABEL = 60
AUDIT = 100
MOST_AUDIT = 1000


class AccountMethods(LadderPart):
    """The methods of one's own account."""

    def redeem(self, *, code: str = "", author: str = "", label: str = "") -> Redeemed:
        secret, token = self._new_token(label, USUAL_SCOPES, self.limits.token_days)
        digest = code_digest(code)
        try:
            if digest is None:
                raise CodeRefused("this is no code: it has the form XXXX-XXXX-XXXX-XXXX")
            prefix = address_prefix(self.caller.address)
            found = self.store.accounts.redeem(digest, author, token, prefix)
        except CodeRefused:
            self.service.failures.add(self.caller.address)
            raise
        return Redeemed(secret, account_of(found))

    def who_am_i(self) -> WhoIs:
        assert self.own_id
        found = self.store.accounts.still(self.caller.token_id, self.caller.session_id)
        if found is None:
            raise ApiError(Kind.UNAUTHENTICATED, "this token is no longer valid")
        return WhoIs(account_of(found))

    def tokens(self) -> TokenList:
        return TokenList(tuple(self.store.accounts.tokens(self.own_id)))

    def create_token(
        self,
        *,
        label: str = "",
        scopes: Sequence[str] = (),
        days: int = 0,
    ) -> CreatedToken:
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

    def revoke_token(self, *, id: int = 0) -> Done:  # noqa: A002
        self._check_may_end(own=id == self.caller.token_id)
        self.store.accounts.revoke_token(self.own_id, id, self.caller.by)
        return Done()

    def sessions(self) -> SessionList:
        return SessionList(tuple(self.store.sessions.of(self.own_id)))

    def end_session(self, *, id: int = 0) -> Done:  # noqa: A002
        self._check_may_end(own=id == self.caller.session_id)
        self.store.sessions.end(self.own_id, id, self.caller.by)
        return Done()

    def audit(self, *, limit: int = 0, everybody: bool = False) -> AuditList:
        if not 0 <= limit <= MOST_AUDIT:
            raise UserError(f"limit is a number from 1 to {MOST_AUDIT}")
        if everybody:
            self.check_admin()
        author_id = None if everybody else self.own_id
        found = self.store.audit.latest(limit or AUDIT, author_id=author_id)
        return AuditList(
            tuple(
                AuditLine(one.at, one.kind, one.subject, one.note, one.actor, one.address)
                for one in found
            )
        )

    def admin_token(self, author: str = "", label: str = "") -> Redeemed:
        """Make an admin of an author, by default of `admin`, with a token of every scope; for the
        machine alone."""
        assert self.caller.is_machine
        secret, token = self._new_token(label, tuple(Scope), self.limits.token_days)
        made = self.store.accounts.admin_token(author, token, MACHINE.by)
        return Redeemed(secret, account_of(made))

    def _new_token(self, label: str, scopes: Sequence[Scope], days: int) -> tuple[str, NewToken]:
        """A new token: its secret, and what is stored of it."""
        if len(label) > LONGEST_LABEL:
            raise UserError(f"a label has at most {LONGEST_LABEL} characters")
        secret = new_token(self.service.entropy())
        digest = token_digest(secret)
        assert digest is not None
        start = secret[:SHOWN]
        return secret, NewToken(digest, start, printable(label.strip()), days, tuple(scopes))

    def _check_may_end(self, *, own: bool) -> None:
        if not own and Scope.SUBMIT not in self.caller.scopes:
            raise ApiError(Kind.DENIED, "this needs a token with the scope submit")


def account_of(found: Credential) -> Account:
    """The account of a token or session."""
    return Account(
        author=found.author,
        role=found.role.word,
        scopes=tuple(found.scopes),
        token_id=Int64(found.token_id),
        expires_at=utc_time(found.expires_at),
    )


def _scope(word: str) -> Scope:
    try:
        return Scope(word)
    except ValueError:
        choices = ", ".join(Scope)
        raise UserError(f"there is no scope {quoted(word)}; choose from {choices}") from None
