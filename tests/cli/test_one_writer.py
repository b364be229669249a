"""A folder that a command writes belongs to it: the same command at the same time is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from helpers.commands import Run, start
from helpers.tiers import daily

WAITS = """
import os
from deepsea_sdk import Bot, run

class Waits(Bot):
    shy = 1

    def search(self, view):
        try:
            os.close(os.open("playing", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return super().search(view)
        open("pipe", "w").close()  # until the test has seen it
        open("pipe", "r").close()  # until the test lets it go on
        return super().search(view)

run(Waits)
"""
COMMANDS = {
    "match": ("waits.py", "greedy", "--games", 2),
    "compare": ("waits.py", "greedy", "--blocks", 2),
    "rank": ("waits.py", "greedy", "random", "--games", 6),
    "tune": ("waits.py,shy=0..2", "--budget", 40),
    "improve": ("waits.py", "--games", 1, "--precision", "0.2"),
}


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", daily([*COMMANDS], ["match", "compare", "improve"]))
def test_of_two_at_once_the_second_is_refused_and_writes_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "waits.py").write_text(WAITS, encoding="utf-8")
    os.mkfifo("pipe")
    words = (command, *COMMANDS[command], "--seed", "x", "--in-process", "--out", "kept")
    with start(*words) as first:
        with Path("pipe").open() as pipe:
            pipe.read()
        before = contents(tmp_path / "kept")
        refused = run(*words).refusal
        assert f"the folder 'kept' is being written by process {first.pid}, since " in refused
        assert contents(tmp_path / "kept") == before
        Path("pipe").open("w").close()
        printed, said = first.communicate()
    assert first.returncode in (0, 1), (printed, said)
    assert not list(Path("kept").rglob(".lock"))
    again = run(*words)
    if command == "match":
        assert "has files of an earlier match" in again.refusal
    else:
        assert again.status in (0, 1)
