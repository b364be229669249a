"""Fixtures for pages in a real browser, and a ladder to be shown."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from deepsea_ladder.store import Store
from helpers import ladder
from helpers.chromium import find_chromium, launch


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


# For a module and not longer: while Playwright is on, the thread has a running event loop, and what
# other modules do in the same process with `asyncio.run` fails.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium."""
    program = find_chromium()
    if program is None:
        pytest.skip("Chromium is not installed (apt-get install chromium-headless-shell)")
    # As long as the helpers wait for everything else: other tests may have the CPUs.
    expect.set_options(timeout=20_000)
    with sync_playwright() as playwright:
        browser = launch(playwright, program)
        yield browser
        browser.close()
