"""A ladder on this machine, as one caller may use it. Start reading at LocalLadder.

Invariants: nobody calls a method without the role and the scope of its declaration; every write of
a call begins, in its own transaction, with a check that the caller's token or session still gives
both; the bodies of methods check only what depends on the arguments of a call. Every exception of a
method is a refusal; a method that is not declared cannot be called over HTTP; a method that returns
a document and changes nothing reads a single state of the ladder.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any, TypeVar

from msgspec.structs import replace

from deepsea_arena.api.declarations import Flow, Method
from deepsea_arena.api.errors import ApiError, RefusalKind, refusal_of
from deepsea_arena.api.ladder_api import METHODS, LadderApi
from deepsea_arena.api.service import MACHINE, LadderService, invalid_secret
from deepsea_ladder.accounts import Caller, Role
from deepsea_ladder.store import Store
from deepsea_ladder.store.database import snapshot

T = TypeVar("T", bound=type)


def check_call(service: LadderService, caller: Caller, method: Method) -> None:
    """Raise ApiError if the caller does not have the role and the scope that a method needs."""
    role = method.role
    if service.private and not method.always:
        role = max(role, Role.AUTHOR)  # visitors of a private ladder may read nothing
    if caller.may(role, method.scope):
        return
    if caller.role is Role.VISITOR:
        raise ApiError(
            RefusalKind.UNAUTHENTICATED, "this needs a token: deepsea-referee ladder login"
        )
    if caller.role < role:
        raise ApiError(RefusalKind.DENIED, f"this needs the role {role.word}")
    raise ApiError(RefusalKind.DENIED, f"this needs a token with the scope {method.scope}")


def _checked_writes(store: Store, caller: Caller) -> AbstractContextManager[None]:
    """Return a context in which each write of this thread first checks the caller's rights.

    The check is part of the write's transaction, so that a token that was revoked meanwhile
    changes nothing.
    """
    if not caller.secret_id:  # a visitor or the machine has no token that could be revoked
        return nullcontext()

    def check_rights(holder: Caller | None) -> None:
        """Raise ApiError unless the stored `holder` of the token still has the caller's rights."""
        if not caller.is_proved_by(holder):
            raise invalid_secret(caller.secret_kind)

    return store.accounts.checked_writes(check_rights, caller.secret_id)


def _with_checks(method: Method, body: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the body of an API method: check the caller's rights, and turn errors into refusals.

    A method that returns one document and changes nothing reads a snapshot of the store.
    """
    reads_snapshot = method.flow is Flow.ONE and not method.changes
    open_context = snapshot if reads_snapshot else nullcontext

    @wraps(body)
    def call(ladder: LocalLadder, *args: Any, **fields: Any) -> Any:
        """Check the caller's rights, then run the body; raise refusals in place of exceptions."""
        try:
            check_call(ladder.service, ladder.caller, method)
            with _checked_writes(ladder.store, ladder.caller), open_context():
                return body(ladder, *args, **fields)
        except Exception as error:
            if ladder.caller.is_machine:
                raise  # to the operator, who may read what a refusal hides, such as paths
            refusal = refusal_of(error)
            if refusal is error:
                raise
            raise refusal from error

    return call


def _with_all_checks(ladder: T) -> T:
    """Decorate a class of ladder: replace each declared method by its checked form."""
    for name, declared in METHODS.items():
        setattr(ladder, name, _with_checks(declared, getattr(ladder, name)))
    return ladder


@_with_all_checks
class LocalLadder(LadderApi):
    """The ladder as one caller may use it; a new one is made for each call or visit."""

    def __init__(self, service: LadderService, caller: Caller) -> None:
        self.service = service
        self.caller = caller
        self.store = service.store
        self.limits = service.limits


def ladder_of(store: Store, author: str | None = None) -> LocalLadder:
    """Return the ladder for a command on its machine, which has every right.

    author  the author on whose account the command acts; None if it acts on none
    """
    caller = MACHINE
    if author is not None:
        caller = replace(MACHINE, author=author, author_id=store.authors.id_of(author))
    return LocalLadder(LadderService(store, entropy=_fresh_seed), caller)


def _fresh_seed() -> bytes:
    """Return 32 unpredictable bytes."""
    from deepsea_sdk.entropy import fresh_seed  # here, since it loads the whole SDK

    return fresh_seed()
