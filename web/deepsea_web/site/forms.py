"""Personal pages, their forms with the outcomes of these, and the cookies of sessions.

Start reading at `PersonalPage` and `Action`; `SessionAuth` finds the reader of a request. There is
a cookie for a session, one for visitors who play, and one from which the scripts of pages read who
is logged in.

Invariants: a page reads and a form acts through `Visit.ladder` alone, so that the service decides
about rights; a form counts only if it was sent by a page of this site; a refused form is shown
again as it was typed, except for secrets; a form with a file is read as it arrives, within the
upload's limits. A cookie is sent to this site alone, and one that gives a right is not seen by
scripts; where there is TLS it has the prefix `__Host-`, with which no other host and no plain
connection can set it. Two ladders on one host have cookies of different names.
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
"""Values of a template, by name."""
LOGIN_PATH = "/login"
"""Path of the page to which visitors are sent who ask for a member's page."""
_FOREIGN_FORM = (
    "This form was not sent by a page of this site: open the page again, and send it from there."
)
LONGEST_FIELD = 4096
"""Bytes of a field in a form with a file."""
MOST_FIELDS = 16
"""Number of fields in a form with a file."""
_FIELDS_BYTES = 64 * 1024
"""Bytes of such a form besides its file: fields, headers of parts and the marks between them."""
DRAINED_BYTES = 32 * 1024 * 1024
"""Bytes that are still read of a form that is refused already."""
DRAIN_US = 10_000_000
"""Time for which a form is still read that is refused already."""
_NO_FILE = "choose a file: a zip or a Python file"
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # what strangers send is no news


@dataclass(frozen=True, kw_only=True)
class PersonalPage:
    """A page that depends on its reader."""

    path: str
    """Path of its address, such as `/submissions/{id}`; a part in braces has no slash."""
    template: str
    """Name of the template's file in `templates/site`."""
    title: Callable[[Values], str]
    read: Callable[[Visit, Query], Values] = lambda visit, query: {}
    """Returns the values of the template besides `visit`."""
    parameters: tuple[str, ...] = ()
    """Names of the parameters that it knows, besides `done`."""
    done: Mapping[str, str] = field(default_factory=dict)
    """Sentence that is shown after a form has done its work, by the parameter `done`."""
    open: bool = False
    """True if visitors of a private ladder see the page, too."""
    names_visitors: bool = False
    """True if visitors get a cookie on it, so that the games that they begin are theirs."""


@dataclass(frozen=True, kw_only=True)
class Redirect:
    """The outcome of a form that did its work, and after which another page is shown."""

    path: str
    done: str = ""
    """Key of that page's `done` for the sentence that it shows; "" for none."""
    ends_session: bool = False


@dataclass(frozen=True, kw_only=True)
class OneTimePage:
    """The outcome of a form that did its work, shown now and never again: a secret, say."""

    template: str
    title: str
    values: Values


@dataclass(frozen=True, kw_only=True)
class SessionStart:
    """The outcome of a form that began a session."""

    secret: str
    """The secret of the session, which the browser keeps in a cookie."""
    caller: Caller
    """The member with the rights of the session."""
    answer: Redirect | OneTimePage
    seconds: int | None = None
    """Time for which the browser keeps the cookie; None: until it is closed."""


FormOutcome = Redirect | OneTimePage | SessionStart


@dataclass(frozen=True, kw_only=True)
class Action:
    """A form of a page, with the function that does its work."""

    path: str
    """Path of the address to which the form is sent."""
    page: PersonalPage
    """The page with the form; if the form is refused, it is shown again with the reason."""
    act: Callable[[Visit, Form], FormOutcome]
    """Does the work. Raises UserError to refuse the form."""
    fields: tuple[str, ...] = ()
    """Names of the fields that it reads."""
    secrets: tuple[str, ...] = ()
    """Names of the fields that are not shown again after a refusal."""
    has_file: bool = False
    """True if the form comes with the file of a bot."""

    def typed(self, form: Form) -> Mapping[str, Sequence[str]]:
        """Return the fields that a refused form shows again as they were typed."""
        return {name: form.list(name) for name in self.fields if name not in self.secrets}


@dataclass(frozen=True)
class Form:
    """The fields of a form that its action reads. Raises UserError if one makes no sense."""

    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """All values of each field, by its name."""
    archive: Archive | None = None
    """The bot that was uploaded with the form, if its action takes one."""

    def text(self, name: str) -> str:
        """Return a field without the spaces around it; "" if it was not sent."""
        values = self.fields.get(name, ())
        if len(values) > 1:
            raise UserError(f"{name} is given twice")
        return values[0].strip() if values else ""

    def list(self, name: str) -> Sequence[str]:
        """Return all values of a field, as the ticked boxes of a list have the same name."""
        return self.fields.get(name, ())

    def number(self, name: str) -> int:
        """Return a field as a whole number; 0 if it is empty."""
        text = self.text(name)
        return int(parameter(int, name, text, is_text=True)) if text else 0


def check_origin(request: Request, access: Access) -> None:
    """Raise HTTPException 403 unless the browser says that a page of this site sends the form."""
    if "origin" not in request.headers or is_foreign(request, access):
        raise HTTPException(403, _FOREIGN_FORM)


def form_of(pairs: Sequence[tuple[str, str]], names: Sequence[str]) -> Form:
    """Return a form of the sent fields that have these names; others are left out.

    Raises UserError if a text has characters that no page sends.
    """
    check_texts("the form", pairs)
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        if name in names:
            fields.setdefault(name, []).append(value)
    return Form(fields)


# ----- A form with a file


class _Parser(MultiPartParser):
    """Starlette's parser of forms; a file larger than PART bytes is kept on the disk."""

    spool_max_size = PART


async def read_upload(
    request: Request, limits: RemoteLimits, clock: Clock
) -> tuple[list[tuple[str, str]], UploadFile]:
    """Read a form with a file as it arrives. Return its other fields, and the file, to be closed.

    Raises UserError if the form is refused, and HTTPException if its sender left before its end. Of
    a refused form the rest is read for a while, because browsers show no answer before they have
    sent all.
    """
    parts = upload_parts(request, limits, clock)
    try:
        kind, options = parse_options_header(request.headers.get("content-type", ""))
        if kind != b"multipart/form-data" or b"charset" in options:
            raise UserError("a form with a file is sent as multipart/form-data")
        parser = _Parser(
            request.headers,
            at_most(parts, limits.archive_bytes + _FIELDS_BYTES),
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
    items = form.multi_items()
    fields = [(name, value) for name, value in items if isinstance(value, str)]
    files = [value for _, value in items if isinstance(value, UploadFile)]
    if not files:
        raise UserError(_NO_FILE)
    return fields, files[0]


def archive_of(file: UploadFile, form: Form) -> Archive:
    """Return the archive of the bot that was sent with a form.

    A file of Python is packed into an archive here, and the bot gets its name from the file unless
    the form has a name. Any other file is taken for an archive.
    """
    if not file.filename:
        raise UserError(_NO_FILE)
    # Some browsers send a path, with slashes or backslashes, instead of a name.
    name = PurePosixPath(PureWindowsPath(file.filename).name)
    bot, key = form.text("bot"), form.text("key")
    if name.suffix.lower() != ".py":
        return archive_in(file.file, bot, key)
    program = file.file.read(LIMITS.file_bytes + 1)  # one byte more shows that it is too long
    if len(program) > LIMITS.file_bytes:
        raise UserError(f"a file of a bot has at most {LIMITS.file_bytes:,} bytes")
    archive = pack(collect_single(program, LIMITS).files)
    return archive_in(BytesIO(archive), bot or names.name_from(name.stem), key)


async def _drain(parts: AsyncIterable[bytes], clock: Clock) -> None:
    """Read the rest of a refused form and drop it, within DRAIN_US and DRAINED_BYTES.

    A browser shows no answer before it has sent all.
    """
    try:
        async with time_limit(clock, DRAIN_US):
            async for _ in at_most(parts, DRAINED_BYTES):
                pass
    except (TimeoutError, BodyTooLong, ApiError, ClientDisconnect):
        return


# ----- Cookies and sessions

_COOKIE_VALUE = re.compile(r"[A-Za-z0-9_.~%-]{1,500}")
PERSONAL_HEADERS = {**NO_STORE, "Vary": "Cookie"}
"""Headers of a response that depends on its reader."""
MEMBER = "deepsea.member"
"""Key of the caller in the scope of a request with a session."""


class Cookie:
    """A cookie of the site; scripts see it only if `for_scripts` is True."""

    def __init__(self, access: Access, purpose: str, *, for_scripts: bool = False) -> None:
        """Name the cookie after its purpose and the site's address.

        With the prefix `__Host-` its path has to be /, so that all ladders on a host get it: a
        digest of the address in the name tells them apart.
        """
        address = f"{access.origin}{access.prefix}"
        name = f"deepsea-{purpose}-{hashlib.sha256(address.encode()).hexdigest()[:8]}"
        self._has_tls = access.origin.startswith("https:")
        self.name = f"__Host-{name}" if self._has_tls else name
        self._for_scripts = for_scripts

    def read(self, headers: Sequence[str]) -> str | None:
        """Return the value of this cookie in the `Cookie` headers of a request.

        Return None if the cookie is missing, or has characters that this site never sends. Also
        return None if it is there twice, since one of the two is then of another site on this host.
        """
        values: list[str] = []
        for header in headers:
            for pair in header.split(";"):
                name, _, value = pair.strip().partition("=")
                if name == self.name:
                    values.append(value)
        if len(values) != 1 or not _COOKIE_VALUE.fullmatch(values[0]):
            return None
        return values[0]

    def header_to_set(self, value: str, seconds: int | None = None) -> str:
        """Return the `Set-Cookie` header that sets this cookie.

        seconds  the time for which the browser keeps it; None: until it is closed
        """
        return self._header(value, "" if seconds is None else f"; Max-Age={seconds}")

    def header_to_remove(self) -> str:
        """Return the `Set-Cookie` header that removes this cookie."""
        return self._header("", "; Max-Age=0")

    def _header(self, value: str, max_age: str) -> str:
        secure = "; Secure" if self._has_tls else ""
        hidden = "" if self._for_scripts else "; HttpOnly"
        return f"{self.name}={value}; Path=/{max_age}{secure}{hidden}; SameSite=Lax"


class SessionAuth:
    """Looks readers up by their cookies, and makes the responses that are theirs alone."""

    def __init__(self, access: Access, gateway: Gateway) -> None:
        """Set up the three cookies of the site; the service and the threads are the gateway's."""
        self.access = access
        self.gateway = gateway
        self.service = gateway.service
        self.in_thread = gateway.in_thread
        self.clock = gateway.clock
        self.session = Cookie(access, "session")
        self.visitor = Cookie(access, "visitor")
        self.author = Cookie(access, "author", for_scripts=True)

    async def visit_of(self, request: Request) -> Visit:
        """Return the visit of the reader who sends a request.

        The reader is a member if the request has the cookie of a session, else a visitor. The
        cookie is ignored if others can read the connection. A member is added to the request's
        scope, where error pages look.
        """
        cookies = request.headers.getlist("cookie")
        address = request.client.host if request.client else ""
        session = self.session.read(cookies) if self.access.keeps_secrets(address) else None
        member: Caller | None = None
        if session is not None:
            member = await self.in_thread(partial(self._member, session, address))
        if member is not None:
            request.scope[MEMBER] = member
        return self.visit(member or visitor(address), self.visitor.read(cookies))

    def _member(self, session: str, address: str) -> Caller | None:
        """Return the member with this session's secret; None if the session has ended."""
        try:
            return self.service.caller_of(session, address, SecretKind.SESSION)
        except ApiError as error:
            if error.kind is RefusalKind.UNAUTHENTICATED:
                return None
            raise

    def visit(self, caller: Caller, visitor: str | None = None) -> Visit:
        """Return the visit of a caller, who is a visitor or a member.

        visitor  the value of the cookie by which a visitor is known again, of which only a digest
                 is passed on; ignored for a member, who is known by the account
        """
        if visitor is not None and not caller.author_id:
            caller = replace(caller, visitor=hashlib.sha256(visitor.encode()).hexdigest())
        return Visit(caller=caller, service=self.service)

    def to_login(self, request: Request) -> Response:
        """Send a visitor who asks for a member's page to the login, and back after it."""
        path = request.scope["path"].removeprefix(self.access.prefix)
        url = self.access.url(LOGIN_PATH, next=None if path == "/" else path)
        return RedirectResponse(url, 303, PERSONAL_HEADERS)

    def with_author_cookie(self, request: Request, visit: Visit, response: Response) -> Response:
        """Return the response, with the cookie by which scripts know the reader's name.

        The cookie is sent only if the browser has another one: set for a member, removed for a
        visitor.
        """
        author = quote(visit.author, safe="")
        known_author = self.author.read(request.headers.getlist("cookie")) or ""
        if author != known_author:
            cookie = self.author.header_to_set(author) if author else self.author.header_to_remove()
            response.headers.append("Set-Cookie", cookie)
        return response

    def html(
        self, text: str, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Return the response with a page that depends on its reader, as HTML in `text`."""
        body = text.encode(errors="replace")  # half a character becomes a question mark
        all_headers = {**PERSONAL_HEADERS, **(headers or {})}
        return Response(body, status, all_headers, media_type=KINDS["html"])
