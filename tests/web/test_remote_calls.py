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

from deepsea_arena.api.callers import Caller
from deepsea_arena.api.errors import INVALID, ApiError, Kind
from deepsea_arena.api.ladder_api import METHODS, ROOT
from deepsea_arena.api.local import LocalLadder
from deepsea_arena.api.service import LadderService
from deepsea_arena.api.types import SeasonNames
from deepsea_arena.reports.games import newest_games
from deepsea_ladder.accounts import Role, new_token
from deepsea_ladder.limits import RemoteLimits
from deepsea_ladder.store import Store
from deepsea_rules.randomness import Stream, seed_from_text
from deepsea_sdk.entropy import fresh_seed
from deepsea_web.server.access import Access
from deepsea_web.server.gateway import PLAIN, Gateway
from deepsea_web.server.http_api import DESCRIPTION, http_api
from helpers.manual_clock import ManualClock
from helpers.remote import OK, PATIENCE_S, Remote, a_token, served
from helpers.site import LOCAL, a_site, ask

PROXY = frozenset({ip_address("127.0.0.1")})


@contextlib.contextmanager
def remote(
    store: Store, clock: ManualClock | None = None, access: Access | None = None, **given: Any
) -> Iterator[Remote]:
    """A ladder that listens."""
    seconds = (lambda: clock.now_us() / 1e6) if clock else (lambda: 0.0)
    service = LadderService(store, store, entropy=fresh_seed, clock=seconds, **given)
    with served(service, clock=clock, access=access) as server:
        yield Remote(server)


@pytest.fixture
def who(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a method whose answer names the caller."""

    def seasons(ladder: LocalLadder) -> SeasonNames:
        return SeasonNames((ladder.caller.author or "nobody",))

    monkeypatch.setattr(LocalLadder, "seasons", seasons)
    return "seasons"


def named(author: str) -> dict[str, list[str]]:
    """That answer."""
    return {"seasons": [author]}


# What is asked and answered


def test_every_method_has_its_route_and_nothing_else_has(played: Store) -> None:
    gateway = Gateway(LadderService(played, played, entropy=fresh_seed), ManualClock())
    app: Any = http_api(gateway, LOCAL)
    found = {(verb, route.path) for route in app.routes for verb in route.methods - {"HEAD"}}
    expected = {(method.verb, method.path) for method in METHODS.values()}
    assert found == expected | {("GET", DESCRIPTION)}
    gateway.close()


@pytest.mark.parametrize("private", [False, True])
def test_every_route_asks_for_rights(played: Store, private: bool) -> None:
    """The table of rights is in tests/arena/test_api_rights.py."""
    with remote(played, private=private) as there:
        reader = there.token("anna-senior", ("read",))
        for name, method in METHODS.items():
            fields: dict[str, Any] = {
                one: 1 if one == "id" else "x" for one in _named_in(method.path)
            }
            if name == "submit":
                header = {"bot": "x", "size": 1}
                refused = [there.submit(token, header, [b"x"]) for token in (None, reader)]
            elif method.role is Role.VISITOR and not (private and not method.always):
                continue
            else:
                refused = [there.call(name, token, most=0, **fields) for token in (None, reader)]
            assert refused[0].code == "UNAUTHENTICATED", name
            if method.role is Role.ADMIN or method.scope == "submit":
                assert refused[1].code == "PERMISSION_DENIED", name


def _named_in(path: str) -> list[str]:
    return [part.strip("{}") for part in path.split("/") if part.startswith("{")]


def test_what_is_not_declared_cannot_be_called_from_afar(played: Store) -> None:
    undeclared = {"begin_upload", "admin_token", "check_admin", "is_own"}
    assert undeclared <= set(dir(LocalLadder))
    assert not undeclared & set(METHODS)
    with remote(played) as there:
        token = there.token("head", admin=True)
        connection = http.client.HTTPConnection("127.0.0.1", there.port)
        for name in sorted(undeclared):
            for verb in ("GET", "POST", "PUT", "DELETE"):
                for path in (f"/{name}", f"/admin/{name}", f"/standings?{name}=1"):
                    headers = {"authorization": f"Bearer {token}"}
                    connection.request(verb, f"{ROOT}{path}", headers=headers)
                    answer = connection.getresponse()
                    assert answer.status in (400, 404, 405)
                    answer.read()
        connection.close()


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.NO_METHOD])
def test_every_kind_of_refusal_has_a_code(
    played: Store, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seasons(ladder: LocalLadder) -> SeasonNames:
        raise ApiError(kind, "no", 7)

    monkeypatch.setattr(LocalLadder, "seasons", seasons)
    with remote(played) as there:
        answer = there.call("seasons")
    assert (answer.code, answer.message, answer.retry_after) == (kind, "no", 7)


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


@pytest.mark.parametrize(
    ("verb", "path", "body", "status"),
    [
        ("GET", "/api/v1/nothing", b"", 404),
        ("GET", "/api/v1/", b"", 404),
        ("POST", "/api/v1/standings", b"", 405),
        ("GET", "/api/v1/games?limit=x", b"", 400),
        ("GET", "/api/v1/games?limit=", b"", 400),
        ("GET", "/api/v1/games?limit=1.5", b"", 400),
        ("GET", "/api/v1/games?limit=%D9%A4", b"", 400),
        ("GET", "/api/v1/games?limit=" + "0" * 20 + "1", b"", 400),
        ("GET", "/api/v1/games?before=" + "9" * 21, b"", 400),
        ("GET", "/api/v1/games?lost=2", b"", 400),
        ("GET", "/api/v1/games?lost=true&lost=true", b"", 400),
        ("GET", "/api/v1/submissions?limit=%D9%A4", b"", 401),
        ("DELETE", "/api/v1/admin/codes/" + "1" * 21, b"", 401),
        ("GET", "/api/v1/games?limit=" + "9" * 5000, b"", 400),
        ("GET", "/api/v1/feed?after=" + "9" * 5000, b"", 400),
        ("GET", "/api/v1/games?limit=1&limit=2", b"", 400),
        ("GET", "/api/v1/games?author=anna", b"", 400),
        ("GET", "/api/v1/bots/ben?bot=anna", b"", 400),
        ("GET", "/api/v1/games?token=dsl_x", b"", 400),
        ("GET", "/api/v1/games?authorization=Bearer%20dsl_x", b"", 400),
        ("GET", "/api/v1/bots/%2e%2e%2f", b"", 404),
        ("GET", "/api/v1/bots/%00", b"", 404),
    ],
)
def test_addresses_that_make_no_sense_are_refused_in_json(
    played: Store, verb: str, path: str, body: bytes, status: int
) -> None:
    with remote(played) as there:
        connection = http.client.HTTPConnection("127.0.0.1", there.port)
        connection.request(verb, path, body)
        answer = connection.getresponse()
        assert answer.status == status
        error = json.loads(answer.read())["error"]
        assert set(error) == {"code", "message"}
        assert "\n" not in error["message"]
        assert answer.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        connection.close()


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


BODIES = (
    b"{",
    b"[]",
    b"null",
    b'{"label": 7}',
    b'{"days": "3"}',
    b'{"days": 1.5}',
    b'{"days": true}',
    b'{"days": null}',
    b'{"days": 1000000000000000000000}',
    b'{"scopes": "read"}',
    b'{"scopes": [1]}',
    b'{"scopes": {"read": 1}}',
    b'{"role": "admin"}',
    b'{"author": "ben"}',
    b"[" * 30_000,
    b"\xff\xfe",
    b'{"label": "' + b"x" * 70_000 + b'"}',
)


def test_a_body_that_makes_no_sense_is_refused_in_one_line(
    played: Store, caplog: pytest.LogCaptureFixture
) -> None:
    path = f"{ROOT}/account/tokens"
    with remote(played) as there:
        token = there.token("anna")
        for target, body in (*((path, body) for body in BODIES), (f"{path}?label=x", b"{}")):
            connection = http.client.HTTPConnection("127.0.0.1", there.port)
            connection.request("POST", target, body, {"authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            assert answer.status == 400, body[:40]
            error = json.loads(answer.read())["error"]
            assert error["code"] == "INVALID_ARGUMENT"
            assert "\n" not in error["message"]
            connection.close()
        fields: dict[str, Any] = {"label": "laptop", "scopes": ["read", "submit"], "days": 3}
        made = there.call("create_token", token, **fields).document["token"]
        assert (made["label"], made["scopes"]) == ("laptop", ["read", "submit"])
    assert caplog.text == ""


def noise(text: str, most: int) -> bytes:
    """Bytes by chance, the same for the same text."""
    chance = Stream(seed_from_text("nonsense"), text)
    return bytes(chance.uniform(256) for _ in range(chance.uniform(most) + 1))


def test_nonsense_is_answered_at_every_address(
    played: Store, caplog: pytest.LogCaptureFixture
) -> None:
    limits = RemoteLimits(calls_per_minute=10**6, failures_per_hour=10**6)
    with remote(played, limits=limits) as there:
        headers = {"authorization": f"Bearer {there.token('head', admin=True)}"}
        connection = http.client.HTTPConnection("127.0.0.1", there.port, timeout=PATIENCE_S)
        for name, method in METHODS.items():
            for turn in range(6):
                text = noise(f"{name}/{turn}/path", 12).hex()
                path = method.path
                for field in _named_in(path):
                    path = path.replace(f"{{{field}}}", f"%{text[:2]}{text}")
                body = noise(f"{name}/{turn}", 60)
                if turn % 2:  # JSON of the right form, with wrong values
                    value = [turn, None, text][turn // 2]
                    body = json.dumps(dict.fromkeys(method.parameters, value)).encode()
                query = "" if turn % 3 else f"?{text}={text}"
                sent = body if method.changes else None
                connection.request(method.verb, f"{ROOT}{path}{query}", sent, headers)
                answer = connection.getresponse()
                if answer.status == 200:
                    connection.close()  # a stream may not end
                    continue
                fine = {400, 404, 409, 429} | ({401} if name == "redeem" else set())
                assert answer.status in fine, (name, turn, answer.status)
                assert set(json.loads(answer.read())) == {"error"}
        connection.close()
    assert caplog.text == ""


TEXTS = ("\0", "x" * 5_000, "' OR 1=1 --", "../../etc/passwd", "\u202egnp", "%s%n{0}", " ")
NUMBERS = (-1, 0, 2**31 - 1, -(2**31), 2**53 - 1, 2**63 - 1, -(2**63))


@pytest.mark.parametrize("turn", range(len(TEXTS)))
def test_values_on_purpose_are_answered_by_every_method(
    played: Store, turn: int, caplog: pytest.LogCaptureFixture
) -> None:
    with remote(played) as there:
        token = there.token("head", admin=True)
        for name, method in METHODS.items():
            if name in ("submit", "feed"):  # the latter waits for games, if need be
                continue
            fields = {one: _value(kind.annotation, turn) for one, kind in method.parameters.items()}
            answer = there.call(name, token, most=1, **fields)
            assert answer.code not in ("INTERNAL", "UNAVAILABLE"), (name, answer)
            if answer.code != OK:
                assert len(answer.message) < 400
                assert answer.message.isprintable(), answer
    assert caplog.text == ""


def _value(kind: object, turn: int) -> Any:
    if kind is bool:
        return bool(turn % 2)
    if kind is str:
        return TEXTS[turn]
    return NUMBERS[turn] if "int" in str(kind) else [TEXTS[turn]]


# Tokens


def test_a_token_says_who_it_is(played: Store, who: str) -> None:
    with remote(played) as there:
        assert there.call(who).document == named("nobody")
        token = there.token("anna")
        assert there.call(who, token).document == named("anna")
        upper = there.call(who, headers=[("authorization", f"BEARER {token}")])
        assert upper.document == named("anna")


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        "Bearer ",
        "TOKEN",
        "Basic TOKEN",
        "Bearer  TOKEN",
        "Bearer TOKEN TOKEN",
        "Bearer TOKEN,",
        "Bearer dsl_ann",
        "Bearer dsl_annaa",
        "Bearer " + "x" * 5_000,
    ],
)
def test_what_is_no_valid_token_is_refused(played: Store, who: str, value: str) -> None:
    with remote(played) as there:
        value = value.replace("TOKEN", there.token("anna"))
        answer = there.call(who, headers=[("authorization", value)])
    assert (answer.code, answer.message) == ("UNAUTHENTICATED", INVALID)


def test_a_token_of_ten_kilobytes_is_refused(played: Store, who: str) -> None:
    with remote(played) as there:
        answer = there.call(who, headers=[("authorization", "Bearer " + "x" * 10_000)])
    assert answer.code in ("UNAUTHENTICATED", "RESOURCE_EXHAUSTED")


def test_two_tokens_are_refused(played: Store, who: str) -> None:
    with remote(played) as there:
        twice = [("authorization", f"Bearer {there.token('anna')}")] * 2
        assert there.call(who, headers=twice).code == "UNAUTHENTICATED"


def test_a_token_on_plain_text_from_elsewhere_is_refused(played: Store, who: str) -> None:
    """A proxy on this machine tells who asked; the site's address has no TLS."""
    proxy = Access("http://games.example", proxies=PROXY)
    safe = Access("https://games.example", proxies=PROXY)
    with remote(played, access=proxy) as there:
        token = there.token("anna")
        elsewhere = [("authorization", f"Bearer {token}"), ("x-forwarded-for", "203.0.113.5")]
        answer = there.call(who, headers=elsewhere)
        assert (answer.code, answer.message) == ("UNAUTHENTICATED", PLAIN)
        assert there.call(who, headers=elsewhere[1:]).code == OK
    with remote(played, access=safe) as there:
        assert there.call(who, headers=elsewhere).document == named("anna")


# Rates


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


def test_calls_of_visitors_are_limited_by_address(played: Store, who: str) -> None:
    limits = RemoteLimits(pages_per_minute=2)
    access = Access("https://games.example", proxies=PROXY)
    with remote(played, clock=ManualClock(), limits=limits, access=access) as there:
        said = [
            there.call(who, headers=[("x-forwarded-for", address)]).code
            for address in ("203.0.113.5", "203.0.113.5", "203.0.113.5", "203.0.113.6")
        ]
    assert said == [OK, OK, "RESOURCE_EXHAUSTED", OK]


def test_wrong_tokens_wait_longer_and_longer_and_right_ones_never(played: Store, who: str) -> None:
    clock = ManualClock()
    with remote(played, clock=clock) as there:
        token = there.token("anna")
        for _ in range(5):
            assert there.call(who, "wrong").code == "UNAUTHENTICATED"
        for wait in (1, 2, 4, 8):
            answer = there.call(who, "wrong")
            assert (answer.code, answer.retry_after) == ("RESOURCE_EXHAUSTED", wait)
            assert there.call(who, token).code == OK
            there.server.jump(wait * 1_000_000)
            assert there.call(who, "wrong").code == "UNAUTHENTICATED"


def test_what_is_over_a_limit_costs_no_query(played: Store, who: str) -> None:
    """Wrong tokens are visits; whose token was valid before is not kept out by them."""
    limits = RemoteLimits(pages_per_minute=3, calls_per_minute=2)
    asked: list[object] = []
    with remote(played, clock=ManualClock(), limits=limits) as there:
        token, wrong = there.token("anna"), new_token(bytes(32))
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


# Streams


async def test_streams_are_counted_together_whoever_asks(
    played: Store,
) -> None:
    """The API's feed, a page's events, and the check that follows an upload."""
    limits = RemoteLimits(streams_of_address=2, streams=4)
    service = LadderService(played, played, entropy=fresh_seed, limits=limits)
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
    with pytest.raises(ApiError, match="too many streams"):
        await anext(site.gateway.upload(_author(service), _nothing))
    site.gateway.closing.set()
    await asyncio.gather(*begun)
    site.gateway.close()


def _author(service: LadderService) -> Caller:
    return service.caller_of_token(a_token(service, "anna-senior"), "203.0.113.7")


async def _nothing() -> None:
    return None


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
