"""Fixtures for pages in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from helpers.chromium import find_chromium, launch


# For a module and not longer: while Playwright is on, the thread has a running event loop, and what
# other modules do in the same process with `asyncio.run` fails.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium."""
    program = find_chromium()
    if program is None:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    # As long as the helpers wait for everything else: other tests may have the CPUs.
    expect.set_options(timeout=20_000)
    with sync_playwright() as playwright:
        browser = launch(playwright, program)
        yield browser
        browser.close()
