"""What nobody gets from afar: results under embargo, and answers to nonsense."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from deepsea_arena.service.methods import METHODS
from deepsea_arena.service.service import LadderService
from deepsea_arena.wire import messages
from deepsea_arena.wire._pb import ladder_pb2 as pb
from deepsea_ladder.remote_limits import RemoteLimits
from deepsea_ladder.store import Store
from deepsea_rules.randomness import Stream, seed_from_text
from deepsea_sdk.entropy import fresh_seed
from helpers import ladder
from helpers.ladder_messages import UPLOADS, field_names
from helpers.remote import OK, WAYS, Remote, served

LATER = 2**50
MANY = RemoteLimits(calls_per_minute=10**6, pages_per_minute=10**6)


@pytest.fixture
def there(played: Store, request: pytest.FixtureRequest) -> Iterator[Remote]:
    """A ladder with a tournament under embargo, as `ladder serve` opens it."""
    assert played.database.path is not None
    ladder.a_cup(played, "secret-cup", LATER)
    with Store.open(played.database.path, read_only=True, public=True) as public:
        service = LadderService(played, public, METHODS, entropy=fresh_seed, limits=MANY)
        with served(service) as server:
            yield Remote(server, request.param)


@pytest.mark.parametrize("there", WAYS, indirect=True)
def test_nothing_under_embargo_is_read_by_anybody(there: Remote) -> None:
    """By name it is not there; in lists it is missing; its games have no record and no log."""
    tokens = (None, there.token("anna-senior"), there.token("head", admin=True))
    for token in tokens:
        for name, fields in _by_name("secret-cup"):
            assert there.call(name, token, **fields).code == "NOT_FOUND", name
        asked_for = there.call("RequestAnalysis", token, game_id="secret-cup-1").code
        assert asked_for == ("UNAUTHENTICATED" if token is None else "NOT_FOUND")
        asked: list[tuple[str, dict[str, Any], int | None]] = [
            ("GetServer", {}, None),
            ("GetStandings", {"everybody": True}, None),
            ("ListGames", {"limit": 500}, None),
            ("Export", {}, None),
            ("WatchFeed", {"after": 1}, 7),
            *(("GetBot", {"bot": bot}, None) for bot in ladder.NAMES[:4]),
        ]
        for name, fields, most in asked:
            answer = there.call(name, token, most=most, **fields)
            assert answer.code == OK, name
            said = json.dumps(answer.documents)
            assert "secret-cup-" not in said, name


def _by_name(season: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "GetStandings", {"season": season}
    yield "ListGames", {"season": season}
    yield "Export", {"season": season}
    yield "GetBot", {"bot": "anna", "season": season}
    for name in ("GetRecord", "GetFrames", "GetAnalysis", "WatchAnalysis"):
        yield name, {"game_id": f"{season}-1"}


def noise(text: str, most: int) -> bytes:
    """Bytes by chance, the same for the same text."""
    chance = Stream(seed_from_text("nonsense"), text)
    return bytes(chance.uniform(256) for _ in range(chance.uniform(most) + 1))


@pytest.mark.parametrize("there", ["grpc"], indirect=True)
def test_bytes_by_chance_are_answered_by_every_method(
    there: Remote, caplog: pytest.LogCaptureFixture
) -> None:
    given = [("authorization", f"Bearer {there.token('head', admin=True)}")]
    codes = {OK, "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "RESOURCE_EXHAUSTED"}
    for name in messages.METHODS:
        for turn in range(6):
            data = noise(f"{name}/{turn}", 40)
            if name == UPLOADS:
                answer = there.parts(given, [data, data])
            else:
                answer = there.raw(name, data, given, most=1)
            fine = codes | ({"UNAUTHENTICATED"} if name == "Redeem" else set())
            assert answer.code in fine, (name, turn, answer)
    assert caplog.text == ""


@pytest.mark.parametrize("there", ["http"], indirect=True)
def test_nonsense_is_answered_at_every_address(
    there: Remote, caplog: pytest.LogCaptureFixture
) -> None:
    token = there.token("head", admin=True)
    connection = HTTPConnection("127.0.0.1", there.http, timeout=30)
    for name, method in METHODS.items():
        for turn in range(6):
            text = noise(f"{name}/{turn}/path", 12).hex()
            path = method.path
            for field in field_names(name):
                path = path.replace(f"{{{field}}}", f"%{text[:2]}{text}")
            path = path.replace("{bot}", f"%{text[:2]}{text}")
            body = noise(f"{name}/{turn}", 60)
            if turn % 2 and method.verb != "GET":
                # JSON of the right form, with wrong values.
                fields = sorted(field_names(name))
                body = json.dumps(
                    {field: [turn, None, text][turn // 2] for field in fields}
                ).encode()
            query = "" if turn % 3 else f"?{text}={text}"
            connection.request(
                method.verb,
                f"/api/v1{path}{query}",
                None if method.verb == "GET" else body,
                {"authorization": f"Bearer {token}"},
            )
            answer = connection.getresponse()
            if answer.status == 200:
                connection.close()  # a stream may not end
                continue
            fine = {400, 404, 409, 429} | ({401} if name == "Redeem" else set())
            assert answer.status in fine, (name, turn, answer.status)
            assert set(json.loads(answer.read())) == {"error"}
    connection.close()
    assert caplog.text == ""


TEXTS = ("\0", "x" * 5_000, "' OR 1=1 --", "../../etc/passwd", "\u202egnp", "%s%n{0}", " ")
NUMBERS = {"int32": (-1, 0, 2**31 - 1, -(2**31)), "int64": (-1, 0, 2**63 - 1, -(2**63))}


@pytest.mark.parametrize("there", WAYS, indirect=True)
@pytest.mark.parametrize("turn", range(len(TEXTS)))
def test_values_on_purpose_are_answered_by_every_method(
    there: Remote, turn: int, caplog: pytest.LogCaptureFixture
) -> None:
    token = there.token("head", admin=True)
    for name in METHODS:
        if name in (UPLOADS, "WatchFeed"):  # the latter waits for games, if need be
            continue
        request = pb.DESCRIPTOR.services_by_name["LadderService"].methods_by_name[name].input_type
        fields = {field.name: _value(field, turn) for field in request.fields}
        answer = there.call(name, token, most=1, **fields)
        assert answer.code not in ("INTERNAL", "UNKNOWN", "UNAVAILABLE"), (name, answer)
        if answer.code != OK:
            assert len(answer.message) < 400
            assert answer.message.isprintable() or answer.code == "UNIMPLEMENTED", answer
    assert caplog.text == ""


def _value(field: FieldDescriptor, turn: int) -> Any:
    if field.type == FieldDescriptor.TYPE_STRING:
        return [TEXTS[turn]] if field.is_repeated else TEXTS[turn]
    if field.type == FieldDescriptor.TYPE_BOOL:
        return bool(turn % 2)
    numbers = NUMBERS["int32" if field.type == FieldDescriptor.TYPE_INT32 else "int64"]
    return numbers[turn % len(numbers)]
