"""Hints on a bot's program: named by every command that plays it, each once, and few of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from deepsea_referee.bots.output import MOST_HINTS, NOT_KEPT, Hints, hints_of
from deepsea_referee.bots.resolve import resolve
from helpers.commands import Run, played, start, written
from helpers.tiers import daily

SERACH = "the SDK never calls Mine.serach; did you mean search?"
MISSPELT = """
from deepsea_sdk import Bot, run

class Mine(Bot):
    most = 2

    def serach(self, view):
        return view.legal[0]

if __name__ == "__main__":
    run(Mine)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bot with a misspelt method, in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MISSPELT)
    written(tmp_path, played(players=2))
    return tmp_path / "mine.py"


DAILY = [
    "match mine.py mine.py --games 4 --isolation process",
    "compare mine.py,most=1 mine.py,most=3 --blocks 2 --in-process",
    "rank mine.py greedy random --games 30 --in-process --workers 2",
    "tune mine.py,most=0..4 --budget 32 --in-process",
    "improve mine.py --games 2 --minutes 0.01 --in-process",
    "debug game-0001.json mine.py --seat A",
    "branch game-0001.json mine.py --at 3",
]
ALL = [
    *DAILY,
    "match mine.py greedy --in-process",
    "match mine.py greedy --games 4 --isolation process --workers 2",
    "play mine.py --isolation process",
    "compare mine.py greedy --blocks 2 --isolation process --workers 2",
    "compare greedy random --field mine.py --blocks 2 --in-process",
]


@pytest.mark.parametrize("words", daily(ALL, DAILY))
def test_a_misspelt_method_is_named_once(run: Run, mine: Path, words: str) -> None:
    done = run(*words.split())
    assert done.err.count(SERACH) == 1, done
    assert SERACH not in done.out


def test_the_program_of_a_command_line_is_looked_at(run: Run, mine: Path) -> None:
    bot = f"cmd:{sys.executable} mine.py"
    assert run("match", bot, "greedy", "--isolation", "process").err.count(SERACH) == 1


def test_quiet_is_quiet(run: Run, mine: Path) -> None:
    assert run("match", "mine.py", "greedy", "--in-process", "--quiet").err == ""


LOUD = """
import sys
from deepsea_sdk import Bot, run

class Loud(Bot):
    number = 0

    def search(self, view):
        for _ in range(2):
            Loud.number += 1
            print("deepsea-sdk: hint:", Loud.number, "x" * 500, file=sys.stderr)
            print("deepsea-sdk: hint: the same again", file=sys.stderr)
        return view.legal[0]

run(Loud)
"""


def test_a_bot_that_prints_hints_without_end_fills_no_terminal(run: Run, tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(LOUD)
    words = (tmp_path / "loud.py", "greedy", "--isolation", "process")
    for done in (run("match", *words, "--games", 1), run("check", *words[:1], *words[2:])):
        lines = [line for line in (done.out + done.err).splitlines() if "x" * 50 in line]
        assert len(lines) <= MOST_HINTS
        assert all(len(line) < 300 for line in lines)


TALKS = """
from deepsea_sdk import Bot, run

class Mine(Bot):
    most = 2

    def search(self, view):
        print("air", view.air)
        return view.legal[0]

if __name__ == "__main__":
    run(Mine)
"""
PLAYED = [words for words in DAILY if words.split()[0] not in ("debug", "branch")]


@pytest.fixture
def talks(mine: Path) -> Path:
    """A bot that prints, in the current folder."""
    mine.write_text(TALKS)
    return mine


@pytest.mark.parametrize("words", daily([*PLAYED, ALL[7], ALL[8], ALL[10]], PLAYED))
def test_output_that_nothing_keeps_is_named_once_with_what_keeps_it(
    run: Run, talks: Path, words: str
) -> None:
    if "--workers" in words:  # a worker says it
        out, err = start(*words.split()).communicate()
    else:
        _, out, err = run(*words.split())
    assert err.count(f": {NOT_KEPT}\n") == 1, err
    assert NOT_KEPT not in out


@pytest.mark.parametrize("how", [("--in-process",), ("--isolation", "process")])
def test_output_that_is_kept_or_shown_is_not_called_lost(
    run: Run, talks: Path, how: tuple[str, ...]
) -> None:
    done = run("match", "mine.py", "greedy", *how, "--out", "out", "--games", 2)
    assert NOT_KEPT not in done.err
    log = Path("out", "bot-1-start-1.log")
    assert done.out.count(f"output of mine: {log}\n") == 1
    assert log.read_text().startswith("air ")
    done = run("match", "mine.py", "greedy", *how, "--show-output", "mine")
    assert NOT_KEPT not in done.err
    assert "mine| air " in done.err
    assert run("match", "mine.py", "greedy", *how, "--quiet").err == ""


def test_what_the_sdk_and_the_referee_print_is_not_a_bots_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = "\ndeepsea-sdk: hint: look\ndeepsea-referee: a note was dropped\n"
    Hints().show_printed(resolve("greedy"), log, is_kept=False)
    assert capsys.readouterr().err == "greedy: look\n"
    Hints().show_printed(resolve("greedy"), "a line\n", is_kept=False)
    assert capsys.readouterr().err == f"greedy: {NOT_KEPT}\n"


@pytest.mark.parametrize(
    ("text", "hints"),
    [
        (MISSPELT, [SERACH]),
        ("import deepsea_sdk as d\nclass Mine(d.Bot):\n    def Serach(s): ...\n", ["Mine.Serach"]),
        (
            (
                "from deepsea_sdk import Bot as B\nclass Two(One): \n    def serach(s): ...\n"
                "class One(B):\n    async def turnback(s): ...\n"
            ),
            ["One.turnback", "Two.serach"],
        ),
        ("class Mine:\n    def serach(self): ...\n", []),
        ("from deepsea_sdk import Bot\nclass Mine(Bot):\n    def _serach(s): ...\n", []),
        ("class Mine(Bot):\n    def search(self): '\\d'\n", []),
        ("class Mine(", []),
        ("(" * 100_000, []),
        ("\0", []),
    ],
)
def test_hints_of_a_program(
    tmp_path: Path, text: str, hints: list[str], recwarn: pytest.WarningsRecorder
) -> None:
    program = tmp_path / "mine.py"
    program.write_text(text)
    found = hints_of(resolve(f"cmd:{sys.executable} {program}"))
    assert len(found) == len(hints), found
    assert all(hint in line for hint, line in zip(hints, found, strict=True))
    assert not recwarn.list
