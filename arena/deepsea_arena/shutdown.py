"""How somebody asks a runner to stop, and how the runner hears it while it waits.

Laws: asking only notes the wish and wakes whoever waits, so that no transaction is torn; once is
"finish what is being played", twice or SIGTERM is "hand it back".
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum


class StopRequest(IntEnum):
    """What was asked for."""

    GO_ON = 0
    FINISH = 1
    """Start no more games."""
    HAND_BACK = 2
    """Give up what is being played."""


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


class Stop(WakePipe):
    """A wish that several parts of a run look at, and can wait for; hearing it does not end it."""

    def __init__(self) -> None:
        super().__init__()
        self.wish = StopRequest.GO_ON

    def ask(self, wish: StopRequest) -> None:
        """Ask for it; what was asked for before and is more remains."""
        self.wish = max(self.wish, wish)
        self.ring()

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Ctrl-C finishes, a second one and SIGTERM hand back; only in the main thread."""

        def interrupted(*_: object) -> None:
            self.ask(
                StopRequest.FINISH if self.wish is StopRequest.GO_ON else StopRequest.HAND_BACK
            )

        def terminated(*_: object) -> None:
            self.ask(StopRequest.HAND_BACK)

        former = {
            signal.SIGINT: signal.signal(signal.SIGINT, interrupted),
            signal.SIGTERM: signal.signal(signal.SIGTERM, terminated),
        }
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)
