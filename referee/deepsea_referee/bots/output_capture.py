"""Captures a bot's output: limited in size and safe to print.

Invariants: the beginning and the end are kept, 64 KiB together, with a marker where bytes are left
out. The output of a bot that prints without end is read slowly, so that the bot waits and not the
referee. Every control character is escaped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass
from typing import Final

from deepsea_rules.printable import printable

KEPT_BYTES: Final = 64 * 1024
_CHUNK: Final = 16 * 1024
_PAUSE_S: Final = 0.02
_LAST_READS: Final = 16


@dataclass(frozen=True, slots=True)
class BotLog:
    """What a bot printed; kept where something went wrong."""

    bot: int
    start: int
    """Which start of its process it was, from 1."""
    text: str
    worker: int = 0
    """Which of several workers started it, from 1; 0 if there are none."""


class OutputCapture:
    """A pipe whose write end a bot inherits and whose read end the event loop reads."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._half = kept_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0
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
        with contextlib.suppress(BlockingIOError):
            for _ in range(_LAST_READS):
                if not self._is_open or not self._take():
                    break
        self._close()

    def text(self) -> str:
        """The output that was kept, safe to print."""
        if not self._left_out:
            return escaped(bytes(self._head + self._tail))
        marker = f"\n[... {self._left_out} bytes left out ...]\n"
        return escaped(bytes(self._head)) + marker + escaped(bytes(self._tail))

    def _read(self) -> None:
        try:
            more = self._take()
        except BlockingIOError:
            return
        if not more:
            self._close()
        elif self._left_out:
            self._loop.remove_reader(self._reading)
            self._pause = self._loop.call_later(_PAUSE_S, self._resume)

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._reading, self._read)

    def _take(self) -> bool:
        """Read once; False at the end of the pipe."""
        data = os.read(self._reading, _CHUNK)
        room = max(0, self._half - len(self._head))
        self._head += data[:room]
        self._tail += data[room:]
        surplus = len(self._tail) - self._half
        if surplus > 0:
            del self._tail[:surplus]
            self._left_out += surplus
        return bool(data)

    def _close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._reading)
        os.close(self._reading)


def escaped(data: bytes) -> str:
    """Text without control characters except line ends and tabs."""
    text = data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    return printable(text, keep="\n\t")
