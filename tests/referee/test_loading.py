"""Bots imported from their files, as many as there are, each as if it were alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import deepsea_sdk
from deepsea_referee.bots.loading import load
from deepsea_referee.bots.resolve import resolve, sample_bots
from deepsea_referee.errors import UserError
from deepsea_sdk.bot import Bot
from helpers.programs import written

HEAD = "from deepsea_sdk import Bot, run\n"
MINE = "class Mine(Bot):\n    pass\n"
MAIN = "if __name__ == '__main__':\n    run(Mine)\n"


def name_of(bot: object) -> str:
    return bot.__name__ if isinstance(bot, type) else f"made by {type(bot).__name__}"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (HEAD + MINE + MAIN, "Mine"),
        (HEAD + MINE + "run(Mine)\n", "Mine"),
        (HEAD + MINE + "class Other(Bot):\n    pass\nrun(Other)\n", "Other"),
        (HEAD + MINE + "class Better(Mine):\n    pass\n" + MAIN, "Better"),
        (HEAD + MINE + "run(lambda: Mine())\n", "made by function"),
        (HEAD + "from deepsea_bots.greedy import Greedy\n" + MINE + MAIN, "Mine"),
        (HEAD + MINE + MAIN.replace("run(", "deepsea_sdk.run("), "Mine"),
        (HEAD.replace("run", "run as go") + MINE + MAIN.replace("run(", "go("), "Mine"),
    ],
)
def test_the_class_that_plays_is_found(tmp_path: Path, text: str, name: str) -> None:
    run = deepsea_sdk.run
    assert name_of(load(written(tmp_path, "mine", text))) == name
    assert deepsea_sdk.run is run


@pytest.mark.parametrize("sample", sample_bots())
def test_samples_can_be_loaded(sample: str) -> None:
    found = load(resolve(sample))
    assert isinstance(found, type)
    assert issubclass(found, Bot)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = 1\n", "defines no class of its own"),
        (HEAD + MINE + "class Other(Bot):\n    pass\n", "defines Mine, Other of its own"),
        (HEAD + MINE, "mine.py defines class Mine(Bot) but never calls run(Mine)"),
        (HEAD + MINE + "run(Mine())\n", "run() takes a class or a function that makes a bot"),
        ("import does_not_exist\n", "ModuleNotFoundError"),
        ("\n1 / 0\n", "line 2"),
        ("import sys\nsys.exit(3)\n", "SystemExit"),
    ],
)
def test_what_cannot_play_is_refused_in_one_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(UserError) as refused:
        load(written(tmp_path, "mine", text))
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_folder_is_loaded_by_its_command(tmp_path: Path) -> None:
    written(tmp_path, "bot", HEAD + MINE + MAIN)
    (tmp_path / "bot.toml").write_text('command = "python bot.py"\n', encoding="utf-8")
    assert name_of(load(resolve(str(tmp_path)))) == "Mine"


@pytest.mark.parametrize("command", ["cmd:node bot.js", "cmd:python3 -m bot", "cmd:python3 no.py"])
def test_other_programs_are_refused(command: str) -> None:
    with pytest.raises(UserError, match="as `debug` and --in-process need"):
        load(resolve(command))


def test_modules_of_the_same_name_beside_two_bots_are_two(tmp_path: Path) -> None:
    marks = []
    path = list(sys.path)
    for version in ("one", "two"):
        folder = tmp_path / version
        folder.mkdir()
        (folder / "strategy.py").write_text(f"MARK = '{version}'\n", encoding="utf-8")
        text = "import strategy\n" + HEAD + MINE + "    mark = strategy.MARK\nrun(Mine)\n"
        (folder / "mine.py").write_text(text, encoding="utf-8")
        (folder / "bot.toml").write_text('command = "python mine.py"\n', encoding="utf-8")
        bot = load(resolve(str(folder)))
        marks.append(getattr(bot, "mark", None))
    assert marks == ["one", "two"]
    assert "strategy" not in sys.modules
    assert sys.path == path


def test_the_same_file_twice_gives_two_bots_that_share_nothing(tmp_path: Path) -> None:
    spec = written(tmp_path, "mine", HEAD + MINE + "    games = []\nrun(Mine)\n")
    first, second = load(spec), load(spec)
    assert first is not second
    assert getattr(first, "games", None) is not getattr(second, "games", None)


def test_what_it_prints_stays_off_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load(written(tmp_path, "mine", "print('hello')\n" + HEAD + MINE + MAIN))
    assert capsys.readouterr() == ("", "hello\n")


def test_dataclasses_and_type_hints_work(tmp_path: Path) -> None:
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "from typing import ClassVar, get_type_hints\n"
        + HEAD
        + "@dataclass\nclass Plan:\n    x: ClassVar[int] = 1\n"
        + MINE
        + "    hints = staticmethod(lambda: get_type_hints(Plan))\n"
        + MAIN
    )
    hints = getattr(load(written(tmp_path, "mine", text)), "hints", None)
    assert hints is not None
    assert "x" in hints()
