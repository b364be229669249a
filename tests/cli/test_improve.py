"""`improve`: the verdict against the best version, the habits that cost most, and what is next."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from deepsea_arena.analysis import Analysis
from deepsea_referee.bots.resolve import sample_bots
from deepsea_referee.workbench.versions import SAMPLES
from helpers.commands import Run

BOT = """
from deepsea_sdk import LEAVE, TAKE, Bot, View, run

class Mine(Bot):
    def search(self, view: View) -> str:
        return TAKE if view.can_take and view.me.load < 2 else LEAVE

    def turn_back(self, view: View) -> bool:
        return view.me.load > 1 or view.air < 12

run(Mine)
"""
DROWNS = BOT.replace("view.me.load < 2", "True").replace("view.air < 12", "False")
"""It takes all that it can."""
PLAIN = ("--in-process", "--against", "greedy", "--seed", "demo", "--minutes", "10")
HASTE = (*PLAIN, "--games", "2", "--precision", "0.2")
MOMENT = (*HASTE, "--minutes", "0.00001")
"""One game, hardly a judged decision, and one block."""


@pytest.fixture
def bot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(BOT, encoding="utf-8")
    return path


def play_on(run: Run, *words: str) -> dict[str, object]:
    """The document of a run with time enough."""
    done = run("improve", "mine.py", *PLAIN, "--games", "24", "--precision", "0.2", *words)
    assert done.status == 0, done.err
    document = json.loads(done.out)
    assert isinstance(document, dict)
    return document


def test_a_run_says_in_its_first_line_how_strong_it_is(run: Run, bot: Path) -> None:
    first = run("improve", "mine.py", *HASTE)
    assert first.status == 0
    assert first.err.startswith("about 600 s at most: up to 2 games against greedy\n")
    assert first.out.startswith("version 1: the first one; ")
    kept = {path.name for path in Path("runs/improve-mine/1").iterdir()}
    assert {"bot", "bots.json", "run.json", "results.json", "game-0001.json"} <= kept

    again = run("improve", "mine.py", *HASTE)
    assert again.out.startswith("version 1, your best so far: the same program as before\n")

    bot.write_text(DROWNS, encoding="utf-8")
    worse = run("improve", "mine.py", *HASTE)
    assert worse.out.startswith("weaker: your best is version 1, runs/improve-mine/1/bot\n")
    lines = worse.out.splitlines()
    assert lines[2] == "  to go back to it:"
    back = shlex.split(lines[3])
    assert back == ["cp", "runs/improve-mine/1/bot/bot.py", "mine.py"]
    assert Path(back[1]).read_text(encoding="utf-8") == BOT

    # A weaker version is not what the next one is compared with.
    bot.write_text(BOT + "# changed\n", encoding="utf-8")
    level = run("improve", "mine.py", *MOMENT, "--json")
    document = json.loads(level.out)
    assert document["comparison"]["b"] == "mine-1"
    assert (document["version"], document["best"]) == (4, 1)


def test_a_stronger_version_is_the_best_one_from_then_on(run: Run, bot: Path) -> None:
    bot.write_text(DROWNS, encoding="utf-8")
    run("improve", "mine.py", *HASTE)
    bot.write_text(BOT, encoding="utf-8")
    stronger = run("improve", "mine.py", *HASTE)
    assert stronger.out.startswith("stronger than version 1: version 2 is your best now\n")
    bot.write_text(DROWNS, encoding="utf-8")
    weaker = run("improve", "mine.py", *HASTE)
    assert weaker.out.startswith("weaker: your best is version 2, runs/improve-mine/2/bot\n")


def test_runs_of_other_programs_in_the_folder_change_nothing(run: Run, bot: Path) -> None:
    run("improve", "mine.py", *MOMENT)
    run("improve", "steady", *MOMENT, "--out", "runs/improve-mine")
    bot.write_text(DROWNS, encoding="utf-8")
    document = json.loads(run("improve", "mine.py", *MOMENT, "--json").out)
    assert document["folder"] == "runs/improve-mine/3"
    assert document["comparison"]["b"] == "mine-1"


def test_habits_come_with_commands_that_work(run: Run, bot: Path) -> None:
    bot.write_text(DROWNS, encoding="utf-8")
    done = run("improve", "mine.py", *PLAIN, "--games", "24", "--precision", "0.2")
    assert "what costs it most, and what is better there:\n1. " in done.out
    assert " a game, in " in done.out
    lines = [line for line in done.out.splitlines() if line.startswith("   decided by ")]
    assert lines
    assert all(line.startswith("   decided by mine.py:") and len(line) <= 80 for line in lines)
    assert "in Mine." in lines[0]
    assert len(done.out.splitlines()) <= 25
    assert all(len(line) <= 78 or line.startswith("  deepsea-") for line in wrapped(done.out))
    commands = [shlex.split(line) for line in done.out.splitlines() if line.startswith("  deepsea")]
    assert [words[1] for words in commands] == ["debug", "branch"]
    shown, tried = (run(*words[1:]) for words in commands)
    assert shown.status == 0
    assert "  line     mine.py:" in shown.out
    assert tried.status == 0
    assert f"A {Path('runs/improve-mine/1/bot').absolute()}" in tried.out or " B " in tried.out


def wrapped(text: str) -> list[str]:
    """The lines as a terminal of 78 columns has them."""
    import textwrap

    return [part for line in text.splitlines() for part in textwrap.wrap(line, 78) or [""]]


def test_what_a_change_did_to_habits_is_said(run: Run, bot: Path) -> None:
    bot.write_text(DROWNS, encoding="utf-8")
    play_on(run, "--json")
    bot.write_text(BOT, encoding="utf-8")
    done = run("improve", "mine.py", *PLAIN, "--games", "24", "--precision", "0.2")
    assert "\nsince version 1 better: takes nothing" in done.out
    document = play_on(run, "--json", "--verbose")
    assert document["comparison"] is None
    assert document["best"] == 2


def test_a_named_version_and_parameters(run: Run, bot: Path) -> None:
    again = (*MOMENT, "--out", "kept")
    done = run("improve", "mine.py:Mine", *again, "--against-version", "random")
    assert done.status == 0
    kept = json.loads(Path("kept/1/run.json").read_text(encoding="utf-8"))
    assert (kept["bot"], kept["parameters"], kept["best"]) == ("mine", ":Mine", 1)
    document = json.loads(run("improve", "mine.py", *again, "--json").out)
    assert document["comparison"]["b"] == "mine-1:Mine"


def test_the_panel_follows_the_strength_of_the_bot(run: Run, bot: Path) -> None:
    assert sorted(SAMPLES) == sorted(sample_bots())
    plain = ("--in-process", "--games", "1", "--precision", "0.2", "--minutes", "0.00001")

    def panel(name: str) -> list[str]:
        document = json.loads(run("improve", name, *plain, "--seed", "a", "--json").out)
        return [row["name"] for row in document["bots"][1:]]

    def score(number: int, value: float) -> None:
        path = Path(f"runs/improve-mine/{number}/run.json")
        path.write_text(json.dumps(json.loads(path.read_text()) | {"score": value}))

    assert panel("mine.py") == ["cautious", "greedy", "heuristic"]
    score(1, 0.7)
    assert panel("mine.py") == ["greedy", "heuristic", "steady"]
    score(2, 0.5)
    assert panel("mine.py") == ["greedy", "heuristic", "steady"]
    score(3, 0.1)
    assert panel("mine.py") == ["cautious", "greedy", "heuristic"]
    for number in (4, 5, 6):
        score(number, 0.1)
        assert panel("mine.py") == ["random", "cautious", "greedy"]


def test_a_sample_against_itself_has_no_habit(run: Run, tmp_path: Path) -> None:
    out = ("--out", str(tmp_path), "--against-version", "steady")
    done = run("improve", "steady", *PLAIN, "--games", "8", *out)
    assert done.out.startswith("no difference larger than 0.05 from steady\n")
    assert "no habit that surely costs it something, in 8 games" in done.out


def test_ctrl_c_shows_what_there_is(run: Run, bot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Analysis, "run", interrupt)
    done = run("improve", "mine.py", *HASTE)
    assert done.status == 130
    assert "what there is so far is in runs/improve-mine/1" in done.err
    assert "placement score " in done.out
    assert "version 1: " in done.out


def test_faults_come_first(run: Run, bot: Path) -> None:
    bot.write_text(BOT.replace("TAKE if", "1 / 0 if"), encoding="utf-8")
    done = run("improve", "mine.py", *MOMENT)
    assert "\n  deepsea-referee check mine.py\n" in done.out
    assert "ZeroDivisionError" in done.out


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
    assert run("improve", "mine.py", *HASTE).status == 2
    bot.write_text(BOT, encoding="utf-8")
    done = run("improve", "mine.py", *MOMENT)
    assert done.status == 0
    assert done.out.startswith("version 2: the first one; ")


def test_a_damaged_run_is_named(run: Run, bot: Path) -> None:
    run("improve", "mine.py", *MOMENT)
    Path("runs/improve-mine/1/run.json").write_text('{"bot": 3}', encoding="utf-8")
    said = run("improve", "mine.py", *MOMENT).refusal
    assert "runs/improve-mine/1/run.json: not a run of improve" in said
