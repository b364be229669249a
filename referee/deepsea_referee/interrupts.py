"""Ctrl-C and SIGTERM: a wish to stop, of which whoever waits hears.

Invariants: a signal only notes the wish and wakes who waits, so that nothing is torn in the middle;
what was done at these signals before is done again afterwards.
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

    Only in the main thread. They are called between any two steps of its code; an event loop is
    woken by its `call_soon_threadsafe`.
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
    """Wakes whoever waits for it beside other things; from any thread or signal handler."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def ring(self) -> None:
        """Wake whoever waits, now or later."""
        with suppress(BlockingIOError):  # it rang so often already that it will be heard
            os.write(self._writing, b"!")

    def fileno(self) -> int:
        """Readable once it rang."""
        return self._reading

    def clear(self) -> None:
        """Note that it was heard."""
        with suppress(BlockingIOError):
            os.read(self._reading, 4096)

    def pause(self, seconds: float) -> None:
        """Wait so long, or until it rings."""
        if select.select([self], [], [], seconds)[0]:
            self.clear()

    def close(self) -> None:
        """Free the pipe."""
        os.close(self._reading)
        os.close(self._writing)
