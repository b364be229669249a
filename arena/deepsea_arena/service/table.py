"""A row of the service's table of methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from deepsea_ladder.accounts import Role, Scope


class Flow(Enum):
    """How a method answers."""

    ONE = auto()
    """With one response."""
    MANY = auto()
    """With an iterator of responses, which ends by itself."""
    WATCH = auto()
    """With an iterator that yields a response, or None when there is nothing new at the moment: ask
    it again after a while. It may end by itself."""
    UPLOAD = auto()
    """As WATCH; the handler gets what was uploaded as `upload`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """What can be called."""

    name: str
    """As in deepsea.ladder.v1.LadderService."""
    handler: Callable[..., Any]
    """`handler(service, caller, **fields)`: the fields of the request message by name; returns a
    dataclass with the fields of the response message. It runs in a thread."""
    role: Role = Role.VISITOR
    """The least role that may call it."""
    scope: Scope | None = None
    """The scope that a token needs, too."""
    flow: Flow = Flow.ONE
    verb: str = "GET"
    """Of the HTTP API; everything but GET changes something."""
    path: str
    """Below /api/v1; names in braces are fields of the request."""
    always: bool = False
    """Whether visitors of a private ladder may call it."""
