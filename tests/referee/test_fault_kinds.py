"""Faults of one kind are counted together."""

from __future__ import annotations

from dataclasses import replace

from deepsea_referee.results.fault_kinds import MOST, FaultKinds
from deepsea_rules.faults import Fault
from helpers.results import FAULT

RAISED = replace(
    FAULT,
    fault=Fault.EXCEPTION,
    came="it raised KeyError: 1",
    error='Traceback (most recent call last):\n  File "b.py", line 7, in f\nKeyError: 1',
    forfeit=False,
)


def test_exceptions_of_one_place_are_one_kind_and_the_first_of_the_lowest_game_is_shown() -> None:
    kinds = FaultKinds()
    for game in (5, 2, 9):
        came = f"it raised KeyError: {game}"
        kinds.add(game, 0, replace(RAISED, came=came, error=RAISED.error.replace("1", str(game))))
    (kind,) = kinds
    assert kind.line("b") == (
        "b: exception ×3, first in game 2, seat B, decision 2, after 7 us: it raised KeyError: 2"
    )
    kinds.add(1, 0, replace(RAISED, error=RAISED.error.replace("line 7", "line 8")))
    assert [one.game for one in kinds] == [1, 2]


def test_bots_and_faults_are_told_apart() -> None:
    kinds = FaultKinds()
    for bot, fault in ((0, Fault.CRASH), (1, Fault.CRASH), (0, Fault.TIMEOUT)):
        kinds.add(1, bot, replace(FAULT, fault=fault))
    assert [kind.count for kind in kinds] == [1, 1, 1]


def test_a_game_without_the_bot_is_no_fault_of_that_game() -> None:
    kinds = FaultKinds()
    kinds.add(1, 0, replace(FAULT, fault=Fault.CRASH, came="its stream ended"))
    why = "not started again after 3 failures in a row"
    for game in range(2, 18):
        kinds.add(game, 0, replace(FAULT, fault=Fault.CRASH, came=why, when="absent"))
    assert kinds.count == 1
    line = [kind.line("b") for kind in kinds][1]
    assert line == f"b: forfeited ×16, first in game 2, seat B: {why}"


def test_any_number_of_kinds_takes_bounded_memory() -> None:
    kinds = FaultKinds()
    for number in range(3 * MOST):
        kinds.add(1, 0, replace(FAULT, fault=Fault.CRASH, came=str(number)))
    assert kinds.count == 3 * MOST
    assert len(list(kinds)) == MOST + 1
