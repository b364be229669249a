"""gRPC of a ladder from afar: the same answers, and what a hostile server may try there."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import grpc
import pytest

from deepsea_arena.standings import show_standings
from deepsea_arena.wire import messages
from deepsea_arena.wire.json import to_object
from deepsea_cli.remote import tls
from deepsea_cli.remote.transport import LARGEST_MESSAGE
from deepsea_ladder.store import Store
from deepsea_rules.printable import printable
from helpers import certificates, ladder
from helpers.answering import Answering, Scripted
from helpers.commands import Run, one_line

TOKEN = "dsl_" + "a" * 49
ANSI = "\x1b[2J\x1b]0;owned\x07"
Behaviour = Callable[[bytes, grpc.ServicerContext], Any]


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", TOKEN)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


class Service(grpc.GenericRpcHandler):
    """Answers methods as a test says, with bytes."""

    def __init__(self, **methods: Behaviour) -> None:
        self.methods = methods
        self.tokens: list[str] = []

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        name = handler_call_details.method.rpartition("/")[2]
        behaviour = self.methods.get(name)
        if behaviour is None:
            return None
        metadata = dict(handler_call_details.invocation_metadata or ())
        self.tokens.append(str(metadata.get("authorization")))
        if name == "Submit":
            return grpc.stream_stream_rpc_method_handler(behaviour)
        return grpc.unary_stream_rpc_method_handler(behaviour)


@contextmanager
def served(
    service: Service, made: certificates.Made | None = None
) -> Iterator[tuple[Answering, Scripted]]:
    """A ladder with this service and with nothing on HTTP but where that is."""
    with ThreadPoolExecutor() as threads:
        server = grpc.server(threads, [service], options=[("grpc.so_reuseport", 0)])
        if made is None:
            port = server.add_insecure_port("127.0.0.1:0")
        else:
            pair = (made.key.read_bytes(), made.certificate.read_bytes())
            port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
        server.start()
        scripted = Scripted()
        scripted.server["grpc_address"] = f"127.0.0.1:{port}"
        try:
            with Answering(scripted, made and made.server()) as answering:
                yield answering, scripted
        finally:
            server.stop(None).wait()


def refused(run: Run, server: Answering, *words: object, status: int = 1) -> str:
    done = run("ladder", *words, "--remote", server.url)
    assert (done.status, done.out) == (status, ""), done
    line = one_line(done.err)
    assert line == printable(line)
    assert len(line) < 700
    return line


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.create(tmp_path_factory.mktemp("ladder") / "ladder.db") as made:
        season = ladder.stocked(made)
        made.jobs.add(season, ladder.rotations(ladder.ids(made), 4))
        ladder.play_all(made, season)
        yield made


def standings_of(store: Store) -> Behaviour:
    data = messages.response_to_bytes("GetStandings", show_standings(store))
    return lambda _request, _context: iter([data])


def test_grpc_is_used_where_it_is_there(run: Run, store: Store) -> None:
    service = Service(GetStandings=standings_of(store))
    with served(service) as (server, scripted):
        over_grpc = run("ladder", "standings", "-v", "--remote", server.url)
        assert over_grpc.status == 0
        assert one_line(over_grpc.err).startswith("gRPC at port ")
        assert {asked.path for asked in server.asked} == {"/api/v1/server"}
        assert service.tokens == [f"Bearer {TOKEN}"]
        del scripted.server["grpc_address"]
        scripted.documents["/standings"] = to_object(show_standings(store))
        assert run("ladder", "standings", "--remote", server.url).out == over_grpc.out


def test_where_it_is_not_there_the_http_api_is_used(run: Run, store: Store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        scripted = Scripted()
        scripted.server["grpc_address"] = f"127.0.0.1:{silent.getsockname()[1]}"
        scripted.documents["/standings"] = to_object(show_standings(store))
        with Answering(scripted) as server:
            done = run("ladder", "standings", "-v", "--remote", server.url)
    assert done.status == 0
    assert "gRPC does not answer at port" in one_line(done.err)


def test_a_pinned_certificate_is_the_root_of_grpc(run: Run, store: Store, tmp_path: Path) -> None:
    made = certificates.make(tmp_path, names="DNS:elsewhere.example")
    other = certificates.make(tmp_path, "other")
    service = Service(
        GetStandings=standings_of(store),
        WhoAmI=lambda _request, _context: iter([b"\n\x06\n\x04anna"]),
    )
    found = tls.fingerprint(made.certificate.read_text())
    with served(service, made) as (server, scripted), pytest.MonkeyPatch.context() as patch:
        patch.setattr("deepsea_cli.ladder.login._secret", lambda _what: TOKEN)
        done = run("ladder", "login", server.url, "--fingerprint", found)
        assert done.status == 0, done
        done = run("ladder", "standings", "-v", "--remote", server.url)
        assert done.status == 0
        assert one_line(done.err).startswith("gRPC at port ")
        with served(service, other) as (elsewhere, _):
            before = len(service.tokens)
            port = elsewhere  # the other one's gRPC, which has another certificate
            scripted.server["grpc_address"] = _grpc_of(port)
            scripted.documents["/standings"] = to_object(show_standings(store))
            done = run("ladder", "standings", "-v", "--remote", server.url)
            assert done.status == 0
            assert "gRPC does not answer" in one_line(done.err)
            assert len(service.tokens) == before


def _grpc_of(server: Answering) -> str:
    reply = server._reply
    assert isinstance(reply, Scripted)
    return str(reply.server["grpc_address"])


def test_a_large_answer_is_not_read(run: Run) -> None:
    service = Service(GetStandings=lambda _request, _context: iter([b" " * (LARGEST_MESSAGE + 1)]))
    with served(service) as (server, _):
        assert "answers with more than 4 MiB" in refused(run, server, "standings")


@pytest.mark.parametrize(
    "data",
    [b"\xff" * 10, b"\x0a\xff\xff\xff\xff\x0f", b"\n" * 1000],
    ids=["bytes", "length", "ends"],
)
def test_bytes_that_are_no_message_cost_a_line(run: Run, data: bytes) -> None:
    service = Service(GetStandings=lambda _request, _context: iter([data]))
    with served(service) as (server, _):
        assert "makes no sense" in refused(run, server, "standings")


@pytest.mark.parametrize("answers", [[], [b"", b""]])
def test_no_answer_or_two_cost_a_line(run: Run, answers: list[bytes]) -> None:
    service = Service(GetStandings=lambda _request, _context: iter(answers))
    with served(service) as (server, _):
        assert "makes no sense" in refused(run, server, "standings")


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        (grpc.StatusCode.NOT_FOUND, 2, "no such"),
        (grpc.StatusCode.PERMISSION_DENIED, 2, "no such"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, 2, "try again in 77 s"),
        (grpc.StatusCode.UNAVAILABLE, 1, "no such"),
        (grpc.StatusCode.INTERNAL, 1, "no such"),
        (grpc.StatusCode.UNKNOWN, 1, "no such"),
        (grpc.StatusCode.UNIMPLEMENTED, 1, "does not know this"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, 1, "does not answer in time"),
    ],
)
def test_a_refusal_is_one_line_whatever_is_in_it(
    run: Run, code: grpc.StatusCode, status: int, said: str
) -> None:
    def refuse(_request: bytes, context: grpc.ServicerContext) -> NoReturn:
        context.set_trailing_metadata((("retry-after", "77"),))
        context.abort(code, f"no such\n{ANSI}" + "x" * 2000)

    with served(Service(GetStandings=refuse)) as (server, _):
        assert said in refused(run, server, "standings", status=status)


@pytest.mark.parametrize("wait", ["-1", "soon", "9" * 4000, "1.5"])
def test_when_to_come_back_is_a_number_or_nothing(run: Run, wait: str) -> None:
    def refuse(_request: bytes, context: grpc.ServicerContext) -> NoReturn:
        context.set_trailing_metadata((("retry-after", wait),))
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "slow")

    with served(Service(GetStandings=refuse)) as (server, _):
        assert refused(run, server, "standings", status=2).endswith(": slow")


# Ten thousand answers, which both ways have counted in one place; by HTTP they are given in every
# run: tests/cli/test_remote_hostile.py.
@pytest.mark.release
def test_a_check_without_end_is_given_up(run: Run) -> None:
    def submit(_parts: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        while context.is_active():
            yield b"\n\x0a\x08\x07\x22\x06queued"

    with served(Service(Submit=submit)) as (server, _):
        assert "does not come to an end with Submit" in refused(run, server, "submit", "greedy")


def test_an_upload_has_a_header_and_small_chunks(run: Run) -> None:
    found: list[dict[str, Any] | bytes] = []

    def submit(parts: Any, _context: grpc.ServicerContext) -> Iterator[bytes]:
        found.extend(map(messages.part_from_bytes, parts))
        # Of id 7: refused, with what was found.
        yield b"\n\x12\x08\x07\x22\x07refused\x52\x05found"

    with served(Service(Submit=submit)) as (server, _):
        done = run("ladder", "submit", "greedy", "--remote", server.url)
    assert (done.status, done.err) == (1, "")
    assert done.out.startswith("greedy is refused: found")
    header, *chunks = found
    assert isinstance(header, dict)
    assert header["bot"] == "greedy"
    assert header["size"] == sum(map(len, chunks))
    assert 8 <= len(header["key"]) <= 64
    assert all(isinstance(chunk, bytes) and 0 < len(chunk) <= 32 << 10 for chunk in chunks)
