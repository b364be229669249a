"""A bot of `new --template` goes all the way from nothing to a match."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from helpers.commands import Run


def test_a_bot_learns_and_plays(run: Run, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    assert run("new", mine, "--template", "learned").status == 0
    untrained = run("check", mine)
    assert untrained.status == 1
    assert "net.weights is missing: in the bot's folder, run: python train.py" in untrained.out
    subprocess.run([sys.executable, mine / "train.py", "1"], check=True, capture_output=True)
    assert run("match", mine, "steady", "--games", "2", "--in-process").status == 0


def test_a_template_is_python(run: Run, tmp_path: Path) -> None:
    done = run("new", tmp_path / "mine", "--template", "search", "--language", "python")
    assert "--language and --template exclude each other" in done.refusal
    assert not (tmp_path / "mine").exists()
