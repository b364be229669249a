"""What is read of a bot and its host, and in which order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import pytest

from deepsea_referee.sandbox import process_tree
from deepsea_referee.sandbox.interface import IsolatedProcess, ThreadTimes
from deepsea_referee.system.gauge import BotGauge, WallGauge


class FakeProcess:
    """A bot whose times the test moves on. Reading it takes the referee 7 ms without a CPU."""

    def __init__(self, pressure_us: int | None) -> None:
        self.pressure_us = pressure_us
        self.waited_us = 0
        self.referee_waited_us = 0
        self.ready = True

    def cpu_us(self) -> int:
        return 5_000

    def denied_us(self) -> int | None:
        return self.pressure_us

    def threads(self) -> dict[int, ThreadTimes]:
        self.referee_waited_us += 7_000
        return {1: ThreadTimes(5_000, self.waited_us)}

    def is_ready(self) -> bool:
        return self.ready


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> FakeProcess:
    one = FakeProcess(0)

    def threads(_pids: Iterable[int]) -> dict[int, ThreadTimes]:
        return {2: ThreadTimes(0, one.referee_waited_us)}

    monkeypatch.setattr(process_tree, "threads", threads)
    return one


def test_waits_of_the_referee_during_a_reading_belong_to_the_time_after_it(
    process: FakeProcess,
) -> None:
    gauge = BotGauge(cast(IsolatedProcess, process))
    assert gauge.read().referee_waited_us == 0
    assert gauge.read().referee_waited_us == 7_000


def test_waits_of_threads_are_told_beside_pressure(process: FakeProcess) -> None:
    gauge = BotGauge(cast(IsolatedProcess, process))
    process.pressure_us, process.waited_us = 3_000, 9_000
    reading = gauge.read()
    assert (reading.usage.denied_us, reading.waited_us) == (3_000, 9_000)
    process.pressure_us = None
    assert gauge.read().usage.denied_us == 9_000


def test_where_the_wall_is_charged_nothing_is_denied(process: FakeProcess) -> None:
    process.pressure_us, process.waited_us = 3_000, 9_000
    reading = WallGauge(cast(IsolatedProcess, process)).read()
    assert (reading.usage.denied_us, reading.waited_us) == (0, 0)


def test_a_bot_that_was_not_denied_a_cpu_lately_is_not_waited_for(process: FakeProcess) -> None:
    gauge = BotGauge(cast(IsolatedProcess, process))
    gauge.read()
    assert not gauge.bot_is_ready()
    process.pressure_us = 20_000
    gauge.read()
    assert gauge.bot_is_ready()
    gauge.read()
    assert not gauge.bot_is_ready()
    process.pressure_us = None
    assert gauge.bot_is_ready()
