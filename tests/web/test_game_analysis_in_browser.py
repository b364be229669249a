"""In a real browser: an author asks on the page of a game, a runner makes it, marks are there."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from deepsea_arena import ladder_analyses
from deepsea_arena.analysis import AnalysisSettings
from deepsea_arena.background_work import in_background
from deepsea_arena.handlers import ANALYSES
from deepsea_arena.run_report import Stop
from deepsea_sdk.coach.decisions import Effort
from deepsea_sdk.coach.roll_outs import COACH_VERSION
from helpers.background import Watcher
from helpers.chromium import fits, visited
from helpers.tiers import daily
from helpers.world import ANNA, World

pytestmark = pytest.mark.slow
QUICK = AnalysisSettings(effort=Effort.of(150), luck=4)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let analyses be quick."""
    monkeypatch.setattr(ladder_analyses.plan, "__defaults__", (QUICK,))


def run_out(world: World) -> list[str]:
    """Let a runner make what waits; what it says."""
    world.service.store.submissions.claim("runner", 60)  # which come first
    stop, watcher = Stop(), Watcher()
    try:
        with in_background(ANALYSES, world.service.store, watcher, stop, to_end=True):
            pass
    finally:
        stop.close()
    assert watcher.troubles == []
    return watcher.seen


# Without scripts the form is sent as tests/web/test_game_analysis.py sends it.
@pytest.mark.parametrize("scripts", daily([True, False], [True]))
def test_one_asks_on_the_page_and_sees_marks_when_the_runner_has_made_it(
    chromium: Browser, served: tuple[World, str], scripts: bool
) -> None:
    world, url = served
    game = re.compile(rf"{url}/games/s1-1(\?turn=0)?$")  # the viewer says where it is
    with visited(chromium, f"{url}/login?next=/games/s1-1", java_script_enabled=scripts) as page:
        page.get_by_label("Token", exact=True).fill(world.tokens[ANNA])
        page.get_by_role("button", name="Log in").click()
        expect(page).to_have_url(game)
        fits(page, "game-analysis-none")
        if not scripts:  # the page of the game is the same for all then
            page.get_by_role("link", name="Ask for its analysis").click()
        page.get_by_role("button", name="Analyse this game").click()
        expect(page).to_have_url(game)
        expect(page.locator("#analysis-state")).to_have_text("The analysis is queued, it is next.")
        fits(page, "game-analysis-waits")
        assert run_out(world) == [f"s1-1: done, {COACH_VERSION}"]
        # The page notices by itself.
        expect(page.locator("#analysis")).to_contain_text("Analysed by roll-outs of steady-")
        if not scripts:
            return
        signs = page.locator(".ds-mark .ds-sign")
        expect(signs.first).to_be_attached()
        page.locator(".ds-mark", has=page.locator(".ds-sign")).first.locator(".ds-hit").click(
            force=True
        )
        expect(page.locator(".ds-options .ds-played")).to_contain_text("behind ?")
        figures = page.locator("figure", has=page.locator(".ds-luck"))
        expect(figures).to_have_count(4)
        page.select_option("#ds-view", "B")
        expect(signs.first).to_be_attached()
        fits(page, "game-analysis-done")
