"""Exceptions between a bot and its referee, and the text of what a bot's own code raises.

    SdkError (Exception)
    ├── NotInMatch        the program was not started by a referee, or no referee listens
    ├── ConnectionRejected  the referee ended the stream with a reason
    ├── WireError         an invalid message
    └── IllegalAnswer     a method of the bot returned an illegal answer

Invariants: every message is one line for the bot's author; `run` prints it and exits, with status 2
for `NotInMatch`, else 1. A traceback has at most `ERROR_BYTES` bytes and keeps its end, as the last
line has the exception; a summary is one printable line, whatever a bot sent. An explanation of a
fault never raises, and reads no file that is not an ordinary one.
"""

from __future__ import annotations

import linecache
import os
import re
import stat
import traceback
from collections.abc import Callable, Iterable
from types import TracebackType

from deepsea_rules.printable import one_line

ERROR_BYTES = 8 * 1024
"""The limit of an error's text, in bytes."""
LONGEST_SUMMARY = 200
_TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}(?=:|\Z)")
_LARGEST_SOURCE = 4 * 1024 * 1024
"""The limit of a file whose lines are shown in a traceback, in bytes."""


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
    """Format a traceback, from the first frame of the author's own code.

    Its last line is the exception, also if that is text of many lines.
    """

    def text() -> str:
        frames: TracebackType | None = error.__traceback__
        while frames is not None and _is_sdk(frames):
            frames = frames.tb_next
        text = formatted(error.with_traceback(frames)).rstrip("\n")
        what = "".join(traceback.format_exception_only(error)).rstrip("\n")
        return f"{text}\n{' '.join(what.split())[:LONGEST_SUMMARY]}" if "\n" in what else text

    return cut(explained(text, f"{type(error).__name__}: this fault"))


def explained(explain: Callable[[], str], what: str = "this fault") -> str:
    """The text of an explanation, or a sentence that there is none: no game ends by it."""
    try:
        return explain()
    except Exception as failed:  # noqa: BLE001  (an author's exception may have any methods)
        return f"{what} could not be explained: {type(failed).__name__}"


def formatted(error: BaseException) -> str:
    """The whole text of an exception, as Python prints it."""
    chain: list[BaseException | None] = [error]
    seen: set[int] = set()
    while chain:
        link = chain.pop()
        if link is not None and id(link) not in seen:
            seen.add(id(link))
            frames = traceback.walk_tb(link.__traceback__)
            skip_odd_sources(frame.f_code.co_filename for frame, _ in frames)
            chain += [link.__cause__, link.__context__]
            chain += link.exceptions if isinstance(link, BaseExceptionGroup) else ()
    return "".join(traceback.format_exception(error))


def skip_odd_sources(files: Iterable[str]) -> None:
    """Have tracebacks show no lines of files that are no ordinary ones, or huge.

    Python reads a file whole for one line of it, and would wait for a pipe.
    """
    for file in set(files):
        try:
            status = os.stat(file)  # noqa: PTH116  (it is no path, perhaps)
            is_odd = not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_SOURCE
        except OSError:  # Python looks for it elsewhere
            continue
        except ValueError:  # not even the name is one
            is_odd = True
        if is_odd:
            linecache.cache[file] = (0, None, [], file)  # an entry that is never looked up again


def cut(text: str, limit: int = ERROR_BYTES) -> str:
    """The text, or its end if it has more than `limit` bytes, as UTF-8 that can be sent."""
    data = text.encode(errors="backslashreplace")
    return data[-limit:].decode(errors="ignore")


def summary(text: str) -> str:
    """The last line of an error's text: short, and safe to print."""
    lines = text.strip().splitlines()
    line = one_line(lines[-1], LONGEST_SUMMARY) if lines else ""
    return f"it raised {line}" if line else "it answered with an error"


def exception_type(text: str) -> str:
    """The same with the exception's type alone, which says nothing of what the bot knows."""
    line = "".join(text.strip().splitlines()[-1:])
    named = _TYPE.match(line)
    return f"it raised {named[0] if named else 'an exception'}"


def _is_sdk(frames: TracebackType) -> bool:
    return str(frames.tb_frame.f_globals.get("__name__")).startswith(__package__ + ".")
