"""A person's page in a real browser: by keys, by touch and with a screen reader."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from deepsea_rules.game import verify
from helpers.chromium import SCHEMES, WIDTHS, fits, keep_screenshot, visited, without_violations
from helpers.pages import RUN
from helpers.seat_page import sitting
from helpers.tiers import daily

pytestmark = pytest.mark.slow
ASKED = '#seat-actions input[name="asked"]'


def begun(page: Page) -> None:
    """The person is asked, and what it may do has the focus."""
    expect(page.locator("#seat-actions")).to_be_focused()
    assert "#" not in page.url


@pytest.mark.parametrize(
    ("preset", "by"), daily([("manual", "key"), ("revised", "touch")], [("revised", "touch")])
)
def test_a_whole_game(chromium: Browser, preset: str, by: str) -> None:
    with (
        sitting(preset) as table,
        visited(
            chromium,
            table.ladder.address,
            width=min(WIDTHS) if by == "touch" else max(WIDTHS),
            reduced_motion="reduce",
            has_touch=by == "touch",
        ) as page,
    ):
        begun(page)
        buttons, asked = page.locator("#seat-actions button"), None
        # Nothing moves by itself, so the next question or the end is there at once.
        while page.locator(".seat-end").count() == 0:
            before, asked = asked, page.evaluate(f"document.querySelector('{ASKED}')?.value")
            if asked in (before, None):
                continue
            sizes = [button.bounding_box() for button in buttons.all()]
            assert all(box is not None and box["height"] >= 44 for box in sizes)
            if by == "touch":
                buttons.last.tap()
            else:
                page.keyboard.press(buttons.last.get_attribute("data-key") or "")
            page.wait_for_selector(f'{ASKED}:not([value="{asked}"]), .seat-end', state="attached")
        expect(page.locator("#seat-live")).to_contain_text("Game 1 is over")
        record = table.game.played().record
    verify(record)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_everybody_can_use_it(chromium: Browser, scheme: str) -> None:
    with (
        sitting(seats=6, bot=RUN) as table,
        visited(chromium, table.ladder.address, reduced_motion="reduce") as page,
    ):
        begun(page)
        assert page.evaluate("window.ran") is None
        expect(page.locator("#seat-live")).to_contain_text("Your turn: ")
        expect(page.locator("#seat-spoken li").first).to_contain_text("dive 1, air 25")
        page.keyboard.press("h")
        expect(page.locator(".seat-note")).to_contain_text("hint: ")
        begun(page)
        for key in "?lq":
            page.keyboard.press(key)
        expect(page.get_by_text("let defaults play it on")).to_be_visible()
        fits(page, "play")
        for width, height in WIDTHS.items():
            page.set_viewport_size({"width": width, "height": height})
            without_violations(page, scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": 512, "height": 800})
        keep_screenshot(page, "play-60-columns")
        page.keyboard.press("p")
        expect(page.locator("#seat-question")).to_have_text("Game 1 is over")
        without_violations(page, scheme)  # type: ignore[arg-type]


def test_moves_come_at_a_pace_and_are_skipped(chromium: Browser) -> None:
    with (
        sitting(seats=6) as table,
        visited(chromium, table.ladder.address) as page,
    ):
        begun(page)
        page.get_by_label("pace of the game").select_option("slow")
        page.locator("body").click(position={"x": 1, "y": 1})
        page.keyboard.press("n")
        # Five bots move: that takes seconds, and meanwhile there is nothing to be decided.
        expect(page.locator("#seat-panel")).to_have_attribute("aria-busy", "true")
        expect(page.locator("#seat-say")).to_contain_text(re.compile("[A-F]▼"))
        page.keyboard.press("s")
        begun(page)
        assert page.locator("#seat-live").inner_text().count("→") == 6
        page.reload()
        begun(page)
        expect(page.get_by_label("pace of the game")).to_have_value("0.5")
