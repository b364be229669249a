"""A small soak: a few games with each kind of hostile bot; `make soak` plays a thousand.

Each of these bots is tested by itself in tests/attacks; that they do no harm together is for a
release.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from soak import soak


@pytest.mark.release
@pytest.mark.needs("bubblewrap")
def test_honest_bots_and_the_referee_come_through_unharmed(tmp_path: Path) -> None:
    games = 2 * len(soak.PROGRAMS)
    lines: list[str] = []
    seen = soak.soak(games, tmp_path, lines.append, each=2, reported=4)
    assert seen.games + seen.voids == games
    assert seen.faults
    assert len(lines) == games // 4
