"""Calls from afar, over gRPC and HTTP alike: answers, refusals, tokens, rates, streams."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from sqlalchemy import event

from deepsea_arena.service.caller import MACHINE, Caller
from deepsea_arena.service.errors import INVALID, Kind, ServiceError
from deepsea_arena.service.methods import METHODS
from deepsea_arena.service.service import LadderService
from deepsea_arena.service.table import Flow, Method
from deepsea_arena.wire import messages
from deepsea_ladder.accounts import Role, new_token
from deepsea_ladder.remote_limits import RemoteLimits
from deepsea_ladder.store import Store
from deepsea_sdk.entropy import fresh_seed
from deepsea_web.remote.front import PLAIN, RECHECK_US
from deepsea_web.remote.rpc import options
from deepsea_web.site.access import Access
from helpers.manual_clock import ManualClock
from helpers.remote import OK, PATIENCE_S, WAYS, Remote, served


@contextlib.contextmanager
def remote(
    store: Store,
    way: str,
    *methods: Method,
    clock: ManualClock | None = None,
    access: Access | None = None,
    **given: Any,
) -> Iterator[Remote]:
    """A ladder of these methods, or of all."""
    table = {**METHODS, **{method.name: method for method in methods}}
    seconds = (lambda: clock.now_us() / 1e6) if clock else (lambda: 0.0)
    service = LadderService(store, store, table, entropy=fresh_seed, clock=seconds, **given)
    with served(service, clock=clock, access=access) as server:
        yield Remote(server, way)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# What is asked and answered


def test_both_ways_answer_the_same(played: Store) -> None:
    with remote(played, "grpc") as rpc:
        http = Remote(rpc.server, "http")
        asked: list[tuple[str, dict[str, Any]]] = [
            ("GetStandings", {"everybody": True, "best_of_author": True}),
            ("GetBot", {"bot": "ben"}),
            ("ListGames", {"bot": "ben", "limit": 3, "lost": True}),
            ("GetRecord", {"game_id": "s1-1"}),
            ("GetFrames", {"game_id": "s1-1", "seat": 0}),
            ("Export", {}),
        ]
        for name, fields in asked:
            one, other = rpc.call(name, **fields), http.call(name, **fields)
            assert one.code == OK, one
            assert one.documents
            assert one.documents == list(map(_without_nulls, other.documents)), name


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("name", "fields", "code"),
    [
        ("GetBot", {"bot": "nobody"}, "NOT_FOUND"),
        ("GetRecord", {"game_id": "s1-99"}, "NOT_FOUND"),
        ("ListGames", {"limit": 501}, "INVALID_ARGUMENT"),
        ("Export", {"season": "s9"}, "NOT_FOUND"),
    ],
)
def test_refusals_have_their_code_and_a_sentence(
    played: Store, way: str, name: str, fields: dict[str, Any], code: str
) -> None:
    with remote(played, way) as there:
        answer = there.call(name, **fields)
    assert (answer.code, answer.documents) == (code, [])
    assert answer.message
    assert "\n" not in answer.message


def fails(service: LadderService, caller: Caller, *, season: str = "") -> object:
    raise ZeroDivisionError("/srv/secret.db")


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_of_refusal_has_a_code(played: Store, way: str, kind: Kind) -> None:
    def refuses(service: LadderService, caller: Caller, *, season: str = "") -> object:
        raise ServiceError(kind, "no", 7)

    with remote(played, way, Method(name="Export", handler=refuses, path="/export")) as there:
        answer = there.call("Export")
    assert (answer.message, answer.retry_after) == ("no", 7)
    with remote(played, "http" if way == "grpc" else "grpc", there_method(refuses)) as other:
        assert other.call("Export").code == answer.code


def there_method(handler: Any) -> Method:
    return Method(name="Export", handler=handler, path="/export")


def test_what_fails_inside_is_told_without_details_and_logged(
    played: Store, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    with remote(played, way, there_method(fails)) as there:
        answer = there.call("Export")
    assert answer.code == "INTERNAL"
    assert "secret" not in answer.message
    assert "/srv/secret.db" in caplog.text


def test_bytes_that_are_no_request_are_refused(played: Store) -> None:
    with remote(played, "grpc") as there:
        assert there.raw("ListGames", b"\xff\xff").code == "INVALID_ARGUMENT"
        assert there.raw("Export", b"\x0a\xff").code == "INVALID_ARGUMENT"
        with grpc.insecure_channel(f"127.0.0.1:{there.rpc}") as channel:
            call: Any = channel.unary_unary("/deepsea.ladder.v1.LadderService/Shutdown")
            with pytest.raises(grpc.RpcError) as info:
                call(b"")
            assert info.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("verb", "path", "body", "status"),
    [
        ("GET", "/api/v1/nothing", b"", 404),
        ("GET", "/api/v1/", b"", 404),
        ("POST", "/api/v1/standings", b"", 405),
        ("GET", "/api/v1/games?limit=x", b"", 400),
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
    with remote(played, "http") as there:
        connection = http.client.HTTPConnection("127.0.0.1", there.http)
        connection.request(verb, path, body)
        answer = connection.getresponse()
        assert answer.status == status
        assert set(json.loads(answer.read())["error"]) == {"code", "message"}
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
        remote(played, "http") as there,
        socket.create_connection(("127.0.0.1", there.http), PATIENCE_S) as connection,
    ):
        connection.sendall(raw.encode())
        answers = connection.makefile("rb").read()
    assert answers.startswith(b"HTTP/1.1 400 ")
    assert answers.count(b"HTTP/1.1") == 1


@dataclass
class Echo:
    """A response of CreateToken, of which only the secret is told."""

    secret: str
    token: None = None


def echo(
    service: LadderService, caller: Caller, *, label: str, scopes: tuple[str, ...], days: int
) -> Echo:
    return Echo(f"{caller.author} {label} {' '.join(scopes)} {days}")


ECHO = Method(name="CreateToken", handler=echo, verb="POST", path="/echo")


def test_a_body_is_json(played: Store, way: str) -> None:
    with remote(played, way, ECHO) as there:
        fields: dict[str, Any] = {"label": "laptop", "scopes": ("read", "submit"), "days": 3}
        secret = there.call("CreateToken", there.token("anna"), **fields).document["secret"]
    assert secret == "anna laptop read submit 3"


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b'{"label": 7}',
        b'{"role": "admin"}',
        b'{"author": "ben"}',
        b"[" * 30_000,
        b"\xff\xfe",
        b'{"label": "' + b"x" * 70_000 + b'"}',
    ],
)
def test_a_body_that_makes_no_sense_is_refused(played: Store, body: bytes) -> None:
    with remote(played, "http", ECHO) as there:
        connection = http.client.HTTPConnection("127.0.0.1", there.http)
        connection.request("POST", "/api/v1/echo", body)
        answer = connection.getresponse()
        assert answer.status == 400
        assert json.loads(answer.read())["error"]["code"] == "INVALID_ARGUMENT"
        connection.request("POST", "/api/v1/echo?label=x", b"{}")
        connection.close()


# Tokens


def whoami(service: LadderService, caller: Caller, *, season: str = "") -> Any:
    return _Line(caller.author or "nobody")


@dataclass
class _Line:
    line: str


WHO = Method(name="Export", handler=whoami, path="/export")


def test_a_token_says_who_it_is(played: Store, way: str) -> None:
    with remote(played, way, WHO) as there:
        assert there.call("Export").document == {"line": "nobody"}
        token = there.token("anna")
        assert there.call("Export", token).document == {"line": "anna"}
        upper = there.call("Export", headers=[("authorization", f"BEARER {token}")])
        assert upper.document == {"line": "anna"}


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
def test_what_is_no_valid_token_is_refused(played: Store, way: str, value: str) -> None:
    with remote(played, way, WHO) as there:
        value = value.replace("TOKEN", there.token("anna"))
        answer = there.call("Export", headers=[("authorization", value)])
    assert (answer.code, answer.message) == ("UNAUTHENTICATED", INVALID)


def test_a_token_of_ten_kilobytes_is_refused(played: Store, way: str) -> None:
    with remote(played, way, WHO) as there:
        answer = there.call("Export", headers=[("authorization", "Bearer " + "x" * 10_000)])
    assert answer.code in ("UNAUTHENTICATED", "RESOURCE_EXHAUSTED")


def test_two_tokens_are_refused(played: Store, way: str) -> None:
    with remote(played, way, WHO) as there:
        twice = [("authorization", f"Bearer {there.token('anna')}")] * 2
        assert there.call("Export", headers=twice).code == "UNAUTHENTICATED"


def test_a_token_on_plain_text_from_elsewhere_is_refused(played: Store, way: str) -> None:
    """A proxy on this machine tells who asked; the site's address has no TLS."""
    proxy = Access("http://games.example", proxies=frozenset({_loopback()}))
    safe = Access("https://games.example", proxies=frozenset({_loopback()}))
    with remote(played, way, WHO, access=proxy) as there:
        token = there.token("anna")
        elsewhere = [("authorization", f"Bearer {token}"), ("x-forwarded-for", "203.0.113.5")]
        answer = there.call("Export", headers=elsewhere)
        assert (answer.code, answer.message) == ("UNAUTHENTICATED", PLAIN)
        assert there.call("Export", headers=elsewhere[1:]).code == OK
    with remote(played, way, WHO, access=safe) as there:
        assert there.call("Export", headers=elsewhere).document == {"line": "anna"}


def _loopback() -> Any:
    from ipaddress import ip_address

    return ip_address("127.0.0.1")


def test_a_private_ladder_tells_visitors_nothing(played: Store, way: str) -> None:
    with remote(played, way, private=True) as there:
        for name, method in METHODS.items():
            if method.role is Role.VISITOR and not method.always and method.verb == "GET":
                fields: dict[str, Any] = {"bot": "ben"} if name == "GetBot" else {}
                if "{game_id}" in method.path:
                    fields = {"game_id": "s1-1"}
                assert there.call(name, **fields).code == "UNAUTHENTICATED", name
        assert there.call("GetStandings", there.token("anna")).code == OK


# Rates


def test_calls_of_an_author_are_limited_whatever_the_token(played: Store, way: str) -> None:
    clock = ManualClock()
    limits = RemoteLimits(calls_per_minute=3)
    with remote(played, way, WHO, clock=clock, limits=limits) as there:
        tokens = [there.token("anna") for _ in range(3)]
        for token in tokens:
            assert there.call("Export", token).code == OK
        for token in (*tokens, there.token("anna")):
            answer = there.call("Export", token)
            assert (answer.code, answer.retry_after) == ("RESOURCE_EXHAUSTED", 20)
        assert there.call("Export").code == OK  # others have a count of their own
        assert there.call("Export", there.token("ben")).code == OK
        there.server.jump(20_000_000)
        assert there.call("Export", token).code == OK
        assert there.call("Export", token).code == "RESOURCE_EXHAUSTED"


def test_calls_of_visitors_are_limited_by_address(played: Store, way: str) -> None:
    limits = RemoteLimits(pages_per_minute=2)
    access = Access("https://games.example", proxies=frozenset({_loopback()}))
    with remote(played, way, WHO, clock=ManualClock(), limits=limits, access=access) as there:
        said = [
            there.call("Export", headers=[("x-forwarded-for", address)]).code
            for address in ("203.0.113.5", "203.0.113.5", "203.0.113.5", "203.0.113.6")
        ]
    assert said == [OK, OK, "RESOURCE_EXHAUSTED", OK]


def test_wrong_tokens_wait_longer_and_longer_and_right_ones_never(played: Store, way: str) -> None:
    clock = ManualClock()
    with remote(played, way, WHO, clock=clock) as there:
        token = there.token("anna")
        for _ in range(5):
            assert there.call("Export", "wrong").code == "UNAUTHENTICATED"
        for wait in (1, 2, 4, 8):
            answer = there.call("Export", "wrong")
            assert (answer.code, answer.retry_after) == ("RESOURCE_EXHAUSTED", wait)
            assert there.call("Export", token).code == OK
            there.server.jump(wait * 1_000_000)
            assert there.call("Export", "wrong").code == "UNAUTHENTICATED"


def test_what_is_over_a_limit_costs_no_query(played: Store) -> None:
    """Wrong tokens are visits; whose token was valid before is not kept out by them."""
    limits = RemoteLimits(pages_per_minute=3, calls_per_minute=2)
    asked: list[object] = []
    with remote(played, "http", WHO, clock=ManualClock(), limits=limits) as there:
        token, wrong = there.token("anna"), new_token(bytes(32))
        said = [there.call("Export", one).code for one in (token, wrong, "malformed")]
        assert said == [OK, "UNAUTHENTICATED", "UNAUTHENTICATED"]
        event.listen(played.database.engine, "before_cursor_execute", lambda *_: asked.append(1))
        for one in (wrong, "malformed"):
            answer = there.call("Export", one)
            assert (answer.code, answer.retry_after) == ("RESOURCE_EXHAUSTED", 20)
        assert asked == []
        assert there.call("Export", token).code == OK
        assert asked != []
        asked.clear()
        assert there.call("Export", token).code == "RESOURCE_EXHAUSTED"
        assert asked == []


# Codes


def a_code(there: Remote) -> str:
    (made,) = there.server.front.service.call(MACHINE, "CreateCodes", count=1).codes
    return str(made.code)


def test_a_code_that_is_used_twice_at_the_same_moment_admits_one(played: Store, way: str) -> None:
    with remote(played, way) as there:
        code = a_code(there)
        answers: list[Any] = []
        ready = threading.Barrier(4)

        def redeem(name: str) -> None:
            ready.wait(30)
            answers.append(there.call("Redeem", code=code, author=name))

        threads = [threading.Thread(target=redeem, args=(f"thief-{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    codes = sorted(answer.code for answer in answers)
    assert codes == ["OK", *["UNAUTHENTICATED"] * 3]
    thieves = [one.name for one in played.authors.all() if one.name.startswith("thief-")]
    assert len(thieves) == 1


def test_nobody_becomes_more_by_saying_so(played: Store) -> None:
    """Fields that a request does not have are refused in JSON, and nothing in gRPC's bytes."""
    with remote(played, "http") as there:
        connection = http.client.HTTPConnection("127.0.0.1", there.http)
        for field in ("role", "scopes", "author_id", "account"):
            body = json.dumps({"code": a_code(there), "author": "eve", field: "admin"})
            connection.request("POST", "/api/v1/redeem", body)
            answer = connection.getresponse()
            assert (answer.status, answer.read()[:9]) == (400, b'{"error":')
        connection.close()
    with remote(played, "grpc") as there:
        # Field 9 of a later proto, a text.
        data = messages.request_to_bytes("Redeem", {"code": a_code(there), "author": "mallory"})
        answers = there.raw("Redeem", data + b"\x4a\x05admin")
        assert answers.document["account"]["role"] == "author"
        assert answers.document["account"]["scopes"] == ["read", "submit"]


# Streams


def test_a_stream_ends_when_its_token_does(played: Store, way: str) -> None:
    clock = ManualClock()
    told = threading.Event()

    def news(service: LadderService, caller: Caller, *, season: str = "") -> Iterator[Any]:
        yield _Line("first")
        told.set()
        while True:
            yield None

    method = Method(name="Export", handler=news, flow=Flow.WATCH, path="/export", role=Role.AUTHOR)
    with remote(played, way, method, clock=clock) as there:
        token = there.token("anna")
        answers: list[Any] = []
        asking = threading.Thread(target=lambda: answers.append(there.call("Export", token)))
        asking.start()
        assert told.wait(30)
        (known,) = there.call("ListTokens", token).document["tokens"]
        assert there.call("RevokeToken", token, id=int(known["id"])).code == OK
        for _ in range(10_000):
            if not asking.is_alive():
                break
            there.server.jump(RECHECK_US // 10)
            asking.join(0.01)
        assert clock.now_us() > 0
        asking.join(30)
    (answer,) = answers
    assert answer.documents == [{"line": "first"}]
    assert answer.code == "UNAUTHENTICATED"


def test_streams_of_an_address_are_limited(played: Store, way: str) -> None:
    def news(service: LadderService, caller: Caller, *, after: int = 0) -> Iterator[Any]:
        while True:
            yield None

    method = Method(name="WatchFeed", handler=news, flow=Flow.WATCH, path="/feed")
    limits = RemoteLimits(streams_of_address=1)
    with (
        remote(played, way, method, limits=limits, clock=ManualClock()) as there,
        grpc.insecure_channel(f"127.0.0.1:{there.rpc}") as channel,
    ):
        call: Any = channel.unary_stream(messages.path_of("WatchFeed"))
        open_one = call(b"")
        open_one.initial_metadata()
        answer = there.call("WatchFeed")
        assert (answer.code, answer.retry_after) == ("RESOURCE_EXHAUSTED", 30)
        open_one.cancel()


def test_one_export_at_a_time_of_an_address(played: Store, way: str) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def lines(service: LadderService, caller: Caller, *, season: str = "") -> Iterator[Any]:
        begun.set()
        go_on.wait(30)
        yield _Line("all")

    method = Method(name="Export", handler=lines, flow=Flow.MANY, path="/export")
    with remote(played, way, method) as there:
        answers: list[Any] = []
        asking = threading.Thread(target=lambda: answers.append(there.call("Export")))
        asking.start()
        assert begun.wait(30)
        second = there.call("Export")
        go_on.set()
        asking.join(30)
        assert (second.code, second.retry_after) == ("RESOURCE_EXHAUSTED", 30)
        assert answers[0].document == {"line": "all"}
        assert there.call("Export").code == OK


def test_a_connection_has_the_limits_of_the_table() -> None:
    limits = RemoteLimits(
        grpc_message_bytes=1,
        grpc_metadata_bytes=2,
        grpc_calls=3,
        grpc_early_pings=4,
        grpc_age_seconds=5,
    )
    found = dict(options(limits))
    assert found["grpc.max_receive_message_length"] == 1
    assert found["grpc.max_metadata_size"] == found["grpc.absolute_max_metadata_size"] == 2
    assert found["grpc.max_concurrent_streams"] == 3
    assert found["grpc.http2.max_ping_strikes"] == 4
    assert found["grpc.max_connection_age_ms"] == 5000


def test_the_server_ends_while_streams_are_open(played: Store, way: str) -> None:
    told = threading.Event()

    def news(service: LadderService, caller: Caller, *, after: int = 0) -> Iterator[Any]:
        while True:
            told.set()
            yield None

    method = Method(name="WatchFeed", handler=news, flow=Flow.WATCH, path="/feed")
    answers: list[Any] = []
    with remote(played, way, method, clock=ManualClock()) as there:
        asking = threading.Thread(target=lambda: answers.append(there.call("WatchFeed")))
        asking.start()
        assert told.wait(30)
    asking.join(30)
    assert answers != []


# Health and reflection


def test_health_and_reflection_are_on(played: Store) -> None:
    with (
        remote(played, "grpc") as there,
        grpc.insecure_channel(f"127.0.0.1:{there.rpc}") as channel,
    ):
        asked = health_pb2.HealthCheckRequest(service=messages.SERVICE)
        stub: Any = health_pb2_grpc.HealthStub(channel)
        checked = stub.Check(asked)
        assert checked.status == health_pb2.HealthCheckResponse.SERVING
        found = ProtoReflectionDescriptorDatabase(channel)
        assert messages.SERVICE in found.get_services()
