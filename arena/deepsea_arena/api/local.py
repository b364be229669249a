"""A ladder on this machine, as one caller may use it.

Invariants: nobody calls a method without the role and the scope of its declaration; every write of
a call begins, in its own transaction, with a check that the caller's token or session still gives
both; bodies check only what depends on the arguments of a call. What a method raises is a refusal;
one that is not declared cannot be called from afar; one that returns a document and changes nothing
reads a single state of the ladder.
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
    """Raise ApiError if the caller may not call the method."""
    least = Role.AUTHOR if service.private and not method.always else method.role
    role = max(least, method.role)
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
    """Check the caller's rights at the beginning of each write of this thread meanwhile."""

    def check(holder: Caller | None) -> None:
        if not caller.is_proved_by(holder):
            raise invalid_secret(caller.secret_kind)

    if not caller.secret_id:
        return nullcontext()  # a visitor, or the machine
    return store.accounts.checked_writes(check, caller.secret_id)


def _checked(method: Method, body: Callable[..., Any]) -> Callable[..., Any]:
    one_state = snapshot if method.flow is Flow.ONE and not method.changes else nullcontext

    @wraps(body)
    def call(ladder: LocalLadder, *args: Any, **fields: Any) -> Any:
        try:
            check_call(ladder.service, ladder.caller, method)
            with _checked_writes(ladder.store, ladder.caller), one_state():
                return body(ladder, *args, **fields)
        except Exception as error:
            # On the ladder's machine the operator reads the error, and may know where the store is.
            refusal = error if ladder.caller.is_machine else refusal_of(error)
            if refusal is error:
                raise
            raise refusal from error

    return call


def _all_checked(ladder: T) -> T:
    for name, declared in METHODS.items():
        setattr(ladder, name, _checked(declared, getattr(ladder, name)))
    return ladder


@_all_checked
class LocalLadder(LadderApi):
    """The ladder as one caller may use it; made for each call or visit."""

    def __init__(self, service: LadderService, caller: Caller) -> None:
        self.service = service
        self.caller = caller
        self.store = service.store
        self.limits = service.limits


def ladder_of(store: Store, author: str | None = None) -> LocalLadder:
    """A ladder for commands on its machine.

    author  whose account it is about, if it is about one
    """
    caller = MACHINE
    if author is not None:
        caller = replace(MACHINE, author=author, author_id=store.authors.id_of(author))
    return LocalLadder(LadderService(store, entropy=_fresh_seed), caller)


def _fresh_seed() -> bytes:
    from deepsea_sdk.entropy import fresh_seed  # the whole SDK comes with it

    return fresh_seed()
