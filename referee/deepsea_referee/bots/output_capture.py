"""Captures what a process prints to one of its streams.

Invariants: the end of it is kept; the output of a bot that prints without end is read slowly, so
that the bot waits and not the referee.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Final

from deepsea_referee.bots.bot_output import KEPT_BYTES, OutputTail

_CHUNK: Final = 16 * 1024
_PAUSE_S: Final = 0.02
_LAST_READS: Final = 16


class OutputCapture:
    """A pipe whose write end a bot inherits and whose read end the event loop reads."""

    def __init__(
        self, sink: Callable[[bytes], None] | None = None, kept_bytes: int = KEPT_BYTES // 2
    ) -> None:
        """`sink` gets all that is read, as it comes."""
        self._sink = sink
        self.tail = OutputTail(kept_bytes)
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._reading, self.writing = os.pipe()
        self._is_open = self._writing_is_open = True
        os.set_blocking(self._reading, False)
        self._loop.add_reader(self._reading, self._read)

    def close_writing(self) -> None:
        """Close our copy of the write end, when the bot has its own or will not start."""
        if self._writing_is_open:
            self._writing_is_open = False
            os.close(self.writing)

    def finish(self) -> None:
        """Read what is still in the pipe, without waiting for more, and close it."""
        self.close_writing()
        self.drain()
        self._close()

    def drain(self) -> None:
        """Read what is in the pipe now, without waiting for more."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(_LAST_READS):
                if not self._is_open or not self._take():
                    break

    def text(self) -> str:
        """The end of what was read, safe to print."""
        return self.tail.text()

    def _read(self) -> None:
        try:
            more = self._take()
        except BlockingIOError:
            return
        if not more:
            self._close()
        elif self.tail.left_out:
            self._loop.remove_reader(self._reading)
            self._pause = self._loop.call_later(_PAUSE_S, self._resume)

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._reading, self._read)

    def _take(self) -> bool:
        """Read once; False at the end of the pipe."""
        data = os.read(self._reading, _CHUNK)
        self.tail.take(data)
        if self._sink is not None:
            self._sink(data)
        return bool(data)

    def _close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._reading)
        os.close(self._reading)
