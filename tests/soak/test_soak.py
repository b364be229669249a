"""A small soak: a few games with each kind of hostile bot; `make soak` plays a thousand."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepsea_referee.sandbox import probe
from soak import soak


@pytest.mark.slow
def test_honest_bots_and_the_referee_come_through_unharmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if trouble := probe.sandbox_trouble():
        pytest.skip(f"no sandbox here: {trouble.name}: {trouble.found}. {trouble.remedy}")
    monkeypatch.setattr(soak, "GAMES_EACH", 2)
    monkeypatch.setattr(soak, "REPORTED", 4)
    games = 2 * len(soak.PROGRAMS)
    lines: list[str] = []
    seen = soak.soak(games, tmp_path, lines.append)
    assert seen.games + seen.voids == games
    assert seen.faults
    assert len(lines) == games // 4
