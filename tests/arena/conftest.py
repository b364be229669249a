"""A request to stop, for runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deepsea_arena.run_report import Stop


@pytest.fixture
def stop() -> Iterator[Stop]:
    """Nobody has asked for anything yet."""
    stop = Stop()
    yield stop
    stop.close()
