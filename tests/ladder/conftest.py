"""Authors of a ladder that has some from the beginning."""

from __future__ import annotations

import pytest

from deepsea_ladder.store import Store
from helpers.submissions import an_author


@pytest.fixture
def ada(store: Store) -> int:
    """The id of an author."""
    return an_author(store, "Ada")


@pytest.fixture
def bob(store: Store) -> int:
    """The id of another."""
    return an_author(store, "Bob")
