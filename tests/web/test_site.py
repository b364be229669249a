"""The ladder's site: what it answers to whom, with which headers, and when nothing is new."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from deepsea_ladder.errors import StoreDamaged, StoreUnavailable
from deepsea_ladder.store import Store
from deepsea_web.access import HEADERS, Access
from deepsea_web.assets import static_names
from deepsea_web.gateway import MOST_WAITING, Gateway
from deepsea_web.site.app import Site
from deepsea_web.site.pages import ENDPOINTS, MEMBERS, PAGES
from helpers.ladder import a_cup, created, no_writes, play_all, stocked
from helpers.people import Runner, new_game
from helpers.site import Answer, a_site, ask, get


def played(store: Store) -> None:
    """Fill a ladder with a season in which every bot has played."""
    season = stocked(store)
    play_all(store, season, games=4)
    a_cup(store)
    new_game(store, season_id=season.id)
    store.person_games.leave("person-one")
    Runner(store).play_on()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The site of a ladder with games; no test changes it."""
    path = tmp_path_factory.mktemp("site") / "ladder.db"
    with created(path) as store:
        played(store)
    with Store.open(path) as store, no_writes(store):
        yield a_site(store)


ADDRESSES = {
    "/": "/",
    "/bots/{name}": "/bots/anna",
    "/games": "/games?bot=anna&limit=2",
    "/games/{id}": "/games/s1-2",
    "/play/{id}/game": "/play/person-one/game",
    "/tv": "/tv",
    "/feed": "/feed",
    "/pairs": "/pairs",
    "/tournaments": "/tournaments",
    "/tournaments/{name}": "/tournaments/cup",
    "/how": "/how",
    "/start": "/start?bot=my.bot",
    "/api": "/api",
}
"""An address of each page; a page that is missing here fails the tests below."""


def test_the_table_of_addresses_has_every_page() -> None:
    assert set(ADDRESSES) >= {page.path for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_every_page_comes_in_its_formats_with_the_policy(site: Site, page: object) -> None:
    address = ADDRESSES[page.path]  # type: ignore[attr-defined]
    for form in page.formats:  # type: ignore[attr-defined]
        joint = "&" if "?" in address else "?"
        answer = get(site, f"{address}{joint}format={form}")
        assert answer.status == 200, answer.text
        assert has_policy(answer)
    assert "<h1>" in get(site, address).text
    for method, status in (("HEAD", 200), ("POST", 405), ("PUT", 405), ("X", 405)):
        answer = get(site, address, method)
        assert answer.status == status
        assert has_policy(answer)
    answer = get(site, f"{address.partition('?')[0]}?format=json")
    assert (answer.status, has_policy(answer)) == (400, True)
    assert "not as &#39;json&#39;" in answer.text


def has_policy(answer: Answer) -> bool:
    return all(answer.headers.getlist(name) == [value] for name, value in HEADERS.items())


@pytest.mark.parametrize(
    ("url", "status", "sentence"),
    [
        ("/nothing", 404, "There is no such page."),
        ("/%00", 400, "The address has a control character, or half of a surrogate pair."),
        ("/static/../app.py", 404, "There is no such page."),
        ("/static/site.css", 404, "There is no such page."),
        ("/?season=x", 404, "There is no season &#39;x&#39;; there are s1, cup."),
        ("/?season=<b>", 404, "There is no season &#39;&lt;b&gt;&#39;; there are s1, cup."),
        ("/?all=2", 400, "All is 0 or 1, not &#39;2&#39;."),
        ("/?all=1&all=1", 400, "All is given twice."),
        ("/?season=" + "x" * 101, 400, "Season has more than 100 characters."),
        ("/?format=", 400, "This page comes as html, csv, not as &#39;&#39;."),
    ],
)
def test_what_makes_no_sense_gets_a_sentence(
    site: Site, url: str, status: int, sentence: str
) -> None:
    answer = get(site, url)
    assert answer.status == status
    assert has_policy(answer)
    assert f'<p class="sentence">{sentence}</p>' in answer.text
    assert answer.headers["cache-control"] == "no-store"


def test_a_program_gets_the_sentence_in_its_format(site: Site) -> None:
    answer = get(site, "/games/x/frames.json")
    assert answer.status == 404
    assert json.loads(answer.text)["error"].startswith("No game 'x' was played")
    assert get(site, "/?season=x&format=csv").text.startswith("There is no season")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (StoreUnavailable("the ladder at /secret/ladder.db: busy"), 503),
        (StoreDamaged("the ladder at /secret/ladder.db: SELECT"), 500),
        (ZeroDivisionError("token in /secret"), 500),
    ],
)
def test_an_error_page_shows_nothing_of_the_inside(
    site: Site, error: Exception, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise error

    monkeypatch.setattr(site.store.database, "check_place", broken)
    for url in ("/", "/?format=csv"):
        answer = get(site, url)
        assert (answer.status, has_policy(answer)) == (status, True)
        assert "secret" not in answer.text
        assert "SELECT" not in answer.text


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1", "[::1]:8080", "LOCALHOST"])
def test_this_machine_is_answered(site: Site, host: str) -> None:
    assert get(site, "/", host=host).status == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[::1].evil:1"])
def test_another_name_is_refused(site: Site, host: str) -> None:
    answer = get(site, "/", host=host)
    assert (answer.status, has_policy(answer)) == (421, True)


def test_a_request_with_two_lengths_is_refused(site: Site) -> None:
    answer = get(site, "/", headers={"Content-Length": "0", "Transfer-Encoding": "chunked"})
    assert (answer.status, has_policy(answer)) == (400, True)
    assert answer.headers["connection"] == "close"


def test_pages_below_a_prefix(site: Site) -> None:
    access = Access("https://games.example", "/deep/sea", frozenset({"games.example"}))
    below = Site(site.gateway, access, PAGES, ENDPOINTS, MEMBERS)
    text = get(below, "/deep/sea/", host="games.example").text
    assert '<link rel="canonical" href="https://games.example/deep/sea/">' in text
    assert 'href="/deep/sea/' in text
    links = [part.partition('"')[0] for part in text.replace('src="', 'href="').split('href="')[1:]]
    assert all("deep/sea/" in link or link == "#main" for link in links)
    answer = get(below, "/", host="games.example")
    assert (answer.status, answer.headers["location"]) == (307, "/deep/sea/")
    assert get(below, "/games", host="games.example").status == 404


def test_what_is_not_new_is_not_sent_again(site: Site) -> None:
    first = get(site, "/")
    tag = first.headers["etag"]
    again = get(site, "/", headers={"If-None-Match": f'W/"x", {tag}'})
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
    assert has_policy(again)
    # What a page does not know makes no other page of it, what it knows does.
    assert get(site, "/?utm_source=x").headers["etag"] == tag
    assert get(site, "/?all=1").headers["etag"] != tag
    assert get(site, "/?format=csv").headers["etag"] != tag


def test_pages_are_packed_for_those_who_take_it(site: Site) -> None:
    plain = get(site, "/")
    packed = get(site, "/", headers={"Accept-Encoding": "br, gzip;q=0.5"})
    assert packed.headers["content-encoding"] == "gzip"
    assert len(packed.body) < len(plain.body) / 2
    assert packed.text == plain.text
    refusing = get(site, "/", headers={"Accept-Encoding": "gzip;q=0, identity"})
    assert "content-encoding" not in refusing.headers


def test_static_files_are_kept_for_ever(site: Site) -> None:
    for name in static_names().values():
        answer = get(site, f"/static/{name}")
        assert (answer.status, has_policy(answer)) == (200, True)
        assert "immutable" in answer.headers["cache-control"]


async def test_a_page_that_many_ask_for_is_made_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Mock(wraps=site._render)
    monkeypatch.setattr(site, "_render", made)
    answers = await asyncio.gather(*(ask(site, "/?all=0") for _ in range(20)))
    assert {answer.status for answer in answers} == {200}
    assert made.call_count == 1


async def test_too_many_at_once_are_sent_away(site: Site) -> None:
    answers = await asyncio.gather(*(ask(site, "/games/s1-2") for _ in range(MOST_WAITING + 10)))
    assert {answer.status for answer in answers} == {200, 503}
    (refused, *_) = (answer for answer in answers if answer.status == 503)
    assert refused.headers["retry-after"] == "1"
    assert has_policy(refused)


async def test_addresses_that_there_are_not_cost_no_look_into_the_store(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forbidden(*_: object) -> None:
        raise AssertionError("nothing of the store is needed for that")

    monkeypatch.setattr(Gateway, "in_thread", forbidden)
    paths = (f"/{number}/{'x' * (number % 50)}" for number in range(200))
    answers = await asyncio.gather(*(ask(site, path) for path in paths))
    assert {answer.status for answer in answers} == {404}
    assert all(map(has_policy, answers))


def test_what_strangers_say_of_the_address_is_not_believed(site: Site) -> None:
    said = {
        "X-Original-Host": "evil.example",
        "X-Original-URL": "/bots/evil",
        "X-Rewrite-URL": "/bots/evil",
    }
    assert get(site, "/", headers=said).body == get(site, "/").body
