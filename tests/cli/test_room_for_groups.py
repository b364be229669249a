"""Control groups come first: before a command that may start bots starts a thread or a process."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from deepsea_referee.system import SYSTEM
from helpers.commands import Run


@pytest.mark.parametrize(
    "command",
    [
        ("ladder", "run", "--forever"),
        ("ladder", "tournament", "final", "cup"),
        ("ladder", "serve", "--port", "0"),
        ("ladder", "submit", "greedy", "--author", "anna"),
    ],
)
def test_room_is_made_before_anything_is_started(
    command: tuple[str, ...], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ladder = tmp_path / "ladder.db"
    with Store.create(str(ladder)):
        pass
    monkeypatch.setenv("DEEPSEA_LADDER", str(ladder))

    def too_early(*_: object, **__: object) -> None:
        raise AssertionError("something was started before room was made")

    def make_room() -> None:
        raise UserError("room is made")

    monkeypatch.setattr(subprocess, "Popen", too_early)
    monkeypatch.setattr(threading.Thread, "start", too_early)
    monkeypatch.setattr(SYSTEM, "make_room", make_room)
    assert run(*command).refusal == "deepsea-referee: room is made"


def test_a_server_without_a_runner_needs_no_room(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_room() -> None:
        raise AssertionError("it starts no bot")

    monkeypatch.setattr(SYSTEM, "make_room", make_room)
    missing = tmp_path / "none.db"
    assert "none.db" in run("ladder", "serve", "--no-run", "--store", missing).err
