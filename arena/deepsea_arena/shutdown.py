"""How somebody asks a runner to stop, and how the runner hears it while it waits.

Invariants: asking only notes the wish and wakes whoever waits, so that no transaction is torn; once
is "finish what is being played", twice or SIGTERM is "hand it back".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from deepsea_referee.interrupts import WakePipe, on_signals


class StopRequest(IntEnum):
    """What was asked for."""

    GO_ON = 0
    FINISH = 1
    """Start no more games."""
    HAND_BACK = 2
    """Give up what is being played."""


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

        def interrupted() -> None:
            self.ask(
                StopRequest.FINISH if self.wish is StopRequest.GO_ON else StopRequest.HAND_BACK
            )

        def terminated() -> None:
            self.ask(StopRequest.HAND_BACK)

        with on_signals(interrupted, terminated):
            yield
