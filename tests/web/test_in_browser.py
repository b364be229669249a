"""The self-contained page in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, expect

from deepsea_arena.frames import frames
from deepsea_rules.game import GameRecord
from deepsea_web.assets import PageGame, game_page
from helpers.chromium import SCHEMES, fits, keep_screenshot, visited, without_violations
from helpers.commands import faulty, played, record_of
from helpers.pages import HOSTILE, hostile_record
from helpers.tiers import daily

pytestmark = pytest.mark.slow


PAGES = ["two", "faults", "four", "six", "several"]


def timed(record: GameRecord) -> GameRecord:
    """The record with times that differ, as those of real bots do."""
    decisions = [
        decision._replace(us=200 * (index * index % 89 + 1) * (decision.seat + 1))
        for index, decision in enumerate(record.decisions)
    ]
    return replace(record, decisions=tuple(decisions))


def write(folder: Path, *records: GameRecord) -> str:
    """The address of a page with these games, without a hash."""
    path = folder / "games.html"
    games = [PageGame.of_record(record, f"game-{n:04}.json") for n, record in enumerate(records, 1)]
    path.write_text("".join(game_page(games)), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Addresses of pages by what is on them."""
    found = {
        "two": [record_of(played(players=2))],
        "faults": [record_of(faulty())],
        "four": [record_of(played("publisher", 4))],
        "six": [record_of(played("guide", 6, "e"))],
        "several": [record_of(played(salt=salt)) for salt in "abc"],
    }
    return {
        name: write(tmp_path_factory.mktemp(name), *map(timed, records))
        for name, records in found.items()
    }


@pytest.fixture
def page(chromium: Browser, games: dict[str, str]) -> Iterator[Page]:
    """A game of three with faults."""
    with visited(chromium, games["faults"]) as page:
        yield page


def status(page: Page) -> str:
    return page.inner_text(".ds-status")


def turn(page: Page) -> int:
    return int(status(page).split()[1])


@pytest.mark.parametrize("name", daily(PAGES, ["six", "several"]))
def test_a_page_is_complete_and_fits(chromium: Browser, games: dict[str, str], name: str) -> None:
    with visited(chromium, f"{games[name]}#turn=30") as page:
        expect(page.locator(".ds-status")).to_contain_text("Turn 30 of")
        fits(page, name)


@pytest.mark.parametrize(("name", "width"), [("six", 360), ("several", 1280)])
def test_axe_finds_nothing(chromium: Browser, games: dict[str, str], name: str, width: int) -> None:
    with visited(chromium, f"{games[name]}#turn=30", width=width) as page:
        expect(page.locator(".ds-status")).to_contain_text("Turn 30 of")
        for scheme in SCHEMES:
            without_violations(page, scheme)
        page.click("button[aria-label^=help]")
        for scheme in SCHEMES:
            without_violations(page, scheme, "dialog")


def test_keys_move_through_the_game(page: Page) -> None:
    press = page.keyboard.press
    assert turn(page) == 0
    press("ArrowRight")
    press("ArrowRight")
    assert turn(page) == 1
    press("ArrowLeft")
    press("ArrowLeft")
    assert turn(page) == 0
    press("End")
    last = turn(page)
    assert status(page).startswith(f"Turn {last} of {last}")
    expect(page.locator(".ds-say")).to_contain_text("the game is over")
    press("n")
    assert turn(page) == last
    press("Home")
    press("n")
    event = turn(page)
    press("n")
    press("p")
    assert 0 < turn(page) == event
    press("?")
    expect(page.locator("dialog")).to_be_visible()
    press("ArrowRight")
    assert turn(page) == event
    press("Escape")
    expect(page.locator("dialog")).to_be_hidden()


def test_keys_in_a_control_are_the_controls_own(page: Page) -> None:
    page.focus("#ds-view")
    page.keyboard.press("n")
    assert turn(page) == 0
    page.focus("input[type=range]")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert turn(page) == 1
    assert page.get_attribute("input[type=range]", "aria-valuetext") == status(page).lower()


def test_it_plays_by_itself_until_it_is_stopped_or_over(page: Page) -> None:
    page.select_option("select[aria-label=speed]", "10")
    page.locator("h2").first.click()
    page.keyboard.press(" ")
    expect(page.locator(".ds-play")).to_have_attribute("aria-label", "pause")
    expect(page.locator(".ds-status")).to_contain_text(re.compile("Turn [3-9]"))
    page.keyboard.press(" ")
    expect(page.locator(".ds-play")).to_have_attribute("aria-label", "play")
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    page.click(".ds-play")
    expect(page.locator(".ds-say")).to_contain_text("the game is over")
    expect(page.locator(".ds-play")).to_have_attribute("aria-label", "play")


def test_the_address_says_where_one_is(chromium: Browser, games: dict[str, str]) -> None:
    with visited(chromium, f"{games['six']}#turn=36&seat=B") as page:
        assert turn(page) == 36
        assert page.input_value("#ds-view") == "B"
        page.keyboard.press("ArrowLeft")
        address = page.url
        shown = page.inner_html(".ds-board")
        page.goto("about:blank")
        page.goto(address)
        expect(page.locator(".ds-status")).to_contain_text("Turn")
        assert page.inner_html(".ds-board") == shown
        page.evaluate("location.hash = 'turn=20'")
        expect(page.locator(".ds-status")).to_contain_text("Turn 20 of")


@pytest.mark.parametrize(
    ("name", "hash_", "sentence"),
    [
        ("faults", {"turn": "9999"}, "The game has the turns 0 to "),
        ("faults", {"seat": "F"}, "There is no view called F; there are all, watcher, A, B, C."),
        ("several", {"game": "<b>x</b>"}, "There are the games 1 to 3, not <b>x</b>."),
    ],
)
def test_a_wrong_address_costs_a_sentence(
    chromium: Browser, games: dict[str, str], name: str, hash_: dict[str, str], sentence: str
) -> None:
    with visited(chromium, f"{games[name]}#{urlencode(hash_)}") as page:
        expect(page.locator(".ds-notice").filter(has_text=sentence)).to_be_visible()


def test_a_seat_sees_what_it_knew_when_it_took_its_last_treasure(
    chromium: Browser, games: dict[str, str]
) -> None:
    record = timed(record_of(played("guide", 6, "e")))
    seen = frames(record, 1)
    row = [one for one in seen["decisions"] if (one["seat"], one["action"]) == (1, "take")][-1]
    with visited(chromium, games["six"]) as page:
        page.keyboard.press("End")
        page.locator(".ds-card").nth(1).get_by_role("link").click()
        assert page.input_value("#ds-view") == "B"
        expect(page.locator(".ds-asked")).to_contain_text("decides (search): take")
        expect(page.locator(".ds-knows")).to_contain_text("What B knew at this moment.")
        assert turn(page) == seen["frames"][row["at"]]["t"]
        trail = page.locator("[data-unit]").evaluate_all("all => all.map(e => e.dataset.unit)")
        assert " ".join(trail) == seen["frames"][row["at"]]["p"].split(" | ")[0]


def test_the_games_of_a_folder_are_chosen_from_a_list(
    chromium: Browser, games: dict[str, str]
) -> None:
    with visited(chromium, games["several"]) as page:
        second = page.get_by_role("navigation").get_by_role("link").nth(1)
        before = page.inner_html(".ds-board")
        second.click()
        expect(second).to_have_attribute("aria-current", "true")
        assert page.inner_html(".ds-board") != before
        assert page.url.endswith("#game=2&turn=0")
        assert page.locator(".ds-viewer").count() == 1


def test_what_is_copied_and_downloaded_is_the_game(page: Page, tmp_path: Path) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.keyboard.press("End")
    record = timed(record_of(faulty()))
    page.get_by_role("button", name="Copy position").click()
    expect(page.locator(".ds-notice").filter(has_text="done")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == record.final
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator(".ds-notice").filter(has_text="Copy link")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    with page.expect_download() as download:
        page.get_by_role("button", name="Download record").click()
    assert download.value.path().read_text() == record.to_json()
    assert download.value.suggested_filename == "game-0001.json"


def test_a_file_of_frames_is_opened(page: Page, tmp_path: Path) -> None:
    record = record_of(played(players=2, salt="dropped"))
    shown = json.dumps(frames(record))
    newer = json.dumps({**frames(record), "v": 2})
    cases = [
        (shown, None),
        (newer, "these frames have version 2, this viewer knows version 1"),
        (record.to_json(), "show RECORD --frames"),
        ("[]", "no frames of a game"),
        ("null", "no frames of a game"),
        ("{", "is no JSON"),
        (shown.replace("d1 a", "d1 b"), "This game cannot be shown"),
    ]
    for text, sentence in cases:
        path = tmp_path / "frames.json"
        path.write_text(text)
        page.set_input_files("input[type=file]", path)
        if sentence is None:
            expect(page.locator(".ds-card")).to_have_count(2)
        else:
            expect(page.get_by_role("alert").filter(has_text=sentence)).to_be_visible()


def test_a_dropped_file_is_opened(page: Page) -> None:
    text = json.dumps(frames(record_of(played(players=2, salt="dropped"))))
    page.evaluate(
        """text => {
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([text], "frames.json"));
            document.dispatchEvent(new DragEvent("drop", { dataTransfer }));
        }""",
        text,
    )
    expect(page.locator(".ds-card")).to_have_count(2)


def test_a_screen_reader_gets_the_board_and_the_news(page: Page) -> None:
    assert page.locator("ol[aria-label='the board'] li").count() == 1 + 3 + 32
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    news = page.inner_text("[aria-live=polite]")
    assert news == " ".join(page.inner_text(".ds-say p").split())
    assert news[1] in "▼▲"


def test_reduced_motion_is_kept(chromium: Browser, games: dict[str, str]) -> None:
    moving = "document.getAnimations().length"
    for motion, found in (("reduce", 0), ("no-preference", 1)):
        with visited(chromium, f"{games['two']}#turn=3", reduced_motion=motion) as page:
            page.keyboard.press("ArrowRight")
            assert page.evaluate(moving) == found


def test_colours_are_chosen_and_remembered(chromium: Browser, games: dict[str, str]) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    with visited(chromium, games["two"], scheme="light") as page:
        light = page.evaluate(colour)
        page.select_option("select[aria-label=colours]", "dark")
        dark = page.evaluate(colour)
        assert dark != light
        page.reload()
        assert page.evaluate(colour) == dark


def test_untrusted_texts_do_nothing(chromium: Browser, tmp_path: Path) -> None:
    url = write(tmp_path, *map(hostile_record, HOSTILE))
    with visited(chromium, url, width=360) as page:
        links = page.get_by_role("navigation").get_by_role("link")
        assert links.count() == len(HOSTILE)
        for index in range(len(HOSTILE)):
            links.nth(index).click()
            page.keyboard.press("End")
            expect(page.locator(".ds-say")).to_contain_text("the game is over")
            assert page.evaluate("document.documentElement.scrollWidth") <= 360
            assert page.title() != "owned"
            assert page.locator("main img, main script, main iframe").count() == 0
            heights = page.locator(".ds-name").evaluate_all("all => all.map(e => e.clientHeight)")
            assert max(heights) <= 40
        keep_screenshot(page, "hostile-360")
