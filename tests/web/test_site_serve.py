"""`ladder serve`: who is let in, how it is started and ended, and connections that misbehave."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import urlencode

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn import Config
from uvicorn.server import ServerState

from deepsea_ladder.accounts import is_loopback
from deepsea_ladder.limits import USUAL_LIMITS, RemoteLimits
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from deepsea_web.access import HEADERS, PATIENCE_S, Access, Connection, Gate, access
from helpers import certificates, ladder
from helpers.commands import Run, free_port, one_line, serving
from helpers.members import a_service, an_admin_token
from helpers.site import scope_of


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ladder with bots and no games."""
    path = tmp_path_factory.mktemp("serve") / "ladder.db"
    with ladder.created(path) as store:
        ladder.stocked(store)
    return path


# Who is let in


def test_on_this_machine_nothing_needs_to_be_said() -> None:
    found = access("127.0.0.1", 8080)
    assert found.origin == "http://127.0.0.1:8080"
    assert found.hosts == {"127.0.0.1", "localhost", "[::1]"}
    assert access("::1", 80).origin == "http://[::1]:80"
    assert found.client("127.0.0.1", []) == "127.0.0.1"
    assert found.client("::1", []) == "::1"
    assert found.client("::ffff:127.0.0.1", []) == "::ffff:127.0.0.1"
    assert found.client("192.0.2.7", ["127.0.0.1"]) is None


@pytest.mark.parametrize(
    ("url", "origin", "prefix", "host"),
    [
        ("https://games.example", "https://games.example", "", "games.example"),
        ("https://Games.example/", "https://games.example", "", "games.example"),
        ("http://games.example:81/a/b/", "http://games.example:81", "/a/b", "games.example"),
        ("https://[2001:db8::1]:4/x", "https://[2001:db8::1]:4", "/x", "[2001:db8::1]"),
    ],
)
def test_a_public_address_has_origin_prefix_and_host(
    url: str, origin: str, prefix: str, host: str
) -> None:
    found = access("127.0.0.1", 8080, public_url=url)
    assert (found.origin, found.prefix) == (origin, prefix)
    assert host in found.hosts
    assert found.canonical("/bots/a b", version=2, season=None) == (
        f"{origin}{prefix}/bots/a%20b?version=2"
    )


@pytest.mark.parametrize(
    "url",
    [
        "games.example",
        "ftp://games.example",
        "https://",
        "https://user@games.example",
        "https://games.example/?x",
        "https://games.example/#x",
        "https://games.example:x/",
        "https://games.example:/",
        "https://games.example/a//b",
        "https://games.example/../x",
        'https://games.example/"><b>',
        "https://gämes.example/",
        "",
    ],
)
def test_what_is_no_public_address_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="is no address such as"):
        access("127.0.0.1", 8080, public_url=url)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "games.example"])
def test_beyond_this_machine_it_takes_tls_or_a_proxy_and_an_address(host: str) -> None:
    with pytest.raises(UserError, match="give --tls-cert and --tls-key, or --trusted-proxy"):
        access(host, 80, public_url="https://games.example")
    ways: tuple[dict[str, Any], ...] = ({"tls": True}, {"proxies": ("192.0.2.9",)})
    for given in ways:
        with pytest.raises(UserError, match="give --public-url"):
            access(host, 80, **given)
        access(host, 80, public_url="https://games.example", **given)
    with pytest.raises(UserError, match="is no IP address"):
        access(host, 80, proxies=("proxy.example",))


def test_without_tls_the_proxy_alone_is_answered_and_believed() -> None:
    found = access("0.0.0.0", 80, public_url="https://x.example", proxies=("192.0.2.9",))
    assert found.client("192.0.2.9", ["198.51.100.1, 203.0.113.5"]) == "203.0.113.5"
    assert found.client("192.0.2.9", ["198.51.100.1", "203.0.113.5"]) == "203.0.113.5"
    assert found.client("::ffff:192.0.2.9", []) == "unknown"
    assert found.client("192.0.2.9", ["nonsense"]) == "192.0.2.9"
    assert found.client("192.0.2.9", ["198.51.100.1, nonsense"]) == "198.51.100.1"
    assert found.client("203.0.113.5", ["192.0.2.9"]) is None
    assert found.client("127.0.0.1", ["203.0.113.5"]) == "127.0.0.1"


@pytest.mark.parametrize("said", ["", "nonsense", "203.0.113.5:80", "127.0.0.1, x", "::1,"])
def test_nonsense_of_a_proxy_makes_nobody_one_of_this_machine(said: str) -> None:
    found = access("127.0.0.1", 80, public_url="https://x.example", proxies=("127.0.0.1",))
    assert found.client("127.0.0.1", [said]) == "unknown"
    assert found.client("127.0.0.1", []) == "unknown"
    assert found.client("127.0.0.1", [f"198.51.100.1, {said}"]) == "198.51.100.1"


WAYS: dict[str, dict[str, Any]] = {
    "here": {},
    "public": {"public_url": "https://x.example"},
    "plain": {"public_url": "http://x.example", "proxies": ("127.0.0.1", "192.0.2.9")},
    "proxy": {"public_url": "https://x.example", "proxies": ("127.0.0.1", "192.0.2.9")},
    "tls": {"host": "0.0.0.0", "public_url": "https://x.example", "tls": True},
}
NAMED = "X-Forwarded-For: 203.0.113.5"
OTHERS = (
    *("Forwarded: for=203.0.113.5", "X-Real-IP: 203.0.113.5", "Via: 1.1 x"),
    "X-Forwarded-Proto: https",
)
NEAR, PROXY, FAR = "127.0.0.1", "192.0.2.9", "198.51.100.1"
HERE, PUBLIC, OLD = "localhost:8080", "x.example", "127.0.0.1:8080 HTTP/1.0"
REFUSED = (403, "", False)
MACHINE = (200, NEAR, True)
UNKNOWN = {"plain": (200, "unknown", False), "proxy": (200, "unknown", True)}
# Who asks, by what name and with what header; how that is answered, for whom, and whether a token
# is taken, in each of the ways.
ROWS: list[tuple[str, str, str, dict[str, tuple[int, str, bool]]]] = [
    *(
        (peer, HERE, header, {"here": REFUSED, "public": REFUSED, "tls": REFUSED})
        for peer in (NEAR, "::1", PROXY, FAR)
        for header in (NAMED, *OTHERS, "X-Forwarded-For: 127.0.0.1")
    ),
    *(
        (peer, HERE, header, UNKNOWN)
        for peer in (NEAR, "::ffff:127.0.0.1", PROXY)
        for header in ("", *OTHERS)
    ),
    (NEAR, HERE, "X-Forwarded-For: ?", UNKNOWN),
    (NEAR, HERE, NAMED, {"plain": (200, "203.0.113.5", False)}),
    (PROXY, HERE, NAMED, {"proxy": (200, "203.0.113.5", True)}),
    (NEAR, HERE, "X-Forwarded-For: 127.0.0.1", {"plain": MACHINE, "proxy": MACHINE}),
    (NEAR, HERE, "", {"here": MACHINE, "public": MACHINE, "tls": MACHINE}),
    (NEAR, PUBLIC, "", {"here": (421, "", False), "public": (200, "unknown", True)}),
    (NEAR, OLD, "", {"here": REFUSED, "public": (200, "unknown", True)}),
    (FAR, HERE, "", {"here": REFUSED, "public": REFUSED, "plain": REFUSED, "proxy": REFUSED}),
    (FAR, PUBLIC, "", {"tls": (200, FAR, True)}),
]


@pytest.mark.parametrize(
    ("way", "peer", "host", "header", "answer"),
    [
        (way, peer, host, header, answer)
        for peer, host, header, answers in ROWS
        for way, answer in answers.items()
    ],
)
async def test_clients_of_a_proxy_are_never_one_of_this_machine(
    way: str, peer: str, host: str, header: str, answer: tuple[int, str, bool]
) -> None:
    place = access(**{"host": "127.0.0.1", "port": 8080, **WAYS[way]})
    clients: list[str] = []
    statuses: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        clients.append(scope["client"][0])
        await PlainTextResponse("")(scope, receive, send)

    async def send(message: Message) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    called, _, version = host.partition(" HTTP/")
    name, _, value = header.partition(": ")
    scope = scope_of("/", headers={name: value} if name else {}, host=called, client=peer)
    await Gate(app, place)({**scope, "http_version": version or "1.1"}, nothing_comes, send)
    client = "".join(clients)
    assert (*statuses, client, bool(client) and place.keeps_secrets(client)) == answer
    assert is_loopback(client) == (client == NEAR)  # nobody else's requests are not counted


@pytest.mark.parametrize("way", WAYS)
def test_bots_without_a_sandbox_are_for_a_ladder_of_this_machine_alone(way: str) -> None:
    place = access(**{"host": "127.0.0.1", "port": 8080, **WAYS[way]})
    assert place.is_local == (way == "here")


async def test_a_proxy_that_is_not_named_is_in_the_log_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    place = access("127.0.0.1", 8080)
    bodies: list[bytes] = []

    async def send(message: Message) -> None:
        bodies.append(message.get("body", b""))

    for peer in ("::1", "127.0.0.1", "::1"):
        scope = scope_of("/", headers={"Via": "1.1 x"}, client=peer)
        for gate in (Gate(nothing, place), Gate(nothing, place)):
            await gate(scope, nothing_comes, send)
    (record,) = caplog.records
    assert record.getMessage() == (
        "requests of a proxy at ::1 are refused: start the server with --trusted-proxy ::1, so "
        "that it knows whose requests they are"
    )
    assert b"--trusted-proxy 127.0.0.1," in b"".join(bodies)


async def nothing_comes() -> Message:
    raise AssertionError


def test_with_tls_everybody_is_answered_and_no_header_is_believed() -> None:
    found = access("0.0.0.0", 443, public_url="https://x.example", tls=True)
    assert found.client("203.0.113.5", ["127.0.0.1"]) == "203.0.113.5"


def test_links_leave_out_what_is_not_given() -> None:
    found = Access("http://x", "/p")
    assert found.url("/games", bot="a+b&c", faults=True, lost=False, season=None, against="") == (
        "/p/games?bot=a%2Bb%26c&faults=1"
    )


# The command


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--host", "0.0.0.0"), "is reached from other machines"),
        (("--public-url", "x"), "is no address such as"),
        (("--trusted-proxy", "x"), "is no IP address"),
        (("--tls-cert", "x"), "--tls-cert and --tls-key are given together"),
        (("--tls-cert", "x", "--tls-key", "y"), "No such file or directory"),
        (("--port", "70000"), "70000 is not in the range"),
        (("--store", "nowhere.db"), "there is no ladder at nowhere.db"),
        (
            ("--host", "203.0.113.99", "--public-url", "http://x", "--trusted-proxy", "::1"),
            "--host",
        ),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(
    run: Run, place: Path, options: tuple[str, ...], said: str
) -> None:
    done = run("ladder", "serve", "--no-run", "--port", "0", "--store", place, *options)
    assert (done.status, done.out) == (2, "")
    assert said in one_line(done.err)


def test_a_port_in_use_is_said_in_one_line(run: Run, place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = run("ladder", "serve", "--no-run", "--store", place, "--port", port)
    assert done.status == 2
    assert f"port {port} of 127.0.0.1 is in use: choose another one" in one_line(done.err)


def test_a_certificate_that_is_none_is_refused(run: Run, place: Path, tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_text("none", encoding="ascii")
    files = ("--tls-cert", tmp_path / "x.pem", "--tls-key", tmp_path / "x.pem")
    done = run("ladder", "serve", "--store", place, "--port", "0", *files)
    assert done.status == 2
    assert "--tls-cert" in one_line(done.err)


def test_a_signal_ends_it_whatever_is_open(place: Path) -> None:
    with serving(place, "--no-run") as (process, port):
        with (
            closing(HTTPConnection("127.0.0.1", port)) as kept,
            closing(socket.create_connection(("127.0.0.1", port))) as silent,
            closing(socket.create_connection(("127.0.0.1", port))) as halfway,
        ):
            halfway.sendall(b"GET / HTTP/1.1\r\nHost: x")
            kept.request("GET", "/")
            answer = kept.getresponse()
            assert answer.status == 200
            assert "Standings" in answer.read().decode()
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0
            assert silent.recv(1) == b""
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_with_a_certificate_it_speaks_tls_without_cbc_and_nothing_else(
    place: Path, tmp_path: Path
) -> None:
    shutil.copy(place, tmp_path / "ladder.db")
    with Store.open(tmp_path / "ladder.db") as store:
        token = an_admin_token(a_service(store))
    made = certificates.make(tmp_path, names="DNS:ladder.example")
    files = ("--tls-cert", made.certificate, "--tls-key", made.key)
    port = free_port()
    origin = f"https://ladder.example:{port}"
    public = ("--public-url", origin, "--port", port)
    known = ssl.create_default_context(cafile=str(made.certificate))
    known.check_hostname = False
    known.maximum_version = ssl.TLSVersion.TLSv1_2
    with serving(tmp_path / "ladder.db", "--no-run", *public, *files, scheme="https") as (
        process,
        _,
    ):
        with closing(HTTPSConnection("127.0.0.1", port, context=known)) as reader:
            for path, status in (("/", 200), ("/api/v1/seasons", 200), ("/nothing", 404)):
                reader.request("GET", path)
                answer = reader.getresponse()
                assert (answer.status, bool(answer.read())) == (status, True)
                # The name is asked for by TLS alone from now on.
                assert answer.getheader("Strict-Transport-Security") == "max-age=31536000"
            check_cookies(reader, origin, token)
        for offered in ("ECDHE+AES:!AESGCM:!AESCCM", "kRSA+AESGCM:DHE+AESGCM"):
            known.set_ciphers(offered)
            with (
                closing(socket.create_connection(("127.0.0.1", port))) as plain,
                pytest.raises((ssl.SSLError, ConnectionError)),
            ):
                known.wrap_socket(plain, server_hostname="ladder.example")
        with closing(HTTPConnection("127.0.0.1", port)) as plain_reader:
            plain_reader.request("GET", "/")
            with pytest.raises((HTTPException, OSError)):
                plain_reader.getresponse()
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0


@pytest.mark.release  # one more server; it says one header less
def test_other_programs_of_a_machine_without_a_name_are_asked_without_tls(
    place: Path, tmp_path: Path
) -> None:
    made = certificates.make(tmp_path)
    files = ("--tls-cert", made.certificate, "--tls-key", made.key)
    with serving(place, "--no-run", *files, scheme="https") as (_, port):
        known = ssl.create_default_context(cafile=str(made.certificate))
        with closing(HTTPSConnection("127.0.0.1", port, context=known)) as reader:
            reader.request("GET", "/")
            answer = reader.getresponse()
            assert answer.status == 200
            assert answer.getheader("Strict-Transport-Security") is None
            assert f"https://127.0.0.1:{port}/" in answer.read().decode()


def check_cookies(reader: HTTPSConnection, origin: str, token: str) -> None:
    """Log in: each cookie is this host's, over TLS, and new; scripts see none with a right."""
    flags = {"Path=/", "Secure", "HttpOnly", "SameSite=Lax"}
    reader.request("GET", "/play")
    answer = reader.getresponse()
    answer.read()
    (visitor,) = answer.headers.get_all("Set-Cookie", [])
    pair, *said = visitor.split("; ")
    assert (pair[:23], set(said)) == ("__Host-deepsea-visitor-", flags)
    session = pair.partition("=")[0].replace("visitor", "session")
    reader.request(
        "POST",
        "/login",
        urlencode({"token": token}),
        {
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": origin,
            "Cookie": f"{pair}; {session}={'a' * 64}",
        },
    )
    answer = reader.getresponse()
    assert (answer.status, answer.read()) == (303, b"")
    given, author, taken = (one.split("; ") for one in answer.headers.get_all("Set-Cookie", []))
    assert author[0].startswith("__Host-deepsea-author-")
    assert set(author[1:]) == flags - {"HttpOnly"}
    name, _, value = given[0].partition("=")
    assert (name, len(value), set(given[1:])) == (session, 64, flags)
    assert value != "a" * 64
    assert (taken[0], set(taken[1:])) == (f"{pair.partition('=')[0]}=", {*flags, "Max-Age=0"})


# Connections


def a_transport(peer: str) -> Mock:
    """A transport that notes what is done with it."""
    transport = Mock(spec=asyncio.Transport)
    transport.is_closing = lambda: transport.close.called or transport.abort.called
    known = {"peername": (peer, 50000)}
    transport.get_extra_info = lambda name, default=None: known.get(name, default)
    return transport


def written(transport: Mock) -> bytes:
    return b"".join(call.args[0] for call in transport.write.call_args_list)


class FakeLoop:
    """Keeps what is due later, and runs no task."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], object]]] = []

    def call_later(self, seconds: float, act: Callable[[], object]) -> Any:
        entry = (seconds, act)
        self.due.append(entry)

        def cancel() -> None:
            if entry in self.due:
                self.due.remove(entry)

        return Mock(cancel=cancel)

    def create_task(self, coroutine: Any) -> Any:
        coroutine.close()
        return Mock()


async def nothing(scope: object, receive: object, send: object) -> None:
    """An application that is not run."""


Open = tuple[Connection, Mock, FakeLoop]


def made(
    app: ASGIApp,
    opened: Counter[str],
    limits: RemoteLimits = USUAL_LIMITS,
    kind: type[Connection] = Connection,
    loop: Any = None,
) -> Connection:
    """A connection of a server."""
    config = Config(app, http="h11", ws="none", lifespan="off", log_config=None)
    config.load()
    place = access("127.0.0.1", 80, proxies=(PROXY,))
    more: dict[str, Any] = {"access": place, "limits": lambda: limits, "opened": opened}
    return kind(config, ServerState(), {}, loop, **more)


def connect(opened: Counter[str], peer: str, limits: RemoteLimits = USUAL_LIMITS) -> Open:
    """A connection that has been made, from an address."""
    loop, transport = FakeLoop(), a_transport(peer)
    connection = made(nothing, opened, limits, loop=loop)
    connection.connection_made(transport)
    return connection, transport, loop


@pytest.fixture
def connected() -> Open:
    """A connection that has been made."""
    return connect(Counter(), "203.0.113.5")


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_who_says_nothing_or_says_it_slowly_is_hung_up_on(connected: Open, said: bytes) -> None:
    connection, transport, loop = connected
    ((seconds, hang_up),) = first = [*loop.due]
    for byte in said:
        connection.data_received(bytes([byte]))
    assert (seconds, loop.due) == (PATIENCE_S, first)
    hang_up()
    assert transport.is_closing()


def test_a_whole_request_has_no_limit_any_more(connected: Open) -> None:
    connection, transport, loop = connected
    connection.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert loop.due == []
    assert not transport.is_closing()
    connection.connection_lost(None)
    assert loop.due == []


def test_what_is_no_http_gets_the_policy_too(connected: Open) -> None:
    connection, transport, _ = connected
    connection.data_received(b"\x16\x03\x01\r\n\r\n")
    head, _, body = written(transport).decode().partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 400 ")
    for name, value in HEADERS.items():
        assert f"{name}: {value}" in head
    assert body == "Invalid HTTP request received.\n"
    assert transport.is_closing()


def test_what_is_sent_has_to_be_read_in_time(connected: Open) -> None:
    connection, transport, loop = connected
    connection.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    connection.pause_writing()
    connection.resume_writing()
    assert loop.due == []
    connection.pause_writing()
    ((seconds, hang_up),) = loop.due
    assert seconds == USUAL_LIMITS.answer_seconds
    hang_up()
    assert transport.is_closing()
    connection.connection_lost(None)
    assert loop.due == []


@pytest.mark.parametrize("more", [False, True], ids=["an answer", "a stream"])
async def test_who_never_reads_is_hung_up_on(more: bool) -> None:
    lost = asyncio.Event()

    class Noted(Connection):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            lost.set()

    async def much(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        part = {"type": "http.response.body", "body": bytes(60_000), "more_body": more}
        await send(part)
        while (await receive())["type"] != "http.disconnect":
            await send(part)

    make = partial(made, much, Counter(), RemoteLimits(answer_seconds=0), Noted)
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as silent:
        # The system takes a few kilobytes, so that even a small answer has to wait.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        async with await asyncio.get_running_loop().create_server(make, sock=listening):
            silent.connect(listening.getsockname())
            silent.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(PATIENCE_S):
                await lost.wait()


@pytest.mark.parametrize(
    ("peer", "counted"),
    [
        ("203.0.113.5", True),
        ("::ffff:203.0.113.5", True),
        ("2001:db8::1", True),
        ("127.0.0.1", False),
        ("::1", False),
        (PROXY, False),
    ],
)
def test_an_address_has_so_many_connections(peer: str, counted: bool) -> None:
    opened, one = Counter[str](), RemoteLimits(connections_of_address=1)
    first, *_ = connect(opened, peer, one)
    _, other, _ = connect(opened, "203.0.113.6", one)
    second, refused, loop = connect(opened, peer, one)
    assert (refused.is_closing(), other.is_closing()) == (counted, False)
    if counted:
        assert written(refused).startswith(b"HTTP/1.1 429 ")
        assert loop.due == []
    first.connection_lost(None)
    second.connection_lost(None)
    third, again, _ = connect(opened, peer, one)
    assert not again.is_closing()
    third.connection_lost(None)
    assert set(opened) == {"203.0.113.6"}
