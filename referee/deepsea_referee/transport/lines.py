"""The stream of a bot that speaks lines of JSON on its stdin and stdout, in place of gRPC.

Invariants: for the session it is a transport like gRPC's; a pipe identifies its seat, so there is
no token; the first line that is no answer ends the stream, and then both pipes are closed; a bot
that writes without end waits once some lines are unread. Errors are added to the bot's stderr.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from deepsea_referee.errors import BotFault
from deepsea_referee.transport.session import Session, refusal
from deepsea_sdk import wire
from deepsea_sdk.errors import WireError
from deepsea_sdk.wire.lines import (
    LINE_BYTES,
    answer_from_line,
    hello_line,
    lines_of,
    ready_from_line,
)

_EMPTY_LINES = 8
"""The largest number of empty lines that are skipped, so that a flood of them ends the stream."""


class LinesServer:
    """The pipes of one bot, which are the transport of its session."""

    def __init__(
        self,
        session: Session,
        note: Callable[[str], object],
        refuse: Callable[[str], object],
    ) -> None:
        """Prepare the pipes of a session.

        note    called with messages for the bot's author
        refuse  called with the reason if the bot's first line is wrong
        """
        self._session = session
        self._note = note
        self._refuse = refuse
        self.stdin = self.stdout = -1
        """The descriptors of the bot's ends, until `close_theirs`; -1 if there are none."""
        self._reader = asyncio.StreamReader(LINE_BYTES)
        self._incoming: asyncio.ReadTransport | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Create the pipes, write hello, and start a task that waits for the bot's first line."""
        loop = asyncio.get_running_loop()
        self.stdin, writing = os.pipe()
        reading, self.stdout = os.pipe()
        self._incoming, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._reader), os.fdopen(reading, "rb", 0)
        )
        outgoing, flow = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()),
            os.fdopen(writing, "wb", 0),
        )
        outgoing.set_write_buffer_limits(0)  # a message is written when the pipe has all of it
        self._writer = asyncio.StreamWriter(outgoing, flow, None, loop)
        self._writer.write(hello_line())
        self._serving = asyncio.create_task(self._serve())
        self._serving.add_done_callback(lambda _: self._hang_up())

    def close_theirs(self) -> None:
        """Close our copies of the bot's ends, once the bot has its own or cannot be started."""
        for descriptor in (self.stdin, self.stdout):
            if descriptor >= 0:
                os.close(descriptor)
        self.stdin = self.stdout = -1

    async def stop(self) -> None:
        """End the stream and close the pipes. May be called again."""
        self.close_theirs()
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.wait((self._serving,))

    # As a transport

    async def line(self) -> bytes | None:
        """Read the next line, and return it without its line end; None at the end of the pipe.

        An incomplete last line is ignored. A few empty lines are skipped, since some programs write
        two line ends. Raises BotFault for a line that is too long, and for too many empty lines.
        """
        try:
            for _ in range(_EMPTY_LINES + 1):
                if (line := (await self._reader.readuntil(b"\n"))[:-1]).strip():
                    return line
        except asyncio.IncompleteReadError:
            return None
        except asyncio.LimitOverrunError:
            raise refusal(f"it wrote a line of more than {LINE_BYTES:,} bytes") from None
        raise refusal(f"it wrote more than {_EMPTY_LINES} empty lines in a row")

    async def read(self) -> list[wire.Answer] | None:
        """Read the next answer; None at the end of the pipe. Raises BotFault for any other line."""
        line = await self.line()
        try:
            return None if line is None else [answer_from_line(line)]
        except WireError as error:
            raise refusal(str(error)) from None

    async def write(self, message: bytes, /) -> None:
        """Write a message as lines, and wait until the pipe has them."""
        lines, faults = lines_of(message)
        for fault in faults:
            self._note(fault)
        assert self._writer is not None
        assert self._incoming is not None
        self._writer.write(lines)
        try:
            await self._writer.drain()
        except ConnectionError:  # the bot has closed its stdin: end the stream as if it had exited
            self._incoming.close()

    async def abort(self, fault: BotFault | None) -> None:
        """Note for the author why the stream ends; the task of `start` closes the pipes."""
        self._note("the referee failed" if fault is None else fault.detail)

    async def _serve(self) -> None:
        """Read the bot's first line, then serve the session until its end."""
        try:
            line = await self.line()
            if line is None:
                return
            self._session.features = ready_from_line(line)
        except (BotFault, WireError) as error:
            self._refuse(str(error))
            return
        await self._session.serve(self)

    def _hang_up(self) -> None:
        """Close both pipes, without waiting for the bot to read."""
        if self._incoming is not None:
            self._incoming.close()
        if self._writer is not None and not self._writer.is_closing():
            self._writer.transport.abort()
