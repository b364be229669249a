"""`tune`: better numbers with a proof, what is kept, and what is refused."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest

from helpers.commands import Run, one_line, start

BOT = """
from deepsea_sdk import LEAVE, TAKE, Bot, View, run

class Mine(Bot):
    most = 0

    def turn_back(self, view: View) -> bool:
        return view.me.load >= self.most

    def search(self, view: View) -> str:
        return TAKE if view.can_take and view.me.load < self.most else LEAVE

run(Mine)
"""
"""It brings nothing home."""
NOT_BETTER = (
    "not better: keep the numbers that you have",
    "not surely better: keep the numbers that you have",
)
WORDS = ("tune", "mine.py,most=0..4", "--against", "none", "--in-process", "--seed", "x")


@pytest.fixture(autouse=True)
def bot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(BOT, encoding="utf-8")
    return path


def test_a_number_that_is_wrong_is_found_and_proved(run: Run, tmp_path: Path) -> None:
    done = run(*WORDS, "--budget", 240, "--plot", "search.svg")
    assert done.status == 0
    assert one_line(done.err).startswith("at most 240 games: half to search")
    lines = done.out.splitlines()
    assert lines[0] == "mine,most=0..4: 15 steps of 4 blocks"
    name, before, found, _ = lines[3].split(maxsplit=3)
    assert (name, before) == ("most", "0")
    assert f"mine,most={found} against mine,most=0: " in lines[5]
    assert lines[-7:] == [
        f"mine,most={found} is stronger",
        "",
        "better: write into class Mine",
        f"    most = {found}",
        "or play it as it is:",
        f"  deepsea-referee match mine.py,most={found} greedy",
        "plots: search.svg",
    ]
    svg = " ".join(fromstring(Path("search.svg").read_text(encoding="utf-8")).itertext())
    assert "Search for most" in svg
    assert "Lead in placement score" in svg


def test_a_search_that_was_killed_goes_on_as_if_it_was_not(run: Run) -> None:
    words = (*WORDS, "--budget", 96, "--json")
    whole = run(*words, "--out", "kept")
    steps = Path("kept/tune.jsonl")
    lines = steps.read_bytes().splitlines(keepends=True)
    steps.write_bytes(b"".join(lines[:4]) + lines[4][:9])
    for path in Path("kept/comparison").iterdir():
        path.unlink()
    again = run(*words[:5], *words[7:], "--out", "kept")  # the seed is known
    assert again.out == whole.out
    assert json.loads(again.out)["steps"] == len(lines) - 1 == 6
    assert "seats was 4 and is 2 now" in run(*words, "--out", "kept", "--seats", 2).refusal


def test_what_is_not_better_is_said_so(run: Run, bot: Path) -> None:
    bot.write_text(BOT.replace("most = 0", "most = 2"), encoding="utf-8")
    words = ("tune", "mine.py,most=2..4", *WORDS[2:], "--budget", 104)
    done = run(*words, "--json", "--out", "kept")
    document = json.loads(done.out)
    assert (done.status, document["better"]) == (1, False)
    (number,) = document["parameters"]
    assert (number["name"], number["low"], number["high"], number["start"]) == ("most", 2, 4, 2)
    again = run(*words, "--out", "kept")
    assert again.err.startswith("at most 104 games: half to search, and at most half to prove it\n")
    verdict, tried = again.out.splitlines()[-2:]
    assert verdict in NOT_BETTER
    # More than two units are worse, which the steps say too.
    assert tried.startswith("  most was tried from 2 to 4; from the low end of its range to the ")
    change, error = map(float, tried.rpartition("changes by ")[2].replace("±", "").split())
    assert change < 0 < error


# tests/referee/test_blocks.py plays the blocks in each way in every run.
@pytest.mark.release
def test_bots_as_processes_and_workers_change_nothing(run: Run) -> None:
    words = (*WORDS[:4], *WORDS[5:], "--budget", 16, "--json", "--isolation", "process")
    inside = json.loads(run(*words, "--in-process").out)
    assert json.loads(run(*words, "--workers", 2).out) == inside


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["mine.py,deep=1..4"], "no attribute deep"),
        (["mine.py,most=1..4"], "most is 0 in class Mine, outside of 1..4"),
        (["mine.py,most=0..4", "--against", "nobody"], "there is no bot 'nobody'"),
        (["mine.py,most=0..4", "--budget", "soon"], "no budget"),
        (["mine.py,most=0..4", "--seats", "9"], "seats"),
        (["mine.py,most=0..4", "--plot", "plot.png"], ".svg or .html"),
    ],
)
def test_bad_input_leaves_no_folder(run: Run, words: list[str], problem: str) -> None:
    assert problem in run("tune", *words, "--in-process", "--out", "kept").refusal
    assert not Path("kept").exists()


@pytest.mark.slow
def test_ctrl_c_prints_what_there_is(tmp_path: Path) -> None:
    process = start(*WORDS, "--budget", "1h", "--out", "kept")
    steps = tmp_path / "kept" / "tune.jsonl"
    try:
        while not steps.is_file() or steps.read_bytes().count(b"\n") < 3:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert printed.startswith("mine,most=0..4: ")
    assert "better" not in printed
    plan, interrupted = said.splitlines()
    assert plan.startswith("at most 1h of time")
    assert "from where the same command goes on" in interrupted
