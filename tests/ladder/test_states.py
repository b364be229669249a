"""Which states of submissions, analyses, comparisons and games of people are final."""

from __future__ import annotations

import pytest

from deepsea_ladder.model.bots import SubmissionState, WorkState
from deepsea_ladder.model.games import AnalysisState, PersonGameState
from deepsea_ladder.model.verdicts import ComparisonState

FINAL = {
    SubmissionState: {"accepted", "refused", "failed"},
    AnalysisState: {"done", "failed"},
    ComparisonState: {"decided", "spent", "ended", "failed"},
    PersonGameState: {"done", "void"},
}


@pytest.mark.parametrize("kind", FINAL, ids=lambda kind: kind.__name__)
def test_what_waits_or_is_under_way_is_not_final(kind: type[WorkState]) -> None:
    assert {state.value for state in kind if state.is_final} == FINAL[kind]


def test_every_kind_is_in_the_table() -> None:
    assert set(WorkState.__subclasses__()) == set(FINAL)
