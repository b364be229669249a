"""Accounts for whoever runs commands on the ladder's machine: the service, called by the machine.

Invariant: nothing is checked here that the service checks; what only the machine may do is to make
an admin, and to see and end the tokens of any author.
"""

from __future__ import annotations

from typing import Any

from deepsea_arena.service.accounts import (
    AUDIT,
    AuditList,
    Redeemed,
    TokenList,
    account_of,
    audit_line,
    token_line,
    token_to_be,
)
from deepsea_arena.service.caller import MACHINE
from deepsea_arena.service.errors import ServiceError
from deepsea_arena.service.methods import METHODS
from deepsea_arena.service.service import LadderService
from deepsea_ladder.accounts import Scope
from deepsea_ladder.errors import LadderError
from deepsea_ladder.store import Store
from deepsea_sdk.entropy import fresh_seed


def call(store: Store, name: str, **fields: object) -> Any:
    """The response of a method of the service, called by the machine."""
    try:
        return _service(store).call(MACHINE, name, **fields)
    except ServiceError as refused:
        # Here the operator reads it, who may know where the store is.
        if isinstance(refused.__cause__, LadderError):
            raise refused.__cause__ from None
        raise


def admin_token(store: Store, author: str = "", label: str = "") -> Redeemed:
    """A token with every scope, of an author who is made an admin; without a name, of `admin`."""
    service = _service(store)
    secret, token = token_to_be(service, label, tuple(Scope), service.limits.token_days)
    return Redeemed(secret, account_of(store.accounts.admin_token(author, token, MACHINE.by)))


def tokens_of(store: Store, author: str) -> TokenList:
    """The valid tokens of an author."""
    found = store.accounts.tokens(store.authors.get(author).id)
    return TokenList(tuple(map(token_line, found)))


def revoke_token(store: Store, author: str, token_id: int) -> None:
    """End a token of an author."""
    store.accounts.revoke_token(store.authors.get(author).id, token_id, MACHINE.by)


def audit(store: Store, limit: int = AUDIT, author: str = "") -> AuditList:
    """The newest entries of the audit log, of everybody or about one author."""
    author_id = store.authors.get(author).id if author else None
    return AuditList(tuple(map(audit_line, store.audit.latest(limit, author_id=author_id))))


def _service(store: Store) -> LadderService:
    # The operator sees what is under embargo, too.
    return LadderService(store, store, METHODS, entropy=fresh_seed)
