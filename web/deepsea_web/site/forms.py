"""Pages of a reader's own, their forms, and the outcomes of forms.

Invariants: a page reads and a form acts through `Visit.ladder` alone, so that the service decides
about rights; a form counts only if it was sent by a page of this site; a refused form is shown
again as it was typed, but for secrets; a form with a file is read as it arrives, within the
upload's limits.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from deepsea_arena.api.errors import ApiError
from deepsea_arena.api.submissions import Archive
from deepsea_arena.documents import parameter
from deepsea_bundle import names
from deepsea_bundle.archive import LIMITS, pack
from deepsea_bundle.program import collect_single
from deepsea_ladder.accounts import Caller
from deepsea_ladder.limits import RemoteLimits, size_in_words
from deepsea_referee.errors import UserError
from deepsea_referee.timing.clock import Clock, time_limit
from deepsea_web.http import BodyTooLong, at_most
from deepsea_web.server.access import Access, check_texts, is_foreign
from deepsea_web.server.uploads import PART, archive_in, upload_parts
from deepsea_web.site.page import Query, Visit

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
