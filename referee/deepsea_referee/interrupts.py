"""Ctrl-C and SIGTERM as requests to stop.

Invariants: a signal only sets a flag and wakes the waiting code, so that nothing is interrupted
halfway; the former handlers are restored afterwards.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def on_signals(
    interrupt: Callable[[], object], terminate: Callable[[], object] | None = None
) -> Iterator[None]:
    """Call `interrupt` at Ctrl-C and `terminate`, by default the same, at SIGTERM.

    Only in the main thread. They may be called between any two steps of its code; wake an event
    loop with its `call_soon_threadsafe`.
    """
    calls = ((signal.SIGINT, interrupt), (signal.SIGTERM, terminate or interrupt))
    former = {number: signal.signal(number, _handler(call)) for number, call in calls}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _handler(call: Callable[[], object]) -> Callable[[int, object], object]:
    return lambda _number, _frame: call()


class WakePipe:
    """A pipe that wakes a `select`; may be rung from any thread or signal handler."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def ring(self) -> None:
        """Wake the waiting code, now or later."""
        with suppress(BlockingIOError):  # the pipe is full of rings already
            os.write(self._writing, b"!")

    def fileno(self) -> int:
        """Readable once it rang."""
        return self._reading

    def clear(self) -> None:
        """Remove all rings."""
        with suppress(BlockingIOError):
            os.read(self._reading, 4096)

    def pause(self, seconds: float) -> None:
        """Wait that long, or until it rings."""
        if select.select([self], [], [], seconds)[0]:
            self.clear()

    def close(self) -> None:
        """Free the pipe."""
        os.close(self._reading)
        os.close(self._writing)
