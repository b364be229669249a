"""What an author has to read of a bot's error: the own frames of a traceback, or the last lines.

Invariants: the text is safe to print and short; frames keep Python's own form (`File "bot.py",
line 7, in search`), files of the bot are named relative to its folder; other languages' output is
shown as it ends.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from deepsea_rules.printable import printable

LAST_LINES: Final = 20
"""Lines that are kept of output without a Python traceback."""
LONGEST_ERROR: Final = 60
"""Lines that are kept of a traceback."""
LONGEST_LINE: Final = 200
_HEADER: Final = "Traceback (most recent call last):"
_FRAME: Final = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+)(, in .*)?')
_ERROR: Final = re.compile(r"(\w+\.)*\w*(Error|Exception|Exit|Interrupt|Warning)\b.*")


def author_error(text: str, folder: Path | None) -> str:
    """The part of an error's text that its author needs; "" if there is none.

    text    a traceback, or what a process wrote to stderr
    folder  the bot's own; None is the working directory
    """
    lines = text.rstrip().splitlines()
    start = _last_traceback(lines)
    if start is None:
        kept = lines[-LAST_LINES:]
    else:
        kept = _own_frames(lines[start:], (folder or Path()).resolve())
        if len(kept) > LONGEST_ERROR:
            half = LONGEST_ERROR // 2
            kept = [*kept[:half], "  ...", *kept[-half:]]
    return "\n".join(printable(line, LONGEST_LINE, keep="\t") for line in kept)


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


def _last_traceback(lines: list[str]) -> int | None:
    """Where the last Python traceback begins; None if there is none."""
    for number in range(len(lines) - 1, -1, -1):
        if lines[number].strip() == _HEADER:
            return number
    # A syntax error of the program itself has no header.
    return next((n for n, line in enumerate(lines) if _FRAME.fullmatch(line)), None)


def _own_frames(lines: list[str], folder: Path) -> list[str]:
    """The traceback without frames of files outside of the folder; all frames if all are."""
    own: list[str] = []
    every: list[str] = []
    keeps = True
    found = False
    for line in lines:
        shown, frame = line, _FRAME.fullmatch(line)
        if frame is not None:
            name = _relative(frame["file"], folder)
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


def _relative(file: str, folder: Path) -> str | None:
    """The file's name within the folder; None if it is elsewhere, as an installed library is."""
    if file.startswith("<"):
        return None
    try:
        inside = (folder / file).resolve().relative_to(folder)
    except (ValueError, OSError):
        return None
    return None if {"site-packages", "node_modules"} & set(inside.parts) else str(inside)
