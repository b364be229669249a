"""A clock for tests, which do not sleep."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from deepsea_referee.clock import Alarm


class ManualClock:
    """A clock that moves only by `jump`."""

    def __init__(self, now_us: int = 0) -> None:
        self._now_us = now_us
        self._alarms: list[_ManualAlarm] = []

    def now_us(self) -> int:
        return self._now_us

    def at(self, when_us: int, ring: Callable[[], object]) -> Alarm:
        alarm = _ManualAlarm(when_us, ring)
        heapq.heappush(self._alarms, alarm)
        return alarm

    @property
    def alarms(self) -> int:
        """The number of alarms that have not rung."""
        return sum(not alarm.cancelled for alarm in self._alarms)

    def jump(self, us: int) -> None:
        """Advance the time; alarms ring in order, each at its own moment."""
        if us < 0:
            raise ValueError("time does not go back")
        end_us = self._now_us + us
        while self._alarms and self._alarms[0].when_us <= end_us:
            alarm = heapq.heappop(self._alarms)
            self._now_us = max(self._now_us, alarm.when_us)
            if not alarm.cancelled:
                alarm.ring()
        self._now_us = end_us


@dataclass(slots=True)
class _ManualAlarm:
    when_us: int
    ring: Callable[[], object]
    cancelled: bool = False

    def __lt__(self, other: _ManualAlarm) -> bool:
        return self.when_us < other.when_us

    def cancel(self) -> None:
        self.cancelled = True
