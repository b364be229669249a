"""Bots are frozen while others are asked, lazily; what they compute then is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest

from deepsea_referee.clock import Alarm
from deepsea_referee.pauses import LAZY_US, BotTurns, Freezer, OffTurn
from helpers.manual_clock import ManualClock


@dataclass(slots=True)
class Process:
    """A process that notes what is done to it."""

    said: list[str] = field(default_factory=list)

    def freeze(self) -> None:
        self.said.append("freeze")

    def thaw(self) -> None:
        self.said.append("thaw")


@dataclass(slots=True)
class Table:
    """Bots that are connected, and their freezer."""

    clock: ManualClock
    freezer: Freezer
    bots: list[BotTurns]
    processes: list[Process]

    def ask(self, bot: int) -> None:
        self.bots[bot].ask(self.clock.now_us())

    def rest(self, bot: int) -> None:
        self.bots[bot].rest(self.clock.now_us())

    @property
    def frozen(self) -> list[bool]:
        return [bot.frozen for bot in self.bots]


@pytest.fixture
def table() -> Table:
    """Three bots that rest."""
    clock = ManualClock()
    freezer = Freezer(clock)
    processes = [Process() for _ in range(3)]
    bots = [freezer.join(process) for process in processes]
    for bot in bots:
        bot.rest(0)
    return Table(clock, freezer, bots, processes)


def test_bots_that_answer_at_once_are_never_frozen(table: Table) -> None:
    for turn in range(300):
        table.ask(turn % 3)
        table.clock.jump(LAZY_US - 100)
        table.rest(turn % 3)
        table.clock.jump(50)
    assert [process.said for process in table.processes] == [[], [], []]


def test_bots_that_answer_at_once_set_an_alarm_once_in_two_milliseconds(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, alarms = table.clock.at, []

    def counted(when_us: int, ring: Callable[[], object]) -> Alarm:
        alarms.append(when_us)
        return at(when_us, ring)

    monkeypatch.setattr(table.clock, "at", counted)
    for turn in range(100):
        table.ask(turn % 3)
        table.clock.jump(LAZY_US // 10)
        table.rest(turn % 3)
    assert len(alarms) <= 11
    table.ask(0)
    table.clock.jump(LAZY_US)
    assert table.frozen == [False, True, True]


def test_while_one_thinks_the_others_are_frozen_after_two_milliseconds(table: Table) -> None:
    table.ask(0)
    table.clock.jump(LAZY_US - 1)
    assert table.frozen == [False, False, False]
    table.clock.jump(1)
    assert table.frozen == [False, True, True]
    table.rest(0)
    table.ask(1)
    assert table.frozen == [False, False, True]
    assert table.processes[1].said == ["freeze", "thaw"]


def test_who_rests_while_another_still_thinks_is_frozen_too(table: Table) -> None:
    table.ask(0)
    table.ask(1)
    table.clock.jump(10_000)
    table.rest(1)  # at another table
    assert table.frozen == [False, False, True]
    table.clock.jump(LAZY_US)
    assert table.frozen == [False, True, True]


def test_many_short_decisions_at_other_tables_do_not_put_it_off(table: Table) -> None:
    table.ask(0)
    for _ in range(20):
        table.ask(1)
        table.clock.jump(LAZY_US // 4)
        table.rest(1)
    assert table.frozen[2]


def test_where_nobody_is_asked_all_are_frozen(table: Table) -> None:
    table.clock.jump(LAZY_US)
    assert table.frozen == [True, True, True]
    assert table.clock.alarms == 0  # nothing more to do


def test_a_start_counts_as_another_decision(table: Table) -> None:
    late = table.freezer.join(Process())
    table.clock.jump(LAZY_US)
    assert table.frozen == [True, True, True]
    assert not late.frozen


def test_all_that_rest_can_be_frozen_at_once(table: Table) -> None:
    table.ask(0)
    table.freezer.freeze_all()
    table.freezer.freeze_all()
    assert table.frozen == [False, True, True]
    assert table.processes[1].said == ["freeze"]


def test_who_leaves_is_thawed_and_left_alone(table: Table) -> None:
    table.clock.jump(LAZY_US)
    table.bots[0].leave()
    table.bots[0].leave()
    table.clock.jump(LAZY_US)
    assert table.processes[0].said == ["freeze", "thaw"]
    # Its time as one that is asked is over: the others are not measured by it.
    table.ask(1)
    table.bots[1].leave()
    table.rest(2)
    assert not table.bots[1].frozen


def test_resting_twice_freezes_once(table: Table) -> None:
    table.clock.jump(LAZY_US)
    table.rest(0)
    table.clock.jump(LAZY_US)
    assert table.processes[0].said == ["freeze"]


def test_one_can_be_frozen_at_once_but_not_while_it_is_asked(table: Table) -> None:
    table.ask(0)
    for bot in (0, 1, 1):
        table.bots[bot].freeze()
    assert table.frozen == [False, True, False]
    assert table.processes[1].said == ["freeze"]


# CPU time outside of turns


def test_what_a_bot_does_between_its_turns_is_measured_now_and_then() -> None:
    off_turn = OffTurn()
    for turn in range(16):  # a measure at most every 100 ms
        off_turn.begin(turn * 25_000, partial(int, turn * 250))
        off_turn.end(turn * 25_000 + 500, partial(int, (turn + 1) * 250))
    assert (off_turn.cpu_us, off_turn.wall_us) == (4 * 250, 4 * 500)
    assert off_turn.share == 0.5
    both = OffTurn()
    assert both.share is None
    both.add(off_turn)
    assert both.share == 0.5
