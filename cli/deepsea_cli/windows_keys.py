"""Single keys from a console of Windows."""

from __future__ import annotations

import msvcrt
import sys
import time  # noqa: TID251  (a console cannot be waited for)
from collections.abc import Callable, Iterator
from contextlib import contextmanager

assert sys.platform == "win32"

LOOK_S = 0.02
ARROWS = {"H": "\x1b[A", "P": "\x1b[B", "M": "\x1b[C", "K": "\x1b[D"}
"""What a console sends for an arrow, after its prefix: as a terminal elsewhere would."""


@contextmanager
def keys() -> Iterator[Callable[[float | None], str]]:
    """Read single keys from the console, without echo; see keys.py."""

    def wait(seconds: float | None) -> str:
        deadline_s = None if seconds is None else time.monotonic() + seconds
        while not msvcrt.kbhit():
            if deadline_s is not None and time.monotonic() > deadline_s:
                return ""
            time.sleep(LOOK_S)
        key = msvcrt.getwch()
        if key == "\x03":
            raise KeyboardInterrupt
        return ARROWS.get(msvcrt.getwch(), "?") if key in ("\x00", "\xe0") else key

    yield wait
