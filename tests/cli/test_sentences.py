"""Sentences below a table are true of the numbers that it prints, as they are rounded there."""

from __future__ import annotations

import io
import json
import math
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepsea_cli.verdict_report import comparison_document, report_comparison
from deepsea_referee.bots.process import Hosting
from deepsea_referee.sandbox.plain_process import PlainProcess
from deepsea_referee.summary import GameResult
from deepsea_referee.workbench.blocks import BlockSettings, CompareGames
from deepsea_referee.workbench.comparison import Comparison
from deepsea_referee.workbench.confidence import Interval, elo_difference, elo_of
from helpers.commands import Run, environment, one_line
from helpers.results import BOTS, MANUAL, SEED

NUMBER = r"[+-][\d.e-]+|[+-]inf"


def compared(seats: int, blocks: list[int], *, until_decided: bool) -> CompareGames:
    """A comparison with these blocks: 1 where A's copies are ahead of B's, -1 behind, 0 once each.

    It stops at a verdict if `until_decided`.
    """
    settings = BlockSettings.of(
        *BOTS,
        (),
        seats,
        blocks=100,
        seed_text="x",
        seed=SEED,
        rules=MANUAL,
        hosting=Hosting(PlainProcess()),
        until_decided=until_decided,
    )
    comparison = Comparison(settings.line_ups, settings.ours, settings.theirs)
    for signs in blocks:
        if until_decided and comparison.verdict is not None:
            break
        games = []
        for number, line_up in enumerate(settings.line_ups):
            sign = signs or (-1 if number % 2 else 1)
            ahead = settings.ours if sign > 0 else settings.theirs
            first = sum(bot in ahead for bot in line_up)
            places = tuple(1 if bot in ahead else 1 + first for bot in line_up)
            points = tuple(20 - place for place in places)
            games.append(GameResult(number + 1, "g", line_up, points, places, (), ()))
        comparison.add(games)
    return cast("CompareGames", SimpleNamespace(comparison=comparison, settings=settings))


@given(
    st.sampled_from([2, 4]),
    st.lists(st.sampled_from([1, 1, 1, 0, -1]), min_size=1, max_size=60),
    st.sampled_from([1, -1]),
    st.booleans(),
)
def test_a_comparison(seats: int, blocks: list[int], better: int, until_decided: bool) -> None:
    games = compared(seats, [better * sign for sign in blocks], until_decided=until_decided)
    with redirect_stdout(io.StringIO()) as out:
        report_comparison(games)
    text = out.getvalue()
    row = re.search(rf"placement score .* ({NUMBER}) to ({NUMBER})\n", text)
    assert row
    low, high = map(float, row.groups())
    last = text.splitlines()[-1]
    if last.endswith(" is stronger"):
        assert low >= 0 if last.startswith("a ") else high <= 0
        near = low if last.startswith("a ") else high
        place = re.search(rf"The interval (begins|ends) at ({NUMBER})[, ]", " ".join(text.split()))
        assert (place is not None) or near != 0
        if place:
            assert place[1] == ("begins" if near is low else "ends")
            assert round(float(place[2]), 3) == near
            assert abs(near) <= 0.01
    elif last.startswith("no difference larger than"):
        assert max(abs(low), abs(high)) <= 0.05
    else:
        assert low <= 0 <= high
    assert ("because the run stopped" in text) <= until_decided
    if takes := re.search(r"a verdict takes about ([\d,]+) blocks", text):
        assert int(takes[1].replace(",", "")) > games.comparison.blocks
    assert ("  in Elo" in text) == (seats == 2)
    document = comparison_document(games)
    json.dumps(document, allow_nan=False)
    assert (document["elo"] is not None) == (seats == 2)


def test_an_interval_far_from_0_has_no_line(run: Run) -> None:
    done = run("compare", "greedy", "random", "--until-decided", "--seed", "x", "--in-process")
    assert "+0.032 to" in done.out
    assert "The interval" not in done.out


@given(st.lists(st.integers(-1000, 1000), min_size=3, max_size=3))
def test_elo_follows_from_the_score_over_two_seats(leads: list[int]) -> None:
    low, mean, high = sorted(lead / 1000 for lead in leads)
    elo = elo_difference(mean, Interval(low, high))
    for lead, points in (
        (low, elo.interval.low),
        (mean, elo.difference),
        (high, elo.interval.high),
    ):
        score = (1 + lead) / 2
        assert points == pytest.approx(elo_of(score), abs=1e-6)
    assert elo.interval.low <= elo.difference <= elo.interval.high


@pytest.mark.parametrize(
    ("score", "points"),
    [(0.5, 0), (0.75, 190.85), (10 / 11, 400), (1, math.inf), (0, -math.inf), (1.5, math.inf)],
)
def test_elo_of_a_score(score: float, points: float) -> None:
    assert elo_of(score) == pytest.approx(points, abs=0.01)


def test_two_seats_have_an_elo_difference(run: Run) -> None:
    words = ("--in-process", "--seed", "x", "--json")
    one = json.loads(run("compare", "greedy", "random", "--seats", 2, "--blocks", 9, *words).out)
    lead = one["placement_score"]
    for name in ("difference", "interval"):
        pairs: Any = zip(lead["interval"], one["elo"]["interval"], strict=True)
        if name == "difference":
            pairs = [(lead[name], one["elo"][name])]
        for score, points in pairs:
            expected = elo_of((1 + score) / 2)
            assert points == (pytest.approx(expected) if math.isfinite(expected) else None)
    (pair,) = json.loads(run("rank", "greedy", "random", "--games", 40, *words).out)["pairs"]
    assert pair["elo"]["interval"][0] == pytest.approx(elo_of((1 + pair["interval"][0]) / 2))
    out = run("rank", "greedy", "random", "cautious", "--seats", 2, "--games", 60, *words[:-1]).out
    assert "Elo to the first" in out
    out = run("rank", "greedy", "random", "cautious", "--games", 60, *words).out
    assert [pair["elo"] for pair in json.loads(out)["pairs"]] == [None] * 3


def test_shared_wins_are_named(run: Run) -> None:
    words = ("match", "greedy", "greedy", "--games", 40, "--seed", "x", "--in-process")
    wins = sum(bot["wins"] for bot in json.loads(run(*words, "--json").out)["bots"])
    assert wins > 40, "another seed has ties"
    said = f"a tie for the first place is a win for each: {wins} wins in 40 games\n"
    assert said in run(*words).out


def test_a_page_is_named(run: Run, tmp_path: Path) -> None:
    run("match", "greedy", "random", "--out", tmp_path / "games", "--in-process")
    page = tmp_path / "page.html"
    done = run("show", tmp_path / "games", "--html", page)
    assert done == (0, f"page: {page}, to open in a browser\n", "")


@pytest.mark.parametrize("words", [["mine/train.py"], ["-m", "deepsea_sdk.train", "x.weights"]])
def test_training_without_numpy_names_what_to_install(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("new", "mine", "--template", "learned").status == 0
    said = with_numpy("raise ModuleNotFoundError(\"No module named 'numpy'\")", words)
    assert "numpy" in one_line(said)
    assert "pip install" in said


@pytest.mark.parametrize("words", [["mine/train.py"], ["-m", "deepsea_sdk.train", "x.weights"]])
def test_training_takes_one_core(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("new", "mine", "--template", "learned").status == 0
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    cores = "import os; raise SystemExit('cores: ' + os.environ.get('OPENBLAS_NUM_THREADS', 'all'))"
    assert with_numpy(cores, words) == "cores: 1\n"


def with_numpy(text: str, words: list[str]) -> str:
    """Run Python here with such a module numpy; it has to fail. Returns what it wrote to stderr."""
    Path("numpy.py").write_text(f"{text}\n")
    path = os.pathsep.join([str(Path.cwd()), environment()["PYTHONPATH"]])
    done = subprocess.run(
        [sys.executable, *words],
        env={**environment(), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize("entered", [True, False])
def test_the_python_that_is_named_is_the_one_that_runs_here(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entered: bool
) -> None:
    """As `.venv/bin/deepsea-referee` it is not entered, and `pip` is missing or another's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent if entered else tmp_path))
    said = run("new", "mine", "--template", "learned").out
    python = shlex.quote(sys.executable)
    pip, python = ("pip", "python") if entered else (f"{python} -m pip", python)
    assert f"  {pip} install -r mine/train-requirements.txt\n  {python} mine/train.py\n" in said
