"""Pages of a reader's own, their forms, and the outcomes of forms.

Invariants: a page reads and a form acts through `Visit.ladder` alone, so that the service decides
about rights; a form counts only if it was sent by a page of this site; a refused form is shown
again as it was typed, but for secrets; a form with a file is read as it arrives, within the
upload's limits.

Sessions of the site and their cookies: one for a session, one for visitors who play, one that
tells the scripts of pages who is logged in.

Invariants: a cookie is sent to this site alone, and one that gives a right is not seen by scripts;
where there is TLS it has the prefix `__Host-`, with which no other host and no plain connection can
set it. Two ladders on one host have cookies of different names.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response

from deepsea_arena.api.errors import ApiError, RefusalKind
from deepsea_arena.api.service import visitor
from deepsea_arena.api.submissions import Archive
from deepsea_arena.documents import parameter
from deepsea_bundle import names
from deepsea_bundle.archive import LIMITS, pack
from deepsea_bundle.program import collect_single
from deepsea_ladder.accounts import Caller, SecretKind
from deepsea_ladder.limits import RemoteLimits, size_in_words
from deepsea_referee.clock import Clock, time_limit
from deepsea_referee.errors import UserError
from deepsea_web.access import Access, check_texts, is_foreign
from deepsea_web.gateway import PART, Gateway, archive_in, upload_parts
from deepsea_web.http import NO_STORE, BodyTooLong, at_most
from deepsea_web.site.page import KINDS, Query, Visit

Values = Mapping[str, Any]
"""The values of a template."""
SIGNED_OUT = "/login"
"""The page for visitors who want one of their own."""
_FOREIGN = (
    "This form was not sent by a page of this site: open the page again, and send it from there."
)
LONGEST_FIELD = 4096
MOST_FIELDS = 16
_FRAME = 64 * 1024
"""Bytes of a form besides its file."""
DRAINED = 32 * 1024 * 1024
DRAIN_US = 10_000_000
"""Bytes, and the time, that are read of a form that is refused already."""
_NO_FILE = "choose a file: a zip or a Python file"
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # what strangers send is no news


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
    """True if visitors of a private ladder see the page, too."""
    names_visitors: bool = False
    """True if visitors get a cookie here, by which what they begin is theirs."""


@dataclass(frozen=True, kw_only=True)
class Redirect:
    """A form did its work; another page says so."""

    path: str
    done: str = ""
    """A word of that page's `done`."""
    ends_session: bool = False


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


Outcome = Redirect | OneTimePage | LoggedIn


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
    has_file: bool = False
    """True if the form comes with the file of a bot."""

    def typed(self, form: Form) -> Mapping[str, Sequence[str]]:
        """The fields that are shown again."""
        return {name: form.list(name) for name in self.fields if name not in self.secrets}


@dataclass(frozen=True)
class Form:
    """The fields of a form that its action reads. Raises UserError for what makes no sense."""

    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)
    archive: Archive | None = None
    """The bot that came with it, if it takes one."""

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
        return int(parameter(int, name, given, is_text=True)) if given else 0


def check_origin(request: Request, access: Access) -> None:
    """Raise 403 unless a browser says that one of this site's own pages sends this."""
    if "origin" not in request.headers or is_foreign(request, access):
        raise HTTPException(403, _FOREIGN)


def form_of(pairs: Sequence[tuple[str, str]], wanted: Sequence[str]) -> Form:
    """A form with the fields that have these names; others are left out. Raises UserError."""
    check_texts("the form", pairs)
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        if name in wanted:
            fields.setdefault(name, []).append(value)
    return Form(fields)


# A form with a file


class _Parser(MultiPartParser):
    spool_max_size = PART


async def read_upload(
    request: Request, limits: RemoteLimits, clock: Clock
) -> tuple[list[tuple[str, str]], UploadFile]:
    """The fields of a form, and its file, to be closed.

    Raises UserError, or HTTPException if its sender has left.
    """
    parts = upload_parts(request, limits, clock)
    try:
        kind, options = parse_options_header(request.headers.get("content-type", ""))
        if kind != b"multipart/form-data" or b"charset" in options:
            raise UserError("a form with a file is sent as multipart/form-data")
        parser = _Parser(
            request.headers,
            at_most(parts, limits.archive_bytes + _FRAME),
            max_files=1,
            max_fields=MOST_FIELDS,
            max_part_size=LONGEST_FIELD,
        )
        form = await parser.parse()
    except ClientDisconnect:
        raise HTTPException(408, "The form did not arrive whole.") from None
    except (BodyTooLong, MultiPartException, UserError) as error:
        await _drain(parts, clock)
        if isinstance(error, UserError):
            raise
        sentence = "the form cannot be read, or has more than a bot's name and file"
        if isinstance(error, BodyTooLong):
            sentence = f"a bot has at most {size_in_words(limits.archive_bytes)}"
        raise UserError(sentence) from None
    given = form.multi_items()
    files = [file for _, file in given if isinstance(file, UploadFile)]
    if not files:
        raise UserError(_NO_FILE)
    return [(name, text) for name, text in given if isinstance(text, str)], files[0]


def archive_of(file: UploadFile, form: Form) -> Archive:
    """The archive of a form's file, which is a zip, or a Python file, of which a zip is made."""
    if not file.filename:
        raise UserError(_NO_FILE)
    # Some browsers send a path; a name that is none is refused by what reads the bot.
    name = PurePosixPath(PureWindowsPath(file.filename).name)
    bot, key = form.text("bot"), form.text("key")
    if name.suffix.lower() != ".py":
        return archive_in(file.file, bot, key)
    program = file.file.read(LIMITS.file_bytes + 1)
    if len(program) > LIMITS.file_bytes:
        raise UserError(f"a file of a bot has at most {LIMITS.file_bytes:,} bytes")
    archive = pack(collect_single(program, LIMITS).files)
    return archive_in(BytesIO(archive), bot or names.name_from(name.stem), key)


async def _drain(parts: AsyncIterable[bytes], clock: Clock) -> None:
    """Read on for a while: a browser shows no answer before it has sent all."""
    try:
        async with time_limit(clock, DRAIN_US):
            async for _ in at_most(parts, DRAINED):
                pass
    except (TimeoutError, BodyTooLong, ApiError, ClientDisconnect):
        return


_VALUE = re.compile(r"[A-Za-z0-9_.~%-]{1,500}")
UNSEEN = {**NO_STORE, "Vary": "Cookie"}
"""The headers of what depends on who looks."""
MEMBER = "deepsea.member"
"""The key of the caller in the scope of a request with a session."""


class Cookie:
    """A cookie of the site; one with `scripts` is seen by scripts, too."""

    def __init__(self, access: Access, purpose: str, *, scripts: bool = False) -> None:
        address = f"{access.origin}{access.prefix}"
        # The path has to be / for the prefix, so that the name has to tell ladders apart.
        name = f"deepsea-{purpose}-{hashlib.sha256(address.encode()).hexdigest()[:8]}"
        self._safe = access.origin.startswith("https:")
        self.name = f"__Host-{name}" if self._safe else name
        self._scripts = scripts

    def read(self, headers: Sequence[str]) -> str | None:
        """Its value in the `Cookie` headers; None if it is not there, is none of ours, or is
        there twice: a cookie of another site may have its name."""
        pairs = [one.strip().partition("=") for header in headers for one in header.split(";")]
        values = [value for name, _, value in pairs if name == self.name]
        return values[0] if len(values) == 1 and _VALUE.fullmatch(values[0]) else None

    def give(self, value: str, seconds: int | None = None) -> str:
        """The `Set-Cookie` header that sets it: for the browser's session, or for a time."""
        return self._header(value, "" if seconds is None else f"; Max-Age={seconds}")

    def take(self) -> str:
        """The `Set-Cookie` header that removes it."""
        return self._header("", "; Max-Age=0")

    def _header(self, value: str, age: str) -> str:
        secure = "; Secure" if self._safe else ""
        hidden = "" if self._scripts else "; HttpOnly"
        return f"{self.name}={value}; Path=/{age}{secure}{hidden}; SameSite=Lax"


@dataclass(frozen=True)
class Seen:
    """A reader, by the cookies of a request."""

    visit: Visit
    session: str | None
    """The secret of the session; None of visitors."""


class SessionAuth:
    """Looks readers up by their cookies, and makes the pages that are theirs alone."""

    def __init__(self, access: Access, gateway: Gateway) -> None:
        self.access = access
        self.gateway = gateway
        self.service = gateway.service
        self.in_thread = gateway.in_thread
        self.clock = gateway.clock
        self.session = Cookie(access, "session")
        self.visitor = Cookie(access, "visitor")
        self.author = Cookie(access, "author", scripts=True)

    async def seen(self, request: Request) -> Seen:
        """The reader, by the session's cookie if there is one."""
        cookies = request.headers.getlist("cookie")
        address = request.client.host if request.client else ""
        session = self.session.read(cookies) if self.access.keeps_secrets(address) else None
        caller: Caller | None = None
        if session is not None:
            caller = await self.in_thread(partial(self._caller, session, address))
        if caller is None:
            session, caller = None, visitor(address)
        else:
            request.scope[MEMBER] = caller
        return Seen(self.visit(caller, self.visitor.read(cookies)), session)

    def _caller(self, session: str, address: str) -> Caller | None:
        try:
            return self.service.caller_of(session, address, SecretKind.SESSION)
        except ApiError as error:
            if error.kind is RefusalKind.UNAUTHENTICATED:
                return None
            raise

    def visit(self, caller: Caller, visitor: str | None = None) -> Visit:
        """A visit of a member, or of a visitor, who is known by a cookie alone."""
        if visitor is not None and not caller.author_id:
            caller = replace(caller, visitor=hashlib.sha256(visitor.encode()).hexdigest())
        return Visit(caller=caller, service=self.service)

    def to_login(self, request: Request) -> Response:
        """A visitor wants what needs a session."""
        path = request.scope["path"].removeprefix(self.access.prefix)
        url = self.access.url(SIGNED_OUT, next=None if path == "/" else path)
        return RedirectResponse(url, 303, UNSEEN)

    def tell_scripts(self, request: Request, seen: Seen, response: Response) -> Response:
        """The response, with the name of its reader's author if scripts know another one."""
        author = quote(seen.visit.author, safe="")
        if author != (self.author.read(request.headers.getlist("cookie")) or ""):
            cookie = self.author.give(author) if author else self.author.take()
            response.headers.append("Set-Cookie", cookie)
        return response

    def html(
        self, text: str, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Response:
        """A page that depends on who looks."""
        body = text.encode(errors="replace")
        return Response(body, status, {**UNSEEN, **(headers or {})}, media_type=KINDS["html"])
