"""Single keys from the terminal.

`keys()` is a context manager that gives a function: it waits that many seconds, or for ever, for a
key; "" if none came, or if the waker rang, which ends a wait in another thread. The terminal's
state is restored afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deepsea_referee.interrupts import WakePipe, first_ready

if sys.platform == "win32":
    import msvcrt
    import time  # noqa: TID251  (a console cannot be waited for)

    LOOK_S = 0.02
    ARROWS = {"H": "\x1b[A", "P": "\x1b[B", "M": "\x1b[C", "K": "\x1b[D"}
    """What a console sends for an arrow, after its prefix: as a terminal elsewhere would."""

    @contextmanager
    def keys(waker: WakePipe | None = None) -> Iterator[Callable[[float | None], str]]:
        """Read single keys from the console, without echo."""

        def wait(seconds: float | None) -> str:
            deadline_s = None if seconds is None else time.monotonic() + seconds
            while not msvcrt.kbhit():
                if deadline_s is not None and time.monotonic() > deadline_s:
                    return ""
                if waker is not None and first_ready([waker], 0):
                    return ""
                time.sleep(LOOK_S)
            key = msvcrt.getwch()
            if key == "\x03":
                raise KeyboardInterrupt
            return ARROWS.get(msvcrt.getwch(), "?") if key in ("\x00", "\xe0") else key

        yield wait

else:
    import os
    import select
    import signal
    import termios
    import tty

    ESCAPE = b"\x1b"
    """Begins what an arrow key sends, three bytes; alone it is the key of that name."""
    KEY_SECONDS = 0.05
    """How long the rest of a key may take."""

    @contextmanager
    def keys(waker: WakePipe | None = None) -> Iterator[Callable[[float | None], str]]:
        """Read single keys from the terminal, without echo."""
        stdin = sys.stdin.fileno()
        before = termios.tcgetattr(stdin)
        # A Ctrl-C just before `select` begins would not end it: the pipe does.
        signalled, signal_pipe = os.pipe()
        os.set_blocking(signalled, False)
        os.set_blocking(signal_pipe, False)
        former = signal.set_wakeup_fd(signal_pipe, warn_on_full_buffer=False)

        def wait(seconds: float | None) -> str:
            key = b""
            while True:
                timeout = KEY_SECONDS if key else seconds
                sources = [stdin, signalled, *([waker] if waker else [])]
                ready, _, _ = select.select(sources, [], [], timeout)
                if not ready or waker in ready:
                    break
                if stdin not in ready:
                    os.read(signalled, 4096)  # a handler that raises has done so
                    continue
                try:
                    byte = os.read(stdin, 1)
                except OSError:
                    byte = b""
                if not byte:
                    return "q"  # the terminal has gone
                key += byte
                if not key.startswith(ESCAPE) or len(key) == 3:
                    break
            return key.decode(errors="replace")

        try:
            tty.setcbreak(stdin, termios.TCSADRAIN)
            yield wait
        finally:
            termios.tcsetattr(stdin, termios.TCSADRAIN, before)
            signal.set_wakeup_fd(former)
            os.close(signalled)
            os.close(signal_pipe)
