"""A page with an analysis in a real browser: marks, values beside the decision, luck."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from deepsea_arena.analysis import Analysis, AnalysisSettings, ChanceEvent
from deepsea_sdk.coach.decisions import Effort, Estimate
from deepsea_web.assets import PageGame, game_page
from helpers.chromium import keep_screenshot, visited, without_violations
from helpers.planted import SEAT, planted

pytestmark = pytest.mark.slow


def test_marks_values_and_luck_are_shown(chromium: Browser, tmp_path: Path) -> None:
    record = planted().record()
    settings = AnalysisSettings(Effort.of(40), seat=SEAT)
    (analysis,) = Analysis([("planted.json", record)], settings).run()
    (blunder,) = (one for one in analysis.decisions if one.judged.mark == "??")
    luck = (
        ChanceEvent(1, 0, (1, 2), tuple(Estimate(luck, 0) for luck in (0.3, -0.2, -0.1))),
        ChanceEvent(9, None, None, tuple(Estimate(luck, 0) for luck in (-0.1, 0.1, 0.0))),
    )
    game = PageGame.of_record(record, "planted.json", analysis=replace(analysis, chances=luck))
    page_file = tmp_path / "page.html"
    page_file.write_text("".join(game_page([game])), encoding="utf-8")
    with visited(chromium, page_file.as_uri()) as page:
        signs = page.locator(".ds-mark .ds-sign")
        assert signs.all_text_contents().count("??") == 1
        page.locator(".ds-mark", has=page.locator(".ds-sign", has_text="??")).locator(
            ".ds-hit"
        ).click(force=True)
        begun = int(page.inner_text(".ds-status").split()[1])
        assert begun == blunder.turn - 1
        rows = page.locator(".ds-options tbody tr")
        expect(rows).to_have_count(2)
        expect(page.locator(".ds-options .ds-played")).to_contain_text("behind ??")
        expect(page.locator(".ds-options .ds-played th")).to_have_text("down")
        figures = page.locator("figure", has=page.locator(".ds-luck"))
        expect(figures).to_have_count(3)
        expect(figures.nth(0)).to_contain_text("luck +0.20")
        expect(figures.nth(1)).to_contain_text("luck −0.10")
        page.select_option("#ds-view", "B")
        assert "??" in signs.all_text_contents()
        page.get_by_role("button", name="help").click()
        expect(page.locator(".ds-legend")).to_contain_text("??")
        page.keyboard.press("Escape")
        without_violations(page)
        keep_screenshot(page, "analysis")
