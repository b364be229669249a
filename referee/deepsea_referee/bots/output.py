"""Output of bots: files, display on the terminal, errors for their authors, and hints.

Invariants: output is written and shown as whole lines, safe to print; its end is stored in memory;
a file has at most MOST_BYTES, and a file that cannot be written stops no game; the output of a bot
that prints without end is read slowly, so that the bot waits and not the referee. An error is
short: frames have Python's own form (`File "bot.py", line 7, in search`), with paths relative to
the bot's folder; of output in other languages the last lines are shown.

`Hints` collects hints for a bot's author, such as one on a misspelt method, or on output that is
lost. The bot's program is not run to find them; a run shows few hints for each bot, each once,
however many processes, pools and workers play it.
"""

from __future__ import annotations

import ast
import codecs
import itertools
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, TextIO

from deepsea_referee.system import SYSTEM, System
from deepsea_rules.printable import one_line, printable
from deepsea_sdk.bot import HINT, misspelling_hint
from deepsea_sdk.errors import text_or_excuse

if TYPE_CHECKING:
    from deepsea_referee.bots.resolve import BotSpec


KEPT_BYTES = 64 * 1024
"""The size of the end of a process's output in memory: one half for each of its two streams."""
MOST_BYTES = 64 * 1024 * 1024
"""The largest size of a file with output."""
_LONGEST_LINE = 16 * 1024
"""The length from which on output without a line end is written as a line."""
_PAUSE_S = 0.02
"""The pause after each read from a bot that has printed more than is stored."""
_LAST_READS = 16
"""The largest number of reads that empty a pipe."""
LAST_LINES = 20
"""The number of last lines that are shown of output without a Python traceback."""
LONGEST_ERROR = 60
"""The largest number of lines of a traceback that are shown."""
LONGEST_LINE = 200
"""The largest number of characters of a line of an error."""
_HEADER = "Traceback (most recent call last):"
_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+)(?P<function>, in .*)?')
_ABORTED = "Fatal Python error: "
"""The beginning of faulthandler's output for each thread.

The stack of the thread follows, with the innermost call first.
"""
_BY_REFEREE = "Fatal Python error: Aborted"
"""The first line of that output if the referee has aborted the process."""
_STACK = re.compile(r"(Current t|T)hread 0x.* \(most recent call first\):")
_CALL = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_ERROR = re.compile(r"(\w+\.)*\w*(Error|Exception|Exit|Interrupt|Warning)\b.*")
_LIBRARY_FOLDERS = frozenset(("site-packages", "node_modules"))
"""Folders within a bot's folder whose code is not the author's own."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BotLog:
    """The output of one process of a bot."""

    bot: int
    start: int
    """The number of the start of the bot's process, from 1."""
    stdout: str = ""
    """The end of the standard output, safe to show; empty unless the bot was at fault."""
    stderr: str = ""
    """The end of the standard error, like `stdout`."""
    worker: int = 0
    """The number of the worker that started the process, from 1; 0 without workers."""
    in_file: bool = False
    """True if the whole output is in the file `log_name`."""

    @property
    def text(self) -> str:
        """The output of both streams with headings; "" if both are empty."""
        return joined(self.stdout, self.stderr)


def joined(stdout: str, stderr: str) -> str:
    """Return the output of both streams with headings; "" if both are empty."""
    parts = (("stderr", stderr), ("stdout", stdout))
    return "".join(f"--- {stream}\n{text.rstrip()}\n" for stream, text in parts if text)


def log_name(bot: int, start: int, worker: int = 0) -> str:
    """Return the name of the file with the output of a bot's process.

    bot     the index of the bot, from 0
    start   the number of the start of its process, from 1
    worker  the number of the worker that started it, from 1; 0 without workers
    """
    worker_part = f"-worker-{worker}" if worker else ""
    return f"bot-{bot + 1}{worker_part}-start-{start}.log"


@dataclass(frozen=True, slots=True)
class OutputPlan:
    """The destinations of bots' output, in addition to its end in memory."""

    folder: Path | None = None
    """The folder in which each process gets a file; None writes no files."""
    shown: frozenset[int] = frozenset()
    """The bots whose output is shown on stderr as it comes."""
    worker: int = 0
    """The number of the worker that starts the processes, from 1; 0 without workers."""
    hints: Hints | None = None
    """Shows the SDK's hints, such as one on a misspelt method; None shows no hints."""
    logs_per_bot: int = 10
    """The largest number of logs with faults that are stored for each bot."""

    def open(self, number: int, bot: BotSpec, start: int) -> BotOutput:
        """Return the writer for the output of a process that is about to start.

        The file is not opened before there is output.

        number  the index of the bot
        start   the number of the start of its process, from 1
        """
        file = None if self.folder is None else self.folder / log_name(number, start, self.worker)
        prefix = f"{printable(bot.name)}| " if number in self.shown else None
        return BotOutput(file, prefix, bot.own_paths)

    def show_hints(self, number: int, bot: BotSpec, log: str, *, is_reported: bool) -> None:
        """Show the SDK's hints in the output of a bot's first process, if hints are wanted.

        If the author will not see the rest of the output, one more hint says how to keep it.

        number       the index of the bot
        log          the last output of the process
        is_reported  True if the author sees the log anyway, with a fault, or if it has only the
                     stack that the process printed when the referee aborted it
        """
        if self.hints is None or self.worker > 1:  # of several workers the first one shows them
            return
        is_kept = is_reported or self.folder is not None or number in self.shown
        self.hints.show_printed(bot, log, is_kept=is_kept)


class BotOutput:
    """Writes the output of one process to its file and to the terminal, as lines."""

    def __init__(
        self,
        file: Path | None = None,
        prefix: str | None = None,
        own_paths: Callable[[str], str] = str,
    ) -> None:
        """Begin without output.

        file       the file to write, once there is output; None writes no file
        prefix     the beginning of each line on the terminal; None shows nothing there
        own_paths  replaces paths of the bot's copy in a text by those of its author
        """
        self._file = file
        self._own_paths = own_paths
        self._opened: TextIO | None = None
        self._prefix = prefix
        self._terminal = sys.stderr  # now, since it is redirected while bots in this process run
        self._bytes = 0
        self._failed = False
        self._streams = [_LineSplitter(self._write_line) for _ in range(2)]

    @property
    def in_file(self) -> bool:
        """Return True if there is a complete file with the output."""
        return self._opened is not None and not self._failed

    def sinks(self) -> tuple[Callable[[bytes], None], Callable[[bytes], None]] | None:
        """Return the functions that receive the bytes of stdout and of stderr.

        Return None if the output is neither written nor shown.
        """
        if self._file is None and self._prefix is None:
            return None
        stdout, stderr = self._streams
        return stdout.add, stderr.add

    def close(self) -> None:
        """Write the last line if it has no line end, and close the file."""
        for stream in self._streams:
            stream.finish()
        if self._opened is not None:
            try:
                self._opened.close()
            except OSError as error:  # closing tries again to write the last lines
                self._fail(error)

    def _write_line(self, text: str) -> None:
        """Write a line of output to the terminal and to the file, if they are in use."""
        line = printable(self._own_paths(text), keep="\t")
        self._show_line(line)
        self._store_line(line)

    def _show_line(self, line: str) -> None:
        """Write a line to the terminal, if the output is shown there."""
        if self._prefix is None:
            return
        try:
            self._terminal.write(f"{self._prefix}{line}\n")
            self._terminal.flush()
        except (OSError, ValueError):  # the terminal is closed: show no more
            self._prefix = None

    def _store_line(self, line: str) -> None:
        """Write a line to the file, unless there is none, it is full, or it has failed."""
        if self._file is None or self._failed or self._bytes > MOST_BYTES:
            return
        self._bytes += len(line) + 1
        if self._bytes > MOST_BYTES:  # this line is the last one
            line = "[... the rest is left out ...]"
        try:
            if self._opened is None:
                self._opened = self._file.open("w", encoding="utf-8", newline="\n")
            self._opened.write(f"{line}\n")
            self._opened.flush()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        """Log the first error of the file, to which nothing is written any more."""
        if not self._failed:
            self._failed = True
            _log.error("cannot write %s: %s", self._file, error.strerror)


class _LineSplitter:
    """Splits the bytes of a stream into lines of text."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode
        self._on_line = on_line
        self._unfinished = ""
        """The text since the last line end."""

    def add(self, data: bytes) -> None:
        """Add bytes of the stream, and pass on the lines that they complete.

        A very long line is passed on before its end, in pieces.
        """
        text = self._unfinished + self._decode(data)
        *lines, self._unfinished = text.split("\n")
        if len(self._unfinished) > _LONGEST_LINE:
            lines.append(self._unfinished)
            self._unfinished = ""
        for line in lines:
            self._on_line(line.removesuffix("\r"))

    def finish(self) -> None:
        """Pass on the last line, which has no line end."""
        self.add(b"\n" if self._unfinished else b"")


class OutputTail:
    """Stores the end of a stream."""

    def __init__(self, kept_bytes: int = KEPT_BYTES // 2) -> None:
        self._limit = kept_bytes
        self._end = bytearray()
        self.left_out = 0
        """The number of bytes before the stored end."""

    def add(self, data: bytes) -> None:
        """Add bytes of the stream, and forget the oldest ones if there are too many."""
        self._end += data
        surplus = len(self._end) - self._limit
        if surplus > 0:
            del self._end[:surplus]
            self.left_out += surplus

    def text(self) -> str:
        """Return the end of the stream as text that is safe to print."""
        marker = f"[... {self.left_out} bytes left out ...]\n" if self.left_out else ""
        return marker + escaped(bytes(self._end))


def escaped(data: bytes) -> str:
    """Return the text of these bytes; control characters but line ends and tabs are escaped."""
    text = data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    return printable(text, keep="\n\t")


class OutputCapture:
    """A pipe for a bot's output: the bot inherits the write end, the event loop reads the other."""

    def __init__(
        self,
        sink: Callable[[bytes], None] | None = None,
        kept_bytes: int = KEPT_BYTES // 2,
        system: System = SYSTEM,
    ) -> None:
        """Create the pipe. `sink` is called with all bytes that are read; `tail` stores the end."""
        self._sink = sink
        self.tail = OutputTail(kept_bytes)
        reading, self.writing = os.pipe()
        self._is_open = self._writing_is_open = True
        self._reader = system.pipe_reader(reading, self._read)

    def close_writing(self) -> None:
        """Close our copy of the write end, once the bot has its own or cannot be started."""
        if self._writing_is_open:
            self._writing_is_open = False
            os.close(self.writing)

    def finish(self) -> None:
        """Read the last output of an ended process, and close the pipe.

        A process that still holds the write end is not waited for.
        """
        # The pipe has no end as long as the referee could write into it.
        self.close_writing()
        if self._is_open:
            self._reader.wait_for_last_bytes()
        self.drain()
        self._close()

    def drain(self) -> None:
        """Read the bytes that are in the pipe, without waiting for more."""
        for _ in range(_LAST_READS):
            if not self._is_open or not self._read_chunk():
                break

    def add(self, data: bytes) -> None:
        """Add bytes that were read, or a line of the referee's own."""
        self.tail.add(data)
        if self._sink is not None:
            self._sink(data)

    def _read(self) -> None:
        """Read some bytes of the pipe, or close it at its end; called when it is readable.

        If the bot has printed more than is stored, the reader pauses afterwards. Then the pipe
        fills up, and the bot has to wait until it can print more.
        """
        if not self._is_open:
            return
        data = self._read_chunk()
        if data == b"":
            self._close()
        elif data is not None and self.tail.left_out:
            self._reader.pause(_PAUSE_S)

    def _read_chunk(self) -> bytes | None:
        """Read once, and add the bytes; return b"" at the end of the pipe, None if it is empty."""
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
    """Return the part of an error that helps the bot's author; "" if the text is empty.

    Of a text with Python tracebacks it is the last one, without the frames outside of the bot's
    folder and with at most LONGEST_ERROR lines. Of any other text it is the last lines.

    text    a traceback, or the standard error of a process
    folder  the bot's folder; None is the working directory
    """
    lines = _as_traceback(text.rstrip().splitlines())
    start = _last_traceback(lines)
    if start is None:
        error_lines = lines[-LAST_LINES:]
    else:
        error_lines = _own_frames(lines[start:], _folder_paths(folder))
        if len(error_lines) > LONGEST_ERROR:
            half = LONGEST_ERROR // 2
            error_lines = [*error_lines[:half], "  ...", *error_lines[-half:]]
    return "\n".join(printable(line, LONGEST_LINE, keep="\t") for line in error_lines)


def bot_error(text: str, bot: BotSpec) -> str:
    """Return the author's part of a bot's error, with the author's paths; never raises."""
    return text_or_excuse(lambda: author_error(bot.own_paths(text), bot.home))


def error_line(error: str, without_prefix: str = "\n") -> str:
    """Return the line of an error's text that names the error, such as "ValueError: no unit".

    It is the last line that begins with the name of an exception. If there is none, it is the last
    line of all; "" if the text has no lines.

    without_prefix  lines that begin with this are ignored; by default none are
    """
    stripped_lines = map(str.strip, error.splitlines())
    lines = [line for line in stripped_lines if line and not line.startswith(without_prefix)]
    exception_lines = [line for line in lines if _ERROR.fullmatch(line)]
    if exception_lines:
        return exception_lines[-1]
    return lines[-1] if lines else ""


def frames(error: str) -> tuple[str, ...]:
    """Return the lines of an error's text that are frames of a traceback."""
    return tuple(line for line in error.splitlines() if _FRAME.fullmatch(line))


def last_frame_text(error: str) -> str:
    """Return where a traceback ends, in words: "; it was at bot.py, line 7, in search".

    Return "" if the text has no frame of a traceback.
    """
    frame_lines = frames(error)
    frame = _FRAME.fullmatch(frame_lines[-1]) if frame_lines else None
    if frame is None:
        return ""
    return f"; it was at {frame['file']}, line {frame['line']}{frame['function'] or ''}"


def with_short_stack(text: str, folder: Path | None) -> str:
    """Return the standard error of a process; stacks of an abort are replaced by `author_error`."""
    before, aborted, _ = text.partition(_ABORTED)
    return before + author_error(text, folder) if aborted else text


def _as_traceback(lines: list[str]) -> list[str]:
    """Replace the stacks that faulthandler writes at an abort by a traceback of one thread.

    faulthandler, Python's own handler of crashes, writes the stack of each thread. Lines without
    such an abort are returned unchanged.
    """
    abort_lines = [number for number, line in enumerate(lines) if line.startswith(_ABORTED)]
    if not abort_lines:
        return lines
    abort_line = abort_lines[0]
    start = _stack_of_bot(lines, abort_line)
    frame_lines: list[str] = []
    for line in itertools.takewhile(bool, lines[start + 1 :]):  # an empty line ends a stack
        call = _CALL.fullmatch(line)
        if call is not None:
            frame_lines.append(f'  File "{call[1]}", line {call[2]}, in {call[3]}')
    # faulthandler writes the innermost call first, a traceback writes it last.
    frame_lines.reverse()
    return [*lines[:abort_line], _HEADER, *frame_lines, lines[abort_line]]


def _stack_of_bot(lines: list[str], abort_line: int) -> int:
    """Return the index of the heading of the stack that explains an abort.

    It is the stack of the thread that crashed, or of the main thread, which runs the bot's code,
    if the referee aborted the process. Without stacks, return the number of lines.

    abort_line  the index of the line of the abort, after which the stacks come
    """
    headings: list[int] = []
    for number, line in enumerate(lines):
        if number > abort_line and _STACK.match(line):
            headings.append(number)
    if not headings:
        return len(lines)
    # "Current thread" heads the stack of the thread that a signal has interrupted. For the signal
    # of the referee that may be any thread; the main thread is written last.
    current = [number for number in headings if lines[number].startswith("Current")]
    if current and lines[abort_line] != _BY_REFEREE:
        return current[-1]
    return headings[-1]


def _last_traceback(lines: list[str]) -> int | None:
    """Return the index of the line with which the last Python traceback begins; None without one.

    A traceback begins with its header, or with its first frame if it has no header: that of a
    syntax error in the program has none.
    """
    headers = [number for number, line in enumerate(lines) if line.strip() == _HEADER]
    if headers:
        return headers[-1]
    frame_lines = [number for number, line in enumerate(lines) if _FRAME.fullmatch(line)]
    return frame_lines[0] if frame_lines else None


def _folder_paths(folder: Path | None) -> list[str]:
    """Return the two paths by which frames may name the bot's folder: as given, and without links.

    Return [] if the working directory is needed, and was removed.

    folder  the bot's folder; None is the working directory
    """
    try:
        path = os.path.abspath(folder or "")  # noqa: PTH100  (text alone: links are not followed)
    except OSError:  # the working directory was removed
        return []
    return [path, os.path.realpath(path)]


def _own_frames(lines: list[str], folder_paths: list[str]) -> list[str]:
    """Return a traceback without the frames of files outside of the bot's folder.

    If all frames are outside, all of them stay. Paths in the folder become relative to it.

    lines         the traceback: indented lines below a frame belong to it; other lines, such as the
                  error itself, always stay
    folder_paths  the paths of the bot's folder
    """
    own_lines: list[str] = []
    all_lines: list[str] = []
    in_own_part = True
    has_own_frame = False
    for line in lines:
        shown_line = line
        frame = _FRAME.fullmatch(line)
        if frame is not None:
            relative_path = _relative(frame["file"], folder_paths)
            in_own_part = relative_path is not None
            if relative_path is not None:
                has_own_frame = True
                shown_line = line.replace(frame["file"], relative_path, 1)
        elif not line.startswith(" "):
            in_own_part = True
        all_lines.append(shown_line)
        if in_own_part:
            own_lines.append(shown_line)
    return own_lines if has_own_frame else all_lines


def _relative(file: str, folder_paths: list[str]) -> str | None:
    """Return a file's path relative to the bot's folder.

    Return None for a file elsewhere, for a library in the folder, and for "<string>" and the like.
    Paths are compared as text only: a bot may name any file, such as a link that leads to itself.

    folder_paths  the paths of the bot's folder
    """
    if file.startswith("<"):
        return None
    for folder in folder_paths:
        path = PurePath(os.path.normpath(os.path.join(folder, file)))  # noqa: PTH118
        if path.is_relative_to(folder):
            relative_path = path.relative_to(folder)
            is_library = not _LIBRARY_FOLDERS.isdisjoint(relative_path.parts)
            return None if is_library else str(relative_path)
    return None


# ----- Hints for the author of a bot

MOST_HINTS = 5
"""The largest number of hints for a bot that a run shows."""
LONGEST_HINT = 200
"""The largest number of characters of a hint."""
LONGEST_PROGRAM = 1024 * 1024
"""The largest size in bytes of a program that is searched for hints."""
_PACKAGES = ("deepsea_sdk", "deepsea_bots")
"""The packages with classes from which bots derive."""
_FOREIGN_PREFIXES = (HINT, "deepsea-referee: ")
"""The beginnings of lines in a bot's log that come from the SDK or the referee."""
NOT_KEPT = (
    "what it prints is not kept: deepsea-referee match shows it with --show-output, and keeps it "
    "with --out"
)


class Hints:
    """Shows hints on stderr, and remembers those that a run has shown."""

    def __init__(self) -> None:
        self._shown: dict[object, set[str]] = {}

    def show(self, bot: BotSpec, hints: Iterable[str]) -> None:
        """Write hints for a bot's author to stderr, each once, and at most MOST_HINTS of a bot."""
        # By the program: it may play under several names, with different parameters.
        hints_shown = self._shown.setdefault(bot.source or bot.command, set())
        for hint in hints:
            line = one_line(hint, LONGEST_HINT)
            if line not in hints_shown and len(hints_shown) < MOST_HINTS:
                hints_shown.add(line)
                with suppress(OSError, ValueError):  # stderr is closed, or its reader has ended
                    sys.stderr.write(f"{printable(bot.name)}: {line}\n")

    def show_printed(self, bot: BotSpec, log: str, *, is_kept: bool) -> None:
        """Show the hints that the SDK has printed into the log of a bot.

        If the bot has printed something itself, and that is lost, show how to keep it.

        is_kept  True if the bot's output is shown or stored
        """
        hints = hints_in(log)
        has_printed = any(
            line and not line.startswith(_FOREIGN_PREFIXES) for line in log.splitlines()
        )
        if has_printed and not is_kept:
            hints.append(NOT_KEPT)
        self.show(bot, hints)


def hints_in(log: str) -> list[str]:
    """Return the first hints of the SDK in a bot's log, without repetitions, one line each."""
    lines = [line.removeprefix(HINT) for line in log.splitlines() if line.startswith(HINT)]
    return [one_line(line, LONGEST_HINT) for line in dict.fromkeys(lines)][:MOST_HINTS]


def hints_of(bot: BotSpec) -> list[str]:
    """Return hints on misspelt methods from the text of a bot's program, without running it."""
    return [*islice(dict.fromkeys(_misspelt(_programs(bot))), MOST_HINTS)]


def _programs(bot: BotSpec) -> Iterator[bytes]:
    """Yield the contents of a bot's Python files, in which hints are looked for.

    These are the files of its bundle. Without a bundle they are the files that its command names,
    except very long ones.
    """
    if bot.bundle is not None:
        for name, content in sorted(bot.bundle.files.items()):
            if name.endswith(".py"):
                yield content
        return
    for argument in bot.command[1:]:
        path = Path(argument)
        try:
            if path.suffix == ".py" and path.stat().st_size <= LONGEST_PROGRAM:
                yield path.read_bytes()
        except OSError:  # the error will be reported when the bot is started
            continue


def _misspelt(programs: Iterable[bytes]) -> Iterator[str]:
    """Yield hints on misspelt methods of the bots' classes in these files."""
    for bot_class in _bot_classes(programs):
        for method in bot_class.body:
            if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                hint = misspelling_hint(bot_class.name, method.name)
                if hint is not None:
                    yield hint


def _bot_classes(programs: Iterable[bytes]) -> Iterator[ast.ClassDef]:
    """Yield the classes in these files that derive from the SDK's `Bot`, directly or indirectly.

    The files are parsed, but not run. So a base class is known by its name alone, and may be in
    another one of the files.
    """
    bot_names = {"Bot"}
    remaining: list[ast.ClassDef] = []
    for program in programs:
        for node in _nodes(program):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith(_PACKAGES):
                # Any of these names may be that of `Bot` or of a sample bot's class.
                bot_names |= {name.asname or name.name for name in node.names}
            elif isinstance(node, ast.ClassDef):
                remaining.append(node)
    # Each pass finds the classes that derive from those of the passes before it.
    while True:
        derived = [cls for cls in remaining if not bot_names.isdisjoint(map(_name, cls.bases))]
        if not derived:
            return
        yield from derived
        bot_names |= {cls.name for cls in derived}
        remaining = [cls for cls in remaining if cls not in derived]


def _name(base: ast.expr) -> str:
    """Return the last part of the name of a base class; "" if it is no name."""
    return base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")


def _nodes(program: bytes) -> Iterator[ast.AST]:
    """Yield the syntax nodes of a program; none if it is too long or cannot be parsed.

    The error of such a program is reported when the bot is started.
    """
    if len(program) > LONGEST_PROGRAM:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the start of the bot shows its warnings
            yield from ast.walk(ast.parse(program))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
