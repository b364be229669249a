"""Gauges of a bot and its host on Linux: the counters that pauses.py attributes time by."""

from __future__ import annotations

import os
import threading

from deepsea_referee.pauses import BUSY_US, TICK_US, Reading, Usage
from deepsea_referee.sandbox import process_tree
from deepsea_referee.sandbox.interface import IsolatedProcess


class BotGauge:
    """A `Gauge` of a bot process."""

    def __init__(self, process: IsolatedProcess) -> None:
        self._process = process
        self._bot_waits = process_tree.WaitSum()
        self._referee_waits = process_tree.WaitSum()
        self._host_us = 0
        self._host_until_us = -1
        self._last_denied_us = (0, 0)
        """The time that the bot had been denied at the last reading but one, and at the last."""
        own_cpus = os.sched_getaffinity(0)  # a bot cannot leave those that it was started on
        self.cpus = len(own_cpus)
        self._only_cpus = None if self.cpus == os.cpu_count() else own_cpus
        """The CPUs whose time is counted as that of the host; None for all CPUs."""
        self.cpu_us = process.cpu_us

    def glance(self, now_us: int) -> Usage | None:
        denied_us = self._process.denied_us()
        if denied_us is None:
            return None
        return self._usage(denied_us, self._host_lately_us(now_us))

    def read(self) -> Reading:
        """Read the counters of the bot, of the referee and of the host, all since their starts.

        The time for which the host denied the bot a CPU comes from the bot's control group.
        Without one, it is the time for which the bot's threads have waited for a CPU.
        """
        # The referee's own waits are read first. This thread may have to wait for a CPU while it
        # reads the other counters, and that wait belongs to the time after this reading.
        referee_waited_us = self._referee_waits.add_reading(process_tree.threads([os.getpid()]))
        threads = self._process.threads()
        waited_us = self._bot_waits.add_reading(threads)
        denied_us = self._process.denied_us()
        if denied_us is None:
            denied_us = waited_us
        else:
            _, previous_denied_us = self._last_denied_us
            self._last_denied_us = (previous_denied_us, denied_us)  # of the last two readings
        host_us = process_tree.host_cpu_us(self._only_cpus)
        return Reading(
            usage=self._usage(denied_us, host_us),
            threads_us={thread: times.cpu_us for thread, times in threads.items()},
            referee_waited_us=referee_waited_us,
            waited_us=waited_us,
        )

    def bot_is_ready(self) -> bool:
        # The time in a control group includes a wait that is not over. So if it has not grown, the
        # bot does not wait.
        denied_before_us, denied_last_us = self._last_denied_us
        under_pressure = denied_last_us - denied_before_us > BUSY_US
        return (self._process.denied_us() is None or under_pressure) and self._process.is_ready()

    def referee_is_ready(self) -> bool:
        return process_tree.is_ready(os.getpid(), except_thread=threading.get_native_id())

    def _host_lately_us(self, now_us: int) -> int:
        # The kernel counts in ticks: reading more often only takes time.
        if now_us > self._host_until_us:
            self._host_us = process_tree.host_cpu_us(self._only_cpus)
            self._host_until_us = now_us + TICK_US
        return self._host_us

    def _usage(self, denied_us: int, host_us: int) -> Usage:
        cpu_us = self._process.cpu_us()
        return Usage(cpu_us, denied_us, host_us - cpu_us)


class WallGauge(BotGauge):
    """A gauge for bots whose CPU time is not all seen: nothing counts as denied.

    What children used that nobody waited for looks like other programs' time, and threads can be
    made to wait. So the bot is charged the wall time, less only the referee's own delays.
    """

    def glance(self, now_us: int) -> Usage | None:
        return self._usage(0, self._host_lately_us(now_us))

    def read(self) -> Reading:
        reading = super().read()
        return reading._replace(usage=reading.usage._replace(denied_us=0), waited_us=0)

    def bot_is_ready(self) -> bool:
        return False
