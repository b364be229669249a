"""Exceptions between a bot and its referee, and the text of exceptions in a bot's own code.

    SdkError (Exception)
    ├── NotInMatch        the program was not started by a referee, or no referee listens
    ├── ConnectionRejected  the referee ended the stream with a reason
    ├── WireError         an invalid message
    └── IllegalAnswer     a method of the bot returned an illegal answer

Invariants: every message is one line for the bot's author; `run` prints it and exits, with status 2
for `NotInMatch`, else 1. A traceback has at most `ERROR_BYTES` bytes and keeps its end, as the last
line has the exception. A summary is one printable line, whatever text a bot sent. An explanation of
a fault never raises, and reads ordinary files only.
"""

from __future__ import annotations

import linecache
import os
import re
import stat
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType

from deepsea_rules.printable import one_line

ERROR_BYTES = 8 * 1024
"""Most bytes of an error's text."""
LONGEST_SUMMARY = 200
"""Most characters of a summary."""
_TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}(?=:|\Z)")
"""The type of an exception at the beginning of a traceback's last line."""
_LARGEST_SOURCE = 4 * 1024 * 1024
"""Most bytes of a file whose lines are shown in a traceback."""


class SdkError(Exception):
    """Any error of the SDK."""


class NotInMatch(SdkError):
    """The program was not started by a referee, or no referee listens at the address."""


class ConnectionRejected(SdkError):
    """The referee ended the stream because it refused the bot or a message."""


class IllegalAnswer(SdkError, ValueError):
    """A method of the bot returned an illegal answer; the message names it, `action` is the text.

    In a match it is one fault, `illegal_action`, and the default action is played.
    """

    def __init__(self, message: str, action: str) -> None:
        super().__init__(message)
        self.action = action


class WireError(SdkError, ValueError):
    """An invalid message."""


def own_traceback(error: BaseException) -> str:
    """Return the traceback of a bot's exception, without the SDK's frames at its beginning.

    Its last line always has the exception, even if that has a message of many lines.
    """
    # Formatting calls the exception's own methods. If they raise, the text is a sentence about
    # that, which begins with the type of the exception.
    format_traceback = partial(_format_own_traceback, error)
    return cut(text_or_excuse(format_traceback, f"{type(error).__name__}: this fault"))


def _format_own_traceback(error: BaseException) -> str:
    """Return the traceback from the first frame outside of the SDK on.

    A message of several lines is added once more as one line, so that the last line of the text
    has the exception.
    """
    frame: TracebackType | None = error.__traceback__
    while frame is not None and _is_sdk(frame):
        frame = frame.tb_next
    own_text = exception_text(error.with_traceback(frame)).rstrip("\n")
    message = "".join(traceback.format_exception_only(error)).rstrip("\n")
    if "\n" in message:
        return f"{own_text}\n{' '.join(message.split())[:LONGEST_SUMMARY]}"
    return own_text


def text_or_excuse(explain: Callable[[], str], subject: str = "this fault") -> str:
    """Return the text that `explain` makes; if it raises, a sentence that says so instead.

    explain  makes a text of an author's exception, whose own methods may raise
    subject  what could not be explained then: the subject of the sentence
    """
    try:
        return explain()
    except Exception as error:  # noqa: BLE001  (an author's exception may have any methods)
        return f"{subject} could not be explained: {type(error).__name__}"


def exception_text(error: BaseException) -> str:
    """Return an exception with its traceback and its causes as text, as Python prints it.

    Source lines of huge files, pipes and devices are left out, as `skip_odd_sources` says.
    """
    # Python also prints the exceptions that led to this one, and those of a group: find them all.
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        exception = pending.pop()
        if exception is not None and id(exception) not in seen:
            seen.add(id(exception))
            frames = traceback.walk_tb(exception.__traceback__)
            skip_odd_sources(frame.f_code.co_filename for frame, _ in frames)
            pending += [exception.__cause__, exception.__context__]
            if isinstance(exception, BaseExceptionGroup):
                pending += exception.exceptions
    return "".join(traceback.format_exception(error))


def skip_odd_sources(files: Iterable[str]) -> None:
    """Keep tracebacks from reading source lines of huge files, and of pipes, devices and the like.

    Python reads the whole file to show one line of it, and would wait at a pipe.

    files  paths under which code was compiled; an author may have compiled it under any text
    """
    for file in set(files):
        try:
            status = os.stat(file)  # noqa: PTH116  (it is no path, perhaps)
            is_odd = not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_SOURCE
        except OSError:  # no such file: Python looks elsewhere
            continue
        except ValueError:  # not even a valid file name
            is_odd = True
        if is_odd:
            # An entry without lines. Without a time (None) Python never checks the file again.
            linecache.cache[file] = (0, None, [], file)


def cut(text: str, limit: int = ERROR_BYTES) -> str:
    """Return the text, or its last `limit` bytes, as valid UTF-8."""
    data = text.encode(errors="backslashreplace")
    return data[-limit:].decode(errors="ignore")


def summary(text: str) -> str:
    """Return the last line of an error's text in a short sentence that is safe to print."""
    lines = text.strip().splitlines()
    line = one_line(lines[-1], LONGEST_SUMMARY) if lines else ""
    return f"it raised {line}" if line else "it answered with an error"


def exception_type(text: str) -> str:
    """Return a sentence with the exception's type alone, which cannot show what the bot knows."""
    line = "".join(text.strip().splitlines()[-1:])
    match = _TYPE.match(line)
    return f"it raised {match[0] if match else 'an exception'}"


def _is_sdk(frames: TracebackType) -> bool:
    """Return True if the traceback begins with a frame of the SDK's own code."""
    return str(frames.tb_frame.f_globals.get("__name__")).startswith(__package__ + ".")
