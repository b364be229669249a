"""Requests to stop a runner, which wake it while it waits.

Invariants: a request only sets a flag and wakes the runner, so that no transaction is interrupted;
the first Ctrl-C means "finish the games", a second one or SIGTERM "give the leases back".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from itertools import count
from typing import TypeVar

from deepsea_ladder.errors import StoreUnavailable
from deepsea_referee.interrupts import WakePipe, on_signals

_T = TypeVar("_T")
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0


class StopRequest(IntEnum):
    GO_ON = 0
    FINISH = 1
    """Start no more games."""
    HAND_BACK = 2
    """Give up the games that are being played."""


class Stop(WakePipe):
    """A request that several parts of a run check and wait for; it stays set."""

    def __init__(self) -> None:
        super().__init__()
        self.requested = StopRequest.GO_ON
        self.is_terminated = False
        """True once SIGTERM has come: a run with `--forever` ends then."""
        self._others: list[Stop] = []

    def share(self, other: Stop) -> None:
        """Pass requests on to another one, those that were made already too.

        Each part of a run that waits in a thread of its own has its own: a ring wakes one alone.
        """
        self._others.append(other)
        other.ask(self.requested)

    def ask(self, request: StopRequest) -> None:
        """Request it; a stronger earlier request remains."""
        self.requested = max(self.requested, request)
        self.ring()
        for other in self._others:
            other.ask(request)

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Ctrl-C finishes, a second one and SIGTERM hand back; only in the main thread."""

        def interrupted() -> None:
            self.ask(
                StopRequest.FINISH if self.requested is StopRequest.GO_ON else StopRequest.HAND_BACK
            )

        with on_signals(interrupted, self.terminate):
            yield

    def terminate(self) -> None:
        """Hand back, because of SIGTERM."""
        self.is_terminated = True
        self.ask(StopRequest.HAND_BACK)


def retry_until_available(
    call: Callable[[], _T],
    stop: Stop,
    report: Callable[[str], object],
    tries: int | None = None,
) -> _T:
    """Call the store, again and again while it is unavailable; every call may be repeated.

    tries  how often it is called at most; None is no limit
    Raises StoreUnavailable when leases are to be given back, and after the last try.
    """
    reported = ""
    for number in count():
        try:
            return call()
        except StoreUnavailable as error:
            if stop.requested is StopRequest.HAND_BACK or number + 1 == tries:
                raise
            if reported != (reported := str(error)):
                report(f"{error}; trying again")
            stop.pause(nth_pause(_FIRST_PAUSE, number))
    raise AssertionError("there is always another number")


def nth_pause(first: float, number: int) -> float:
    """The pause before another try, in seconds; each is twice as long, from the one of number 0."""
    return float(min(first * 2.0**number, _LONGEST_PAUSE))
