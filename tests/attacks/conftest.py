"""The sandbox that hostile programs run in: looked at before the first of them starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from attacks.harness import Arena
from deepsea_referee.sandbox.bubblewrap import Sandbox
from deepsea_referee.sandbox.cgroup import Hierarchies
from helpers.programs import needs_groups
from helpers.tools import require


@pytest.fixture(scope="session")
def verified() -> None:
    """Nothing hostile runs where no sandbox works."""
    require("bubblewrap")


@pytest.fixture
def arena(verified: None, tmp_path: Path) -> Arena:
    """The sandbox as it is on this machine."""
    return Arena(Sandbox(), tmp_path)


@pytest.fixture
def bounded_arena(verified: None, tmp_path: Path, request: pytest.FixtureRequest) -> Arena:
    """The sandbox with either way of bounding a bot, as far as this machine has it."""
    if request.param == "watchdog":
        return Arena(Sandbox(Hierarchies()), tmp_path)
    needs_groups()
    return Arena(Sandbox(), tmp_path)
