"""Standings, games and bots in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from deepsea_ladder.store import Store
from helpers import ladder
from helpers.chromium import SCHEMES, fits, visited, without_violations
from helpers.listening import site_at
from helpers.site import a_site

pytestmark = pytest.mark.slow
PAGES = ("/", "/games", "/bots/anna", "/bots/newcomer")
# All pages have their colours from one file: these have most of them, the others are seen in the
# dark before a release.
IN_THE_DARK = ("/", "/bots/anna")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The site of a ladder with games of six bots in two seasons, a former version, a newcomer."""
    path = tmp_path_factory.mktemp("site") / "ladder.db"
    with Store.create(path) as store:
        season = ladder.stocked(store, 6)
        other = store.seasons.open(ladder.a_season("s2"), ladder.SEED)
        for rated in (season, other):
            store.jobs.add(rated, ladder.rotations(ladder.ids(store)[:4], 4) * 2)
            ladder.play_all(store, rated, {"s1-3": ["ben"]})
        ladder.submit(store, "anna", "better", "anna-senior")
        store.jobs.add(season, ladder.rotations(ladder.ids(store)[:4], 4) * 2)
        ladder.play_all(store, season)
        store.bots.withdraw("finn")
        ladder.submit(store, "newcomer")
    with Store.open(path, read_only=True, public=True) as store, site_at(a_site(store)) as url:
        yield url


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_and_breaks_no_rule(chromium: Browser, address: str, page: str) -> None:
    with visited(chromium, f"{address}{page}?season=s1", allowed=(f"{address}/",)) as seen:
        seen.wait_for_load_state("networkidle")
        fits(seen, f"site-{page.strip('/').replace('/', '-') or 'standings'}")
        for scheme in SCHEMES if page in IN_THE_DARK else SCHEMES[:1]:
            without_violations(seen, scheme)


@pytest.mark.release
@pytest.mark.parametrize("page", [page for page in PAGES if page not in IN_THE_DARK])
def test_the_others_can_be_read_in_the_dark(chromium: Browser, address: str, page: str) -> None:
    with visited(chromium, f"{address}{page}?season=s1", allowed=(f"{address}/",)) as seen:
        without_violations(seen, "dark")


def test_a_page_that_there_is_not_looks_like_the_others(chromium: Browser, address: str) -> None:
    # It is an error on the console.
    context = chromium.new_context()
    try:
        seen = context.new_page()
        seen.goto(f"{address}/nothing")
        fits(seen, "site-nothing")
        for scheme in SCHEMES:
            without_violations(seen, scheme)
    finally:
        context.close()


def test_the_choice_of_colours_stays_from_page_to_page(chromium: Browser, address: str) -> None:
    with visited(chromium, f"{address}/?season=s1", allowed=(f"{address}/",)) as page:
        paper = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(paper)
        page.get_by_label("Colours").select_option("dark")
        dark = page.evaluate(paper)
        assert dark != light
        page.get_by_role("link", name="anna").first.click()
        expect(page.locator("h1")).to_contain_text("anna")
        assert page.evaluate(paper) == dark
        page.get_by_label("Colours").select_option("auto")
        assert page.evaluate(paper) == light


def test_bars_of_skill_take_a_quarter_of_a_phone(chromium: Browser, address: str) -> None:
    url = f"{address}/?season=s1"
    with visited(chromium, url, width=360, allowed=(f"{address}/",)) as page:
        box = page.locator("td.skill").first.bounding_box()
        assert box is not None
        assert box["width"] <= 360 / 4


def test_the_course_is_read_by_pointer_and_by_keys(chromium: Browser, address: str) -> None:
    url = f"{address}/bots/anna?season=s1"
    with visited(chromium, url, allowed=(f"{address}/",)) as page:
        said = page.locator(".course output")
        slider = page.get_by_label("Point of the rating course")
        expect(said).to_contain_text("game 16, v2: rating")
        slider.press("Home")
        expect(said).to_contain_text("game 1, v1: rating")
        slider.press("ArrowRight")
        expect(said).to_contain_text("game 2, v1: rating")
        assert slider.get_attribute("aria-valuetext") == said.text_content()
        page.locator(".course .broad svg").hover()
        expect(said).to_contain_text("game 8, v1: rating")
        page.set_viewport_size({"width": 360, "height": 740})
        narrow = page.locator(".course .narrow svg")
        box = narrow.bounding_box()
        assert box is not None
        narrow.hover(position={"x": box["width"] - 9, "y": 80})
        expect(said).to_contain_text("game 16, v2: rating")
        expect(page.locator(".course .narrow .at")).to_be_visible()
        expect(page.locator(".course .broad svg")).to_be_hidden()
