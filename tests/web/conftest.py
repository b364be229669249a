"""Fixtures for pages in a real browser, and a ladder of people with accounts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from helpers.chromium import launch
from helpers.listening import site_at
from helpers.tools import require
from helpers.world import Stock, World, opened, stock_of


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Stock:
    """A ladder's file and its people's tokens; tests get copies."""
    return stock_of(tmp_path_factory.mktemp("stock"))


@pytest.fixture
def world(stock: Stock, tmp_path: Path) -> Iterator[World]:
    """A ladder of one's own."""
    with opened(stock, tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def unchanged(stock: Stock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A ladder for tests that change nothing in it."""
    with opened(stock, tmp_path_factory.mktemp("unchanged")) as found:
        yield found


@pytest.fixture
def served(world: World) -> Iterator[tuple[World, str]]:
    """That ladder, and the address at which browsers find it."""
    with site_at(world.site) as url:
        yield world, url


# For a module and not longer: while Playwright is on, the thread has a running event loop, and what
# other modules do in the same process with `asyncio.run` fails.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium."""
    require("chromium")
    # As long as the helpers wait for everything else: other tests may have the CPUs.
    expect.set_options(timeout=20_000)
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()
