"""Where commands of a ladder look for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepsea_cli.ladder import options


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the ladder is that every command means, with nothing there yet."""
    path = tmp_path / "ladder.db"
    monkeypatch.setenv(options.VARIABLE, str(path))
    return path
