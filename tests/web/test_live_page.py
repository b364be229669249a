"""The page of a running match: what it answers to whom, and when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape

import pytest

from deepsea_web.http import CSP, GRACE_US, HEADERS, MOST_STREAMS
from deepsea_web.live.server import KEPT, LINGER_US, News
from helpers.commands import faulty, played, record_of
from helpers.pages import saying
from helpers.served import PATH, Served

HOSTILE = "</script><script>alert(1)</script>\u202e" + "e\u0301" * 20


@pytest.fixture
def served() -> Iterator[Served]:
    with Served() as page:
        yield page


THERE = ("", "games/1", "games/1.json", "live.js", "live.css", "viewer.js")
NOWHERE = (
    *("games/2", "games/2.json", "games/0x1", "games/-1", "nothing", "../../etc/passwd", "%00"),
    *("games/" + "9" * 5000, "games/" + "9" * 5000 + ".json"),
    *("live.js/../../serve.py", "games/..%2f..%2fserve.py"),
)


def test_every_answer_has_the_policy(served: Served) -> None:
    served.game(1, record_of(played()))
    served.game(3, "this is no record")
    for path, method, status in (
        *((path, "GET", 200) for path in THERE),
        *((path, "GET", 404) for path in NOWHERE),
        *(
            ("", "HEAD", 200),
            ("", "POST", 405),
            ("games/1", "DELETE", 405),
            ("games/3", "GET", 500),
        ),
    ):
        answer = served.get(path, method)
        assert answer.status == status, path
        for name, value in HEADERS.items():
            assert answer.headers.get_all(name) == [value]
        if status >= 400:
            assert PATH not in answer.text
            assert "/" not in answer.text
    assert served.get("", Host="evil.example").status == 421


def test_the_policy_is_that_of_the_design() -> None:
    assert "default-src 'none'" in CSP
    assert "unsafe" not in CSP
    assert "require-trusted-types-for 'script'" in CSP


@pytest.mark.parametrize("path", ["/", "/news", "/secret2/", "/viewer.js", "//", f"/x/{PATH}/"])
def test_nothing_is_served_without_the_random_path(served: Served, path: str) -> None:
    answer = served.raw(path)
    assert answer.status == 404
    assert answer.headers["Content-Security-Policy"] == CSP


def test_games_appear_as_they_end(served: Served) -> None:
    stream = served.stream()
    first = stream.next()
    assert (first["games"], first["over"], first["facts"]) == ([], None, "0 games")
    served.game(1, record_of(played()), "1. greedy (A) 12")
    second = stream.next()
    assert second["games"] == [{"number": 1, "words": "1. greedy (A) 12"}]
    served.tell(over="over", facts="1 game", table={"head": ["bot"], "rows": [["random"]]})
    last = stream.next()
    assert (last["games"], last["over"], last["facts"]) == ([], "over", "1 game")
    assert last["table"]["rows"] == [["random"]]
    # Who comes back says what it has, or what makes no sense.
    for after in (first["news"], "9" * 5000):
        again = served.stream(after=after).next()
        assert [game["number"] for game in again["games"]] == [1]


def test_who_is_woken_and_has_the_news_gets_none() -> None:
    news = News("greedy, random", "0 games", {"head": [], "rows": []})
    has, text = news.since(0)
    assert "0 games" in text
    assert news.since(has) == (has, "")


def test_the_newest_games_are_kept(served: Served) -> None:
    text = record_of(played()).to_json()
    for number in range(1, KEPT + 6):
        served.game(number, text)
    update = served.stream().next()
    assert [game["number"] for game in update["games"]] == [*range(6, KEPT + 6)]
    assert served.get("games/5").status == 404
    assert served.get("games/6.json").status == 200
    assert served.get("").text.count('href="games/') == KEPT


def test_without_javascript_there_are_results_and_stories(served: Served) -> None:
    served.game(1, record_of(faulty()))
    page = unescape(served.get("").text)
    for words in ("greedy, random", "Results so far", "1: 1. greedy (A) 12", 'href="games/1"'):
        assert words in page
    story = unescape(served.get("games/1").text)
    assert "dive 1: " in story
    assert "deepsea-referee verify game-0001.json" in story


def test_names_are_text_and_nothing_else() -> None:
    named = saying(record_of(played()), HOSTILE)
    with Served(HOSTILE) as served:
        served.tell(table={"head": ["bot"], "rows": [[HOSTILE]]}, facts=HOSTILE)
        served.game(1, named, HOSTILE)
        for path in ("", "games/1"):
            page = served.get(path).text
            assert page.count("<script") == 1
            assert "&lt;script&gt;" in page
            assert not any(f" {word}=" in page for word in ("style", "onload", "onerror"))
        assert served.get("games/1.json").headers["Content-Type"] == "application/json"


def test_streams_are_limited(served: Served) -> None:
    streams = [served.stream() for _ in range(MOST_STREAMS)]
    assert all(stream.next() for stream in streams)
    answer = served.get("news")
    assert answer.status == 503
    assert answer.headers["Content-Security-Policy"] == CSP


def test_the_page_ends_with_the_match_s_process(served: Served) -> None:
    stream = served.stream()
    assert stream.next()
    served.hang_up()
    assert stream.next() is None
    served.ends()


def test_after_the_match_the_page_stays_for_a_minute(served: Served) -> None:
    stream = served.stream()
    stream.next()
    served.tell(over="over")
    stream.next()
    served.jump(LINGER_US - 1)
    assert served.get("").status == 200
    served.jump(1)
    assert stream.next() is None
    served.ends()


def notices_who_left(served: Served) -> None:
    """Wait until the page knows, in its own time, that a connection is gone."""
    while served.clock.alarms < 2:
        served.get("live.css")


def test_after_the_match_the_page_ends_with_its_last_reader(served: Served) -> None:
    one, two = served.stream(), served.stream()
    served.tell(over="over")
    while (update := two.next()) is not None and update["over"] is None:
        pass
    one.close()
    served.jump(GRACE_US)
    assert served.get("").status == 200
    two.close()
    notices_who_left(served)
    served.jump(GRACE_US)
    served.ends()


def test_a_page_that_is_loaded_again_is_not_taken_for_closed(served: Served) -> None:
    stream = served.stream()
    stream.next()
    served.tell(over="over")
    stream.close()
    notices_who_left(served)
    served.jump(GRACE_US - 1)
    again = served.stream()
    assert again.next()
    served.jump(1)
    assert served.get("").status == 200


def test_who_has_not_come_yet_is_waited_for(served: Served) -> None:
    served.tell(over="over")
    served.jump(GRACE_US)
    assert served.get("").status == 200
