"""The pages of games, pairs and tournaments, as a client without JavaScript gets them."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from deepsea_arena.frames import frames
from deepsea_arena.games import read_record
from deepsea_ladder.store import Store, schema
from deepsea_rules.game import Game, GameRecord
from deepsea_rules.ruleset import RuleSet
from deepsea_web.access import HEADERS
from deepsea_web.assets import static_names
from deepsea_web.site.app import Site
from deepsea_web.site.page import static_files
from helpers import ladder
from helpers.pages import DAILY, saying
from helpers.site import Answer, a_site, get


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ladder with eight games and an elimination."""
    path = ladder.played(tmp_path_factory.mktemp("games") / "x.db", crashing={"s1-3": ["ben"]})
    with Store.open(path) as store:
        ladder.a_cup(store)
    return path


@pytest.fixture(scope="module")
def site(path: Path) -> Iterator[Site]:
    """Its site."""
    with Store.open(path) as store:
        yield a_site(store)


def json_of(answer: Answer) -> object:
    assert answer.status == 200, answer.text
    return json.loads(answer.text)


def test_a_game_is_a_story_without_javascript(site: Site) -> None:
    page = get(site, "/games/s1-3").text
    record = GameRecord.from_json(site.store.games.record("s1-3"))
    for line in ("dive 1: ", "the game is over", "crash", "forfeited"):
        assert line in page
    assert record.seed.hex() in page
    assert record.commitment in page
    assert "deepsea-referee verify s1-3.json" in page
    assert 'data-frames="/games/s1-3/frames.json"' in page
    assert page.count("<h1>") == 1


@pytest.mark.parametrize("address", ["/games/s1-2", "/games/s1-2/frames.json?seat=A"])
def test_a_record_is_read_and_replayed_once_for_a_page(
    site: Site, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    reads, replays, init = Counter[str](), Counter[bytes](), Game.__init__

    def read(text: str) -> GameRecord:
        reads[text] += 1
        return from_json(text)

    def begin(game: Game, rules: RuleSet, players: int, seed: bytes) -> None:
        replays[seed] += 1
        init(game, rules, players, seed)

    from_json = GameRecord.from_json
    monkeypatch.setattr(GameRecord, "from_json", read)
    monkeypatch.setattr(Game, "__init__", begin)
    read_record.cache_clear()
    assert get(site, address).status == 200
    assert (list(reads.values()), list(replays.values())) == ([1], [1])


def test_a_game_shows_what_it_did_to_ratings(site: Site) -> None:
    first, later = get(site, "/games/s1-1").text, get(site, "/games/s1-8").text
    assert (first.count("first game"), later.count("first game")) == (4, 0)
    rows = list(csv.DictReader(io.StringIO(get(site, "/games/s1-8?format=csv").text)))
    assert [row["seat"] for row in rows] == ["A", "B", "C", "D"]
    for row in rows:
        seat = next(s for s in site.store.history.get("s1-8").line.seats if s.bot == row["bot"])
        assert float(row["after"]) == seat.rating.conservative


@pytest.mark.parametrize(("seat", "viewer"), [("", None), ("watcher", "watcher"), ("B", 1)])
def test_frames_are_what_a_seat_knew_then(site: Site, seat: str, viewer: int | None) -> None:
    record = GameRecord.from_json(site.store.games.record("s1-3"))
    answer = get(site, f"/games/s1-3/frames.json?seat={seat}")
    assert json_of(answer) == json.loads(json.dumps(frames(record, viewer)))
    again = {"If-None-Match": answer.headers["etag"]}
    assert get(site, f"/games/s1-3/frames.json?seat={seat}", headers=again).status == 304
    other = get(site, "/games/s1-3/frames.json?seat=C", headers=again)
    assert other.status == 200


@pytest.mark.parametrize(
    ("url", "status", "words"),
    [
        ("/games/s1-3/frames.json?seat=G", 400, "seat is a letter from A, watcher or all"),
        ("/games/s1-3/frames.json?seat=E", 400, "this game has the seats A to D, not E"),
        ("/games/s1-99", 404, "no game &#39;s1-99&#39; was played"),
        ("/games/s1-99/frames.json", 404, "no game 's1-99' was played"),
        ("/games/s1-99/record.json", 404, "no game 's1-99' was played"),
        ("/games/%3Cb%3E", 404, "no game &#39;&lt;b&gt;&#39; was played"),
        ("/tournaments/s1", 404, "season &#39;s1&#39; is no tournament"),
        ("/tournaments/x", 404, "there is no season &#39;x&#39;"),
        ("/pairs?start=-1", 400, "start is a number from 0"),
    ],
)
def test_what_there_is_not_gets_a_sentence(site: Site, url: str, status: int, words: str) -> None:
    answer = get(site, url)
    assert answer.status == status
    assert words.lower() in answer.text.lower()
    assert all(answer.headers.getlist(name) == [value] for name, value in HEADERS.items())


def test_the_record_can_be_kept(site: Site) -> None:
    answer = get(site, "/games/s1-3/record.json")
    assert answer.text == site.store.games.record("s1-3")
    assert answer.headers["content-disposition"] == 'attachment; filename="s1-3.json"'
    again = {"If-None-Match": answer.headers["etag"]}
    assert get(site, "/games/s1-3/record.json", headers=again).status == 304


def test_the_viewer_is_found_under_its_digest(site: Site) -> None:
    script = static_files()[static_names()["game.js"]].plain.decode()
    name = static_names()["viewer.js"]
    assert f'import {{ mount }} from "./{name}";' in script
    assert get(site, f"/static/{name}").headers["cache-control"].endswith("immutable")


def test_a_first_visit_is_small(site: Site) -> None:
    """40 kB packed with everything that the page loads, and 20 kB of scripts but for plots."""
    for url, names in {
        "/": ("site.css", "reader.js", "site.js", "icon.svg"),
        "/games/s1-3": (
            *("site.css", "reader.js", "site.js", "icon.svg"),
            *("viewer.css", "game.css", "viewer.js", "game.js"),
        ),
    }.items():
        page = len(get(site, url, headers={"Accept-Encoding": "gzip"}).body)
        files = {name: static_files()[static_names()[name]] for name in names}
        sizes = {name: len(file.gzipped or file.plain) for name, file in files.items()}
        frames_ = get(site, "/games/s1-3/frames.json", headers={"Accept-Encoding": "gzip"}).body
        data = len(frames_) if "viewer.js" in sizes else 0
        assert page + sum(sizes.values()) + data <= 40_000
        assert sum(size for name, size in sizes.items() if name.endswith(".js")) <= 20_000


def test_pairs_are_told_with_their_number(site: Site) -> None:
    page = get(site, "/pairs?season=s1").text
    assert page.count(">8</a></small>") == 12
    assert 'href="/games?season=s1&amp;bot=anna&amp;against=ben"' in page
    assert "no table of duels" in page
    rows = list(csv.DictReader(io.StringIO(get(site, "/pairs?season=s1&format=csv").text)))
    shares = {(row["bot"], row["other"]): float(row["share"]) for row in rows}
    assert len(shares) == 12
    assert all(share + shares[other, bot] == 1.0 for (bot, other), share in shares.items())
    assert "Nobody stands there." in get(site, "/pairs?season=s1&start=99").text


def test_a_tournament_shows_its_rounds(site: Site) -> None:
    page = get(site, "/tournaments/cup").text
    assert "It is being played: 2 games of the rounds until now." in page
    assert (page.count("<h3>"), page.count("no game yet")) == (2, 1)
    for number in (1, 2):
        assert f'href="/games/cup-{number}"' in page


def test_bots_that_never_move_share_the_win(tmp_path: Path) -> None:
    with ladder.created(tmp_path / "ladder.db") as store:
        ladder.stocked(store)
        bots = ladder.ids(store)[:2]
        plan = {"kind": "round-robin", "seats": 2, "meetings": 1, "bots": bots}
        season = store.seasons.open(ladder.a_season("cup", (2,)), ladder.SEED, json.dumps(plan))
        store.jobs.add(season, ladder.rotations(bots, 2))
        while jobs := store.jobs.claim(season, "worker", 60):
            store.games.report(jobs[0], ladder.idle(jobs[0]))
        store.seasons.close("cup")
        page = get(a_site(store), "/tournaments/cup").text
        assert page.count('<td class="rank">1</td>') == 2
        assert re.search(r">anna</bdi></a>, <a .+>ben</bdi></a> are level and share the win", page)
        assert "are level" not in get(a_site(store), "/tournaments").text
        assert '"[""anna"", ""ben""]"' in get(a_site(store), "/tournaments?format=csv").text


def test_a_final_shows_who_is_still_in_it_and_who_left(tmp_path: Path) -> None:
    with ladder.created(tmp_path / "ladder.db") as store:
        ladder.stocked(store)
        bots = ladder.ids(store)[:3]
        plan = {"kind": "final", "seats": 3, "meetings": 1, "bots": bots, "top": 1, "most_games": 9}
        season = store.seasons.open(ladder.a_season("best", (2, 3)), ladder.SEED, json.dumps(plan))
        store.jobs.add(season, ladder.rotations(bots, 3))
        ladder.play_all(store, season)
        assert "<p>Nobody yet.</p>" in (page := get(a_site(store), "/tournaments/best").text)
        assert re.search(
            r"Still in it: (<a [^>]+><bdi>\w+</bdi></a>,? ?){3}\.", page.replace("\n", "")
        )
        store.bots.withdraw("cleo")
        assert "withdrawn" in get(a_site(store), "/tournaments/best").text
        store.seasons.close("best")
        page = get(a_site(store), "/tournaments/best").text
        assert "Not decided: the best may be" in page


def test_texts_of_strangers_stay_texts(played: Store) -> None:
    """A record is what bots say most in: names and what came instead of a decision."""
    record = GameRecord.from_json(played.games.record("s1-2"))
    for words in DAILY[::2]:
        hostile = saying(record, words).to_json()
        with played.database.write() as connection:
            valid = hostile.encode(errors="replace").decode()
            connection.execute(update(schema.games).values(record=valid))
        site = a_site(played)
        for url in ("/games/s1-2", "/games/s1-2/frames.json"):
            answer = get(site, url)
            assert answer.status == 200, answer.text
            assert len(answer.body) < 200_000
            for bad in ("<script>d", "<img src=x", "<!--<", "\x1b", "\u202e", "\u2028"):
                assert url.endswith(".json") or bad not in answer.text


def test_a_damaged_record_is_one_line_of_the_log(
    played: Store, caplog: pytest.LogCaptureFixture
) -> None:
    record = played.games.record("s1-1").replace('"us": 100,', f'"us": {2**60},')
    with played.database.write() as connection:
        connection.execute(update(schema.games).values(record=record))
    for url in ("/games/s1-1", "/games/s1-1/frames.json"):
        assert get(a_site(played), url).status == 500
        entry = caplog.records[-1]
        assert entry.getMessage().startswith(f"{url}: decisions[0].us is {2**60}, not")
        assert entry.exc_info is None
