"""Single keys from the terminal.

Invariants: the terminal's state is restored, whatever happens; a key works at any moment.
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
    ARROW_KEYS = {"H": "\x1b[A", "P": "\x1b[B", "M": "\x1b[C", "K": "\x1b[D"}
    """The keys of arrows by the characters that a console sends for them, after a prefix."""

    @contextmanager
    def keys(waker: WakePipe | None = None) -> Iterator[Callable[[float | None], str]]:
        """Read single keys from the console, without echo, until the block ends.

        Yields a function that waits so many seconds for a key, or for ever with None. It returns
        the key, or "" if none came in time or if the waker rang, which another thread may do.
        """

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
            return ARROW_KEYS.get(msvcrt.getwch(), "?") if key in ("\x00", "\xe0") else key

        yield wait

else:
    import os
    import select
    import signal
    import termios
    import tty

    ESCAPE = b"\x1b"
    """The first of the three bytes that an arrow key sends; alone it is the key Escape."""
    KEY_SECONDS = 0.05
    """Time within which the other bytes of an arrow key come."""

    @contextmanager
    def keys(waker: WakePipe | None = None) -> Iterator[Callable[[float | None], str]]:
        """Read single keys from the terminal, without echo, until the block ends.

        Yields a function that waits so many seconds for a key, or for ever with None. It returns
        the key, or "" if none came in time or if the waker rang, which another thread may do.
        """
        stdin = sys.stdin.fileno()
        terminal_state = termios.tcgetattr(stdin)
        # A signal just before `select` begins would not end it, but a byte in this pipe does.
        signal_source, signal_sink = os.pipe()
        os.set_blocking(signal_source, False)
        os.set_blocking(signal_sink, False)
        former_fd = signal.set_wakeup_fd(signal_sink, warn_on_full_buffer=False)

        def wait(seconds: float | None) -> str:
            key = b""
            while True:
                timeout = KEY_SECONDS if key else seconds
                sources = [stdin, signal_source, *([waker] if waker else [])]
                ready, _, _ = select.select(sources, [], [], timeout)
                if not ready or waker in ready:
                    break
                if stdin not in ready:
                    # Only a signal came, and its handler, which runs before, raised nothing.
                    os.read(signal_source, 4096)
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
            termios.tcsetattr(stdin, termios.TCSADRAIN, terminal_state)
            signal.set_wakeup_fd(former_fd)
            os.close(signal_source)
            os.close(signal_sink)
