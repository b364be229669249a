"""Completion in live shells: sample bots and files, after a command that takes both."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.commands import environment
from helpers.terminal import Terminal
from helpers.tools import TOOLS, require

PROGRAM = "deepsea-referee"
INTERACTIVE = {
    "bash": (["--norc", "--noprofile", "-i"], "bind 'set enable-bracketed-paste off'; "),
    "zsh": (["-f", "-i"], "unsetopt zle_bracketed_paste; autoload -Uz compinit; compinit -u -D; "),
}
"""Options of a shell without anybody's settings, and the commands that it begins with."""


def found(shell: str) -> str:
    """The path of a shell."""
    if shell in TOOLS:
        require(shell)
    path = shutil.which(shell)
    assert path is not None
    return path


@pytest.fixture
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a shell in a folder with a bot, where the program is a command."""
    folder = tmp_path / "programs"
    folder.mkdir()
    program = folder / PROGRAM
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m deepsea_cli "$@"\n')
    program.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    (work / "mine_alone.py").write_text("")
    monkeypatch.chdir(work)
    path = os.pathsep.join([str(folder), os.environ["PATH"]])
    return {**environment(), "PATH": path, "TERM": "dumb", "INPUTRC": "/dev/null"}


class Shell(Terminal):
    """A terminal with an interactive shell in it."""

    def __init__(self, command: list[str], variables: dict[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(  # type: ignore[assignment]
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=variables,
            text=True,
            start_new_session=True,
        )
        os.close(theirs)
        self.seen = ""


@pytest.mark.parametrize("shell", INTERACTIVE)
def test_bots_and_files_are_completed(shell: str, variables: dict[str, str]) -> None:
    options, commands = INTERACTIVE[shell]
    terminal = Shell([found(shell), *options], variables)
    try:
        terminal.press(f'{commands}eval "$({PROGRAM} completion {shell})"; echo READ""Y\r')
        terminal.read_until("READY")
        terminal.press(f"{PROGRAM} match heur\t")
        terminal.read_until("heuristic ")
        terminal.press("mine_al\t")
        terminal.read_until("mine_alone.py")
        terminal.press("\x15exit\r")
    finally:
        terminal.process.terminate()
        terminal.process.kill()
        terminal.end()


def test_fish_completes_bots_and_files(variables: dict[str, str]) -> None:
    lines = (
        f"{PROGRAM} completion fish | source",
        f'complete -C "{PROGRAM} match heur"',
        f'complete -C "{PROGRAM} match mine_al"',
    )
    done = subprocess.run(
        [found("fish"), "--no-config", "-c", "; ".join(lines)],
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == [
        "heuristic",
        "mine_alone.py",
    ]
