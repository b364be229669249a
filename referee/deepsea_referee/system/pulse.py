"""The pulse: how late this process wakes, the sign of a busy machine where no kernel tells delays.

Invariants: a thread that sleeps for BEAT_S and wakes much later has had no CPU meanwhile, and
neither had the threads that wait for bots; what it sums is short by LATE_US for each beat, never
long. A machine that was suspended is as late as one that was busy.
"""

from __future__ import annotations

import threading
import time  # noqa: TID251  (measures how late it wakes itself)
from collections.abc import Callable
from typing import Final

BEAT_S: Final = 0.02
LATE_US: Final = 20_000
"""Lateness that does not count: the timers of Windows are 16 ms late on a quiet machine."""


class Pulse:
    """Sums up by how much this process was late."""

    def __init__(
        self,
        sleep: Callable[[float], object] = time.sleep,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._sleep = sleep
        self._now_ns = now_ns
        self._late_us = 0
        self._began_ns = now_ns()

    def start(self) -> None:
        """Measure from now on, until this process ends."""
        threading.Thread(target=self._run, name="pulse", daemon=True).start()

    def beat(self) -> None:
        """Sleep once, and count by how much that was too long."""
        before_ns = self._now_ns()
        self._sleep(BEAT_S)
        late_us = (self._now_ns() - before_ns) // 1_000 - round(BEAT_S * 1_000_000)
        if late_us > LATE_US:
            self._late_us += late_us - LATE_US

    def late_us(self) -> int:
        """The sum so far, in microseconds."""
        return self._late_us

    def late_share(self) -> float:
        """The part of the time since the beginning."""
        passed_us = (self._now_ns() - self._began_ns) // 1_000
        return self._late_us / passed_us if passed_us else 0.0

    def _run(self) -> None:
        while True:
            self.beat()
