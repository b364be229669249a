"""Captures what a process prints to one of its streams.

Invariants: the end of it is kept; the output of a bot that prints without end is read slowly, so
that the bot waits and not the referee.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from deepsea_referee.bots.output import KEPT_BYTES, OutputTail
from deepsea_referee.system import SYSTEM
from deepsea_referee.system.interface import System

_PAUSE_S: Final = 0.02
_LAST_READS: Final = 16


class OutputCapture:
    """A pipe whose write end a bot inherits and whose read end the event loop reads."""

    def __init__(
        self,
        sink: Callable[[bytes], None] | None = None,
        kept_bytes: int = KEPT_BYTES // 2,
        system: System = SYSTEM,
    ) -> None:
        """`sink` gets all that is read, as it comes."""
        self._sink = sink
        self.tail = OutputTail(kept_bytes)
        reading, self.writing = os.pipe()
        self._is_open = self._writing_is_open = True
        self._reader = system.pipe_reader(reading, self._read)

    def close_writing(self) -> None:
        """Close our copy of the write end, when the bot has its own or will not start."""
        if self._writing_is_open:
            self._writing_is_open = False
            os.close(self.writing)

    def finish(self) -> None:
        """Read what is still in the pipe, without waiting for more, and close it."""
        self.close_writing()
        if self._is_open:
            self._reader.settle()
        self.drain()
        self._close()

    def drain(self) -> None:
        """Read what is in the pipe now, without waiting for more."""
        for _ in range(_LAST_READS):
            if not self._is_open or not self._take():
                break

    def text(self) -> str:
        """The end of what was read, safe to print."""
        return self.tail.text()

    def _read(self) -> None:
        if not self._is_open or (data := self._take()) is None:
            return
        if not data:
            self._close()
        elif self.tail.left_out:
            self._reader.pause(_PAUSE_S)

    def _take(self) -> bytes | None:
        """Read once; b"" at the end of the pipe, None if there is nothing now."""
        data = self._reader.take()
        if data:
            self.tail.take(data)
            if self._sink is not None:
                self._sink(data)
        return data

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._reader.close()
