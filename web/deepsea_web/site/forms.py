"""Forms that were sent: whether they are this site's, and what stands in them.

Invariants: nothing is read of a form that comes from another site; a form is at most LONGEST bytes
long and arrives within PATIENCE_US; a field that is sent twice is refused, unless it is a list.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from deepsea_referee.errors import UserError
from deepsea_referee.timing.clock import Clock, time_limit
from deepsea_rules.printable import quoted
from deepsea_web.numbers import whole_number
from deepsea_web.server.access import Access, is_foreign

TOKEN: Final = "form"
"""The field that proves that a form was made for who sends it."""
LONGEST: Final = 64 * 1024
PATIENCE_US: Final = 10_000_000
_KIND: Final = "application/x-www-form-urlencoded"
_FOREIGN: Final = (
    "This form was not sent by a page of this site: open the page again, and send it from there."
)
OLD: Final = "This form is from before you logged in or out: open the page again, and send it anew."


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
    """What the forms that are made for the holder of a cookie carry; the cookie cannot be told."""
    return hmac.new(secret.encode(), b"deepsea form", hashlib.sha256).hexdigest()


def check_form_token(form: Form, key: str | None) -> None:
    """Raise 403 unless a form was made for the holder of this cookie."""
    given = form.list(TOKEN)
    expected = "" if key is None else form_token(key)
    if not (expected and len(given) == 1 and _same(given[0], expected)):
        raise HTTPException(403, OLD)


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(errors="replace"), other.encode())


def check_origin(request: Request, access: Access) -> None:
    """Raise 403 unless a browser says that one of this site's own pages sends this."""
    if "origin" not in request.headers or is_foreign(request, access):
        raise HTTPException(403, _FOREIGN)


async def read_form(request: Request, names: Sequence[str], clock: Clock) -> Form:
    """The fields with these names; raises UserError or HTTPException for what is no small form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _KIND:
        raise HTTPException(415, f"A form is sent as {_KIND}.")
    try:
        async with time_limit(clock, PATIENCE_US):
            body = await _body(request)
    except (TimeoutError, ClientDisconnect):
        raise HTTPException(408, "The form did not arrive in time.") from None
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=100
        )
    except ValueError:
        raise UserError("the form cannot be read") from None
    return form_of(pairs, names)


def form_of(pairs: Sequence[tuple[str, str]], names: Sequence[str]) -> Form:
    """A form with the fields that have these names; others are left out."""
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        if name in (TOKEN, *names):
            fields.setdefault(name, []).append(value)
    return Form(fields)


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LONGEST:
            raise HTTPException(413, f"A form is at most {LONGEST // 1024} KiB long.")
    return bytes(body)
