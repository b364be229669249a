"""The stream of a bot that speaks lines of JSON on its stdin and stdout, in place of gRPC.

Invariants: for the session it is a transport like gRPC's; a pipe identifies its seat, so there is
no token; the first line that is no answer ends the stream, and then both pipes are closed; a bot
that writes without end waits once some lines are unread. What is wrong is written where the bot's
stderr is kept.
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
"""The most that are skipped at once, so that a flood of them costs the referee nothing."""


class LinesServer:
    """The pipes of one bot, which are the transport of its session."""

    def __init__(
        self,
        session: Session,
        note: Callable[[str], object],
        refuse: Callable[[str], object],
    ) -> None:
        """Prepare it.

        note    takes what the bot's author should read
        refuse  is called with the reason if the bot's first line is wrong
        """
        self._session = session
        self._note = note
        self._refuse = refuse
        self.stdin = self.stdout = -1
        """The bot's ends, until `close_theirs`."""
        self._reader = asyncio.StreamReader(LINE_BYTES)
        self._incoming: asyncio.ReadTransport | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Make the pipes, write hello and wait, in a task, for the bot's first line."""
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
        """Close our copies of the bot's ends, when it has its own or will not start."""
        for end in (self.stdin, self.stdout):
            if end >= 0:
                os.close(end)
        self.stdin = self.stdout = -1

    async def stop(self) -> None:
        """End the stream and close the pipes. May be called again."""
        self.close_theirs()
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.wait((self._serving,))

    # As a transport

    async def line(self) -> bytes | None:
        """The next line without its end; None at the end of the pipe, also within a line.

        Some empty lines before it are skipped, as of a program that ends each line twice.
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
        """Read the next answer; raises BotFault for any other line."""
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
        except ConnectionError:  # it has closed its stdin: the stream ends as if it had exited
            self._incoming.close()

    async def abort(self, fault: BotFault | None) -> None:
        """Tell the author why the stream ends; `start` has the pipes closed then."""
        self._note("the referee failed" if fault is None else fault.detail)

    async def _serve(self) -> None:
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
        if self._incoming is not None:
            self._incoming.close()
        if self._writer is not None and not self._writer.is_closing():
            self._writer.transport.abort()  # what it has not taken is not waited for
