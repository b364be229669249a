"""Where commands of a ladder look for it, here and on another machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deepsea_cli.ladder import options
from helpers.answering import Answering, Asked, Reply


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the ladder is that every command means, with nothing there yet."""
    path = tmp_path / "ladder.db"
    monkeypatch.setenv(options.VARIABLE, str(path))
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's folders, without any login and any ladder."""
    for name in ("config", "data"):
        monkeypatch.setenv(f"XDG_{name.upper()}_HOME", str(tmp_path / name))
    monkeypatch.delenv(options.VARIABLE, raising=False)


@pytest.fixture
def server(there: Callable[[Asked], Reply]) -> Iterator[Answering]:
    """A server that answers as the module's `there` does."""
    with Answering(there) as answering:
        yield answering
