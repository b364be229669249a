"""Submitting to a ladder from afar: the ladder is on Linux, its author is not."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.commands import Run
from platforms.desk import LONGEST_S, WINDOWS, Desk

pytestmark = pytest.mark.slow


@pytest.fixture
def ladder(tmp_path: Path, run: Run) -> Iterator[tuple[str, str]]:
    """The address of a ladder, and a token for it."""
    store = ("--store", tmp_path / "ladder.db")
    assert run("ladder", "init", "--isolation", "process", *store).status == 0
    made = run("ladder", "author", "admin", "--author", "anna", "--json", *store)
    there = Desk("linux", tmp_path)
    serving = there.start("ladder", "serve", *store, "--port", 0)
    try:
        assert serving.stdout is not None
        address = serving.stdout.readline().split()[-1].decode()
        yield address, str(json.loads(made.out)["token"])
    finally:
        serving.send_signal(signal.SIGINT)
        serving.communicate(timeout=LONGEST_S)


@pytest.mark.parametrize("form", WINDOWS)
def test_a_bot_is_submitted_and_seen(
    form: str, ladder: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, token = ladder
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", token)
    desk = Desk(form, tmp_path)
    done = desk.run("ladder", "submit", "greedy", "--remote", address)
    assert done.status == 0, done.err
    assert "greedy version 1 by anna is on the ladder" in done.out
    done = desk.run("ladder", "standings", "--remote", address)
    assert done.status == 0, done.err
    assert "greedy" in done.out
