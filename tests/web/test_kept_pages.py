"""Pages that are kept for a second, and for as long as a game or season that is over is the same.

They are the same for everybody, and cost a member no more than a visitor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from deepsea_arena.api.local import LocalLadder
from deepsea_arena.api.service import MACHINE as OPERATOR
from deepsea_arena.documents import json_text
from deepsea_arena.ladder_analyses import plan
from deepsea_ladder.accounts import MACHINE
from deepsea_ladder.export import export_lines
from deepsea_ladder.limits import USUAL_LIMITS
from deepsea_ladder.model import StoredSeason
from deepsea_ladder.store import Store
from deepsea_web.site.app import KEPT_US, Site
from deepsea_web.site.page import Cache, KeptAnswer, ResponseBody
from helpers import ladder
from helpers.counting import counted
from helpers.manual_clock import ManualClock
from helpers.members import Person
from helpers.site import a_site, get
from helpers.world import ANNA, SHORT, World, analysed

DAY_US = 86_400_000_000


def play_one(store: Store, season_name: str) -> None:
    """Play a game of a season."""
    season = store.seasons.get(season_name)
    store.jobs.add(season, ladder.rotations(ladder.ids(store)[:4], 4)[:1])
    ladder.play_all(store, season, games=1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A ladder with a closed season s1, and an open one that is played."""
    with Store.open(ladder.played(tmp_path / "ladder.db", crashing={})) as store:
        store.seasons.close("s1")
        store.seasons.open(ladder.a_season("s2"), ladder.SEED)
        play_one(store, "s2")
        yield store


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def site(store: Store, clock: ManualClock) -> Site:
    return a_site(store, clock=clock, kept_us=KEPT_US)


def noted(site: Site, monkeypatch: pytest.MonkeyPatch) -> Mock:
    """A mock that notes each page that is made."""
    made = Mock(wraps=site._render)
    monkeypatch.setattr(site, "_render", made)
    return made


@pytest.mark.parametrize("url", ["/", "/games", "/bots/anna", "/pairs", "/?season=s2&format=csv"])
def test_a_page_is_kept_for_its_time_whatever_is_played(
    site: Site, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    made = noted(site, monkeypatch)
    first = get(site, url)
    play_one(store, "s2")
    with counted(store) as sent:
        clock.jump(KEPT_US - 1)
        again = get(site, url, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status, sent.statements, made.call_count) == (304, [], 1)
    clock.jump(1)
    later = get(site, url, headers={"If-None-Match": first.headers["etag"]})
    assert (later.status, made.call_count) == (200, 2)


OVER = (
    *("/games/s1-2", "/games/s1-2?format=csv", "/?season=s1", "/bots/anna?season=s1"),
    *("/pairs?season=s1", "/games?season=s1&bot=anna"),
)


@pytest.mark.parametrize("url", OVER)
def test_a_page_of_what_is_over_is_made_once_while_another_season_is_played(
    site: Site, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    made = noted(site, monkeypatch)
    first = get(site, url)
    assert first.status == 200
    for _ in range(10):
        play_one(store, "s2")
        clock.jump(DAY_US)
        with counted(store) as sent:
            again = get(site, url)
        assert again.body == first.body
        assert len(sent.statements) == 1
    assert made.call_count == 1


def test_a_game_of_a_season_that_goes_on_is_made_once_too(
    site: Site, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = noted(site, monkeypatch)
    first = get(site, "/games/s2-1")
    play_one(store, "s2")
    clock.jump(DAY_US)
    assert get(site, "/games/s2-1").body == first.body
    assert made.call_count == 1


@pytest.mark.parametrize("name", ["frames.json", "frames.json?seat=B", "record.json"])
def test_documents_of_a_game_are_kept_as_its_page_is(
    site: Site, store: Store, clock: ManualClock, name: str
) -> None:
    url = f"/games/s1-2/{name}"
    first = get(site, url)
    play_one(store, "s2")
    clock.jump(DAY_US)
    with counted(store) as sent:
        again = get(site, url, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status, len(sent.statements)) == (304, 1)


def rename(store: Store) -> None:
    store.authors.rename("anna-senior", "zoe", MACHINE)


def anonymise(store: Store) -> None:
    store.authors.anonymise("anna-senior", MACHINE)


def ask(store: Store, game_id: str = "s1-1") -> None:
    store.analyses.request(game_id, None, plan(), USUAL_LIMITS)


CHANGES: dict[str, tuple[Callable[[Store], object], tuple[str, ...]]] = {
    "a new name": (rename, ("/?season=s1", "/bots/anna?season=s1")),
    "a name that is forgotten": (anonymise, ("/?season=s1", "/bots/anna?season=s1")),
    "a bot that is taken out": (
        lambda store: store.bots.disable("anna", "it cheats", MACHINE),
        ("/bots/anna?season=s1",),
    ),
    "a new version": (
        lambda store: ladder.submit(store, "anna", "better", "anna-senior"),
        ("/bots/anna?season=s1",),
    ),
    "another season": (
        lambda store: store.seasons.open(ladder.a_season("s3"), ladder.SEED),
        ("/?season=s1", "/bots/anna?season=s1"),
    ),
    "an analysis": (
        lambda store: analysed(store, settings=SHORT),
        ("/games/s1-1", "/games/s1-1/frames.json", "/bots/anna?season=s1"),
    ),
    "an analysis that is asked for": (ask, ("/games/s1-1",)),
    "the end of the season": (lambda store: store.seasons.close("s2"), ("/games/s2-1",)),
}


def shown(store: Store, site: Site, season: StoredSeason, game_id: str) -> dict[str, str]:
    """All that visitors and admins read of a season and of its tournament, by where."""
    name = season.name
    urls = [
        *("/", f"/?season={name}", f"/games?season={name}", f"/games/{game_id}", "/tournaments"),
        *(f"/tournaments/{name}", f"/pairs?season={name}", f"/bots/anna?season={name}"),
        f"/games/{game_id}/record.json",
    ]
    texts = {url: answer.text for url in urls if (answer := get(site, url)).status == 200}
    machine = LocalLadder(site.gateway.service, OPERATOR)
    texts["the season"] = json_text(machine.season(season=name))
    texts["the game"] = json_text(machine.game(game_id=game_id))
    texts["the status"] = json_text(machine.status())
    if season.tournament is not None:
        texts["the tournament"] = json_text(machine.tournament(tournament=name))
    texts["the export"] = "".join(export_lines(store, season))
    return texts


SHOWING = {
    "s2": {"/games/s2-1", "the game", "the export"},
    "cup": {"/games/cup-1", "/tournaments/cup", "the game", "the tournament", "the export"},
}
"""Where the seed of a closed season is shown."""


@pytest.mark.parametrize("name", SHOWING)
@pytest.mark.parametrize("end", ["a result", "no result", "an expired lease"])
def test_a_seed_is_shown_nowhere_until_the_last_game_of_its_closed_season_has_ended(
    store: Store, site: Site, name: str, end: str
) -> None:
    if name == "cup":
        ladder.a_cup(store)
    season = store.seasons.get(name)
    store.jobs.add(season, ladder.rotations(ladder.ids(store)[: max(season.settings.seats)], 1))
    job = ladder.claim(store, season)
    store.seasons.close(name)
    season, seed = store.seasons.get(name), store.seasons.revealed_seed(store.seasons.get("s1"))
    assert seed is not None  # the same as that of the other seasons
    texts = shown(store, site, season, f"{name}-1")
    assert {where for where, text in texts.items() if seed in text} == set()
    match end:
        case "a result":
            store.games.report(job, ladder.play(job))
        case "no result":
            store.jobs.fail(job, "no luck")
        case _:
            ladder.write(store, "UPDATE tasks SET until = 0 WHERE state = 'running'")
            assert seed not in "".join(shown(store, site, season, f"{name}-1").values())
            store.seasons.close(name)
    texts = shown(store, site, store.seasons.get(name), f"{name}-1")
    assert {where for where, text in texts.items() if seed in text} == SHOWING[name]


@pytest.mark.parametrize("what", CHANGES)
def test_what_changes_of_the_past_is_shown_at_once(site: Site, store: Store, what: str) -> None:
    change, urls = CHANGES[what]
    before = [get(site, url) for url in urls]
    change(store)
    for url, former in zip(urls, before, strict=True):
        answer = get(site, url, headers={"If-None-Match": former.headers["etag"]})
        assert answer.status == 200, url
        assert answer.body != former.body


def test_ratings_that_were_made_anew_are_shown_on_pages_of_the_past(
    site: Site, store: Store
) -> None:
    right = get(site, "/?season=s1").body
    ladder.write(store, f"UPDATE ratings SET mu = '{(40.0).hex()}'")
    store.seasons.open(ladder.a_season("s3"), ladder.SEED)  # an entry of the audit log
    wrong = get(site, "/?season=s1").body
    store.ratings.rewrite(store.seasons.get("s1"))
    assert right != wrong
    assert get(site, "/?season=s1").body != wrong


def test_how_far_an_analysis_is_is_shown_as_it_goes_on(site: Site, store: Store) -> None:
    for game_id in ("s1-2", "s1-1"):
        ask(store, game_id)
    assert "queued, 1 before it" in get(site, "/games/s1-1").text
    lease = store.analyses.claim("a runner", 60)
    assert lease is not None
    store.analyses.reject(lease, "no sense")
    assert "queued, it is next" in get(site, "/games/s1-1").text
    assert store.analyses.claim("a runner", 60)
    assert "is being made" in get(site, "/games/s1-1").text


# ------------------------------------------------------------------------------------------ members


PUBLIC = (
    *("/", "/?all=1", "/games", "/games?bot=anna", "/bots/anna", "/games/s1-1", "/games/s1-2"),
    *("/pairs", "/tournaments", "/how", "/start", "/tv", "/feed", "/bots/nobody"),
    *("/games/s1-2/frames.json", "/games/s1-2/record.json", "/?format=csv"),
)


@pytest.mark.parametrize("url", PUBLIC)
def test_a_page_is_the_same_for_a_member_and_costs_the_same(world: World, url: str) -> None:
    costs, answers = [], []
    for person in (world.person(), world.person(ANNA)):
        site = a_site(world.service)
        with counted(world.service.store) as sent:
            answers.append(on(person, site).get(url))
        costs.append(len(sent.statements))
    first, second = answers
    assert (first.body, first.status) == (second.body, second.status)
    assert first.headers.items() == second.headers.items()
    assert costs[0] == costs[1]


def on(person: Person, site: Site) -> Person:
    """The same browser on another site of the ladder."""
    other = Person(site)
    other.cookies = person.cookies
    return other


def test_a_member_is_sent_a_page_that_a_visitor_asked_for(world: World) -> None:
    site = a_site(world.service, clock=ManualClock(), kept_us=KEPT_US)
    visitor, anna = on(world.person(), site), on(world.person(ANNA), site)
    first = visitor.get("/")
    with counted(world.service.store) as sent:
        same = {"If-None-Match": first.headers["etag"]}
        assert anna.get("/", same).status == 304
    assert sent.statements == []


def test_a_game_with_what_its_own_bots_left_costs_half_as_much_again(world: World) -> None:
    """The page, its frames, and for who has bots in it the part of its own."""
    anna, costs = world.person(ANNA), []
    for urls in (("/games/s1-2", "/games/s1-2/frames.json"), ("/games/s1-2/own",)):
        with counted(world.service.store) as sent:
            for url in urls:
                assert anna.get(url).status == 200
        costs.append(len(sent.statements))
    page, part = costs
    assert page + part <= 1.5 * page


def cookie_of(person: Person) -> str | None:
    """The author whom scripts take for the one who is logged in."""
    return person.cookies.get(person.site.sessions.author.name)


def test_scripts_know_who_is_logged_in_and_give_no_right_by_it(world: World) -> None:
    person = world.person()
    person.log_in(world.tokens[ANNA])
    assert cookie_of(person) == ANNA
    forged = world.person()
    forged.cookies = {person.site.sessions.author.name: ANNA}
    answer = forged.get("/account")
    assert (answer.status, answer.headers["location"]) == (303, "/login?next=%2Faccount")
    assert cookie_of(forged) is None
    person.do("/logout", {})
    assert cookie_of(person) is None


def test_scripts_are_told_of_a_name_that_has_changed_and_of_a_login_that_has_ended(
    world: World,
) -> None:
    person = world.person()
    person.log_in(world.tokens[ANNA])
    world.ladder("admin").rename_author(author=ANNA, to="Zoë Ö")
    person.get("/account")
    assert cookie_of(person) == "Zo%C3%AB%20%C3%96"
    world.ladder("admin").block_author(author="Zoë Ö", blocked=True)
    person.get("/login")
    assert cookie_of(person) is None


# --------------------------------------------------------------------------------------- the cache


def kept(text: str) -> KeptAnswer:
    return KeptAnswer(ResponseBody.of_text(text, "text/plain"), None, 0)


def test_what_was_used_longest_ago_goes_when_there_is_no_room() -> None:
    cache, pages = Cache(most_bytes=100), {name: kept(name * 40) for name in "abc"}
    for name in "ab":
        cache.put(name, pages[name])
    assert cache.get("a") is pages["a"]
    cache.put("c", pages["c"])
    assert [cache.get(name) for name in "abc"] == [pages["a"], None, pages["c"]]


def test_what_is_made_anew_takes_the_place_of_the_former_one_and_its_room() -> None:
    cache = Cache(most_bytes=100)
    cache.put("other", kept("y" * 40))
    for text in ("x" * 60, "z" * 60):
        cache.put("page", kept(text))
    found: Any = cache.get("page")
    assert found.body.plain == b"z" * 60
    assert cache.get("other") is not None


def test_what_is_larger_than_all_room_is_not_kept_and_drives_nothing_out() -> None:
    cache, small = Cache(most_bytes=100), kept("x")
    cache.put("small", small)
    cache.put("large", kept("x" * 101))
    assert (cache.get("small"), cache.get("large")) == (small, None)
