"""Declarations of the API's methods: the verb, the path, and who may call each; and the base of the
classes that have the methods.

Invariants: whatever a method takes and returns stands in its signature alone; routes, rights, the
OpenAPI document, the table in docs/api.md and the client are made from declarations, so that none
of them can know a method that another does not.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import defstruct

from deepsea_arena.api.errors import ApiError, RefusalKind
from deepsea_bundle import names
from deepsea_ladder.accounts import Caller, Role, Scope
from deepsea_referee.errors import UserError

if TYPE_CHECKING:  # a client has neither
    from deepsea_arena.api.service import LadderService
    from deepsea_ladder.limits import RemoteLimits
    from deepsea_ladder.store import Store


F = TypeVar("F", bound=Callable[..., Any])


class Flow(Enum):
    """The form of a response."""

    ONE = auto()
    """One document."""
    FILE = auto()
    """A file, in parts of bytes."""
    LINES = auto()
    """Lines, one document each, of an iterator that ends by itself."""
    EVENTS = auto()
    """Events, one document each, of an iterator that yields None when there is nothing new at the
    moment, to be asked again after a while."""


MEDIA_TYPES = {
    Flow.ONE: "application/json",
    Flow.LINES: "application/x-ndjson",
    Flow.EVENTS: "text/event-stream",
    Flow.FILE: "application/zip",
}


@dataclass(frozen=True)
class Method:
    """A declared method of `LadderApi`."""

    function: Callable[..., Any]
    verb: str
    """GET and DELETE take their parameters from the address, POST takes an object of JSON."""
    path: str
    """Below /api/v1; names in braces are parameters."""
    role: Role
    """The least role that may call it."""
    scope: Scope | None
    """The scope that a token needs, too."""
    always: bool
    """True if visitors may call it on a private ladder, too."""
    key: str
    """The key of the response in an object of JSON; "" if the response is the document itself."""

    @property
    def name(self) -> str:
        """The name of the Python method, and the operation's in the OpenAPI document."""
        return self.function.__name__

    @property
    def changes(self) -> bool:
        """True if a call changes the ladder."""
        return self.verb != "GET"

    @cached_property
    def _hints(self) -> Mapping[str, Any]:
        return typing.get_type_hints(self.function)

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of a request, by name, with their types resolved."""
        found = inspect.signature(self.function).parameters.values()
        return {
            one.name: one.replace(annotation=self._hints[one.name])
            for one in found
            if one.name != "self"
        }

    @cached_property
    def flow(self) -> Flow:
        """The form of the response."""
        declared = self._hints["return"]
        if typing.get_origin(declared) is not Iterator:
            return Flow.ONE
        if self.response is bytes:
            return Flow.FILE
        return (
            Flow.EVENTS if NoneType in typing.get_args(*typing.get_args(declared)) else Flow.LINES
        )

    @property
    def is_endless(self) -> bool:
        """True if its events never end: `after` has it go on after one that the reader has."""
        return self.flow is Flow.EVENTS and "after" in self.parameters

    @cached_property
    def response(self) -> Any:
        """The type of the response, of each event, or bytes."""
        declared = self._hints["return"]
        if typing.get_origin(declared) is not Iterator:
            return declared
        (item,) = typing.get_args(declared)
        kinds = [one for one in typing.get_args(item) if one is not NoneType]
        return kinds[0] if kinds else item

    @cached_property
    def document(self) -> Any:
        """The type of the document that is sent."""
        if not self.key:
            return self.response
        return defstruct(f"{self.name}_document", [(self.key, self.response)], frozen=True)

    def document_of(self, response: object) -> object:
        """The document that is sent for a response."""
        return {self.key: response} if self.key else response

    def response_of(self, document: object) -> Any:
        """The response in a document that came."""
        return getattr(document, self.key) if self.key else document


@dataclass(frozen=True, slots=True)
class Done:
    """Empty response."""


def method(
    verb: str,
    path: str,
    *,
    role: Role = Role.VISITOR,
    scope: Scope | None = None,
    always: bool = False,
    key: str = "",
) -> Callable[[F], F]:
    """Declare a method; the parameters are the fields of `Method`."""

    def declare(function: F) -> F:
        function.declared = Method(function, verb, path, role, scope, always, key)  # type: ignore[attr-defined]
        return function

    return declare


def methods_of(api: type) -> Mapping[str, Method]:
    """The methods that a class and its bases declare, by name, in the order of the declarations."""
    found = {
        name: getattr(member, "declared", None)
        for part in api.__mro__
        for name, member in vars(part).items()
    }
    return {name: declared for name, declared in found.items() if declared is not None}


class LadderPart:
    """Some methods of `LadderApi`, as one caller calls them on the ladder's machine."""

    service: LadderService
    caller: Caller
    store: Store
    limits: RemoteLimits

    @property
    def own_id(self) -> int:
        """The caller's author. Raises UserError for a caller without an account."""
        if not self.caller.author_id:
            raise UserError("this is about one's own account, and the machine has none")
        return self.caller.author_id

    def is_own(self, author: str) -> bool:
        """True if this is the name of the caller's author."""
        return bool(self.caller.author) and names.same(author, self.caller.author)

    def check_admin(self) -> None:
        """Raise ApiError for callers who are no admins."""
        if not self.caller.is_admin:
            raise ApiError(RefusalKind.DENIED, "this needs an admin's token with the scope admin")
