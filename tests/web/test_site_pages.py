"""What the pages of the site show: standings, games, a bot; and texts that try to be more."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from sqlalchemy import text as sql

from deepsea_arena.bots import bot_profile
from deepsea_arena.standings import show_standings
from deepsea_ladder.store import Store
from deepsea_web.site.app import Site
from helpers import comparisons, ladder
from helpers.pages import DAILY, HOSTILE
from helpers.site import a_site, get
from helpers.tiers import daily


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ladder with eight games between four bots, one of which crashed twice, and a newcomer."""
    path = ladder.played(tmp_path_factory.mktemp("site") / "ladder.db")
    with Store.open(path) as store:
        ladder.submit(store, "bar.csv", "its files", "a.b-c_d")
    return path


@pytest.fixture
def store(pattern: Path, tmp_path: Path) -> Iterator[Store]:
    """A copy of that ladder."""
    with Store.open(shutil.copy(pattern, tmp_path)) as store:
        yield store


@pytest.fixture
def site(pattern: Path) -> Iterator[Site]:
    with Store.open(pattern) as store:
        yield a_site(store)


def words(html: str) -> str:
    """What is read of a page, in one line."""
    main = html.partition("<main")[2].partition("</main>")[0]
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", main)))


def test_a_reader_chooses_the_best_bot_of_each_author(store: Store) -> None:
    ladder.submit(store, "andy", author="anna-senior")
    listed = {
        flag: {
            row["bot"]
            for row in rows(get(a_site(store), f"/?best_of_author={flag}&format=csv").text)
        }
        for flag in (0, 1)
    }
    assert listed[0] - listed[1] == {"andy"}
    assert len(listed[0]) == 6


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_standings_list_everybody_with_numbers_and_bars(site: Site) -> None:
    html = get(site, "/").text
    page = show_standings(site.store)
    assert html.count('<svg class="bar"') == len(page.standings) == 5
    assert "Season s1 · 8 games" in words(html)
    for line in page.standings:
        assert f'href="/bots/{line.bot}"' in html
    best = page.standings[0]
    assert f"{best.rating:.1f}" in words(html)
    assert f"{best.best_rank}–{best.worst_rank}" in words(html)
    # The name of a bot may end like a file's.
    assert get(site, "/bots/bar.csv").status == 200
    assert '<tr class="new">' in html


def test_the_standings_are_the_same_as_csv(site: Site) -> None:
    page = show_standings(site.store)
    lines = rows(get(site, "/?format=csv").text)
    assert [line["bot"] for line in lines] == [line.bot for line in page.standings]
    assert float(lines[0]["mu"]) == page.standings[0].mu


@pytest.mark.parametrize(
    ("query", "bots"),
    [
        ("find=AN", {"anna", "dan"}),
        ("find=a.b-", {"bar.csv"}),
        ("find=nobody", set()),
        ("season=s1&find=", {"anna", "ben", "cleo", "dan", "bar.csv"}),
    ],
)
def test_standings_are_filtered_by_a_part_of_a_name(site: Site, query: str, bots: set[str]) -> None:
    assert {line["bot"] for line in rows(get(site, f"/?{query}&format=csv").text)} == bots
    if not bots:
        assert "No bot is listed here." in get(site, f"/?{query}").text


def test_games_lead_from_page_to_page_to_the_oldest(site: Site) -> None:
    url, seen = "/games?limit=3", []
    while url:
        html = get(site, url).text
        seen += re.findall(r'<a href="/games/(s1-\d+)">', html)
        older = re.search(r'<a href="([^"]+)" rel="next">', html)
        url = unescape(older[1]) if older else ""
        assert not older or "limit=3" in url
    assert seen == [f"s1-{number}" for number in range(8, 0, -1)]


def test_games_are_filtered(site: Site) -> None:
    def found(query: str) -> list[str]:
        seats = rows(get(site, f"/games?{query}&format=csv").text)
        return list(dict.fromkeys(seat["game_id"] for seat in seats))

    assert found("bot=ben&faults=1") == ["s1-5", "s1-2"]
    assert found("bot=BEN&against=anna&lost=1&faults=1") == ["s1-5", "s1-2"]
    assert found("bot=bar.csv") == []
    assert "There are no such games." in get(site, "/games?bot=bar.csv").text
    for query in ("lost=1", "against=ben"):
        assert get(site, f"/games?{query}").status == 400
    assert get(site, "/games?bot=nobody").status == 404
    for query in ("limit=-1", "limit=501", "before=x", "before=%C2%B2"):
        assert get(site, f"/games?{query}").status == 400
    seats = rows(get(site, "/games?limit=2&format=csv").text)
    assert [seat["game_id"] for seat in seats] == ["s1-8"] * 4 + ["s1-7"] * 4
    assert [seat["seat"] for seat in seats[:4]] == ["0", "1", "2", "3"]
    assert "!</abbr>" in get(site, "/games?bot=ben").text


def test_the_page_of_a_bot(site: Site) -> None:
    html = get(site, "/bots/ben").text
    said = words(html)
    assert "ben v1" in said
    assert "ben: after 8 rated games its rating is" in said
    assert "crash: 2 faults in 2 games" in said
    assert bot_profile(site.store, "ben").versions[0].digest[:16] in said
    assert html.count('href="/games/s1-') == 8
    assert "+" in said
    assert "\N{MINUS SIGN}" in said
    points = json.loads(unescape(re.findall(r'data-points="([^"]+)"', html)[0]))
    assert [point[0] for point in points] == [*range(1, 9)]
    course = rows(get(site, "/bots/ben?format=csv").text)
    assert [row["game"] for row in course] == [str(number) for number in range(1, 9)]


def test_a_bot_that_has_not_played_has_a_page(site: Site) -> None:
    html = get(site, "/bots/bar.csv").text
    assert "has not played in this season yet" in html
    assert "SHA-256 of its files" in html
    assert "<figure" not in html
    assert get(site, "/bots/bar.csv?format=csv").text == "game,version,rating,mu,sigma\r\n"


def test_bots_that_there_are_not(site: Site) -> None:
    for url, status in (
        *(
            ("nobody", 404),
            ("ben?version=2", 404),
            ("ben?version=-1", 404),
            ("ben?version=one", 400),
        ),
        *(("ben?season=s9", 404), ("", 404), ("ben/", 404), ("a%2Fb", 404), ("x" * 5000, 404)),
        *(("%3Cscript%3E", 404), ("o'neil", 404), ("a+b", 404)),
    ):
        answer = get(site, f"/bots/{url}")
        assert answer.status == status, url
        assert "<script>" not in answer.text
        assert len(answer.text) < 4000


@pytest.mark.parametrize("text", daily(HOSTILE, DAILY[:1]), ids=range(len(HOSTILE)))
def test_names_in_a_store_are_texts_and_nothing_else(store: Store, text: str) -> None:
    """A store that somebody else wrote may have any name in it."""
    name = text[:1000].encode(errors="replace").decode()
    with store.database.write() as connection:
        given = {"name": name, "key": name.lower()}
        connection.execute(sql("UPDATE bots SET name = :name, name_key = :key WHERE id = 1"), given)
        connection.execute(sql("UPDATE authors SET name = :name WHERE id = 1"), given)
        connection.execute(
            sql("UPDATE bots SET reason = :name, state = 'disabled' WHERE id = 2"), given
        )
    site = a_site(store)
    for url in (
        *("/", "/?all=1", "/games", "/bots/ben", "/bots/dan", "/games/s1-1"),
        *("/pairs", "/feed", "/tv"),
    ):
        html = get(site, url).text
        assert "<script>document" not in html
        assert "<img src=x" not in html
        assert "\u202e" not in html
        assert "\x1b" not in html
        assert html.count("<h1") == 1
    for url in ("/?format=csv&all=1", "/games?format=csv"):
        assert get(site, url).status == 200
    lines = get(site, "/pairs?format=csv").text.splitlines()
    assert not any(line.startswith(("=", "+", "-", "@")) for line in lines)
    links = re.findall(r'href="([^"]*)"', get(site, "/?all=1").text)
    own = [link for link in links if link.startswith("/bots/")]
    assert len(own) == 5
    for link in own:
        assert re.fullmatch(r"/bots/[\w./~%!$'()*,;:@+-]+(\?[\w=&;%.+-]*)?", unescape(link))


def test_who_names_no_season_sees_the_newest_open_one(store: Store) -> None:
    store.seasons.open(ladder.a_season("s2"), ladder.SEED)
    site = a_site(store)
    for url in ("/", "/bots/ben", "/pairs", "/how"):
        assert "s2" in get(site, url).text
    store.seasons.close("s2")
    assert "Season s1" in words(get(site, "/").text)
    store.seasons.close("s1")
    assert "Season s2 , closed" in words(get(site, "/").text)


def test_a_bot_has_its_verdicts_and_each_block_is_news(tmp_path: Path) -> None:
    with ladder.created(tmp_path / "ladder.db") as store:
        comparisons.to_compare(store)
        site, lease = a_site(store), comparisons.claim(store)
        assert "open against version 1: not begun" in words(get(site, "/bots/anna").text)
        comparisons.add(store, lease, 0, lead=0.25)
        assert "version 1: it goes on (+0.25" in words(get(site, "/bots/anna").text)
        comparisons.add(store, lease, 1, verdict="worse", faults=3)
        page = get(site, "/bots/anna").text
        assert "worse than version 1 (+0.00 placement score" in words(page)
        assert "3 faults of its own" in words(page)
        assert "Verdicts" not in words(get(site, "/bots/ben").text)


def test_a_ladder_without_a_season_says_so(tmp_path: Path) -> None:
    with ladder.created(tmp_path / "ladder.db") as store:
        answer = get(a_site(store), "/")
    assert answer.status == 404
    assert "This ladder has no season" in answer.text
