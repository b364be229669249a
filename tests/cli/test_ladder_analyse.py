"""`ladder analyse`, and analyses beside `ladder run`: asked for, made once, whoever is killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest
from sqlalchemy import update

from deepsea_arena.coach import ladder_analyses
from deepsea_arena.coach.analysis import AnalysisSettings
from deepsea_arena.coach.ladder_analyses import plan
from deepsea_bundle.reader import read_bot
from deepsea_cli.ladder import options
from deepsea_ladder.limits import USUAL_LIMITS
from deepsea_ladder.model.games import AnalysisState
from deepsea_ladder.season import Season
from deepsea_ladder.store import Store, schema
from deepsea_sdk.coach.decisions import Effort
from deepsea_sdk.coach.roll_outs import COACH_VERSION
from helpers import ladder
from helpers.commands import Run, start
from helpers.programs import nothing_left_behind

QUICK = AnalysisSettings(effort=Effort.of(4), luck=2)
GOES_ON = AnalysisSettings(effort=Effort.of(1_000_000), luck=0)
"""An analysis that takes hours."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A ladder with eight games of four bots."""
    path = ladder.played(tmp_path / "ladder.db")
    monkeypatch.setenv(options.VARIABLE, str(path))
    with Store.open(path) as store:
        yield store


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands ask for few roll-outs."""
    monkeypatch.setattr(ladder_analyses.plan, "__defaults__", (QUICK,))


def ask(store: Store, game: int, settings: AnalysisSettings = QUICK) -> int:
    """Ask for the analysis of a game."""
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
    assert store.analyses.get(1).state is AnalysisState.QUEUED
    again = run("ladder", "analyse", "s1-1", "--all")
    assert again.out == done.out
    found = json.loads(run("ladder", "analyse", "s1-1", "--json").out)
    assert found["done"] == found["last"]
    assert found["done"]["policy"] == COACH_VERSION


# Beside real games


PATIENT = "10s+60s"
"""A clock that no machine is too slow for."""
BOT = """
from deepsea_sdk import Bot, run

class Mine(Bot):
    def decide(self, view):
        return view.legal[0]

run(Mine)
"""


@pytest.fixture
def living(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A ladder whose bots can play, after one game."""
    path = tmp_path / "ladder.db"
    monkeypatch.setenv(options.VARIABLE, str(path))
    with Store.create(path) as store:
        season = store.seasons.open(
            Season(name="s1", seats=(2,), clock=PATIENT, isolation="process"), ladder.SEED
        )
        for name in ("Ada", "Bob"):
            file = tmp_path / f"{name}s.py"
            file.write_text(BOT, encoding="utf-8")
            store.bots.submit(file.stem, name, read_bot(file))
        store.jobs.add(season, ladder.rotations(ladder.ids(store), 1))
        ladder.play_all(store, season)
        yield store


def begun(store: Store, number: int) -> Popen[str]:
    """A run that has begun an analysis which takes hours."""
    runner = start("ladder", "run", "--games", 1)
    while store.analyses.get(number).state is not AnalysisState.RUNNING:
        assert runner.poll() is None
        os.sched_yield()
    return runner


@pytest.mark.slow
def test_a_runner_that_is_killed_leaves_one_result_in_the_end(run: Run, living: Store) -> None:
    number = ask(living, 1, GOES_ON)
    with nothing_left_behind():
        runner = begun(living, number)
        runner.kill()
        runner.communicate()
        assert living.analyses.get(number).state is AnalysisState.RUNNING
        assert living.analyses.of_game("s1-1").done is None
    rows = schema.analyses
    with living.database.write() as connection:
        connection.execute(update(rows).values(settings=plan(QUICK).settings))
    # The next runner of this machine takes the lease back at once.
    again = run("ladder", "run", "--games", 1)
    assert again.status == 0
    assert f"analysis of game s1-1: done, {COACH_VERSION}" in again.err
    done, last = living.analyses.of_game("s1-1")
    assert done is not None
    assert done == last
    assert (done.id, done.state) == (number, AnalysisState.DONE)
    assert living.analyses.owners() == []


@pytest.mark.slow
# Ctrl-C goes the same way: tests/cli/test_ladder_run.py has it in every run.
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.release)]
)
def test_a_request_to_stop_ends_an_analysis_at_once(living: Store, number: int) -> None:
    asked = ask(living, 1, GOES_ON)
    with nothing_left_behind():
        runner = begun(living, asked)
        runner.send_signal(number)
        _, err = runner.communicate()
    assert "Traceback" not in err
    found = living.analyses.get(asked)
    assert (found.state, found.reason) == (AnalysisState.QUEUED, "")
    assert living.analyses.owners() == []
