"""Pages of a reader's own, their forms, and the outcomes of forms.

Invariants: a page reads and a form acts through `Visit.ladder` alone, so that the service decides
about rights; a refused form is shown again as it was typed, but for secrets; it counts only with
the token that was made for its sender's cookie.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from deepsea_arena.api.callers import Caller
from deepsea_arena.api.uploads import Upload
from deepsea_referee.errors import UserError
from deepsea_rules.printable import quoted
from deepsea_web.http import same_secret, whole_number
from deepsea_web.server.access import Access, is_foreign
from deepsea_web.site.page import Query, Visit

Values = Mapping[str, Any]
"""The values of a template."""
SIGNED_OUT = "/login"
"""The page for visitors who want one of their own."""
TOKEN = "form"
"""The field that proves that a form was made for who sends it."""
_FOREIGN = (
    "This form was not sent by a page of this site: open the page again, and send it from there."
)
OLD = "This form is from before you logged in or out: open the page again, and send it anew."


@dataclass(frozen=True, kw_only=True)
class OwnPage:
    """A page that depends on who looks."""

    path: str
    """Its address, as that of `Page`."""
    template: str
    """In `templates/site`."""
    title: Callable[[Values], str]
    read: Callable[[Visit, Query], Values] = lambda visit, query: {}
    """Values of the template besides `visit`."""
    parameters: tuple[str, ...] = ()
    """The parameters that it knows, besides `done`."""
    done: Mapping[str, str] = field(default_factory=dict)
    """Sentences after a form has done its work, by a word in the address."""
    open: bool = False
    """Whether visitors of a private ladder see it, and get a cookie for its forms."""


@dataclass(frozen=True, kw_only=True)
class Redirect:
    """A form did its work; another page says so."""

    path: str
    done: str = ""
    """A word of that page's `done`."""


@dataclass(frozen=True, kw_only=True)
class OneTimePage:
    """A form did its work; what it found is shown now and never again."""

    template: str
    title: str
    values: Values


@dataclass(frozen=True, kw_only=True)
class LoggedIn:
    """A session has begun."""

    secret: str
    caller: Caller
    """Whose it is."""
    answer: Redirect | OneTimePage
    seconds: int | None = None
    """The time for which the browser keeps it; None: until it is closed."""


@dataclass(frozen=True, kw_only=True)
class LoggedOut:
    """The session has ended."""

    answer: Redirect


Outcome = Redirect | OneTimePage | LoggedIn | LoggedOut


@dataclass(frozen=True, kw_only=True)
class Action:
    """A form, and its work."""

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
        """The fields that are shown again."""
        return {name: form.list(name) for name in self.fields if name not in self.secrets}


@dataclass(frozen=True)
class Form:
    """The fields of a form that its action reads. Raises UserError for what makes no sense."""

    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)
    upload: Any = None
    """The file that came with it, if it takes one."""

    def text(self, name: str) -> str:
        """A field without the spaces around it; "" if it was not sent."""
        given = self.fields.get(name, ())
        if len(given) > 1:
            raise UserError(f"{name} is given twice")
        return given[0].strip() if given else ""

    def list(self, name: str) -> Sequence[str]:
        """All fields of that name: the ticked boxes of a list."""
        return self.fields.get(name, ())

    def number(self, name: str) -> int:
        """A whole number; 0 if the field is empty."""
        given = self.text(name)
        if not given:
            return 0
        number = whole_number(given)
        if number is None:
            raise UserError(f"{name} is a whole number, not {quoted(given, 40)}")
        return number


def form_token(secret: str) -> str:
    """The token in forms for the holder of a cookie; it does not reveal the cookie."""
    return hmac.new(secret.encode(), b"deepsea form", hashlib.sha256).hexdigest()


def check_form_token(form: Form, key: str | None) -> None:
    """Raise 403 unless a form was made for the holder of this cookie."""
    given = form.list(TOKEN)
    expected = "" if key is None else form_token(key)
    if not (expected and len(given) == 1 and same_secret(given[0], expected)):
        raise HTTPException(403, OLD)


def check_origin(request: Request, access: Access) -> None:
    """Raise 403 unless a browser says that one of this site's own pages sends this."""
    if "origin" not in request.headers or is_foreign(request, access):
        raise HTTPException(403, _FOREIGN)


def form_of(pairs: Sequence[tuple[str, str]], names: Sequence[str]) -> Form:
    """A form with the fields that have these names; others are left out."""
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        if name in (TOKEN, *names):
            fields.setdefault(name, []).append(value)
    return Form(fields)
