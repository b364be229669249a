"""Where the output of bots goes: a file for each process, the terminal, its end into memory.

Invariants: what is written is whole lines, safe to show; a file has at most MOST_BYTES; a file that
cannot be written stops no game.
"""

from __future__ import annotations

import codecs
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from deepsea_rules.printable import printable

KEPT_BYTES: Final = 64 * 1024
"""How much of a process's output is in memory: its end, one half for each of its two streams."""
MOST_BYTES: Final = 64 * 1024 * 1024
_LONGEST_LINE: Final = 16 * 1024
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BotLog:
    """The output of one process of a bot."""

    bot: int
    start: int
    """Which start of its process it was, from 1."""
    stdout: str = ""
    """The end of what it printed, if it was at fault; safe to show."""
    stderr: str = ""
    worker: int = 0
    """Which of several workers started it, from 1; 0 if there are none."""
    in_file: bool = False
    """Whether all of it is in the file `log_name`."""

    @property
    def text(self) -> str:
        """Both streams with headings; "" if there is nothing."""
        return joined(self.stdout, self.stderr)


def joined(stdout: str, stderr: str) -> str:
    """Both streams with headings; "" if both are empty."""
    parts = (("stderr", stderr), ("stdout", stdout))
    return "".join(f"--- {stream}\n{text.rstrip()}\n" for stream, text in parts if text)


def log_name(bot: int, start: int, worker: int = 0) -> str:
    """The file with the output of a process."""
    by = f"-worker-{worker}" if worker else ""
    return f"bot-{bot + 1}{by}-start-{start}.log"


@dataclass(frozen=True, slots=True)
class OutputPlan:
    """What is done with bots' output beside keeping its end in memory."""

    folder: Path | None = None
    """Where each process gets a file."""
    shown: frozenset[int] = frozenset()
    """The bots with output that is shown on stderr as it comes."""
    worker: int = 0
    """The worker that starts the processes, from 1; 0 if there are none."""
    kept: int = 10
    """For each bot: the number of starts in which it was at fault of which the output is kept."""

    def open(self, bot: int, name: str, start: int) -> BotOutput:
        """The output of a process that is about to start."""
        file = None if self.folder is None else self.folder / log_name(bot, start, self.worker)
        return BotOutput(file, f"{printable(name)}| " if bot in self.shown else None)


class BotOutput:
    """The lines of one process, from both of its streams."""

    def __init__(self, file: Path | None = None, prefix: str | None = None) -> None:
        self._file = file
        self._opened: TextIO | None = None
        self._prefix = prefix
        self._terminal = sys.stderr  # bots in this process have another one while they are asked
        self._bytes = 0
        self._failed = False
        self._streams = [_Lines(self._line) for _ in range(2)]

    @property
    def in_file(self) -> bool:
        """Whether there is a file with its output."""
        return self._opened is not None and not self._failed

    def sinks(self) -> tuple[Callable[[bytes], None], Callable[[bytes], None]] | None:
        """Take the bytes of stdout and of stderr; None if nobody wants them."""
        if self._file is None and self._prefix is None:
            return None
        return self._streams[0].take, self._streams[1].take

    def close(self) -> None:
        """Write what has no line end yet, and close the file."""
        for stream in self._streams:
            stream.finish()
        if self._opened is not None:
            self._opened.close()

    def _line(self, line: str) -> None:
        if self._prefix is not None:
            self._terminal.write(f"{self._prefix}{line}\n")
            self._terminal.flush()
        if self._file is None or self._failed or self._bytes > MOST_BYTES:
            return
        self._bytes += len(line) + 1
        if self._bytes > MOST_BYTES:
            line = "[... the rest is left out ...]"
        try:
            if self._opened is None:
                self._opened = self._file.open("w", encoding="utf-8", newline="\n")
            self._opened.write(f"{line}\n")
            self._opened.flush()
        except OSError as error:
            self._failed = True
            _log.error("cannot write %s: %s", self._file, error.strerror)


class _Lines:
    """Bytes of one stream as lines that are safe to show."""

    def __init__(self, line: Callable[[str], None]) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode
        self._line = line
        self._rest = ""

    def take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + self._decode(data)).split("\n")
        if len(self._rest) > _LONGEST_LINE:
            lines, self._rest = [*lines, self._rest], ""
        for line in lines:
            self._line(printable(line.removesuffix("\r"), keep="\t"))

    def finish(self) -> None:
        self.take(b"\n" if self._rest else b"")


class OutputTail:
    """The end of a stream."""

    def __init__(self, kept_bytes: int = KEPT_BYTES // 2) -> None:
        self._most = kept_bytes
        self._kept = bytearray()
        self.left_out = 0
        """How many bytes before it are forgotten."""

    def take(self, data: bytes) -> None:
        """Add what was printed."""
        self._kept += data
        surplus = len(self._kept) - self._most
        if surplus > 0:
            del self._kept[:surplus]
            self.left_out += surplus

    def text(self) -> str:
        """What was kept, safe to print."""
        marker = f"[... {self.left_out} bytes left out ...]\n" if self.left_out else ""
        return marker + escaped(bytes(self._kept))


def escaped(data: bytes) -> str:
    """Text without control characters except line ends and tabs."""
    text = data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    return printable(text, keep="\n\t")
