"""The pages of the site in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from deepsea_ladder.accounts import MACHINE
from deepsea_ladder.store import Store
from helpers import ladder
from helpers.chromium import SCHEMES, fits, visited, without_violations
from helpers.listening import site_at
from helpers.site import a_site
from helpers.tiers import daily

pytestmark = pytest.mark.slow
PAGES = (
    *("/?season=s1", "/games", "/bots/anna?season=s1", "/bots/newcomer", "/games/s1-3?turn=12"),
    *("/pairs?season=s1", "/tournaments", "/tournaments/cup", "/how", "/start", "/tv", "/feed"),
)
# All pages have their colours from one file and are made of the same parts: these are looked at in
# every run, the first ones in the dark too, and the others before a release.
IN_THE_DARK = ("/?season=s1", "/bots/anna?season=s1", "/games/s1-3?turn=12")
IN_EVERY_RUN = (*IN_THE_DARK, "/pairs?season=s1", "/start")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a ladder with six bots in two seasons, a former version, a newcomer, an elimination."""
    path = tmp_path_factory.mktemp("site") / "ladder.db"
    with ladder.created(path) as store:
        season = ladder.stocked(store, 6)
        other = store.seasons.open(ladder.a_season("s2"), ladder.SEED)
        for rated in (season, other):
            store.jobs.add(rated, ladder.rotations(ladder.ids(store)[:4], 4) * 2)
            ladder.play_all(store, rated, {"s1-3": ["ben"]})
        ladder.submit(store, "anna", "better", "anna-senior")
        store.jobs.add(season, ladder.rotations(ladder.ids(store)[:4], 4) * 2)
        store.jobs.add(season, ladder.rotations(ladder.ids(store)[2:], 4))
        ladder.play_all(store, season)
        store.bots.withdraw("finn")
        ladder.submit(store, "newcomer")
        ladder.a_cup(store)
    with Store.open(path) as store, site_at(a_site(store)) as url:
        yield url


@pytest.mark.parametrize("page", daily(PAGES, IN_EVERY_RUN))
def test_a_page_fits_and_breaks_no_rule(chromium: Browser, address: str, page: str) -> None:
    with visited(chromium, address + page) as seen:
        seen.wait_for_load_state("networkidle")
        assert seen.locator("h1").count() == 1
        fits(seen, f"site{page.partition('?')[0].replace('/', '-')}")
        for scheme in SCHEMES if page in IN_THE_DARK else SCHEMES[:1]:
            without_violations(seen, scheme)


@pytest.mark.release
@pytest.mark.parametrize("page", [page for page in PAGES if page not in IN_THE_DARK])
def test_the_others_can_be_read_in_the_dark(chromium: Browser, address: str, page: str) -> None:
    with visited(chromium, address + page, width=360) as seen:
        seen.wait_for_load_state("networkidle")
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
    with visited(chromium, f"{address}/?season=s1") as page:
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


FAST_CLOCK = "const now = Date.now; Date.now = () => now() + 7_200_000;"


@pytest.mark.parametrize(
    ("zone", "time"),
    [
        ("UTC", r"[-\d]+ \d\d:\d\d UTC"),
        ("Asia/Tokyo", r"[-\d]+ \d\d:\d\d \(([-\d]+ )?\d\d:\d\d UTC\)"),
    ],
)
def test_a_deadline_is_in_the_readers_zone_and_goes_by_the_clock_of_the_ladder(
    chromium: Browser, tmp_path: Path, zone: str, time: str
) -> None:
    with ladder.created(tmp_path / "ladder.db") as store:
        ladder.stocked(store)
        store.seasons.set_deadline("s1", store.now() + 50 * 60_000, MACHINE)
        context = chromium.new_context(timezone_id=zone)
        try:
            with site_at(a_site(store)) as url:
                page = context.new_page()
                page.add_init_script(FAST_CLOCK)
                for path in ("/", "/start"):
                    page.goto(url + path)
                    page.wait_for_load_state("networkidle")
                    assert page.evaluate("Date.now()") > store.now() + 7_000_000
                    said = page.locator("p.facts", has_text="takes in bots until").inner_text()
                    assert re.search(rf"until {time}, in (49|50) min(\. Each|$)", said)
                    assert said.endswith((" min", "typed into a terminal."))
        finally:
            context.close()


def test_bars_of_skill_take_a_quarter_of_a_phone(chromium: Browser, address: str) -> None:
    url = f"{address}/?season=s1"
    with visited(chromium, url, width=360) as page:
        box = page.locator("td.skill").first.bounding_box()
        assert box is not None
        assert box["width"] <= 360 / 4


def test_the_course_is_read_by_pointer_and_by_keys(chromium: Browser, address: str) -> None:
    url = f"{address}/bots/anna?season=s1"
    with visited(chromium, url) as page:
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


def test_a_link_leads_to_a_turn_as_a_seat_knew_it(chromium: Browser, address: str) -> None:
    url = f"{address}/games/s1-3?turn=12&seat=B"
    with visited(chromium, url) as page:
        expect(page.locator(".ds-status")).to_contain_text("Turn 12 of")
        expect(page.locator("#ds-view")).to_have_value("B")
        expect(page.locator(".ds-knows")).to_contain_text("What B knew at this moment.")
        page.keyboard.press("ArrowRight")
        assert "seat=B" in page.url
        assert "turn=13" in page.url
        page.select_option("#ds-view", "watcher")
        expect(page.locator(".ds-knows")).to_contain_text("What everybody knew at this moment.")


def test_every_turn_in_the_list_is_a_target_for_fingers(chromium: Browser, address: str) -> None:
    with visited(chromium, f"{address}/games/s1-3", width=360) as page:
        page.locator(".ds-turns a").first.wait_for(state="attached")
        heights = page.locator(".ds-turns a").evaluate_all(
            "all => all.map((one) => one.getBoundingClientRect().height).filter((high) => high)"
        )
        assert heights
        assert min(heights) >= 24


def test_tv_is_the_same_for_everybody_and_results_come(chromium: Browser, address: str) -> None:
    url = f"{address}/tv"
    with visited(chromium, url) as one, visited(chromium, url) as other:
        for page in (one, other):
            expect(page.locator("#shown a")).to_contain_text("Game ")
            expect(page.locator("#state")).to_have_text("Newer results come by themselves.")
            expect(page.locator(".ds-board")).to_be_visible()
        assert one.inner_text("#shown") == other.inner_text("#shown")
        one.click("#pause")
        expect(one.locator("#pause")).to_have_text("Follow")
        assert one.url == url  # the place is the server's, and in no address


def test_with_reduced_motion_tv_waits(chromium: Browser, address: str) -> None:
    with visited(chromium, f"{address}/tv", reduced_motion="reduce") as page:
        expect(page.locator("#shown a")).to_contain_text("Game ")
        expect(page.locator("#pause")).to_have_text("Follow")
