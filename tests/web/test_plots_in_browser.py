"""Pages with plots, in a real browser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from deepsea_referee.summary import GameResult
from deepsea_referee.workbench.comparison import Lead, LeadPoint
from deepsea_web.bars import PlotData, PlotSums
from deepsea_web.plots import charts_html, charts_of
from helpers.chromium import WIDTHS, Scheme, fits, visited, without_violations
from helpers.commands import played, record_of

pytestmark = pytest.mark.slow


def plot_page(folder: Path) -> str:
    records = [record_of(played(players=4, salt=f"{n}")) for n in range(30)]
    sums = PlotSums([seat.name for seat in records[0].seats])
    for number, record in enumerate(records, 1):
        timed = tuple(d._replace(us=(i * i % 97 + 1) * 40) for i, d in enumerate(record.decisions))
        result = GameResult(
            number, record.game_id, (0, 1, 2, 3), record.points, record.placements, (), ()
        )
        sums.add(result, replace(record, decisions=timed))
    points = [LeadPoint(n, 0.1, 0.1 - 1 / n, 0.1 + 1 / n) for n in range(1, 101)]
    lead = Lead("greedy", "cautious", 0.05, 0.05, points)
    path = folder / "plots.html"
    data = PlotData("greedy against cautious", "100 blocks", sums.bots, 100_000, lead)
    page = charts_html(data.title, data.facts, charts_of(data))
    path.write_text(page, encoding="utf-8")
    return path.as_uri()


# In the dark on a telephone before a release: neither changes the other.
@pytest.mark.parametrize(
    "looks",
    [
        pytest.param([(360, "light"), (1280, "light"), (1280, "dark")], id="of every run"),
        pytest.param([(360, "dark")], id="others", marks=pytest.mark.release),
    ],
)
def test_plots_fit_and_can_be_read_by_everybody(
    chromium: Browser, tmp_path: Path, looks: list[tuple[int, Scheme]]
) -> None:
    with visited(chromium, plot_page(tmp_path)) as page:
        for details in page.locator("summary").all():
            details.click()
        fits(page, "plots")
        for width, scheme in looks:
            page.set_viewport_size({"width": width, "height": WIDTHS[width]})
            without_violations(page, scheme)
            # No text of a chart leaves its picture, and none is smaller than 8 pixels.
            sizes = page.evaluate(
                """() => [...document.querySelectorAll("svg text")].map((text) => {
                    const [inner, outer] = [text, text.ownerSVGElement].map(
                        (element) => element.getBoundingClientRect());
                    return [outer.left - inner.left, inner.right - outer.right, inner.height];
                })"""
            )
            assert max(max(left, right) for left, right, _ in sizes) <= 1
            assert min(height for _, _, height in sizes) > 8
