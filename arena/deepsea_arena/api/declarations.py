"""Declarations of the API's methods: the verb, the path, and the callers of each.

LadderPart is the base of the classes that have the methods.

Invariants: the parameters and the response of a method stand in its signature alone; routes,
rights, the OpenAPI document, the table in docs/api.md and the client are made from declarations, so
that none of them can know a method that another does not.
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

if TYPE_CHECKING:  # a client loads no database
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
    """Lines, one document each, from an iterator that ends by itself."""
    EVENTS = auto()
    """Events, one document each, from an iterator that yields None while there is nothing new."""


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
    """The HTTP verb: GET and DELETE have parameters in the address, POST in an object of JSON."""
    path: str
    """The path below /api/v1; names in braces are parameters."""
    role: Role
    """The lowest role that may call the method."""
    scope: Scope | None
    """The scope that the caller's token needs; None if every token will do."""
    always: bool
    """True if visitors may call the method even on a private ladder."""
    key: str
    """The key of the response in an object of JSON; "" if the response is the document itself."""

    @property
    def name(self) -> str:
        """The name of the Python method and of the operation in the OpenAPI document."""
        return self.function.__name__

    @property
    def changes(self) -> bool:
        """True if a call changes the ladder."""
        return self.verb != "GET"

    @cached_property
    def _hints(self) -> Mapping[str, Any]:
        """The types of the parameters by name, and of the response under "return"."""
        return typing.get_type_hints(self.function)

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of a request by name; their annotations are types, not texts."""
        return {
            name: parameter.replace(annotation=self._hints[name])
            for name, parameter in inspect.signature(self.function).parameters.items()
            if name != "self"
        }

    @cached_property
    def flow(self) -> Flow:
        """The form of the response, which follows from the declared return type."""
        return_type = self._hints["return"]
        if typing.get_origin(return_type) is not Iterator:
            return Flow.ONE
        if self.response is bytes:
            return Flow.FILE
        (item_type,) = typing.get_args(return_type)
        # An iterator of `Document | None` yields None when there is nothing new.
        return Flow.EVENTS if NoneType in typing.get_args(item_type) else Flow.LINES

    @property
    def is_endless(self) -> bool:
        """True if the events never end; a reader resumes after an event with `after`."""
        return self.flow is Flow.EVENTS and "after" in self.parameters

    @cached_property
    def response(self) -> Any:
        """The type of the one document, of each line or event, or bytes for a file."""
        return_type = self._hints["return"]
        if typing.get_origin(return_type) is not Iterator:
            return return_type
        (item_type,) = typing.get_args(return_type)
        # Events are declared as `Document | None`, and a plain type has no arguments.
        union_members = typing.get_args(item_type)
        document_types = [member for member in union_members if member is not NoneType]
        return document_types[0] if document_types else item_type

    @cached_property
    def document(self) -> Any:
        """The type of the document that is sent, in which `key`, if any, holds the response."""
        if not self.key:
            return self.response
        return defstruct(f"{self.name}_document", [(self.key, self.response)], frozen=True)

    def document_of(self, response: object) -> object:
        """Return the document that is sent for a response of this method."""
        return {self.key: response} if self.key else response

    def response_of(self, document: object) -> Any:
        """Return the response in a document that was received and read as `document`."""
        return getattr(document, self.key) if self.key else document


@dataclass(frozen=True, slots=True)
class Done:
    """An empty response."""


def method(
    verb: str,
    path: str,
    *,
    role: Role = Role.VISITOR,
    scope: Scope | None = None,
    always: bool = False,
    key: str = "",
) -> Callable[[F], F]:
    """Return a decorator that declares a function as a method of the API.

    verb    the HTTP verb
    path    the path below /api/v1; names in braces are parameters
    role    the lowest role that may call the method
    scope   the scope that the caller's token needs; None if every token will do
    always  True if visitors may call the method even on a private ladder
    key     the key of the response in the JSON that is sent; "": the response is all of it
    """

    def declare(function: F) -> F:
        function.declared = Method(function, verb, path, role, scope, always, key)  # type: ignore[attr-defined]
        return function

    return declare


def methods_of(api: type) -> Mapping[str, Method]:
    """Return the methods that a class and its bases declare, by name.

    The classes follow each other in the order of inheritance; the methods of each stand in the
    order of its source.
    """
    methods = {}
    for base in api.__mro__:
        for name, member in vars(base).items():
            declared = getattr(member, "declared", None)  # set by the decorator `method`
            if declared is not None:
                methods[name] = declared
    return methods


class LadderPart:
    """The base of a part of `LadderApi`, with the caller for whom its methods run."""

    service: LadderService
    caller: Caller
    store: Store
    limits: RemoteLimits

    @property
    def own_id(self) -> int:
        """The id of the caller's author. Raises UserError for a caller without an account."""
        if not self.caller.author_id:
            raise UserError("this is about one's own account, and the machine has none")
        return self.caller.author_id

    def is_own(self, author: str) -> bool:
        """Return True if this is the name of the caller's author."""
        return bool(self.caller.author) and names.same(author, self.caller.author)

    def check_admin(self) -> None:
        """Raise ApiError unless the caller is an admin with the scope admin."""
        if not self.caller.is_admin:
            raise ApiError(RefusalKind.DENIED, "this needs an admin's token with the scope admin")
