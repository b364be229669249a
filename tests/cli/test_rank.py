"""`deepsea-referee rank`: the table, the same as data, and a folder to go on from."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from helpers.commands import Run, start

WORDS = ("rank", "heuristic", "greedy", "random", "--in-process", "--seed", "x")


def test_the_order_is_printed_with_ranks_and_verdicts(run: Run) -> None:
    done = run(*WORDS, "--until-decided", "--margin", 0.3)
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("3 bots: ")
    assert lines[2].split() == ["bot", "score", "points", "ranks", "2", "3"]
    assert [line.split()[1] for line in lines[3:6]] == ["heuristic", "greedy", "random"]
    assert lines[5].split()[-1] == "3"
    assert lines[-1].startswith("3 of 3 pairs decided, 0 open pairs")


def test_open_pairs_say_how_many_games_they_take(run: Run) -> None:
    done = run(*WORDS, "--games", 45)
    assert done.status == 1
    assert "? ?" in done.out.replace(">", "?")
    lines = done.out.splitlines()
    row = next(i for i, line in enumerate(lines) if line.startswith("open pair"))
    assert lines[row].split() == ["open", "pair", "interval", "games", "missing"]
    assert int(lines[row + 1].split()[-1].replace(",", "")) > 0
    early = run(*WORDS, "--games", 6).out
    assert early.splitlines()[-3].split()[-1] == "-"
    assert "in 2 rounds" in early


def test_the_same_is_there_as_data(run: Run) -> None:
    document = json.loads(run(*WORDS, "--games", 60, "--json").out)
    assert [bot["name"] for bot in document["order"]] == ["heuristic", "greedy", "random"]
    assert len(document["pairs"]) == 3
    for pair in document["pairs"]:
        low, high = pair["interval"]
        assert low < high
        assert (pair["verdict"] == "open") == (pair["games_missing"] is not None)
    assert 58 <= document["games"] <= 60
    assert document["seats"] == 3
    first = document["order"][0]
    assert 1 <= first["ranks"][0] <= first["ranks"][1] <= 3


def test_of_many_open_pairs_the_nearest_are_shown(run: Run) -> None:
    words = ("rank", *["random"] * 8, "--in-process", "--seed", "x", "--games", 8)
    done = run(*words)
    assert "8 more open pairs; --json has all" in done.out
    assert "0 of 28 pairs decided, 28 open pairs" in done.out


def test_a_table_to_paste(run: Run) -> None:
    lines = run(*WORDS, "--games", 30, "--markdown").out.splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 5
    assert len({line.count("|") for line in table}) == 1
    assert "heuristic" in table[2]


# Workers of blocks: tests/referee/test_blocks.py.
@pytest.mark.release
def test_workers_change_nothing(run: Run) -> None:
    words = (*WORDS, "--games", 18, "--json")
    assert run(*words, "--workers", 2).out == run(*words).out


def test_a_folder_changes_nothing(run: Run, tmp_path: Path) -> None:
    whole = run(*WORDS, "--games", 12, "--json")
    out = ("--out", tmp_path / "runs")
    run(*WORDS, "--games", 6, *out)
    done = run(*WORDS[:5], "--games", 12, "--json", *out)  # the seed is known
    assert done.out == whole.out
    assert run("verify", tmp_path / "runs").status == 0
    assert "seats was 3 and is 2 now" in run(*WORDS, "--games", 12, *out, "--seats", 2).refusal
    other = run("compare", "greedy", "random", "--in-process", *out)
    assert other.status == 2


def test_only_the_best_have_to_be_put_in_order(run: Run) -> None:
    words = ("rank", "heuristic", "random", "random", "--in-process", "--seed", "x", "--seats", 2)
    done = run(*words, "--until-decided", "--top", 1, "--games", 600)
    assert done.status == 0
    assert "among those that may be in the top 1" in done.out
    assert "1-1" not in done.out
    assert done.out.splitlines()[3].split()[1] == "heuristic"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["greedy"], "name more bots"),
        (["greedy", "nobody"], "nobody"),
        (["greedy", "random", "--seats", "3"], "3 seats"),
        (["greedy", "random", "--seats", "9"], "seats"),
        (["greedy", "random", "--games", "1"], "a round of 2 bots"),
        (["greedy", "random", "--top", "0"], "top"),
        (["greedy", "random", "--json", "--markdown"], "exclude"),
    ],
)
def test_what_cannot_be_ranked_costs_one_line(run: Run, words: list[str], problem: str) -> None:
    assert problem in run("rank", *words, "--in-process").refusal


@pytest.mark.slow
def test_ctrl_c_prints_what_there_is(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    process = start(*WORDS, "--games", 100_000, "--out", out)
    try:
        while not out.is_dir() or not any(out.glob("game-0009*")):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "pairs decided" in printed
    *notices, interrupted = said.splitlines()
    assert "from where the same command goes on" in interrupted
    # Said if that game takes longer than a moment.
    assert notices in ([], ["finishing the game that is being played; Ctrl-C again ends at once"])
