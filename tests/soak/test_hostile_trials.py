"""The trials of what hostile bots once broke run and say what they should.

`python -m soak.hostile_trials` makes all of them, which takes half an hour; the single
attacks are in tests/attacks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deepsea_referee.sandbox import probe
from deepsea_referee.sandbox.cgroup import Hierarchies
from soak import hostile_trials
from soak.hostile_trials import CASES, NO_GROUPS, ONE_USER, Condition, Seen, conditions, table

ROOT = Path(__file__).parents[2]


def test_every_stated_limit_is_a_section_of_the_page_and_a_line_of_doctor() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    lines = {
        probe.control_groups_check(Hierarchies()).name,
        probe.users_check().name,
    }
    for limit in (NO_GROUPS, ONE_USER):
        assert f"\n## {limit.section}\n" in page
        assert limit.doctor in lines


def test_every_cause_is_tried_with_and_without_groups_quiet_and_busy() -> None:
    assert {case.cause for case in CASES} == {
        *(f"H{number}" for number in range(1, 8)),
        *("A1", "F1", "F2", "G2"),
    }
    timed = next(case for case in CASES if case.timed)
    assert [one.text for one in conditions(timed, [True, False], [False, True])] == [
        "control groups",
        "control groups, busy",
        "none, match",
        "none, match, busy",
        "none, rated",
        "none, rated, busy",
    ]
    untimed = next(case for case in CASES if not case.timed)
    assert conditions(untimed, [False], [True]) == [Condition(False, False, False)]


def row(case: str, where: str, verdict: str, faults: int = 0) -> dict[str, object]:
    counts = {
        "innocent_faults": faults,
        "void_games": 0,
        "cheats_not_caught": 0,
        "robbed": False,
    }
    return {"cause": "H1", "case": case, "where": where, "verdict": verdict, **counts}


def test_the_table_has_a_line_for_each_case_and_a_column_for_each_condition() -> None:
    rows = [row("a", "quiet", "held"), row("a", "busy", "broken", 2), row("b", "", "held")]
    assert table(rows).splitlines() == [
        "| cause | case | quiet | busy |",
        "| --- | --- | --- | --- |",
        "| H1 | a | held | broken (faults 2) |",
        "| H1 | b | held |  |",
    ]


@pytest.mark.parametrize(
    ("shares", "robbed"),
    [([], False), ([0.96, 1.0, 0.83], False), ([0.89, 1.0, 0.83], True), ([0.5], True)],
)
def test_a_bot_is_robbed_if_it_lost_its_time_in_most_runs(
    shares: list[float], robbed: bool
) -> None:
    seen = Seen(shares=shares)
    assert seen.robbed == robbed
    assert seen.unharmed != robbed


@pytest.mark.release
@pytest.mark.needs("bubblewrap")
def test_it_tells_the_verdict_of_each_trial() -> None:
    options = ["--only", "H5,H6,H7,A1,F1", "--without-groups", "--quiet", "--runs", "1", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", hostile_trials.__name__, *options],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT / "tests"), str(ROOT / "bench"))),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    rows = json.loads(done.stdout)["rows"]
    assert [one["cause"] for one in rows] == ["H5", "H5", "H6", "H7", "A1", "A1", "F1", "F1"]
    assert {one["verdict"] for one in rows} <= {"held", "limit"}
