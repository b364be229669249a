"""A hostile server: whatever it sends costs one line and an exit status, and gets no token."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from deepsea_arena.api.errors import Unreachable
from deepsea_arena.api.remote import LARGEST, LARGEST_LINE, MOST_EVENTS, RemoteLadder
from deepsea_arena.bots import bot_profile
from deepsea_arena.documents import to_object
from deepsea_arena.games import newest_games
from deepsea_arena.standings import show_standings
from deepsea_ladder.store import Store
from deepsea_rules.printable import printable
from helpers import ladder
from helpers.answering import (
    Answering,
    Asked,
    Reply,
    Scripted,
    answer,
    begun,
    event,
    refusal,
    submission,
    text,
)
from helpers.commands import Run, one_line

TOKEN = "dsl_" + "a" * 64
ANSI = "\x1b[2J\x1b]0;owned\x07"


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", TOKEN)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    path = ladder.played(tmp_path_factory.mktemp("ladder") / "ladder.db", 4, {})
    with Store.open(path) as made:
        yield made


@pytest.fixture
def there() -> Scripted:
    return Scripted()


def endless(part: bytes, head: bytes | None = None) -> Callable[[Asked], Reply]:
    """A reply without end, unless the client hangs up."""

    def reply(_asked: Asked) -> Iterator[bytes]:
        yield begun() if head is None else head
        while True:
            yield part

    return reply


def refused(run: Run, server: Answering, *words: object, status: int = 1) -> str:
    """The line that a command ends with."""
    done = run("ladder", *words, "--remote", server.url)
    assert (done.status, done.out) == (status, ""), done
    line = one_line(done.err)
    assert line == printable(line)
    assert len(line) < 700
    return line


# ------------------------------------------------------------------------------- too much of it


@pytest.mark.parametrize("size", [{}, {"Content-Length": str(1 << 30)}])
def test_a_gigabyte_of_standings_is_not_read(
    run: Run, there: Scripted, server: Answering, size: dict[str, str]
) -> None:
    there.documents["/standings"] = endless(b" " * (1 << 16), begun(size))
    assert "answers with more than 8 MiB" in refused(run, server, "standings")
    assert server.sent < 4 * LARGEST


@pytest.mark.parametrize("part", [b"x" * (1 << 16), b"data: " + b"x" * 1000 + b"\n"])
def test_a_line_or_an_event_without_end_is_not_read(
    run: Run, there: Scripted, server: Answering, part: bytes
) -> None:
    there.documents["/bots/greedy"] = endless(part)
    assert "sends a line without end" in refused(run, server, "submit", "greedy")
    assert server.sent < 16 * LARGEST_LINE


def test_a_check_without_end_is_given_up(run: Run, there: Scripted, server: Answering) -> None:
    there.documents["/bots/greedy"] = endless(event(submission("running", games=1)) * 100)
    assert "does not come to an end with submit" in refused(run, server, "submit", "greedy")


@pytest.mark.release  # 10,000 events, for a client that listens for months
def test_a_feed_has_no_end(there: Scripted, server: Answering, store: Store) -> None:
    (game,) = newest_games(store, 1).games
    there.documents["/feed"] = endless(event({"game": to_object(game)}) * 100)
    with RemoteLadder(server.url, TOKEN) as remote:
        games = islice(remote.feed(after=1), MOST_EVENTS + 2)
        assert sum(step is not None and step.seq == game.seq for step in games) == (MOST_EVENTS + 2)


def test_pages_of_games_are_put_together(
    run: Run, there: Scripted, server: Answering, store: Store
) -> None:
    page: dict[str, Any] = to_object(newest_games(store, 4))

    def pages(asked: Asked) -> Reply:
        given = parse_qs(urlsplit(asked.path).query)
        before = int(given.get("before", ["9"])[0])
        left = [game for game in page["games"] if int(game["seq"]) < before]
        found = left[: min(2, int(given["limit"][0]))]
        return answer({"games": found, "older": found[-1]["seq"] if left[2:] else None})

    there.documents["/games"] = pages
    for limit in (1, 2, 3, 4, 9):
        done = run("ladder", "games", "--limit", limit, "--json", "--remote", server.url)
        assert json.loads(done.out)["games"] == page["games"][:limit]


def test_pages_of_games_without_end_are_given_up(
    run: Run, there: Scripted, server: Answering, store: Store
) -> None:
    page: dict[str, Any] = to_object(newest_games(store, 1))
    there.documents["/games"] = {**page, "older": "5"}
    line = refused(run, server, "games", "--limit", 100_000)
    assert "gives the same games again" in line
    there.documents["/games"] = {**page, "games": [], "older": "5"}
    assert "gives the same games again" in refused(run, server, "games")
    there.documents["/games"] = {**page, "games": page["games"] * 21}
    assert "gives 21 games where 20 were asked for" in refused(run, server, "games")


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: ",
        begun({"Content-Length": "100000000"}) + b" ",
        begun() + b" ",
    ],
)
def test_an_answer_that_never_comes_is_given_up(head: bytes) -> None:
    given_up = threading.Event()

    def reply(_asked: Asked) -> Iterator[bytes]:
        yield head
        given_up.wait()

    with Answering(reply) as server:
        try:
            with (
                RemoteLadder(server.url, TOKEN, timeout=0.3) as remote,
                pytest.raises(Unreachable, match="does not answer in time"),
            ):
                remote.server()
        finally:
            given_up.set()


# -------------------------------------------------------------------------- what makes no sense


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (text(b""), "makes no sense"),
        (text(b"<html>"), "makes no sense"),
        (text(b"[1, 2]"), "makes no sense"),
        (text(b"[" * 100_000), "makes no sense"),
        (text(b'{"a":' * 100_000), "makes no sense"),
        (text(b"\xff\xfe\x00"), "makes no sense"),
        (text(b"{}{}"), "makes no sense"),
        (text(b"{}", 204), "makes no sense"),
        (text(b"{}", headers={"Content-Encoding": "gzip"}), "was not asked for"),
        (text(b"what is this?", 404), "is no ladder (HTTP 404)"),
        (answer({"error": "no"}, 500), "is no ladder (HTTP 500)"),
        (text(b"[" * 100_000, 500), "is no ladder (HTTP 500)"),
        (b"HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n{}", "is no ladder"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "broke"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "is no ladder"),
        (b"", "broke"),
        (begun({"Content-Length": "100"}) + b"{}", "broke"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000 + b"\r\n{}", "is no ladder"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000, "is no ladder"),
        (answer({"season": 7}), "standings makes no sense"),
        (answer({"season": {"opened_at": "now"}}), "at `$.season"),
    ],
)
def test_an_answer_that_makes_no_sense_costs_a_line(
    run: Run, there: Scripted, server: Answering, reply: bytes, said: str
) -> None:
    there.documents["/standings"] = lambda _asked: reply
    assert said.lower() in refused(run, server, "standings").lower()


WRONG: list[Any] = [{"x": "y"}, [["y"]], 1e400, 10**30, "\ud800"]
EVERY = pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.release)])


def pages(store: Store) -> list[tuple[str, Any, list[str]]]:
    """What is asked for, a good answer, and the command that asks."""
    return [
        ("/standings", show_standings(store), ["standings"]),
        ("/games", newest_games(store, 9), ["games"]),
        ("/bots/ben", bot_profile(store, "ben"), ["bot", "ben"]),
    ]


@EVERY
def test_wrong_types_are_refused_wherever_they_are(
    run: Run, there: Scripted, server: Answering, store: Store, every: bool
) -> None:
    for path, page, words in pages(store):
        good = to_object(page)
        there.documents[path] = good
        assert run("ladder", *words, "--remote", server.url).status == 0
        places = list(leaves(good))
        assert len(places) > 10
        for number, (place, right) in enumerate(places[:: 1 if every else 2]):
            # Every second place meets one of them in every run; before a release each meets all.
            for wrong in WRONG if every else WRONG[number % len(WRONG) :][:1]:
                there.documents[path] = changed(good, place, wrong)
                done = run("ladder", *words, "--remote", server.url)
                assert done.status in (0, 1), (place, wrong, done)
                if done.status:
                    assert "makes no sense" in one_line(done.err)
                fits = isinstance(wrong, str) or (isinstance(right, float) and wrong == 10**30)
                assert done.status or fits, (place, wrong)


OBEYED = [ANSI, "\u202eevil", "a\nb\r\x9b2J"]


def leaves(document: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The places of a few values, and these: of each list the first item."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from leaves(value, (*place, name))
    elif isinstance(document, list) and document:
        yield from leaves(document[0], (*place, 0))
    elif document is not None:
        yield place, document


def changed(document: Any, place: tuple[Any, ...], wrong: object) -> Any:
    """A copy with another value at that place."""
    if not place:
        return wrong
    copy = document.copy()
    copy[place[0]] = changed(document[place[0]], place[1:], wrong)
    return copy


def test_a_record_is_written_anew(
    run: Run, there: Scripted, server: Answering, store: Store
) -> None:
    game = newest_games(store, 1).games[0].game_id
    record = store.games.record(game)
    there.documents[f"/games/{game}/record"] = {"record": record}
    assert run("ladder", "record", game, "--remote", server.url).out == record
    hostile = record.replace('"name": "anna', '"name": "\u202e\x9b2Janna', 1)
    there.documents[f"/games/{game}/record"] = {"record": hostile}
    out = run("ladder", "record", game, "--remote", server.url).out
    assert out.isascii()
    assert json.loads(out) == json.loads(hostile)
    for wrong in ("", "{}", ANSI, "[" * 10_000, record.replace(game, "s9-1")):
        there.documents[f"/games/{game}/record"] = {"record": wrong}
        assert "gives no record" in refused(run, server, "record", game)


# ------------------------------------------------------------------------- what a terminal obeys


@EVERY
def test_nothing_that_a_terminal_obeys_gets_through(
    run: Run, there: Scripted, server: Answering, store: Store, every: bool
) -> None:
    for path, page, words in (
        *pages(store),
        (
            "/games/g/log",
            {"logs": [{"seat": 0, "bot": "b", "error": "e", "output": "o"}]},
            ["log", "g"],
        ),
    ):
        good = page if isinstance(page, dict) else to_object(page)
        for number, (place, _) in enumerate(leaves(good)):
            for hostile in OBEYED if every else OBEYED[number % len(OBEYED) :][:1]:
                there.documents[path] = changed(good, place, hostile)
                done = run("ladder", *words, "--remote", server.url)
                shown = (done.out + done.err).replace("\n", "").replace("\t", "")
                assert shown == printable(shown), (place, shown)
                assert done.status in (0, 1)


def test_a_refusal_is_one_line_whatever_is_in_it(
    run: Run, there: Scripted, server: Answering
) -> None:
    for message in (ANSI, "a\nb\r\n" * 1000, "\u202e" + "x" * 10**6):
        there.documents["/standings"] = refusal("NOT_FOUND", message, 404)
        refused(run, server, "standings", status=2)
    there.documents["/standings"] = refusal("RESOURCE_EXHAUSTED", "too many calls", 429, 90)
    assert refused(run, server, "standings", status=2).endswith("too many calls; try again in 90 s")
    for wait in (-1, 10**12, "soon", True):
        error = {"code": "RESOURCE_EXHAUSTED", "message": "slow", "retry_after": wait}
        there.documents["/standings"] = answer({"error": error}, 429)
        assert refused(run, server, "standings", status=2).endswith("slow")
    for code, status, exit_status in (
        *(("INTERNAL", 500, 1), ("UNAVAILABLE", 503, 1), ("", 502, 1)),
        *(("PERMISSION_DENIED", 403, 2), ("UNIMPLEMENTED", 404, 2), (ANSI, 400, 2), (7, 400, 2)),
    ):
        error = {"code": code, "message": ["x"]}  # type: ignore[dict-item]
        there.documents["/standings"] = answer({"error": error}, status)
        refused(run, server, "standings", status=exit_status)


# ------------------------------------------------------------------------ where the token goes


def test_nobody_is_followed_elsewhere(run: Run, there: Scripted, server: Answering) -> None:
    with Answering(Scripted()) as elsewhere:
        for status in (301, 302, 303, 307, 308):
            to = {"Location": f"{elsewhere.url}/api/v1/standings"}
            there.documents["/standings"] = text(b"", status, to)
            assert f"elsewhere (HTTP {status})" in refused(run, server, "standings")
        assert elsewhere.asked == []


@pytest.mark.parametrize(
    "url",
    [
        "http://ladder.example",
        "http://192.168.0.7:8080",
        "http://127.0.0.1.evil.example",
        "http://localhost.evil.example:80",
    ],
)
def test_without_tls_no_token_leaves_this_machine(run: Run, url: str) -> None:
    for words in (("standings", "--remote", url), ("login", url)):
        done = run("ladder", *words)
        assert "without TLS everybody on the way could read the token" in done.refusal
        assert TOKEN not in done.err


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ladder.example",
        "ftp://x",
        "https://",
        "https://user:pass@x",
        "https://x?y=1",
        "https://x/#CODE",
        "https://x:0",
        "https://x:port",
        "https://x/../y",
        "https://[::1",
        "https://x y",
        "https://x\r\nHost: y",
        f"https://{ANSI}",
    ],
)
def test_what_is_no_address_is_refused_in_a_line(run: Run, url: str) -> None:
    line = run("ladder", "login", url).refusal
    assert line == printable(line)
    assert "pass" not in re.sub("password", "", line)
