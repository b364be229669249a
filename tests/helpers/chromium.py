"""A real browser, which notes whatever goes wrong on a page.

Invariant: a page that is opened here fails its test if it writes an error to the console, breaks
its policy, throws, or asks for anything but itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from axe_playwright_python.base import AXE_SCRIPT, AxeResults
from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, Request

from helpers.tools import path_of

SWITCHES: Final = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
)
Scheme = Literal["light", "dark"]
SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")
WIDTHS: Final = {360: 740, 1280: 800}
"""Widths of a telephone and of a small notebook, and their heights."""


def launch(playwright: Playwright) -> Browser:
    """Start the system's browser: Playwright downloads none. As root it has no sandbox."""
    program = path_of("chromium")
    switches = [*SWITCHES, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    return playwright.chromium.launch(executable_path=program, args=switches)


@contextmanager
def visited(
    browser: Browser,
    url: str,
    *,
    width: int = 1280,
    scheme: Scheme = "light",
    allowed: str = "",
    **options: Any,
) -> Iterator[Page]:
    """A page in a context of its own.

    allowed   how addresses begin that the page may ask for; else it may ask for all of its server
    options   for the context, such as `java_script_enabled`
    """
    context = browser.new_context(
        viewport={"width": width, "height": WIDTHS[width]}, color_scheme=scheme, **options
    )
    wrong: list[str] = []
    own = re.findall("http://[^/]+/|.*", url)[0]
    expected = (url.partition("#")[0], "blob:", allowed or own)

    def console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            wrong.append(f"console: {message.text}")

    def request(request: Request) -> None:
        if not request.url.startswith(expected):
            wrong.append(f"asked for {request.url}")

    try:
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", console)
        page.on("pageerror", lambda error: wrong.append(f"thrown: {error}"))
        page.on("request", request)
        page.goto(url)
        yield page
        assert wrong == []
    finally:
        context.close()


def without_violations(page: Page, scheme: Scheme = "light", context: str | None = None) -> None:
    """Axe finds nothing that people with a screen reader or weak eyes would stumble on.

    In the dark it looks at contrasts alone; all else is as it is in the light.
    """
    page.emulate_media(color_scheme=scheme)
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    # Style sheets that are loaded before would break the policy of a page, and no rule needs them.
    options = {"resultTypes": ["violations"], "preload": False}
    if scheme == "dark":
        options["runOnly"] = ["color-contrast"]
    run = "([context, options]) => axe.run(context || document, options)"
    found = AxeResults(page.evaluate(run, [context, options]))
    assert found.violations_count == 0, found.generate_report()


def runs_nothing(page: Page) -> None:
    """Nothing of `helpers.pages.RUN` became a part of the page."""
    assert page.locator("[onerror], [onload], [href^=javascript]").count() == 0
    assert page.evaluate("window.ran") is None


def fits(page: Page, name: str) -> None:
    """A page is never wider than its window, of which it has the narrow one afterwards.

    Pictures are kept as `keep_screenshot` does: of both widths, the narrow one in the dark too.
    """
    for width in sorted(WIDTHS, reverse=True):
        page.set_viewport_size({"width": width, "height": WIDTHS[width]})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        keep_screenshot(page, f"{name}-{width}")
    if "DEEPSEA_SCREENSHOTS" in os.environ:
        page.emulate_media(color_scheme="dark")
        keep_screenshot(page, f"{name}-{width}-dark")
        page.emulate_media(color_scheme="light")


def keep_screenshot(page: Page, name: str) -> None:
    """Keep a picture of the whole page in the folder DEEPSEA_SCREENSHOTS, if there is one."""
    if folder := os.environ.get("DEEPSEA_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
