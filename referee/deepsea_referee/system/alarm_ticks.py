"""Ticks in the main thread from the timer that raises SIGALRM, on Linux and macOS."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def alarm_ticks(seconds: float, tick: Callable[[FrameType | None], object]) -> Iterator[None]:
    """Call `tick` periodically; see `interface.System.ticking`."""
    former = signal.signal(signal.SIGALRM, lambda _number, frame: tick(frame))
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
