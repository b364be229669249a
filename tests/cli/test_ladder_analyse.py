"""`ladder analyse`: asked for, made at once where it is waited for, and printed again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from deepsea_arena import ladder_analyses
from deepsea_arena.analysis import AnalysisSettings
from deepsea_arena.ladder_analyses import plan
from deepsea_ladder.limits import USUAL_LIMITS
from deepsea_ladder.model import TaskState
from deepsea_ladder.store import Store
from deepsea_sdk.coach.decisions import Effort
from deepsea_sdk.coach.roll_outs import COACH_VERSION
from helpers.commands import Run
from helpers.programs import nothing_left_behind

QUICK = AnalysisSettings(effort=Effort.of(4), luck=2)


@pytest.fixture
def store(played_file: Path, place: Path) -> Iterator[Store]:
    """A ladder with eight games of four bots."""
    with Store.open(shutil.copy(played_file, place)) as store:
        yield store


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands ask for few roll-outs."""
    monkeypatch.setattr(ladder_analyses.plan, "__defaults__", (QUICK,))


def ask(store: Store, game: int, settings: AnalysisSettings = QUICK) -> int:
    return store.analyses.request(f"s1-{game}", None, plan(settings), USUAL_LIMITS).id


@pytest.mark.usefixtures("quick")
def test_one_is_asked_for_and_waits(run: Run, store: Store) -> None:
    done = run("ladder", "analyse", "s1-1")
    assert (done.status, done.out) == (0, "analysis of s1-1: queued, it is next\n")
    ask(store, 2)
    assert run("ladder", "analyse", "s1-2").out == "analysis of s1-2: queued, 1 before it\n"
    found = json.loads(run("ladder", "analyse", "s1-1", "--json").out)
    assert (found["done"], found["document"], found["last"]["state"]) == (None, None, "queued")
    status = run("ladder", "status").out
    assert "2 games to be analysed: `ladder run` does it" in status
    assert "  s1-1: queued" in status


@pytest.mark.usefixtures("quick")
def test_waiting_for_it_makes_it_here_whatever_waits_before_it(run: Run, store: Store) -> None:
    ask(store, 2)
    with nothing_left_behind():
        done = run("ladder", "analyse", "s1-1", "--wait", "--all")
    assert done.status == 0
    assert f"placement scores by roll-outs of {COACH_VERSION}, 4 for each option" in done.out
    assert "decision 0, turn 1" in done.out
    assert "luck  own dice" in done.out
    assert store.analyses.get(1).state is TaskState.QUEUED
    again = run("ladder", "analyse", "s1-1", "--all")
    assert again.out == done.out
    found = json.loads(run("ladder", "analyse", "s1-1", "--json").out)
    assert found["done"] == found["last"]
    assert found["done"]["policy"] == COACH_VERSION
