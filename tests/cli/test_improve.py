"""`improve`: the match, the worst decisions, the comparison with the last version, what is next."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deepsea_arena.coach.analysis import Analysis
from helpers.commands import Run

BOT = """
from deepsea_sdk import LEAVE, TAKE, Bot, View, run

class Mine(Bot):
    def search(self, view: View) -> str:
        return TAKE if view.can_take else LEAVE

run(Mine)
"""
"""It drowns: it takes all that it can, and never turns back."""
HASTE = ("--in-process", "--against", "greedy", "--games", "2", "--seed", "demo")
ROUGH = (*HASTE, "--precision", "0.2")
MOMENT = (*ROUGH, "--minutes", "0.00001")
"""One game, one judged game and one block."""


@pytest.fixture
def bot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(BOT, encoding="utf-8")
    return path


def test_it_shows_lost_games_and_compares_with_the_last_version(run: Run, bot: Path) -> None:
    first = run("improve", "mine.py", *ROUGH)
    assert first.status == 0
    assert first.err.startswith("about 3 minutes at most: up to 2 games against greedy, ")
    assert "\n2 games judged of 2 that it did not win\n" in first.out
    assert "\nno other version to compare with: " in first.out
    folder = Path("runs/improve-mine/1")
    worst = f"deepsea-referee debug {folder / 'game-0002.json'} mine.py --seat B"
    assert f"what to do next:\n  {worst}\nchange mine.py" in first.out
    assert {"bot", "results.json", "game-0001.json"} <= {path.name for path in folder.iterdir()}

    bot.write_text(BOT.replace("TAKE if view.can_take else LEAVE", "LEAVE"), encoding="utf-8")
    second = run("improve", "mine.py", *MOMENT)
    assert second.status == 0
    assert "\n1 game judged of 1 that it did not win\n" in second.out
    assert "\nmine against mine-1: 1 block of 2 games, 2 seats" in second.out
    other = "runs/improve-mine/1/bot --until-decided"
    assert f"\n  deepsea-referee compare mine.py {other}\n" in second.out

    bot.write_text(BOT, encoding="utf-8")
    third = run("improve", "mine.py", *MOMENT, "--json")
    document = json.loads(third.out)
    assert (document["comparison"]["a"], document["comparison"]["b"]) == ("mine", "mine-2")
    assert document["folder"] == "runs/improve-mine/3"
    assert [row["name"] for row in document["bots"]] == ["mine", "greedy"]
    assert len(document["judged"]) == 1


@pytest.mark.slow
def test_the_worst_decisions_are_shown_and_the_command_that_goes_there(run: Run, bot: Path) -> None:
    out = run("improve", "mine.py", *HASTE, "--precision", "0.06").out
    assert " marked decisions\n" in out
    (command,) = [line for line in out.splitlines() if line.startswith("  deepsea-referee debug ")]
    assert run(*command.split()[1:]).status == 0


def test_a_named_version_and_parameters(run: Run, bot: Path) -> None:
    again = (*MOMENT, "--out", "kept")
    done = run("improve", "mine.py:Mine", *again, "--against-version", "random")
    assert "\nmine:Mine against random: 1 block of 2 games" in done.out
    assert Path("kept/1/parameters").read_text(encoding="utf-8") == ":Mine"
    assert "\nmine against mine-1:Mine: 1 block" in run("improve", "mine.py", *again).out


def test_ctrl_c_shows_what_there_is(run: Run, bot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Analysis, "run", interrupt)
    done = run("improve", "mine.py", *ROUGH)
    assert done.status == 130
    assert "what there is so far is in runs/improve-mine/1" in done.err
    assert "\n0 games judged of 2 that it did not win\n" in done.out


def test_faults_come_first(run: Run, bot: Path) -> None:
    bot.write_text(BOT.replace("TAKE if", "1 / 0 if"), encoding="utf-8")
    done = run("improve", "mine.py", *MOMENT)
    assert "what to do next:\n  deepsea-referee check mine.py\n" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nobody.py",), "there is no bot 'nobody.py'"),
        (("mine.py", "--against", "nobody"), "there is no bot 'nobody'"),
        (("mine.py", "--against", ","), "a game has 2 to 6 bots, not 1"),
        (("mine.py", "--against-version", "nobody"), "there is no bot 'nobody'"),
        (("mine.py", "--minutes", "0"), "--minutes"),
    ],
)
def test_bad_input_leaves_no_folder(run: Run, bot: Path, words: tuple[str, ...], said: str) -> None:
    assert said in run("improve", *words).refusal
    assert not Path("runs").exists()


def test_a_bot_that_does_not_start_is_no_version(run: Run, bot: Path) -> None:
    bot.write_text("raise SystemExit(3)", encoding="utf-8")
    assert run("improve", "mine.py", *ROUGH).status == 2
    bot.write_text(BOT, encoding="utf-8")
    done = run("improve", "mine.py", *MOMENT)
    assert done.status == 0
    assert "\nno other version to compare with: " in done.out
