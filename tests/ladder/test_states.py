"""States of tasks: which of them are the last ones, for each kind."""

from __future__ import annotations

import pytest

from deepsea_ladder.model import KINDS, TaskKind, TaskState

FINAL = {
    TaskKind.GAME: {"done", "quarantined", "cancelled"},
    TaskKind.CHECK: {"accepted", "refused", "failed"},
    TaskKind.ANALYSIS: {"done", "failed"},
    TaskKind.COMPARISON: {"decided", "spent", "ended", "failed"},
    TaskKind.STEP: {"done", "void"},
}


@pytest.mark.parametrize("kind", TaskKind)
def test_what_waits_or_is_under_way_is_not_final(kind: TaskKind) -> None:
    assert {state.value for state in KINDS[kind].states if state.is_final} == FINAL[kind]


def test_every_state_is_one_of_a_kind() -> None:
    assert {state for rules in KINDS.values() for state in rules.states} == set(TaskState)
