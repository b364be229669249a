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

    POLL_SECONDS = 0.02
    """Time between two looks for a key."""
    CTRL_C = "\x03"
    SPECIAL_KEY_PREFIXES = ("\x00", "\xe0")
    """Characters of which a console sends one before the character of a key without a letter."""
    ARROW_KEYS = {"H": "\x1b[A", "P": "\x1b[B", "M": "\x1b[C", "K": "\x1b[D"}
    """The keys of arrows by the characters that a console sends for them, after a prefix."""

    @contextmanager
    def keys(waker: WakePipe | None = None) -> Iterator[Callable[[float | None], str]]:
        """Yield a function that reads single keys from the console, without showing them.

        The function waits so many seconds for a key, or for ever with None. It returns the key, or
        "" if none came in time or if another thread woke it by the waker.
        """

        def read_key(seconds: float | None) -> str:
            """Return the next key, or "" after so many seconds or if the waker rang."""
            deadline_s = None if seconds is None else time.monotonic() + seconds
            while not msvcrt.kbhit():
                if deadline_s is not None and time.monotonic() > deadline_s:
                    return ""
                if waker is not None and first_ready([waker], 0):
                    return ""
                time.sleep(POLL_SECONDS)
            key = msvcrt.getwch()
            if key == CTRL_C:
                raise KeyboardInterrupt
            if key in SPECIAL_KEY_PREFIXES:
                return ARROW_KEYS.get(msvcrt.getwch(), "?")
            return key

        yield read_key

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

    def _read_byte(terminal: int) -> bytes:
        """Return the next byte from a terminal; b"" if the terminal has gone."""
        try:
            return os.read(terminal, 1)
        except OSError:
            return b""

    @contextmanager
    def keys(waker: WakePipe | None = None) -> Iterator[Callable[[float | None], str]]:
        """Yield a function that reads single keys from the terminal, without showing them.

        The function waits so many seconds for a key, or for ever with None. It returns the key, or
        "" if none came in time or if another thread woke it by the waker. At the end of the block
        the terminal is as before.
        """
        stdin = sys.stdin.fileno()
        terminal_state = termios.tcgetattr(stdin)
        # A signal just before `select` begins would not end it, but a byte in this pipe does.
        signal_source, signal_sink = os.pipe()
        os.set_blocking(signal_source, False)
        os.set_blocking(signal_sink, False)
        former_fd = signal.set_wakeup_fd(signal_sink, warn_on_full_buffer=False)

        sources = [stdin, signal_source] if waker is None else [stdin, signal_source, waker]

        def read_key(seconds: float | None) -> str:
            """Return the next key, or "" after so many seconds or if the waker rang.

            A key is one byte, but an arrow key is three, of which the first one is Escape. Return
            "q", the key that ends every screen, if the terminal has gone.
            """
            key = b""
            while True:
                timeout = KEY_SECONDS if key else seconds
                ready, _, _ = select.select(sources, [], [], timeout)
                if not ready or waker in ready:
                    break
                if stdin not in ready:
                    # A signal came whose handler raised no error: wait on.
                    os.read(signal_source, 4096)
                    continue
                byte = _read_byte(stdin)
                if not byte:
                    return "q"
                key += byte
                is_arrow_key = key.startswith(ESCAPE)
                if len(key) == (3 if is_arrow_key else 1):
                    break
            return key.decode(errors="replace")

        try:
            tty.setcbreak(stdin, termios.TCSADRAIN)
            yield read_key
        finally:
            termios.tcsetattr(stdin, termios.TCSADRAIN, terminal_state)
            signal.set_wakeup_fd(former_fd)
            os.close(signal_source)
            os.close(signal_sink)
