"""A form with a file, as it arrives: its fields, and then the file's bytes.

Invariants: a file's bytes are passed on as they come and are not kept; fields and their names are
short, and few.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import NamedTuple

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from deepsea_arena.api.uploads import Upload
from deepsea_bundle import names
from deepsea_bundle.archive import LIMITS, pack
from deepsea_bundle.program import collect_single
from deepsea_referee.errors import UserError
from deepsea_referee.timing.clock import Clock, time_limit
from deepsea_web.site.forms import Form, form_of

LONGEST_FIELD = 4096
"""Bytes of a field, and of the headers of a part."""
MOST_PARTS = 16
DRAINED = 32 * 1024 * 1024
DRAIN_US = 10_000_000
"""Bytes, and the time, that are read of a form that is refused already."""
InThread = Callable[[Callable[[], None]], Awaitable[None]]
"""Does work that may take its time."""


logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # what strangers send is no news


class Field(NamedTuple):
    """A field, whole."""

    name: str
    value: str


class FileBegins(NamedTuple):
    """The bytes of a file follow."""

    name: str
    """Of the field."""
    filename: str


class FileEnds(NamedTuple):
    """The end of the file."""


Part = Field | FileBegins | bytes | FileEnds


class Multipart:
    """Reads one form; raises UserError for what is none."""

    def __init__(self, content_type: str) -> None:
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary", b"")
        if kind != b"multipart/form-data" or not 0 < len(boundary) <= 100:
            raise UserError("a form with a file is sent as multipart/form-data")
        self._found: list[Part] = []
        self._parts = 0
        self._header = bytearray(), bytearray()
        self._seen = 0
        self._disposition = b""
        self._name = ""
        self._value: bytearray | None = None
        """Of the field that is being read; None while it is a file."""
        self._whole = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": lambda data, start, end: self._more(0, data[start:end]),
                "on_header_value": lambda data, start, end: self._more(1, data[start:end]),
                "on_header_end": self._header_ends,
                "on_headers_finished": self._headers_end,
                "on_part_data": self._data,
                "on_part_end": self._part_ends,
                "on_end": self._end,
            },
        )

    def feed(self, data: bytes) -> Iterator[Part]:
        """The parts that these bytes complete."""
        try:
            self._parser.write(data)
        except FormParserError:
            raise UserError("the form cannot be read") from None
        yield from self._found
        self._found.clear()

    def finish(self) -> None:
        """Raise UserError if the form is not whole."""
        if not self._whole:
            raise UserError("the form did not arrive whole")

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise UserError("the form has too many parts")
        self._disposition = b""
        self._seen = 0

    def _more(self, which: int, data: bytes) -> None:
        self._seen += len(data)
        if self._seen > LONGEST_FIELD:
            raise UserError("the headers of a part of the form are too long")
        self._header[which].extend(data)

    def _header_ends(self) -> None:
        name, value = self._header
        if bytes(name).lower() == b"content-disposition":
            self._disposition = bytes(value)
        name.clear()
        value.clear()

    def _headers_end(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._name = options.get(b"name", b"").decode(errors="replace")
        if b"filename" in options:
            self._value = None
            filename = options[b"filename"].decode(errors="replace")
            self._found.append(FileBegins(self._name, filename))
        else:
            self._value = bytearray()

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._value is None:
            self._found.append(data[start:end])
            return
        self._value += data[start:end]
        if len(self._value) > LONGEST_FIELD:
            raise UserError("a field of the form is too long")

    def _part_ends(self) -> None:
        if self._value is None:
            self._found.append(FileEnds())
        else:
            self._found.append(Field(self._name, self._value.decode(errors="replace")))

    def _end(self) -> None:
        self._whole = True


class UploadForm:
    """One form on its way."""

    def __init__(
        self,
        fields: Sequence[str],
        upload: Upload,
        in_thread: InThread,
        check: Callable[[Form], object],
    ) -> None:
        """`check` raises if the fields before the file do not prove where the form is from."""
        self.upload = upload
        self._names = fields
        self._in_thread = in_thread
        self._check = check
        self._pairs: list[tuple[str, str]] = []
        self._program: bytearray | None = None
        """A single Python file, of which a zip is made."""
        self._has_file = False

    @property
    def form(self) -> Form:
        """The fields until now, and the upload."""
        form = form_of(self._pairs, self._names)
        return Form(form.fields, self.upload)

    async def read(self, request: Request, clock: Clock) -> Form:
        """The whole form. Raises UserError, or HTTPException for one that is nobody's."""
        stream = request.stream()
        try:
            parts = Multipart(request.headers.get("content-type", ""))
            async for data in self._in_time(stream, clock):
                for part in parts.feed(data):
                    await self._take(part)
            parts.finish()
            if not self._has_file:
                raise UserError("choose a file: a zip or a Python file")
            await self._in_thread(self.upload.finish)
        except (UserError, HTTPException):
            await _drain(stream, clock)
            raise
        return self.form

    async def _in_time(self, stream: AsyncIterator[bytes], clock: Clock) -> AsyncIterator[bytes]:
        while True:
            try:
                async with time_limit(clock, max(0, int(1_000_000 * self.upload.left()))):
                    data = await anext(stream, None)
            except TimeoutError:
                raise self.upload.too_slow() from None
            except ClientDisconnect:
                raise HTTPException(408, "The form did not arrive whole.") from None
            if data is None:
                return
            if data:
                yield data

    async def _take(self, part: Part) -> None:
        match part:
            case Field(name, value):
                self._pairs.append((name, value))
            case FileBegins(_, filename):
                if self._has_file:
                    raise UserError("a bot is one file: a zip or a Python file")
                self._check(self.form)
                if filename:
                    await self._begin(filename)
            case FileEnds():
                if self._program is not None:
                    await self._packed(bytes(self._program))
            case _ if self._program is not None:
                self._program += part
                if len(self._program) > LIMITS.file_bytes:
                    raise UserError(f"a file of a bot has at most {LIMITS.file_bytes:,} bytes")
            case _ if self._has_file:
                self.upload.chunk(part)

    async def _begin(self, filename: str) -> None:
        self._has_file = True
        # Some browsers send a path; a name that is none is refused by what reads the bot.
        file = PurePosixPath(PureWindowsPath(filename).name)
        bot, key = self.form.text("bot"), self.form.text("key")
        if file.suffix.lower() == ".py":
            self._program = bytearray()
            bot = bot or names.name_from(file.stem)
        await self._in_thread(lambda: self.upload.form(bot=bot, key=key))

    async def _packed(self, program: bytes) -> None:
        def pack_single() -> None:
            self.upload.chunk(pack(collect_single(program, LIMITS).files))

        await self._in_thread(pack_single)


async def _drain(stream: AsyncIterator[bytes], clock: Clock) -> None:
    """Read on for a while: a browser shows no answer before it has sent all."""
    left = DRAINED
    try:
        async with time_limit(clock, DRAIN_US):
            async for data in stream:
                left -= len(data)
                if left < 0:
                    return
    except (TimeoutError, ClientDisconnect):
        return
