"""What a page of somebody's own is, and what a form of it does.

Invariants: a page reads and a form acts through `Visit.call` alone, so that the service decides who
may; what was typed is shown again if it is refused, but for secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from deepsea_arena.api.callers import Caller
from deepsea_arena.api.uploads import Upload
from deepsea_web.site.forms import Form
from deepsea_web.site.page import Query
from deepsea_web.site.visit import Visit

Values = Mapping[str, Any]
"""What a template gets."""


@dataclass(frozen=True, kw_only=True)
class OwnPage:
    """A page that depends on who looks."""

    path: str
    """Its address, as that of `Page`."""
    template: str
    """In `templates/site`."""
    title: Callable[[Values], str]
    read: Callable[[Visit, Query], Values] = lambda visit, query: {}
    """What the template gets besides `visit`."""
    parameters: tuple[str, ...] = ()
    """The parameters that it knows, besides `done`."""
    done: Mapping[str, str] = field(default_factory=dict)
    """What is said after a form has done its work, by a word in the address."""
    open: bool = False
    """Whether visitors of a private ladder see it, and get a cookie for its forms."""


@dataclass(frozen=True, kw_only=True)
class Then:
    """A form did its work; another page says so."""

    path: str
    done: str = ""
    """A word of that page's `done`."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A form did its work; what it found is shown now and never again."""

    template: str
    title: str
    values: Values


@dataclass(frozen=True, kw_only=True)
class Entered:
    """A session has begun."""

    secret: str
    caller: Caller
    """Whose it is."""
    then: Then | Shown
    seconds: int | None = None
    """How long the browser keeps it; None: until it is closed."""


@dataclass(frozen=True, kw_only=True)
class Left:
    """The session has ended."""

    then: Then


Outcome = Then | Shown | Entered | Left


@dataclass(frozen=True, kw_only=True)
class Action:
    """What a form does."""

    path: str
    """The address that the form is sent to."""
    page: OwnPage
    """The page that has the form; it is shown again with the reason, if it is refused."""
    act: Callable[[Visit, Form], Outcome]
    fields: tuple[str, ...] = ()
    """The fields that it reads."""
    secrets: tuple[str, ...] = ()
    """Those of them that are not shown again."""
    begin: Callable[[Visit], Upload] | None = None
    """Begins the upload of a form that comes with a file."""

    def typed(self, form: Form) -> Mapping[str, Sequence[str]]:
        """What is shown again."""
        return {name: form.list(name) for name in self.fields if name not in self.secrets}


SIGNED_OUT: Final = "/login"
"""Where visitors are sent who want a page of their own."""
