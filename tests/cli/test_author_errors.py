"""An author sees the own frames of an error wherever it is met first, once for each error."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepsea_ladder.season import SeasonSettings
from helpers import ladder
from helpers.commands import Done, Run
from helpers.tiers import daily

BOOM = """
from deepsea_sdk import Bot, run

class Boom(Bot):
    def search(self, view):
        return self.deep(view)

    def deep(self, view):
        raise KeyError(view.dive)

if __name__ == "__main__":
    run(Boom)
"""
FRAMES = ['File "bot.py", line 6, in search', 'File "bot.py", line 9, in deep']
PLAIN = ("--isolation", "process")


@pytest.fixture
def boom(tmp_path: Path) -> Path:
    return written(tmp_path / "boom", BOOM)


def written(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "bot.py").write_text(text, encoding="utf-8")
    (folder / "bot.toml").write_text('command = ["python3", "bot.py"]\n', encoding="utf-8")
    return folder


def told_once(done: Done, *lines: str) -> None:
    text = done.out + done.err
    for line in lines:
        assert [found.strip() for found in text.splitlines()].count(line) == 1, text


@pytest.mark.parametrize("how", [PLAIN, ("--in-process",)])
def test_match(run: Run, boom: Path, how: tuple[str, ...]) -> None:
    done = run("match", boom, "greedy", "--games", 3, *how)
    told_once(done, *FRAMES)
    assert "9 faults:\n  boom: exception ×9, first in game 1, seat A, " in done.out
    assert "it raised KeyError: 1; forfeited 3 games\n" in done.out


def test_check(run: Run, boom: Path) -> None:
    done = run("check", boom, *PLAIN)
    assert done.status == 1
    told_once(done, *FRAMES)


EARLY = "import deepsea_sdk\n\n\ndef load():\n    return {}['weights']\n\n\nload()\n"
WHERE = ['File "bot.py", line 8, in <module>', 'File "bot.py", line 5, in load']


@pytest.mark.parametrize(
    ("command", "how"),
    daily(
        [
            ("match", PLAIN),
            ("match", ("--in-process", "--workers", "2")),
            ("compare", PLAIN),
            ("compare", ("--in-process",)),
        ],
        [("match", PLAIN), ("compare", ("--in-process",))],
    ),
)
def test_a_program_that_does_not_start(
    run: Run, tmp_path: Path, command: str, how: tuple[str, ...]
) -> None:
    early = written(tmp_path / "early", EARLY)
    games = "--games" if command == "match" else "--blocks"
    done = run(command, early, "greedy", games, 2, *how)
    assert done.status == 2
    told_once(done, *WHERE)


def test_check_of_a_program_that_does_not_start(run: Run, tmp_path: Path) -> None:
    done = run("check", written(tmp_path / "early", EARLY), *PLAIN)
    assert done.status == 1
    told_once(done, *WHERE)
    assert "deepsea-referee match" not in done.out


def test_submit(run: Run, boom: Path, tmp_path: Path, place: Path) -> None:
    with ladder.created(place) as store:
        store.seasons.open(SeasonSettings(name="s1", seats=(2,), isolation="process"), ladder.SEED)
    done = run("ladder", "submit", boom, "--author", "me")
    assert done.status == 1
    told_once(done, *FRAMES)
    done = run("ladder", "submit", written(tmp_path / "early", EARLY), "--author", "me")
    assert done.status == 1
    told_once(done, *WHERE)
    assert f"\n  deepsea-referee check {tmp_path / 'early'}\n" in done.out


def test_of_other_languages_the_end_of_stderr_is_shown(run: Run, tmp_path: Path) -> None:
    script = "import sys\nfor n in range(40): print('line', n, file=sys.stderr)\nsys.exit(3)\n"
    done = run("match", written(tmp_path / "other", script), "greedy", *PLAIN)
    told_once(done, *(f"line {n}" for n in range(20, 40)))
    assert "line 19\n" not in done.err


def test_what_a_bot_printed_is_shown_with_its_fault_and_live_on_request(
    run: Run, tmp_path: Path
) -> None:
    text = BOOM.replace(
        "raise KeyError", "print('\x1b[31mhere', view.dive)\n        raise KeyError"
    )
    bot = written(tmp_path / "loud", text)
    done = run("match", bot, "greedy", "--in-process")
    assert "the last output of loud (--show-output has all of it):\n" in done.out
    assert "\n    \\x1b[31mhere 1\n" in done.out
    assert done.err == ""
    for name, how in (("loud", PLAIN), (str(bot), ("--in-process",))):
        done = run("match", bot, "greedy", *how, "--show-output", name)
        assert done.err.count("loud| \\x1b[31mhere 1\n") == 3
    done = run("match", bot, "greedy", "--show-output", "nobody")
    assert "'nobody' is none of the bots: loud, greedy" in done.refusal
