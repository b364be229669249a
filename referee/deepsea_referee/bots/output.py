"""What bots print, and what of an error their authors have to read.

Invariants: what is written or shown is whole lines, safe to print; the end of it is kept in memory;
a file has at most MOST_BYTES, and one that cannot be written stops no game; the output of a bot
that prints without end is read slowly, so that the bot waits and not the referee. An error is
short: frames keep Python's own form (`File "bot.py", line 7, in search`), files of the bot are
named relative to its folder; other languages' output is shown as it ends.
"""

from __future__ import annotations

import codecs
import itertools
import logging
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, TextIO

from deepsea_referee.system import SYSTEM, System
from deepsea_rules.printable import printable
from deepsea_sdk.errors import explained

if TYPE_CHECKING:
    from deepsea_referee.bots.hints import Hints
    from deepsea_referee.bots.resolve import BotSpec

KEPT_BYTES = 64 * 1024
"""How much of a process's output is in memory: its end, one half for each of its two streams."""
MOST_BYTES = 64 * 1024 * 1024
_LONGEST_LINE = 16 * 1024
_PAUSE_S = 0.02
_LAST_READS = 16
LAST_LINES = 20
"""Lines that are kept of output without a Python traceback."""
LONGEST_ERROR = 60
"""Lines that are kept of a traceback."""
LONGEST_LINE = 200
_HEADER = "Traceback (most recent call last):"
_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+)(, in .*)?')
_ABORTED = "Fatal Python error: "
"""What faulthandler writes first; then the stack of each thread, the last call first."""
_BY_REFEREE = "Fatal Python error: Aborted"
_STACK = re.compile(r"(Current t|T)hread 0x.* \(most recent call first\):")
_CALL = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_ERROR = re.compile(r"(\w+\.)*\w*(Error|Exception|Exit|Interrupt|Warning)\b.*")
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
    hints: Hints | None = None
    """Shows the SDK's hints, such as one on a misspelt method; None does not."""
    kept: int = 10
    """For each bot: the number of starts in which it was at fault of which the output is kept."""

    def open(self, number: int, bot: BotSpec, start: int) -> BotOutput:
        """The output of a process that is about to start."""
        file = None if self.folder is None else self.folder / log_name(number, start, self.worker)
        prefix = f"{printable(bot.name)}| " if number in self.shown else None
        return BotOutput(file, prefix, bot.own_paths)

    def show_hints(self, number: int, bot: BotSpec, log: str, *, is_reported: bool) -> None:
        """Show the hints in the output of a bot's first process, and what keeps the output.

        log          the end of both streams
        is_reported  it was at fault, and its output is shown with that, or the referee aborted it
        """
        if self.hints is not None and self.worker <= 1:
            is_kept = is_reported or self.folder is not None or number in self.shown
            self.hints.show_printed(bot, log, is_kept=is_kept)


class BotOutput:
    """The lines of one process, from both of its streams."""

    def __init__(
        self,
        file: Path | None = None,
        prefix: str | None = None,
        own_paths: Callable[[str], str] = str,
    ) -> None:
        self._file = file
        self._own_paths = own_paths
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
            try:
                self._opened.close()
            except OSError as error:  # what it could not write before, it tries again
                self._fail(error)

    def _line(self, text: str) -> None:
        line = printable(self._own_paths(text), keep="\t")
        if self._prefix is not None:
            try:
                self._terminal.write(f"{self._prefix}{line}\n")
                self._terminal.flush()
            except (OSError, ValueError):  # nobody sees it, or it is closed
                self._prefix = None
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
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        if not self._failed:
            self._failed = True
            _log.error("cannot write %s: %s", self._file, error.strerror)


class _Lines:
    """Bytes of one stream as lines."""

    def __init__(self, line: Callable[[str], None]) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode
        self._line = line
        self._rest = ""

    def take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + self._decode(data)).split("\n")
        if len(self._rest) > _LONGEST_LINE:
            lines, self._rest = [*lines, self._rest], ""
        for line in lines:
            self._line(line.removesuffix("\r"))

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

    def add(self, data: bytes) -> None:
        """Take what was read, or what the referee has to say beside it."""
        self.tail.take(data)
        if self._sink is not None:
            self._sink(data)

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
            self.add(data)
        return data

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._reader.close()


# Errors


def author_error(text: str, folder: Path | None) -> str:
    """The part of an error's text that its author needs; "" if there is none.

    text    a traceback, or what a process wrote to stderr
    folder  the bot's own; None is the working directory
    """
    lines = _as_traceback(text.rstrip().splitlines())
    start = _last_traceback(lines)
    if start is None:
        kept = lines[-LAST_LINES:]
    else:
        kept = _own_frames(lines[start:], _places(folder))
        if len(kept) > LONGEST_ERROR:
            half = LONGEST_ERROR // 2
            kept = [*kept[:half], "  ...", *kept[-half:]]
    return "\n".join(printable(line, LONGEST_LINE, keep="\t") for line in kept)


def bot_error(text: str, bot: BotSpec) -> str:
    """The author's part of a bot's error, with the author's paths; never raises."""
    return explained(lambda: author_error(bot.own_paths(text), bot.home))


def last_words(error: str, but: str = "\n") -> str:
    """The line of an error's text that names the error; "" if there is no line.

    but   lines that begin with this are left out
    """
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(but)]
    named = [line for line in lines if _ERROR.fullmatch(line)]
    return (named or lines or [""])[-1]


def frames(error: str) -> tuple[str, ...]:
    """Where in the author's code it happened; empty if the text has no frames."""
    return tuple(line for line in error.splitlines() if _FRAME.fullmatch(line))


def where(error: str) -> str:
    """The place of the last frame, as in "; it was at bot.py, line 7, in search"; or ""."""
    last = _FRAME.fullmatch(("", *frames(error))[-1])
    return f"; it was at {last['file']}, line {last['line']}{last[3] or ''}" if last else ""


def with_short_stack(text: str, folder: Path | None) -> str:
    """What a process wrote to stderr, with `author_error` in place of the stack of an abort."""
    before, aborted, _ = text.partition(_ABORTED)
    return before + author_error(text, folder) if aborted else text


def _as_traceback(lines: list[str]) -> list[str]:
    """Lines with the stack of a process that was aborted as Python writes that of an exception."""
    aborted = next((n for n, line in enumerate(lines) if line.startswith(_ABORTED)), None)
    if aborted is None:
        return lines
    stacks = [n for n, line in enumerate(lines) if n > aborted and _STACK.match(line)]
    current = [n for n in stacks if lines[n].startswith("Current")]
    # The referee's signal interrupts any thread, and Python code runs in the last, the main one.
    first = [*stacks, *(current if lines[aborted] != _BY_REFEREE else ())][-1:] or [len(lines)]
    called = [_CALL.fullmatch(line) for line in itertools.takewhile(bool, lines[first[0] + 1 :])]
    own = [f'  File "{call[1]}", line {call[2]}, in {call[3]}' for call in called if call]
    return [*lines[:aborted], _HEADER, *reversed(own), lines[aborted]]


def _last_traceback(lines: list[str]) -> int | None:
    """Where the last Python traceback begins; None if there is none."""
    for number in range(len(lines) - 1, -1, -1):
        if lines[number].strip() == _HEADER:
            return number
    # A syntax error of the program itself has no header.
    return next((n for n, line in enumerate(lines) if _FRAME.fullmatch(line)), None)


def _places(folder: Path | None) -> list[str]:
    """The paths by which frames may name the bot's folder; None is the working directory."""
    try:
        path = os.path.abspath(folder or "")  # noqa: PTH100  (text: no file is looked at)
    except OSError:  # somebody has removed it
        return []
    return [path, os.path.realpath(path)]


def _own_frames(lines: list[str], places: list[str]) -> list[str]:
    """The traceback without frames of files outside of the folder; all frames if all are."""
    own: list[str] = []
    every: list[str] = []
    keeps = True
    found = False
    for line in lines:
        shown, frame = line, _FRAME.fullmatch(line)
        if frame is not None:
            name = _relative(frame["file"], places)
            keeps = name is not None
            if name is not None:
                found = True
                shown = line.replace(frame["file"], name, 1)
        elif not line.startswith(" "):
            keeps = True
        every.append(shown)
        if keeps:
            own.append(shown)
    return own if found else every


def _relative(file: str, places: list[str]) -> str | None:
    """The file's name within the folder; None if it is elsewhere, as an installed library is.

    Paths are compared as text: a bot may name any file, such as a link that leads to itself.
    """
    if file.startswith("<"):
        return None
    for place in places:
        path = PurePath(os.path.normpath(os.path.join(place, file)))  # noqa: PTH118
        if path.is_relative_to(place):
            inside = path.relative_to(place)
            is_library = {"site-packages", "node_modules"} & set(inside.parts)
            return None if is_library else str(inside)
    return None
