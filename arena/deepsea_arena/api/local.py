"""A ladder on this machine, as one caller may use it.

Invariants: every method is checked against its declaration before it runs, and what it raises is a
refusal; one that is not declared cannot be called from afar; one that returns a document and
changes nothing reads a single state of the ladder.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any, TypeVar

from msgspec.structs import replace

from deepsea_arena.api.declarations import Flow, Method
from deepsea_arena.api.errors import refused_as_api_error
from deepsea_arena.api.ladder_api import METHODS, LadderApi
from deepsea_arena.api.service import MACHINE, LadderService
from deepsea_ladder.accounts import Caller
from deepsea_ladder.store import Store
from deepsea_ladder.store.database import snapshot

T = TypeVar("T", bound=type)


def _checked(method: Method, body: Callable[..., Any]) -> Callable[..., Any]:
    one_state = snapshot if method.flow is Flow.ONE and not method.changes else nullcontext

    @wraps(body)
    def call(ladder: LocalLadder, *args: Any, **fields: Any) -> Any:
        ladder.service.check(ladder.caller, method)
        with ladder.service.checked_writes(ladder.caller), one_state():
            return body(ladder, *args, **fields)

    # On the ladder's machine the operator reads the error, and may know where the store is.
    refused = refused_as_api_error(call)

    @wraps(body)
    def called(ladder: LocalLadder, *args: Any, **fields: Any) -> Any:
        return (call if ladder.caller.is_machine else refused)(ladder, *args, **fields)

    return called


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
