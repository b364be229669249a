"""A closed season as files: served by any web server, verified from its files alone, and what the
ladder says when the records are in these files alone."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from msgspec import structs

from deepsea_arena.api.callers import READER
from deepsea_arena.api.errors import ApiError
from deepsea_arena.api.local import LocalLadder
from deepsea_arena.coach.ladder_analyses import plan
from deepsea_arena.reports.games import game_report, newest_games
from deepsea_ladder.errors import RecordForgotten, StoreError
from deepsea_ladder.export import CHAIN, export_lines, forget_records
from deepsea_ladder.limits import USUAL_LIMITS
from deepsea_ladder.store import Store
from deepsea_web.site.broadcast import program
from deepsea_web.site.publish import PublishedSite, publish
from helpers import ladder
from helpers.commands import Run, one_line
from helpers.listening import folder_at
from helpers.members import Person
from helpers.pages import elements_of
from helpers.site import get
from helpers.world import ANNA, SHORT, TRACE, Stock, World, analysed, opened

FAR = 4_102_444_800_000
"""A time in the year 2100."""
PAGES = {
    *("index", "games", "pairs", "how", "tournaments/cup", "games,season=cup"),
    *("bots/anna", "bots/anna,version=1", "games,bot=anna", "games/s1-2", "games/cup-1"),
}


LINKS = ("href", "src", "action", "data-frames", "data-json", "data-events")
"""The attributes by which a page leads to something or loads it."""


def crawled(address: str) -> set[str]:
    """The files that links lead to from the first page, each of which is there."""
    connection = HTTPConnection(urlsplit(address).netloc)
    waiting, seen = [address], {address}
    while waiting:
        url = waiting.pop()
        connection.request("GET", urlsplit(url).path)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, url
        if not answer.headers["Content-Type"].startswith("text/html"):
            continue
        page = elements_of(body.decode())
        assert {"form", "iframe", "base"}.isdisjoint(tag for tag, _ in page)
        for link in {has[name] or "" for _, has in page for name in LINKS if name in has}:
            if link.startswith("data:application/json;base64,"):  # a record
                continue
            found = urljoin(url, link).partition("#")[0].partition("?")[0]
            assert found.startswith(address), (url, link)
            if found not in seen:
                seen.add(found)
                waiting.append(found)
    connection.close()
    return {unquote(one.removeprefix(address)) or "index.html" for one in seen}


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def write(world: World, folder: Path, *names: str, most: int = 100) -> PublishedSite:
    service = world.service
    return publish(service.store, service.public, names, folder, most=most)


@pytest.fixture(scope="module")
def stock(stock: Stock, tmp_path_factory: pytest.TempPathFactory) -> Stock:
    """A ladder with a closed season, a tournament that has ended, and one under embargo."""
    path, tokens = Path(shutil.copy(stock[0], tmp_path_factory.mktemp("closed"))), stock[1]
    with Store.open(path) as store:
        analysed(store, settings=SHORT)
        ladder.a_cup(store)
        ladder.a_cup(store, "hush", FAR)
        ladder.submit(store, "late", "after the end")
        for name in ("s1", "cup", "hush"):
            store.seasons.close(name)
    return path, tokens


@pytest.fixture(scope="module")
def unchanged(stock: Stock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The ladder, for tests that change nothing in it."""
    with opened(stock, tmp_path_factory.mktemp("unchanged")) as found:
        yield found


@pytest.fixture(scope="module")
def site(unchanged: World, tmp_path_factory: pytest.TempPathFactory) -> PublishedSite:
    """The files of the season and the tournament."""
    return write(unchanged, tmp_path_factory.mktemp("published") / "site", "s1", "cup")


@pytest.fixture(scope="module")
def files_of_s1(unchanged: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the files of the season alone the one from which records may be forgotten."""
    folder = tmp_path_factory.mktemp("s1")
    public = unchanged.service.public
    with gzip.open(folder / CHAIN, "wt", encoding="utf-8") as chain:
        chain.writelines(export_lines(public, public.seasons.get("s1")))
    return folder


def test_all_links_of_the_files_work_and_none_leads_elsewhere(site: PublishedSite) -> None:
    folder = Path(site.folder)
    files = files_of(folder)
    assert (site.game_pages, site.files) == (6, len(files))
    assert {f"{page}.html" for page in PAGES} <= files
    with folder_at(folder) as address:
        assert crawled(address) == files
    for path in folder.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert "nowhere:" not in text
        assert not re.findall(r"https?://(?!www\.w3\.org/)", text)


def test_nothing_private_is_in_the_files(unchanged: World, site: PublishedSite) -> None:
    secrets = [*unchanged.tokens.values(), TRACE, "printed", "hers", "hush", "laptop", "127.0.0"]
    with unchanged.service.store.database.read() as connection:
        secrets.append(str(connection.exec_driver_sql("SELECT seed FROM person_games").scalar()))
    for path in Path(site.folder).rglob("*.*"):
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
        for secret in secrets:
            assert not re.search(rf"\b{re.escape(secret)}", text), (path, secret)


def test_a_page_says_the_same_as_the_one_that_is_served(
    unchanged: World, site: PublishedSite
) -> None:
    folder, served = Path(site.folder), unchanged.site
    for file, url in (("index", "/?season=s1"), ("pairs", "/pairs?season=s1")):
        table = re.search(r"<tbody>.*?</tbody>", get(served, url).text, re.DOTALL)
        assert table is not None
        ours = (folder / f"{file}.html").read_text(encoding="utf-8")
        for text in re.findall(r">([^<]+)<", table[0]):
            assert text in ours
    page = (folder / "games/s1-1.html").read_text(encoding="utf-8")
    game = get(served, "/games/s1-1").text
    story = re.search(r"<pre>.*?</pre>", game, re.DOTALL)
    assert story is not None
    assert story[0] in page
    assert "Analysed by roll-outs" in page


def test_the_pages_of_games_are_bounded_and_the_records_are_all_there(
    unchanged: World, tmp_path: Path
) -> None:
    done = write(unchanged, folder := tmp_path / "site", "s1", "cup", most=2)
    assert done.game_pages == 2 == len([*folder.glob("games/*.html")])
    with folder_at(folder) as address:
        assert crawled(address) == files_of(folder)
    assert len(gzip.decompress((folder / CHAIN).read_bytes()).splitlines()) == 2 + 4 + 2


def test_a_season_verifies_from_its_files_alone(
    site: PublishedSite, tmp_path: Path, run: Run
) -> None:
    folder = Path(shutil.copytree(site.folder, tmp_path / "site"))
    head = site.heads["s1"]
    alone = run("verify", "--chain", folder)
    assert (alone.status, f"head 4 is {head}" in alone.out) == (0, True)
    assert run("verify", "--chain", folder, head).status == 0
    assert run("verify", "--chain", folder / CHAIN, "0" * 64).status == 1
    packed = (folder / CHAIN).read_bytes()
    (folder / CHAIN).write_bytes(packed[:-100])
    assert run("verify", "--chain", folder, head).status == 2
    text = gzip.decompress(packed).replace(b'"points": ', b'"points": 1', 1)
    (folder / CHAIN).write_bytes(gzip.compress(text))
    changed = run("verify", "--chain", folder, head)
    assert (changed.status, "place 1: its head" in changed.out) == (1, True)


def reopened(world: World, folder: Path) -> None:
    world.service.store.seasons.open(ladder.a_season("s2"), ladder.SEED)


@pytest.mark.parametrize(
    ("name", "before", "says"),
    [
        ("s2", reopened, "season s2 is not over: `ladder close s2`"),
        ("hush", lambda *_: None, "season hush is under embargo"),
        ("nobody", lambda *_: None, "there is no season 'nobody'"),
        ("s1", lambda world, folder: folder.write_text("mine"), "is there already"),
        ("s1", lambda world, folder: (folder / "sub").mkdir(parents=True), "is there already"),
    ],
)
def test_a_refusal_is_one_line_and_leaves_nothing(
    world: World,
    tmp_path: Path,
    run: Run,
    name: str,
    before: Callable[[World, Path], object],
    says: str,
) -> None:
    folder = tmp_path / "site"
    before(world, folder)
    there = sorted(tmp_path.rglob("*"))
    path = world.service.store.database.path
    refused = run("ladder", "publish", name, folder, "--store", path)
    assert (refused.status, says in one_line(refused.err)) == (2, True), refused
    assert sorted(tmp_path.rglob("*")) == there


def test_the_commands_say_what_they_did(world: World, tmp_path: Path, run: Run) -> None:
    folder, path = tmp_path / "site", world.service.store.database.path
    folder.mkdir()
    done = run("ladder", "publish", "cup", folder, "--store", path, "--json")
    assert (done.status, json.loads(done.out)["game_pages"]) == (0, 2)
    words = run("ladder", "publish", "cup", tmp_path / "other", "--store", path).out
    assert re.search(r"season cup: head [0-9a-f]{64}\n.*other: pages of 2 games, ", words)
    gone = run("ladder", "forget", "cup", "--published", folder, "--store", path)
    assert (gone.status, gone.out.rstrip()) == (
        0,
        f"season cup: 2 records forgotten, which {folder} has",
    )
    again = run("ladder", "publish", "cup", tmp_path / "third", "--store", path)
    assert one_line(again.err).endswith(
        "no record of season cup is kept here any more: its published files have it"
    )
    export = run("ladder", "export", "--store", path)
    assert {json.loads(line)["season"] for line in export.out.splitlines()} == {"s1", "hush"}
    assert (export.status, export.err.rstrip()) == (
        0,
        "season cup is left out: its published files have its records",
    )
    asked = run("ladder", "export", "--season", "cup", "--store", path)
    assert (asked.status, asked.out) == (2, "")


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_files_that_are_not_there_are_bad_input(
    world: World, tmp_path: Path, run: Run, name: str
) -> None:
    (tmp_path / "empty").mkdir()
    asked = "--published", tmp_path / name, "--store", world.service.store.database.path
    refused = run("ladder", "forget", "cup", *asked)
    says = f"{name}: there is no export: name a folder of `ladder publish`"
    assert (refused.status, says in one_line(refused.err)) == (2, True)
    assert run("verify", "--chain", tmp_path / name).status == 2


# Forgotten records


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda lines: lines[:-1], 2),
        (lambda lines: [], 2),
        (lambda lines: [lines[0], lines[1].replace(b'"us": 1', b'"us": 2', 1), *lines[2:]], 1),
        (lambda lines: [*lines[:2], b"nonsense\n"], 2),
    ],
)
def test_no_record_is_forgotten_that_the_files_have_not(
    unchanged: World,
    files_of_s1: Path,
    tmp_path: Path,
    run: Run,
    change: Callable[[list[bytes]], list[bytes]],
    status: int,
) -> None:
    store = unchanged.service.store
    lines = gzip.decompress((files_of_s1 / CHAIN).read_bytes()).splitlines(keepends=True)
    (tmp_path / CHAIN).write_bytes(gzip.compress(b"".join(change(lines))))
    arguments = ("--published", tmp_path, "--store", store.database.path)
    refused = run("ladder", "forget", "s1", *arguments)
    assert (refused.status, one_line(refused.err) != "") == (status, True)
    assert store.games.record("s1-1")
    assert run("ladder", "forget", "cup", *arguments).status


@pytest.fixture(scope="module")
def forgotten(
    stock: Stock, files_of_s1: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """The same ladder, without the records of s1, for tests that change nothing in it."""
    with opened(stock, tmp_path_factory.mktemp("forgotten")) as found:
        store = found.service.store
        before = store.revision()
        assert forget_records(store, "s1", files_of_s1) == 4
        with pytest.raises(RecordForgotten):
            forget_records(store, "s1", files_of_s1)
        assert store.revision() != before
        yield found


@pytest.fixture(scope="module")
def readers(forgotten: World) -> list[Person]:
    """A visitor of that ladder, and anna."""
    return [forgotten.person(), forgotten.person(ANNA)]


GONE = "is kept here any more"
SENTENCE = "The record of this game is not kept here any more"


@pytest.mark.parametrize(
    ("url", "status", "says"),
    [
        ("/games/s1-2", 200, SENTENCE),
        ("/games/s1-2?format=csv", 200, "mu_before"),
        ("/games/s1-2/frames.json", 404, GONE),
        ("/games/s1-2/frames.json?seat=A", 404, GONE),
        ("/games/s1-2/record.json", 404, GONE),
        ("/games/s1-1/analysis.json", 200, "decisions"),
        ("/games/s1-2/analysis.json", 404, "no analysis"),
        ("/?season=s1", 200, "anna"),
        ("/bots/anna?season=s1", 200, "1 game with faults of its own."),
        ("/games?season=s1", 200, "s1-2"),
        ("/pairs?season=s1", 200, "anna"),
        ("/feed", 200, "s1-2"),
        ("/games/cup-1", 200, "The game in words"),
    ],
)
def test_a_page_says_where_a_record_is_not_any_more(
    readers: list[Person], url: str, status: int, says: str
) -> None:
    for person in readers:
        answer = person.get(url)
        assert (answer.status, says in answer.text) == (status, True), answer.text


def test_a_game_without_its_record_has_the_same_seed_result_and_ratings(
    unchanged: World, forgotten: World
) -> None:
    before = game_report(unchanged.service.store, "s1-2")
    assert game_report(forgotten.service.store, "s1-2") == structs.replace(before, record="")


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        ("record s1-2", 2, GONE),
        ("analyse s1-2", 2, GONE),
        ("export --season s1", 2, GONE),
        ("export --season cup", 0, "cup-1"),
        ("export --csv", 0, "s1-2,"),
        (
            "refold --check --records",
            0,
            "season s1: 4 games, the same to the last bit; its records",
        ),
        ("standings --season s1 --check", 0, "anna"),
        ("bot anna --season s1", 0, "anna"),
        ("status", 0, "season s1"),
        ("games --season s1", 0, "s1-2"),
        ("backup again.db", 0, "8 games, ratings verified"),
    ],
)
def test_a_command_says_that_a_record_is_gone(
    forgotten: World,
    tmp_path: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    status: int,
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = forgotten.service.store.database.path
    done = run("ladder", *arguments.split(), "--store", path)
    assert (done.status, says in done.out + done.err) == (status, True), done
    assert len(done.err.splitlines()) == (1 if status else 0)
    if arguments.startswith("backup"):
        assert run("ladder", "restore", "again.db", "--verify", "--dry-run").status == 0


def test_tv_shows_a_game_whose_record_is_there(forgotten: World) -> None:
    game, *_, first = newest_games(forgotten.service.public, 10).games
    api = LocalLadder(forgotten.service, READER)
    assert program(api, game) is not None
    assert program(api, first) is None


def test_analyses_that_wait_are_made_first_and_none_is_begun_later(
    world: World, files_of_s1: Path
) -> None:
    store = world.service.store
    number = store.analyses.request("s1-2", None, plan(), USUAL_LIMITS).id
    with pytest.raises(StoreError, match="an analysis of a game of season s1 is to be made first"):
        forget_records(store, "s1", files_of_s1)
    lease = store.analyses.claim("runner", 60, number)
    assert lease is not None
    store.analyses.reject(lease, "not worth it")
    assert forget_records(store, "s1", files_of_s1) == 4
    with pytest.raises(ApiError, match=GONE):
        world.ladder(ANNA).request_analysis(game_id="s1-3")
