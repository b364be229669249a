"""A form with a file: read as it arrives, within the upload's limits, and made a bot's archive."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import PurePosixPath, PureWindowsPath

from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from deepsea_arena.api.uploads import PART, Upload
from deepsea_bundle import names
from deepsea_bundle.archive import LIMITS, pack
from deepsea_bundle.program import collect_single
from deepsea_ladder.limits import size_in_words
from deepsea_referee.errors import UserError
from deepsea_referee.timing.clock import Clock, time_limit
from deepsea_web.site.forms import Form

LONGEST_FIELD = 4096
MOST_FIELDS = 16
_FRAME = 64 * 1024
"""Bytes of a form besides its file."""
DRAINED = 32 * 1024 * 1024
DRAIN_US = 10_000_000
"""Bytes, and the time, that are read of a form that is refused already."""
_NO_FILE = "choose a file: a zip or a Python file"


logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # what strangers send is no news


async def read_upload(
    request: Request, upload: Upload, clock: Clock
) -> tuple[list[tuple[str, str]], UploadFile]:
    """The fields of a form, and its file, to be closed.

    Raises UserError, or HTTPException if its sender has left.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    received, most = 0, upload.limits.archive_bytes + _FRAME
    comes = True

    async def receive() -> Message:
        nonlocal received, comes
        try:
            async with time_limit(clock, max(0, int(1_000_000 * upload.left(received)))):
                message = await request.receive()
        except TimeoutError:
            raise upload.too_slow() from None
        received += len(message.get("body", b""))
        comes = message.get("more_body", False)
        if received > most:
            raise UserError(f"a bot has at most {size_in_words(upload.limits.archive_bytes)}")
        return message

    try:
        if kind != b"multipart/form-data" or b"charset" in options:
            raise UserError("a form with a file is sent as multipart/form-data")
        whole = Request(request.scope, receive)
        form = await whole.form(max_files=1, max_fields=MOST_FIELDS, max_part_size=LONGEST_FIELD)
    except ClientDisconnect:
        raise HTTPException(408, "The form did not arrive whole.") from None
    except (HTTPException, MultiPartException, UserError) as error:
        if comes:
            await _drain(request, clock)
        if isinstance(error, UserError):
            raise
        raise UserError("the form cannot be read, or has more than a bot's name and file") from None
    given = form.multi_items()
    files = [file for _, file in given if isinstance(file, UploadFile)]
    if not files:
        raise UserError(_NO_FILE)
    return [(name, text) for name, text in given if isinstance(text, str)], files[0]


def take_file(upload: Upload, form: Form, file: UploadFile) -> None:
    """Feed an upload with a form's file, a zip or a Python file, of which a zip is made."""
    if not file.filename:
        raise UserError(_NO_FILE)
    # Some browsers send a path; a name that is none is refused by what reads the bot.
    name = PurePosixPath(PureWindowsPath(file.filename).name)
    bot, key = form.text("bot"), form.text("key")
    if name.suffix.lower() != ".py":
        upload.form(iter(partial(file.file.read, PART), b""), bot=bot, key=key)
        return
    program = file.file.read(LIMITS.file_bytes + 1)
    if len(program) > LIMITS.file_bytes:
        raise UserError(f"a file of a bot has at most {LIMITS.file_bytes:,} bytes")
    archive = pack(collect_single(program, LIMITS).files)
    upload.form([archive], bot=bot or names.name_from(name.stem), key=key)


async def _drain(request: Request, clock: Clock) -> None:
    """Read on for a while: a browser shows no answer before it has sent all."""
    left = DRAINED
    try:
        async with time_limit(clock, DRAIN_US):
            while left > 0:
                message = await request.receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body"):
                    return
    except TimeoutError:
        return
