"""A form with a bot's file, on its way into an upload of the service.

Invariants: not a byte of a file is taken before the form has proved that it was made for who sends
it; a zip is passed on as it comes, a single Python file is made a zip, as the command does; who is
refused sees why, since what still comes is read and thrown away, up to a bound.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from deepsea_arena.api.uploads import Upload
from deepsea_bundle import names
from deepsea_bundle.archive import LIMITS, pack
from deepsea_bundle.program import collect_single
from deepsea_referee.errors import UserError
from deepsea_referee.timing.clock import Clock, time_limit
from deepsea_web.site.forms import Form, form_of
from deepsea_web.site.uploads import Field, FileBegins, FileEnds, Multipart, Part

DRAINED: Final = 32 * 1024 * 1024
DRAIN_US: Final = 10_000_000
"""How much, and for how long, is read of a form that is refused already."""
InThread = Callable[[Callable[[], None]], Awaitable[None]]
"""Does work that may take its time."""


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
