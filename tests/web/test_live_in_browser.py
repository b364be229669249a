"""The page of a running match, and pages with plots, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from deepsea_arena.reports.plot_data import PlotData, PlotSums
from deepsea_referee.results.summary import GameResult
from deepsea_referee.workbench.comparison import Lead, LeadPoint
from deepsea_web.charts.files import charts_html, charts_of
from helpers import chromium as browsers
from helpers.chromium import WIDTHS, Scheme, fits, runs_nothing, without_violations
from helpers.commands import faulty, played, record_of
from helpers.pages import RUN, hostile_record
from helpers.served import PATH, Served

pytestmark = pytest.mark.slow
TABLE = {
    "head": ["bot", "games", "wins", "placement", "points", "faults", "median", "slowest"],
    "rows": [
        ["greedy", "3", "2", "1.33", "21.1", "0", "0.8 ms", "10.7 ms"],
        ["an extraordinarily long name of a bot, with parameters=0.95", *["3"] * 7],
    ],
}


@pytest.fixture
def served() -> Iterator[Served]:
    """A page with three games."""
    with Served("greedy, cautious, random") as page:
        for number in (1, 2):
            page.game(number, record_of(played(salt=f"{number}")), f"1. greedy (A) {number}")
        page.game(3, record_of(faulty()), "1. greedy (A) 30, 2. cautious (B) 21; 3 faults")
        page.tell(table=TABLE, facts="3 games, manual rules, clock 100ms+2s")
        yield page


def address(served: Served, path: str = "") -> str:
    return f"http://127.0.0.1:{served.port}/{PATH}/{path}"


def visited(
    browser: Browser, served: Served, path: str = "", **options: Any
) -> AbstractContextManager[Page]:
    """The page, or another one of the same server."""
    url = address(served, path)
    return browsers.visited(browser, url, allowed=address(served), **options)


def resize(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": WIDTHS[width]})


def shows(page: Page, number: int) -> None:
    """Wait until this game is drawn."""
    expect(page.locator("#shown")).to_have_text(f"Game {number}")
    expect(page.locator(".ds-board")).to_be_visible()
    expect(page.locator("#problem")).to_be_empty()


@pytest.mark.parametrize(
    "looks",
    [
        pytest.param([(360, "light"), (1280, "dark")], id="of every run"),
        pytest.param([(360, "dark"), (1280, "light")], id="others", marks=pytest.mark.release),
    ],
)
def test_the_page_is_complete_and_fits(
    chromium: Browser, served: Served, looks: list[tuple[int, Scheme]]
) -> None:
    with visited(chromium, served, reduced_motion="reduce") as page:
        shows(page, 3)
        fits(page, "live")
        for width, scheme in looks:
            resize(page, width)
            without_violations(page, scheme)


def test_the_newest_game_is_followed_until_another_is_chosen(
    chromium: Browser, served: Served
) -> None:
    with visited(chromium, served) as page:
        shows(page, 3)
        # It plays: the position moves by itself, and to its end it stays with this game.
        expect(page.get_by_role("button", name="pause")).to_be_visible()
        served.game(4, record_of(played(salt="4")))
        expect(page.locator("#games a").first).to_have_text("4: 1. greedy (A) 12")
        expect(page.locator("#shown")).to_have_text("Game 3")
        page.keyboard.press("End")
        page.keyboard.press("Space")  # from the beginning again
        page.locator("#games a", has_text="1: ").last.click()
        shows(page, 1)
        expect(page.get_by_label("follow the newest")).not_to_be_checked()
        assert "#game=1" in page.url
        page.get_by_label("follow the newest").check()
        shows(page, 4)
    # An address names its game, and the turn.
    with visited(chromium, served, "#game=2&turn=5") as page:
        shows(page, 2)
        expect(page.locator(".ds-status")).to_contain_text("Turn 5 ")


def test_when_a_game_has_played_the_then_newest_one_comes(
    chromium: Browser, served: Served
) -> None:
    with visited(chromium, served) as page:
        shows(page, 3)
        served.game(4, record_of(played(salt="4")))
        served.game(5, record_of(played(salt="5")))
        expect(page.locator("#games a")).to_have_count(5)
        page.locator('select[aria-label="speed"]').select_option("10")
        slider = page.locator('input[type="range"]')
        last = slider.get_attribute("max")
        assert last is not None
        slider.fill(str(int(last) - 1))
        page.get_by_role("button", name="play").click()
        shows(page, 5)


def test_with_reduced_motion_nothing_changes_by_itself(chromium: Browser, served: Served) -> None:
    with visited(chromium, served, reduced_motion="reduce") as page:
        shows(page, 3)
        expect(page.get_by_role("button", name="play")).to_be_visible()
        served.game(4, record_of(played(salt="4")))
        expect(page.locator("#games a")).to_have_count(4)
        shows(page, 3)
        page.get_by_label("follow the newest").click()
        shows(page, 4)


def test_the_end_of_the_match_is_shown(chromium: Browser, served: Served) -> None:
    with visited(chromium, served) as page:
        expect(page.locator("#state")).to_have_text("being played")
        served.tell(over="interrupted")
        expect(page.locator("#state")).to_have_text("interrupted")


def test_a_game_has_a_page_of_its_own(chromium: Browser, served: Served) -> None:
    with visited(chromium, served, "games/3") as page:
        expect(page.locator(".ds-board")).to_be_visible()
        fits(page, "live-game")
        for width in WIDTHS:
            resize(page, width)
            without_violations(page)


def test_no_text_of_a_bot_is_run(chromium: Browser) -> None:
    with Served(RUN) as page:
        page.game(1, hostile_record(RUN), RUN)
        page.tell(table={"head": ["bot"], "rows": [[RUN]]}, facts=RUN)
        for path in ("", "games/1"):
            with visited(chromium, page, path) as seen:
                expect(seen.locator(".ds-board")).to_be_visible()
                runs_nothing(seen)
                fits(seen, f"hostile-live-{len(path)}")


# Plots


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
    with browsers.visited(chromium, plot_page(tmp_path)) as page:
        for details in page.locator("summary").all():
            details.click()
        fits(page, "plots")
        for width, scheme in looks:
            resize(page, width)
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
