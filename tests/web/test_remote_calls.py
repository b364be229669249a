"""Calls from afar: answers, refusals, tokens, rates, streams."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

import pytest
from sqlalchemy import event
from starlette.requests import Request

from deepsea_arena.api.errors import INVALID_TOKEN, ApiError
from deepsea_arena.api.ladder_api import METHODS, ROOT
from deepsea_arena.api.local import LocalLadder
from deepsea_arena.api.service import MACHINE
from deepsea_arena.api.submissions import Archive
from deepsea_arena.games import newest_games
from deepsea_ladder.accounts import SecretKind, new_secret
from deepsea_ladder.limits import RemoteLimits
from deepsea_ladder.store import Store
from deepsea_web.access import Access
from deepsea_web.gateway import SENT_IN_CLEAR, Gateway
from deepsea_web.http_api import DESCRIPTION, http_api
from helpers.manual_clock import ManualClock
from helpers.members import a_service, a_token
from helpers.remote import OK, PATIENCE_S, Remote, served
from helpers.site import LOCAL, a_site, ask, scope_of

PROXY = frozenset({ip_address("127.0.0.1")})


@contextlib.contextmanager
def remote(
    store: Store, clock: ManualClock | None = None, access: Access | None = None, **given: Any
) -> Iterator[Remote]:
    """A ladder that listens."""
    service = a_service(store, clock=clock or ManualClock(), **given)
    with served(service, clock=clock, access=access) as server:
        yield Remote(server)


@pytest.fixture
def who(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a method whose answer names the caller."""

    def seasons(ladder: LocalLadder) -> tuple[str, ...]:
        return (ladder.caller.author or "nobody",)

    monkeypatch.setattr(LocalLadder, "seasons", seasons)
    return "seasons"


def named(author: str) -> dict[str, list[str]]:
    """That answer."""
    return {"seasons": [author]}


# What is asked and answered


def test_every_method_has_its_route_and_nothing_else_has(played: Store) -> None:
    gateway = Gateway(a_service(played), ManualClock())
    app: Any = http_api(gateway, LOCAL)
    found = {(verb, route.path) for route in app.routes for verb in route.methods - {"HEAD"}}
    expected = {(method.verb, method.path) for method in METHODS.values()}
    assert found == expected | {("GET", DESCRIPTION)}
    gateway.close()


def test_what_fails_inside_is_refused_without_details_and_logged(
    played: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(ladder: LocalLadder, **fields: object) -> Any:
        raise ZeroDivisionError("/srv/secret.db")

    monkeypatch.setattr(LocalLadder, "export", fails)
    with remote(played) as there:
        answer = there.call("export")
    assert answer.code == "INTERNAL"
    assert "secret" not in answer.message
    assert "/srv/secret.db" in caplog.text


SENSELESS = {
    "games?limit=": 400,
    "games?limit=1.5": 400,
    "games?limit=%D9%A4": 400,
    "games?limit=" + "0" * 20 + "1": 400,
    "games?limit=" + "9" * 5000: 400,
    "games?before=" + "9" * 21: 400,
    "games?lost=2": 400,
    "games?token=dsl_x": 400,
    "games?authorization=Bearer%20dsl_x": 400,
    "submissions?limit=%D9%A4": 401,
    "bots/%2e%2e%2f": 404,
    "bots/%00": 400,
}
"""Addresses, with the status; others are in the golden of refusals."""


def test_addresses_that_make_no_sense_are_refused_in_json(played: Store) -> None:
    with (
        remote(played) as there,
        contextlib.closing(http.client.HTTPConnection("127.0.0.1", there.port)) as connection,
    ):
        for path, status in SENSELESS.items():
            connection.request("GET", f"{ROOT}/{path}")
            answer = connection.getresponse()
            assert answer.status == status, path
            error = json.loads(answer.read())["error"]
            assert set(error) == {"code", "message"}
            assert "\n" not in error["message"]
            assert answer.headers["cache-control"] == "no-store"
            assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_a_request_with_two_lengths_is_the_last_of_its_connection(played: Store) -> None:
    """A proxy that goes by the other length would take the rest for somebody else's request."""
    raw = (
        "POST /api/v1/redeem HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n"
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        "GET /api/v1/standings HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    )
    with (
        remote(played) as there,
        socket.create_connection(("127.0.0.1", there.port), PATIENCE_S) as connection,
    ):
        connection.sendall(raw.encode())
        answers = connection.makefile("rb").read()
    assert answers.startswith(b"HTTP/1.1 400 ")
    assert answers.count(b"HTTP/1.1") == 1


# Tokens


def test_what_is_no_valid_token_is_refused(played: Store, who: str) -> None:
    with remote(played, clock=ManualClock()) as there:
        token = there.token("anna")
        for value in (
            *("", "Bearer", "Bearer ", token, f"Basic {token}", f"Bearer  {token}"),
            *(f"Bearer {token} {token}", f"Bearer {token},", "Bearer dsl_ann", "Bearer dsl_annaa"),
            "Bearer " + "x" * 5_000,
        ):
            answer = there.call(who, headers=[("authorization", value)])
            assert (answer.code, answer.message) == ("UNAUTHENTICATED", INVALID_TOKEN), value
            there.server.jump(3600 * 1_000_000)  # else they would have to wait
        twice = [("authorization", f"Bearer {token}")] * 2
        assert there.call(who, headers=twice).code == "UNAUTHENTICATED"
        long = there.call(who, headers=[("authorization", "Bearer " + "x" * 10_000)])
        assert long.code in ("UNAUTHENTICATED", "RESOURCE_EXHAUSTED")


def test_a_token_on_plain_text_from_elsewhere_is_refused(played: Store, who: str) -> None:
    """A proxy on this machine tells who asked; the site's address has no TLS."""
    proxy = Access("http://games.example", proxies=PROXY)
    safe = Access("https://games.example", proxies=PROXY)
    with remote(played, access=proxy) as there:
        token = there.token("anna")
        elsewhere = [("authorization", f"Bearer {token}"), ("x-forwarded-for", "203.0.113.5")]
        answer = there.call(who, headers=elsewhere)
        assert (answer.code, answer.message) == ("UNAUTHENTICATED", SENT_IN_CLEAR)
        assert there.call(who, headers=elsewhere[1:]).code == OK
    with remote(played, access=safe) as there:
        assert there.call(who, headers=elsewhere).document == named("anna")


# Rates


def test_what_is_over_a_limit_costs_no_query(played: Store, who: str) -> None:
    """Wrong tokens are visits; whose token was valid before is not kept out by them."""
    limits = RemoteLimits(pages_per_minute=3, calls_per_minute=2)
    asked: list[object] = []
    with remote(played, clock=ManualClock(), limits=limits) as there:
        token = there.token("anna")
        wrong, _ = new_secret(SecretKind.TOKEN, bytes(32))
        said = [there.call(who, one).code for one in (token, wrong, "malformed")]
        assert said == [OK, "UNAUTHENTICATED", "UNAUTHENTICATED"]
        event.listen(played.database.engine, "before_cursor_execute", lambda *_: asked.append(1))
        for one in (wrong, "malformed"):
            answer = there.call(who, one)
            assert (answer.code, answer.retry_after) == ("RESOURCE_EXHAUSTED", 20)
        assert asked == []
        assert there.call(who, token).code == OK
        assert asked != []
        asked.clear()
        assert there.call(who, token).code == "RESOURCE_EXHAUSTED"
        assert asked == []


@pytest.mark.parametrize("number", [2**63, -(2**63), 10**19])
def test_a_number_that_no_database_has_is_refused(played: Store, number: int) -> None:
    with remote(played) as there:
        found = there.call("games", before=number)
        assert (found.code, found.message) == ("INVALID_ARGUMENT", f"before: {number} is too large")


@pytest.mark.parametrize(
    "said",
    [("Origin", "https://evil.example"), ("Origin", "null"), ("Sec-Fetch-Site", "cross-site")],
)
def test_a_page_of_another_site_spends_nobodys_tries(played: Store, said: tuple[str, str]) -> None:
    """A browser sends a form of plain text to any address, without asking it first."""
    guess: dict[str, Any] = {"code": "AAAA-AAAA-AAAA-AAAA", "author": "eve"}
    with remote(played, clock=ManualClock()) as there:
        (made,) = LocalLadder(there.server.gateway.service, MACHINE).create_codes(count=1)
        code = made.code
        for _ in range(6):
            foreign = there.call("redeem", headers=[said, ("Content-Type", "text/plain")], **guess)
            assert foreign.code == "PERMISSION_DENIED"
        assert there.call("standings", headers=[said]).code == OK
        for _ in range(5):
            assert there.call("redeem", **guess).code == "UNAUTHENTICATED"
    with remote(played) as there:
        own = ("Origin", f"http://127.0.0.1:{there.port}"), ("Sec-Fetch-Site", "same-origin")
        assert there.call("redeem", headers=own, code=code, author="eve").code == OK


# Streams


async def test_streams_are_counted_together_whoever_asks(
    played: Store,
) -> None:
    """The API's feed, a page's events, and the check that follows an upload."""
    limits = RemoteLimits(streams_of_address=2, streams=4)
    service = a_service(played, limits=limits)
    site = a_site(service, Access("https://x.example", everybody=True), ManualClock())
    api: Any = a_site(service)
    api.gateway.close()
    api.app = http_api(site.gateway, LOCAL)
    begun: list[asyncio.Task[Any]] = []

    async def open_one(of: Any, path: str, client: str) -> None:
        started = asyncio.Event()
        asked = ask(of, path, client=client, noted=lambda _: started.set())
        begun.append(asyncio.create_task(asked))
        await started.wait()

    async def refused(of: Any, path: str, client: str) -> bool:
        answer = await ask(of, path, client=client)
        return answer.status == 429

    one, other, third = "203.0.113.5", "203.0.113.6", "203.0.113.7"
    await open_one(api, "/feed", one)
    await open_one(site, "/events", one)
    assert await refused(api, "/feed", one)
    assert await refused(site, "/events", one)
    await open_one(site, "/events", other)
    await open_one(api, "/feed", other)
    assert await refused(api, "/feed", third)  # all are taken
    assert await refused(site, "/events", third)
    author = service.caller_of(a_token(service, "anna-senior"), third)
    archive = Archive.of(b"x", "mine", "a-key-of-mine", 1)
    with pytest.raises(ApiError, match="too many streams"):
        await anext(site.gateway.upload(author, archive, Request(scope_of("/"))))
    site.gateway.closing.set()
    await asyncio.gather(*begun)
    site.gateway.close()


def test_a_browser_that_comes_back_gets_the_games_that_it_lacks(played: Store) -> None:
    seqs = sorted(int(game.seq) for game in newest_games(played, 100).games)
    with remote(played) as there:
        connection = http.client.HTTPConnection("127.0.0.1", there.port, timeout=PATIENCE_S)
        headers = {"Last-Event-ID": str(seqs[2])}
        connection.request("GET", f"{ROOT}/feed?after={seqs[0]}", headers=headers)
        answer = connection.getresponse()
        lines = [answer.readline().decode() for _ in range(3 * len(seqs[3:]))]
        connection.close()
    assert [int(line[4:]) for line in lines if line.startswith("id: ")] == seqs[3:]


def test_the_server_ends_while_streams_are_open(played: Store) -> None:
    answers: list[Any] = []
    with remote(played, clock=ManualClock()) as there:
        connection = http.client.HTTPConnection("127.0.0.1", there.port, timeout=PATIENCE_S)
        connection.request("GET", f"{ROOT}/feed")
        answer = connection.getresponse()
        reading = threading.Thread(target=lambda: answers.append(answer.read()))
        reading.start()
    reading.join(PATIENCE_S)
    connection.close()
    assert answers == [b""]


def test_calls_of_an_author_are_limited_whatever_the_token(played: Store, who: str) -> None:
    clock = ManualClock()
    limits = RemoteLimits(calls_per_minute=3)
    with remote(played, clock=clock, limits=limits) as there:
        tokens = [there.token("anna") for _ in range(3)]
        for token in tokens:
            assert there.call(who, token).code == OK
        for token in (*tokens, there.token("anna")):
            answer = there.call(who, token)
            assert (answer.code, answer.retry_after) == ("RESOURCE_EXHAUSTED", 20)
        assert there.call(who).code == OK  # others have a count of their own
        assert there.call(who, there.token("ben")).code == OK
        there.server.jump(20_000_000)
        assert there.call(who, token).code == OK
        assert there.call(who, token).code == "RESOURCE_EXHAUSTED"
