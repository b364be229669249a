"""Uploads: lies, wrong orders, broken connections, many at once, kills."""

from __future__ import annotations

import contextlib
import hashlib
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deepsea_ladder.limits import RemoteLimits
from deepsea_ladder.model import SubmissionLease
from deepsea_ladder.store import Store
from deepsea_referee.clock import Clock
from helpers import ladder, submissions
from helpers.commands import serving
from helpers.manual_clock import ManualClock
from helpers.members import a_service, a_token
from helpers.remote import OK, Remote, served, served_by

PART = 32 * 1024


@contextlib.contextmanager
def remote(store: Store, clock: Clock | None = None) -> Iterator[Remote]:
    with served(a_service(store), clock=clock) as server:
        yield Remote(server)


def header_of(content: bytes, **other: Any) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    return {"bot": "mine", "size": len(content), "sha256": digest, "key": digest[:16], **other}


def noise(size: int) -> str:
    """Text that nothing makes shorter than half of it."""
    return "".join(hashlib.sha256(str(at).encode()).hexdigest() for at in range(size // 32))


def parts_of(content: bytes, size: int = PART) -> list[bytes]:
    return [content[at : at + size] for at in range(0, len(content), size)]


def begin(port: int, token: str, content: bytes, sent: bytes) -> socket.socket:
    """A connection on which an upload has come as far as this."""
    header = header_of(content)
    lines = (
        "PUT /api/v1/bots/mine HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {token}",
        f"Content-Length: {len(content)}",
        f"X-Content-SHA256: {header['sha256']}",
        f"Idempotency-Key: {header['key']}",
    )
    connection = socket.create_connection(("127.0.0.1", port), 30)
    connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + sent)
    return connection


def rows(store: Store) -> int:
    return len(store.submissions.queue())


@pytest.mark.parametrize(
    "raw",
    [
        b"PUT /api/v1/bots/mine HTTP/1.1\r\nTransfer-Encoding: chunked\r\n%s\r\n0\r\n\r\n",
        b"PUT /api/v1/bots/mine HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n%s\r\nhello",
        b"PUT /api/v1/bots/mine?token=x HTTP/1.1\r\nContent-Length: 5\r\n%s\r\nhello",
        b"PUT /api/v1/bots/mine HTTP/1.1\r\nContent-Length: -5\r\n%s\r\nhello",
        (
            b"PUT /api/v1/bots/mine HTTP/1.1\r\nContent-Length: 5\r\n"
            b"Transfer-Encoding: chunked\r\n%s\r\n5\r\nhello\r\n0\r\n\r\n"
        ),
    ],
)
def test_requests_whose_length_is_unclear_are_refused(played: Store, raw: bytes) -> None:
    with remote(played) as there:
        token = there.token("anna-senior")
        head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
        with socket.create_connection(("127.0.0.1", there.port), 30) as connection:
            connection.sendall(raw % head.encode())
            assert connection.makefile("rb").readline().split()[1] == b"400"
    assert rows(played) == 0


@pytest.mark.parametrize("cut", ["header", "middle", "all but one"])
def test_a_connection_that_breaks_leaves_nothing(played: Store, cut: str) -> None:
    content = submissions.zipped(noise(100_000))
    sent = {"header": b"", "middle": content[:50_000], "all but one": content[:-1]}[cut]
    with remote(played) as there:
        token = there.token("anna-senior")
        begin(there.port, token, content, sent).close()
        answer = there.submit(token, header_of(content), parts_of(content), most=1)
        assert answer.code == OK
        assert rows(played) == 1


def test_a_slow_upload_is_given_up(played: Store) -> None:
    content = submissions.zipped("x")
    clock = ManualClock()
    with remote(played, clock=clock) as there:
        token = there.token("anna-senior")
        begun = threading.Event()

        def chunks() -> Iterator[bytes]:
            yield content[:10]
            begun.set()

        answers: list[Any] = []

        def submit() -> None:
            answers.append(there.submit(token, header_of(content), chunks()))

        asking = threading.Thread(target=submit)
        asking.start()
        assert begun.wait(30)
        while asking.is_alive():
            there.server.jump(1_000_000)
            asking.join(0.01)
    (answer,) = answers
    assert answer.code == "RESOURCE_EXHAUSTED"
    assert "too slow" in answer.message
    assert rows(played) == 0


# The server itself


@pytest.mark.slow
def test_a_server_that_is_killed_in_an_upload_leaves_no_row(played: Store) -> None:
    place, service = str(played.database), a_service(played)
    token = a_token(service, "anna-senior")
    content = submissions.zipped(noise(200_000))
    with (
        serving(place, "--no-run") as (process, port),
        begin(port, token, content, content[:-1]),
    ):
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert rows(played) == 0
    with remote(played) as there:
        answer = there.submit(token, header_of(content), parts_of(content), most=1)
        assert answer.code == OK
    assert rows(played) == 1


# Four servers; one that is killed in every run: tests/cli/test_remote_ladder.py.
@pytest.mark.release
def test_after_a_kill_in_each_state_the_same_key_is_the_same_submission(played: Store) -> None:
    place, service = str(played.database), a_service(played)
    token = a_token(service, "anna-senior")
    content = submissions.zipped("one")
    seen: list[tuple[str, str]] = []
    leases: list[SubmissionLease | None] = []

    def claim() -> None:
        leases.append(played.submissions.claim("runner", 60))

    def accept() -> None:
        (lease,) = leases
        assert lease is not None
        bundle = replace(ladder.a_bundle("one"), name="mine")
        assert played.submissions.accept(lease, bundle, RemoteLimits(), 1, has_played=True)

    for meanwhile in (int, claim, accept, int):
        with serving(place, "--no-run") as (process, port), served_by(service, port) as there:
            answer = there.submit(token, header_of(content), parts_of(content), most=1)
            found = answer.document["submission"]
            seen.append((found["id"], found["state"]))
            meanwhile()
            process.send_signal(signal.SIGKILL)
            process.wait()
    assert [state for _, state in seen] == ["queued", "queued", "running", "accepted"]
    assert len({number for number, _ in seen}) == 1
    assert [one.number for one in played.bots.versions("mine")] == [1]


def peak_kib(pid: int) -> int:
    """The most memory that a process had since its count began anew."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1])


@pytest.mark.slow
@pytest.mark.parametrize("count", [5, pytest.param(20, marks=pytest.mark.release)])
def test_large_uploads_at_once_take_little_memory(played: Store, count: int) -> None:
    place, service = str(played.database), a_service(played)
    tokens = [a_token(service, f"author-{number}") for number in range(count)]
    content = bytes(range(256)) * (1 << 16)  # 16 MiB
    codes: list[str] = []
    with serving(place, "--no-run") as (process, port), served_by(service, port) as there:

        def submit(number: int) -> None:
            header = header_of(content, bot=f"bot-{number}")
            answer = there.submit(tokens[number], header, parts_of(content), most=1)
            codes.append(answer.code)

        # What a first upload loads is no upload's.
        small = submissions.zipped("small")
        assert there.submit(tokens[0], header_of(small), [small], most=1).code == OK
        Path(f"/proc/{process.pid}/clear_refs").write_text("5", encoding="ascii")
        before = peak_kib(process.pid)
        threads = [threading.Thread(target=submit, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        grown = peak_kib(process.pid) - before
    assert codes == [OK] * count
    assert rows(played) == count + 1
    assert grown < 64 * 1024 < count * len(content) // 1024
