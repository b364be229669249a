"""Charges bots the wall time where no kernel tells for how long a process had no CPU.

Invariants: nothing counts as denied to the bot; the referee's own lateness is not charged, as far
as the pulse shows it; a timeout is called only at a second look, when an answer that had already
arrived has been read.
"""

from __future__ import annotations

from typing import Final

from deepsea_referee.sandbox.interface import IsolatedProcess
from deepsea_referee.system.pulse import Pulse
from deepsea_referee.timing.host_load import BUSY_US, Reading, Usage

UNSEEN_US: Final = BUSY_US + 1
"""Waits of the referee that nobody counts: assumed at the first look after a limit, so that there
is a second one."""


class WallGauge:
    """A `Gauge` of a bot process by the wall clock."""

    def __init__(self, process: IsolatedProcess, pulse: Pulse, cpus: int) -> None:
        self._pulse = pulse
        self.cpus = cpus
        self.cpu_us = process.cpu_us

    def glance(self, now_us: int) -> Usage | None:
        return None

    def read(self) -> Reading:
        return Reading(
            usage=Usage(cpu_us=0, denied_us=0, outside_us=0),
            threads_us={},
            referee_waited_us=UNSEEN_US + self._pulse.late_us(),
        )

    def bot_is_ready(self) -> bool:
        return False

    def referee_is_ready(self) -> bool:
        return False
