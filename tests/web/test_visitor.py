"""The site for somebody to whom nobody explains it: what this is, and how to take part."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from deepsea_arena.api.local import ladder_of
from deepsea_ladder.store import Store
from deepsea_sdk import __version__
from helpers import ladder
from helpers.chromium import visited
from helpers.commands import Run
from helpers.listening import site_at
from helpers.members import Person, a_service
from helpers.site import a_site, get

HASH = re.compile(r"\b[0-9a-f]{64}\b")
WIDE = "W" * 40
WIDTHS = (320, 360, 384, 385, 390, 768, 820, 1024, 1100, 1101, 1200, 1400)


def read(html: str) -> str:
    """The text of a page's main part, in one line."""
    main = html.partition("<main")[2].partition("</main>")[0]
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", main)))


def test_the_first_page_says_what_this_is_and_how_to_take_part(played: Store) -> None:
    html = get(a_site(played), "/").text
    welcome = html[html.index('class="for-visitors welcome"') : html.index("<table")]
    text = re.sub(r"<[^>]+>", "", welcome.partition("</div>")[0])
    assert "board game" in text
    assert "takes part" in text
    assert re.findall(r'href="([^"]+)"', welcome.partition("</div>")[0]) == ["/how", "/start"]


@pytest.mark.parametrize("line", ["", "pipx install https://files.example/deepsea.whl"])
def test_the_way_to_a_first_bot_begins_with_a_line_that_installs(played: Store, line: str) -> None:
    html = get(a_site(a_service(played, install=line)), "/start").text
    lines = [unescape(one) for one in re.findall(r"data-copy>(.*?)<", html)]
    assert (line or f"pip install deepsea-referee=={__version__}") in lines
    assert not any("./sdk" in one for one in lines)
    assert "folder of the project" not in html
    assert all(map(shlex.split, lines))


def test_a_visitor_who_may_not_play_is_told_once_to_log_in(played: Store) -> None:
    text = read(Person(a_site(a_service(played))).get("/play").text)
    assert "log in Log in" not in text
    assert len(re.findall("log in", text, re.IGNORECASE)) == 1


def test_hashes_are_shortened_with_the_way_to_the_whole(
    played: Store, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    head = played.seasons.get("s1").head
    html = get(a_site(played), "/").text
    outside = re.sub(r"(?s)<details.*?</details>", "", html)
    assert not HASH.search(outside)
    assert head in html
    monkeypatch.setenv("DEEPSEA_LADDER", str(played.database.path))
    printed = run("ladder", "standings").out
    assert head[:16] in printed
    assert "--json" in printed
    bot = tmp_path / "otter.py"
    bot.write_text("from deepsea_bots.greedy import *\n", encoding="utf-8")
    monkeypatch.setenv("DEEPSEA_LADDER", str(tmp_path / "new.db"))
    opened = run("ladder", "init", "--isolation", "process").out
    assert "commitment" in opened
    for text in (printed, opened):
        assert not HASH.search(text)


@pytest.mark.parametrize("rated", [True, False])
def test_a_bot_in_a_closed_season_is_the_version_of_its_table(
    played: Store, run: Run, monkeypatch: pytest.MonkeyPatch, rated: bool
) -> None:
    """Whatever is submitted later, also if that plays in another season by now."""
    links = re.findall(r'href="(/bots/[^"]+)"', get(a_site(played), "/?season=s1").text)
    table = {line.bot: line for line in ladder_of(played).standings(season="s1").standings}
    played.seasons.close("s1")
    other = played.seasons.open(ladder.a_season("s2"), ladder.SEED)
    ladder.submit(played, "anna", "better", "anna-senior")
    if rated:
        played.jobs.add(other, ladder.rotations(ladder.ids(played)[:4], 4))
        ladder.play_all(played, other)
    ladder.submit(played, "anna", "best", "anna-senior")
    profile = ladder_of(played).bot(bot="anna", season="s1")
    assert profile.standing is not None
    assert (profile.version, profile.standing.rank) == (1, table["anna"].rank)
    assert len(profile.newest) == 8
    assert len(links) == len(table)
    for link in links:
        html = get(a_site(played), unescape(link)).text
        assert "has not played in this season" not in html
        assert '<span class="soft">v1</span></h1>' in html
    monkeypatch.setenv("DEEPSEA_LADDER", str(played.database.path))
    printed = run("ladder", "bot", "anna", "--season", "s1").out
    assert "version 1 in season s1" in printed
    assert "it has not played yet" not in printed
    # Any version can be asked for.
    assert ladder_of(played).bot(bot="anna", season="s1", version=2).version == 2
    newcomer = ladder.submit(played, "newcomer")
    assert ladder_of(played).bot(bot="newcomer", season="s1").version == newcomer.number


@pytest.fixture(scope="module")
def address(played_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The site of a ladder with a bot and an author of 40 wide letters, which have played."""
    path = shutil.copy(played_file, tmp_path_factory.mktemp("wide"))
    with Store.open(path) as store:
        ladder.submit(store, WIDE, "wide", "M" * 40)
        season = store.seasons.get("s1")
        wide = store.bots.get(WIDE).current.id
        store.jobs.add(season, ladder.rotations([*ladder.ids(store)[:3], wide], 4))
        ladder.play_all(store, season)
        with site_at(a_site(store)) as url:
            yield url


PAGES = ("/", "/games", f"/bots/{WIDE}", "/bots/anna", "/pairs", "/feed", "/play")


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES)
def test_wide_names_fit_every_window(chromium: Browser, address: str, path: str) -> None:
    with visited(chromium, address + path) as seen:
        for width in WIDTHS:
            seen.set_viewport_size({"width": width, "height": 800})
            assert seen.evaluate("document.documentElement.scrollWidth") <= width, width


@pytest.mark.slow
@pytest.mark.parametrize("scripts", [True, False])
def test_narrow_windows_have_one_row_with_a_menu(
    chromium: Browser, address: str, scripts: bool
) -> None:
    with visited(chromium, f"{address}/how", java_script_enabled=scripts) as seen:
        wide = seen.get_by_role("navigation", name="Pages")
        menu = seen.get_by_role("navigation", name="Menu")
        for width in WIDTHS:
            seen.set_viewport_size({"width": width, "height": 800})
            box = seen.locator("header.top").bounding_box()
            assert box is not None
            assert box["height"] <= 64, width
            assert wide.is_visible() != menu.is_visible()
        seen.set_viewport_size({"width": 390, "height": 800})
        menu.get_by_text("Menu").click()
        expect(menu.get_by_role("link", name="Tournaments")).to_be_visible()
        menu.get_by_role("link", name="Games").click()
        expect(seen.get_by_role("heading", level=1)).to_have_text("Games")
