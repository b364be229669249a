"""The pages of games, pairs and tournaments in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from deepsea_ladder.store import Store
from helpers import ladder
from helpers.chromium import SCHEMES, fits, visited, without_violations
from helpers.listening import site_at
from helpers.site import a_site
from helpers.tiers import daily

pytestmark = pytest.mark.slow
PAGES = (
    "/games/s1-3?turn=12",
    "/embed/games/s1-3",
    "/embed/standings",
    "/pairs?season=s1",
    "/tournaments",
    "/tournaments/cup",
    "/how",
    "/start",
    "/tv",
    "/feed",
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The site of a ladder with games of six bots, and an elimination."""
    path = tmp_path_factory.mktemp("site") / "ladder.db"
    with Store.create(path) as store:
        season = ladder.stocked(store, 6)
        store.jobs.add(season, ladder.rotations(ladder.ids(store)[:4], 4))
        store.jobs.add(season, ladder.rotations(ladder.ids(store)[2:], 4))
        ladder.play_all(store, season, {"s1-3": ["ben"]})
        ladder.a_cup(store)
    with Store.open(path, read_only=True, public=True) as store, site_at(a_site(store)) as url:
        yield url


IN_EVERY_RUN = ("/games/s1-3?turn=12", "/embed/standings", "/pairs?season=s1", "/start")
"""One of each kind: the others are made of the same parts, and are looked at before a release."""


@pytest.mark.parametrize("page", daily(PAGES, IN_EVERY_RUN))
def test_a_page_fits_and_breaks_no_rule(chromium: Browser, address: str, page: str) -> None:
    own = (f"{address}/",)
    with visited(chromium, address + page, allowed=own) as seen:
        seen.wait_for_load_state("networkidle")
        assert seen.locator("h1").count() == 1
        fits(seen, f"site{page.replace('/', '-').partition('?')[0]}")
        # All pages have their colours from one file: one in the dark in every run.
        for scheme in SCHEMES if page == PAGES[0] else SCHEMES[:1]:
            without_violations(seen, scheme)


@pytest.mark.release
@pytest.mark.parametrize("page", PAGES[1:])
def test_the_others_can_be_read_in_the_dark(chromium: Browser, address: str, page: str) -> None:
    own = (f"{address}/",)
    with visited(chromium, address + page, allowed=own, width=360) as seen:
        seen.wait_for_load_state("networkidle")
        without_violations(seen, "dark")


def test_a_link_leads_to_a_turn_as_a_seat_knew_it(chromium: Browser, address: str) -> None:
    url = f"{address}/games/s1-3?turn=12&seat=B"
    with visited(chromium, url, allowed=(f"{address}/",)) as page:
        expect(page.locator(".ds-status")).to_contain_text("Turn 12 of")
        expect(page.locator("#ds-view")).to_have_value("B")
        expect(page.locator(".ds-knows")).to_contain_text("What B knew at this moment.")
        page.keyboard.press("ArrowRight")
        assert "seat=B" in page.url
        assert "turn=13" in page.url
        page.select_option("#ds-view", "watcher")
        expect(page.locator(".ds-knows")).to_contain_text("What everybody knew at this moment.")


def test_every_turn_in_the_list_is_a_target_for_fingers(chromium: Browser, address: str) -> None:
    with visited(chromium, f"{address}/games/s1-3", width=360, allowed=(f"{address}/",)) as page:
        page.locator(".ds-turns a").first.wait_for(state="attached")
        heights = page.locator(".ds-turns a").evaluate_all(
            "all => all.map((one) => one.getBoundingClientRect().height).filter((high) => high)"
        )
        assert heights
        assert min(heights) >= 24


def test_tv_is_the_same_for_everybody_and_results_come(chromium: Browser, address: str) -> None:
    own = (f"{address}/",)
    url = f"{address}/tv"
    with visited(chromium, url, allowed=own) as one, visited(chromium, url, allowed=own) as other:
        for page in (one, other):
            expect(page.locator("#shown a")).to_contain_text("Game ")
            expect(page.locator("#state")).to_have_text("Newer results come by themselves.")
            expect(page.locator(".ds-board")).to_be_visible()
        assert one.inner_text("#shown") == other.inner_text("#shown")
        one.click("#pause")
        expect(one.locator("#pause")).to_have_text("Follow")
        assert one.url == url  # the place is the server's, and in no address


def test_with_reduced_motion_tv_waits(chromium: Browser, address: str) -> None:
    own = (f"{address}/",)
    with visited(chromium, f"{address}/tv", allowed=own, reduced_motion="reduce") as page:
        expect(page.locator("#shown a")).to_contain_text("Game ")
        expect(page.locator("#pause")).to_have_text("Follow")
