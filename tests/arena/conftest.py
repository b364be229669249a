"""A ladder in a file, to be looked at by the arena's use cases."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from deepsea_arena.play.shutdown import Stop
from deepsea_ladder.store import Store
from helpers import ladder


@pytest.fixture
def stop() -> Iterator[Stop]:
    """Nobody has asked for anything yet."""
    stop = Stop()
    yield stop
    stop.close()


@pytest.fixture(scope="session")
def played_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ladder with a season of eight games between four bots; ben crashed in two of them."""
    return ladder.played(tmp_path_factory.mktemp("played") / "ladder.db")


@pytest.fixture
def played(played_file: Path, tmp_path: Path) -> Iterator[Store]:
    """That ladder, for one test."""
    path = tmp_path / "ladder.db"
    shutil.copy(played_file, path)
    with Store.open(path) as store:
        yield store
