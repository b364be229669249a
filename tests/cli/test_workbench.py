"""Output and exit status of compare, new, check, debug, branch and match --in-process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deepsea_referee.workbench.checks import examine
from deepsea_rules.ruleset import PRESETS
from helpers.commands import Run, faulty, played, written
from helpers.programs import program_in

# compare


def test_a_comparison_ends_with_a_verdict(run: Run) -> None:
    words = ("compare", "greedy", "random", "--until-decided", "--seed", "x", "--in-process")
    done = run(*words)
    assert done.status == 0
    assert done.err == ""
    lines = done.out.splitlines()
    assert lines[0].startswith("greedy against random: ")
    assert lines[-1] == "greedy is stronger"
    assert run("compare", "random", "greedy", *words[3:]).out.endswith("greedy is stronger\n")


def test_without_a_verdict_it_is_undecided(run: Run) -> None:
    done = run("compare", "greedy", "cautious", "--blocks", 2, "--in-process")
    assert done.status == 1
    assert done.out.endswith("undecided after 2 blocks\n")


def test_faults_are_told_apart(run: Run, tmp_path: Path) -> None:
    file = program_in(tmp_path, "mine", "raise ValueError('no idea')")
    done = run("compare", file, "random", "--blocks", 2, "--in-process")
    assert done.err == ""
    assert "mine: exception ×24, first in game 1" in done.out
    assert "; forfeited 8 games" in done.out
    assert "it raised ValueError: no idea" in done.out
    assert "blocks without a fault of either: 0" in done.out


def test_a_sweep_names_bots_with_parameters(run: Run, tmp_path: Path) -> None:
    file = program_in(tmp_path, "mine")
    one, two = f"{file},games=1", f"{file},games=2"
    words = ("--in-process", "--blocks", 1, "--seed", "x", "--field", f"{one},greedy")
    done = run("compare", one, two, *words, "--json")
    document = json.loads(done.out)
    assert (document["a"], document["b"]) == ("mine,games=1", "mine,games=2")
    assert (document["seats"], document["same_program"]) == (4, False)
    assert " mine,games=1  mine,games=2  difference" in run("compare", one, two, *words).out


def test_a_comparison_goes_on_from_its_folder(run: Run, tmp_path: Path) -> None:
    words = ("compare", "greedy", "cautious", "--in-process", "--seed", "x", "--blocks")
    whole = run(*words, 6)
    out = ("--out", tmp_path / "runs")
    run(*words, 2, *out)
    first = (tmp_path / "runs" / "game-0001.json").stat().st_mtime_ns
    done = run(*words[:4], *out, "--blocks", 6)  # the seed is known
    assert (done.out, done.err, done.status) == (whole.out, "", 1)
    assert (tmp_path / "runs" / "game-0001.json").stat().st_mtime_ns == first
    assert len(list((tmp_path / "runs").glob("game-*.json"))) == 12
    assert run("verify", tmp_path / "runs").status == 0
    assert run(*words, 6, *out, "--json").out == run(*words, 6, "--json").out
    for change in (["--margin", "0.1"], ["--alpha", "0.1"], ["--seed", "y"], ["--seats", "2"]):
        assert f"{change[0][2:]} was" in run(*words, 6, *out, *change).refusal
    other = run("compare", "greedy", "random", "--in-process", *out)
    assert "bot B was 'cautious' and is 'random' now" in other.refusal


# The adjusted comparison: tests/referee/test_comparison.py.
@pytest.mark.release
def test_both_leads_of_a_luck_adjusted_comparison_are_shown(run: Run) -> None:
    words = ("compare", "greedy", "cautious", "--in-process", "--seed", "x", "--blocks", 3)
    plain, done = run(*words).out, run(*words, "--luck-adjusted").out
    assert "luck" not in plain
    assert "luck-adjusted by formula-2, seed x" in done.splitlines()[0]
    lines = [line for line in done.splitlines() if line.startswith("  without luck")]
    assert len(lines) == 1
    assert set(plain.splitlines()[1:]) < set(done.splitlines())
    document = json.loads(run(*words, "--luck-adjusted", "--json").out)
    low, high = document["placement_score_without_luck"]["interval"]
    assert low < document["placement_score_without_luck"]["difference"] < high
    assert document["placement_score_without_luck"]["luck_by"] == "formula-2"
    without = document.pop("placement_score_without_luck")["difference"]
    assert without != document["placement_score"]["difference"]
    assert f"{without:+.3f}" in lines[0]
    plain_document = json.loads(run(*words, "--json").out)
    del document["blocks_needed"], plain_document["blocks_needed"]
    assert document == plain_document


def test_a_changed_program_does_not_go_on(run: Run, tmp_path: Path) -> None:
    file = program_in(tmp_path, "mine")
    words = ("compare", file, "greedy", "--in-process", "--blocks", 1, "--out", tmp_path / "runs")
    assert run(*words).status == 1
    program_in(tmp_path, "mine", "'changed'")
    assert "program of A changed since the games were played" in run(*words).refusal


def test_how_many_blocks_a_verdict_takes_is_told_while_there_is_none(run: Run) -> None:
    words = ("compare", "greedy", "cautious", "--in-process", "--seed", "x", "--blocks")
    assert "a verdict takes about 200 blocks in all; about half" in run(*words, 30).out
    assert "a verdict takes" not in run(*words, 3).out


def test_a_bound_beside_0_is_explained_where_it_ends_a_run(run: Run) -> None:
    words = ("compare", "heuristic", "greedy", "--in-process", "--seed", "demo")
    begins = "The interval begins at +0.003, next to 0, because the run stopped as soon as it was"
    assert begins in run(*words, "--until-decided").out
    assert "The interval" not in run(*words, "--blocks", 17).out


def test_the_same_bot_twice_has_two_names(run: Run) -> None:
    done = run("compare", "greedy", "greedy", "--blocks", 1, "--in-process")
    assert "A and B are the same program\n" in done.out
    assert done.out.startswith("greedy against greedy 2: 1 block of 2 games")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["greedy"], "B"),
        (["greedy", "nobody"], "nobody"),
        (["greedy", "random", "--field", "nobody"], "nobody"),
        (["greedy", "random", "--field", "cautious", "--seats", "2"], "room"),
        (["greedy", "random", "--seats", "9"], "seats"),
        (["greedy", "random", "--blocks", "0"], "blocks"),
        (["greedy", "random", "--margin", "0"], "margin"),
        (["greedy", "random", "--alpha", "1"], "alpha"),
        (["greedy", "random", "--clock", "soon"], "clock"),
        (["greedy", "cmd:node x.js", "--in-process"], "--in-process"),
    ],
)
def test_what_cannot_be_compared_costs_one_line(run: Run, words: list[str], problem: str) -> None:
    assert problem in run("compare", *words).refusal


# new and check


def test_new_then_check_then_match(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("new", "mine")
    assert done.status == 0
    assert "deepsea-referee check mine" in done.out
    assert run("match", "mine", "greedy", "--quiet", "--in-process").status == 0
    assert "exists already" in run("new", "mine").refusal
    fewer = {**(examine.__kwdefaults__ or {}), "rules": [PRESETS["manual"]]}
    monkeypatch.setattr(examine, "__kwdefaults__", fewer)
    checked = run("check", "mine", "--isolation", "process", "--clock", "60s", "--json")
    assert checked.status == 0, checked.out
    document = json.loads(checked.out)
    assert document["fine"]
    names = {check["name"] for check in document["checks"]}
    assert names >= {"start", "rules manual", "clock", "late answer", "tables"}


def test_check_says_what_to_do(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("raise SystemExit('no licence')", encoding="utf-8")
    done = run("check", file, "--isolation", "process")
    assert done.status == 1
    lines = done.out.splitlines()[1:]  # the first line is about its files
    assert lines[0].startswith("FAIL start: ")
    assert "no licence" in lines[0]
    assert any(line.startswith("     to do: ") for line in lines)
    assert lines[-1] == "mine is not ready"


def test_a_bot_learns_and_plays(run: Run, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    assert run("new", mine, "--template", "learned").status == 0
    untrained = run("check", mine)
    assert untrained.status == 1
    assert "net.weights is missing: in the bot's folder, run: python train.py" in untrained.out
    script = mine / "train.py"
    text = script.read_text(encoding="utf-8")
    fewer = text.replace('"--rounds", ROUNDS', '"--rounds", ROUNDS, "--games", "4"')
    assert fewer != text
    script.write_text(fewer, encoding="utf-8")
    subprocess.run([sys.executable, script, "1"], check=True, capture_output=True)
    assert run("match", mine, "steady", "--games", "2", "--in-process").status == 0


def test_a_template_is_python(run: Run, tmp_path: Path) -> None:
    done = run("new", tmp_path / "mine", "--template", "search", "--language", "python")
    assert "--language and --template exclude each other" in done.refusal
    assert not (tmp_path / "mine").exists()


# debug, branch and show


def test_debug_shows_which_decisions_change(run: Run, tmp_path: Path) -> None:
    record = written(tmp_path, played())
    done = run("debug", record, program_in(tmp_path, "mine"), "--seat", "b")
    assert done.status == 0
    assert done.out.startswith("mine replays seat B of game demo-0001, which cautious played\n")
    assert "  then     " in done.out
    assert "  now      " in done.out
    last = done.out.splitlines()[-1]
    own = sum(decision.seat == 1 for decision in played().decisions)
    assert last.endswith(f"of {own} decisions of seat B differ now")
    everything = run("debug", record, program_in(tmp_path, "mine"), "--seat", "B", "--all").out
    assert everything.count("  now      ") == own


@pytest.mark.parametrize("error", ["ValueError", "OSError", "KeyError"])
def test_what_the_bot_raises_comes_out(run: Run, tmp_path: Path, error: str) -> None:
    record = written(tmp_path, played())
    file = program_in(tmp_path, "mine", f"raise {error}('here')")
    with pytest.raises(Exception, match="here"):
        run("debug", record, file, "--seat", "A")


def test_branch_sets_the_two_games_side_by_side(run: Run, tmp_path: Path) -> None:
    record = written(tmp_path, played())
    out = tmp_path / "new.json"
    done = run("branch", record, "greedy", "--at", 4, "--out", out)
    assert done.status == 0
    assert "played on from decision 4" in done.out
    assert str(out) in done.out
    assert run("verify", out).status == 0
    assert run("branch", record, "greedy", "cautious", "random", "--at", 4).status == 0


def test_branch_plays_many_futures(run: Run, tmp_path: Path) -> None:
    game = played()
    at = next(i for i, decision in enumerate(game.decisions) if decision.action == "take")
    words = ("branch", written(tmp_path, game), "greedy", "--at", at, "--games", 3)
    done = run(*words)
    assert (done.status, done.err) == (0, "")
    assert "in 3 games" in done.out
    done = run(*words, "--action", "leave")
    head = next(line for line in done.out.splitlines() if line.startswith("placement score"))
    assert head.split() == ["placement", "score", "leave", "take"]
    assert "leave instead of take is " in done.out.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["greedy", "greedy", "--at", "1"], "not 2"),
        (["greedy", "--at", "1", "--games", "2", "--out", "x"], "--out"),
        (["greedy", "--at", "9999"], "there is no 9999"),
        (["greedy", "--at", "1", "--action", "fly"], "--action"),
        (["--at", "1"], "name a bot for each seat"),
        (["greedy"], "--at"),
    ],
)
def test_what_cannot_be_branched_costs_one_line(
    run: Run, tmp_path: Path, words: list[str], problem: str
) -> None:
    assert problem in run("branch", written(tmp_path, played()), *words).refusal


def test_show_seat_tells_every_decision_of_a_seat(run: Run, tmp_path: Path) -> None:
    game = faulty()
    done = run("show", written(tmp_path, game), "--seat", "B")
    assert done.status == 0
    assert done.out.count("  options  ") == 3
    assert done.out.count("  fault    timeout: no answer") == 3
    assert "fault 3 of this seat" in done.out
    assert "B forfeited with decision" in done.out
    other = run("show", written(tmp_path, game), "--seat", "A").out
    own = [decision for decision in game.decisions if decision.seat == 0]
    assert other.count("  choice   ") == len(own)
    assert "2000 ms left in the bank" in other
    assert "forfeited" not in other
