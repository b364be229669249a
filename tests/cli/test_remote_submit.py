"""`ladder submit --remote`: one submission, however often the connection breaks."""

from __future__ import annotations

import hashlib
import io
import socket
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from deepsea_arena.api.errors import ApiError, BadServer, Unreachable
from deepsea_arena.api.remote import RemoteLadder
from deepsea_arena.api.submissions import Archive
from deepsea_bundle.reader import BotBundle
from deepsea_cli.errors import Interrupted
from deepsea_cli.ladder.options import Target
from deepsea_cli.ladder.submit import CHUNK, RETRIES, follow_submission, submit_bot, with_reports
from deepsea_ladder.model import Submission
from deepsea_referee.bots.resolve import bundle_for_ladder
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
)
from helpers.commands import Run, Tty, one_line

TOKEN = "dsl_" + "a" * 64
KEY = "a-key-of-the-client"
ARCHIVE = bytes(range(256)) * 1000


def state(name: str, **changed: Any) -> bytes:
    return event(submission(name, **changed))


QUEUED, RUNNING = state("queued", ahead=2), state("running", games=1)
BUSY = {"code": "UNAVAILABLE", "message": "the store is busy; try again", "retry_after": 1}
ACCEPTED = state("accepted", games=3, version=2, digest="d")


class Queue(Scripted):
    """Answers each upload and each look with the next reply of a list, then with the last one."""

    def __init__(self, uploads: Sequence[Any], looks: Sequence[Any] = ()) -> None:
        super().__init__()
        self.uploads, self.looks = list(uploads), list(looks)
        self.documents = {
            "/bots/greedy": lambda asked: _next(self.uploads, asked),
            "/submissions/7": lambda asked: _next(self.looks, asked),
        }


def _next(replies: list[Any], asked: Asked) -> Reply:
    found = replies.pop(0) if len(replies) > 1 else replies[0]
    reply: Reply = found(asked) if callable(found) else found
    return reply


class Watched:
    """An upload, and what is said of it."""

    def __init__(self, url: str, sent: Callable[[int], object] | None = None) -> None:
        self.url = url
        self.sent = 0
        self.told = threading.Event()
        self.states: list[str] = []
        self.breaks: list[str] = []
        self.pauses: list[float] = []
        self._note_sent = sent or self._count

    def submit(self, archive: bytes = ARCHIVE) -> Submission:
        package = with_reports(Archive.of(archive, "greedy", KEY, CHUNK), self._note_sent)
        with RemoteLadder(self.url, TOKEN) as ladder:
            return follow_submission(
                ladder,
                package,
                show=self._show,
                report_break=lambda error: self.breaks.append(str(error)),
                pause=self.pauses.append,
            )

    def _count(self, count: int) -> None:
        self.sent += count

    def _show(self, now: Submission) -> None:
        self.states.append(now.state)
        self.told.set()


def uploads(server: Answering) -> list[Asked]:
    return [asked for asked in server.asked if asked.verb == "PUT"]


def looks(server: Answering) -> list[Asked]:
    return [asked for asked in server.asked if asked.path.startswith("/api/v1/submissions/7")]


def test_an_upload_has_a_header_and_every_byte_once() -> None:
    events = b": still here\n\n" + QUEUED + b"id: 7\n" + RUNNING + ACCEPTED
    with Answering(Queue([begun() + events])) as server:
        watched = Watched(server.url)
        found = watched.submit()
        (asked,) = uploads(server)
    assert (found.version, found.state.is_final) == (2, True)
    assert watched.states == ["queued", "running", "accepted"]
    assert watched.sent == len(ARCHIVE)
    assert asked.body == ARCHIVE
    assert asked.headers["content-length"] == str(len(ARCHIVE))
    assert "transfer-encoding" not in asked.headers
    assert asked.headers["x-content-sha256"] == hashlib.sha256(ARCHIVE).hexdigest()
    assert asked.headers["idempotency-key"] == KEY
    assert asked.token == TOKEN


@pytest.mark.parametrize(
    ("broken", "again"),
    [
        (b"", 1),
        (b"HTTP/1.1 200 OK\r\n", 1),
        (begun(), 1),
        (begun() + QUEUED[:20], 1),
        (begun() + QUEUED[:-1], 1),
        (begun() + QUEUED, 0),
        (begun() + QUEUED + RUNNING + b": still here\n\n", 0),
        (begun({"Transfer-Encoding": "chunked"}) + b"%x\r\n%s\r\n" % (len(QUEUED), QUEUED), 0),
        (begun() + QUEUED + event({"error": BUSY}, "error"), 0),
        (answer({"error": BUSY}, 503), 1),
    ],
)
def test_a_broken_stream_goes_on_with_the_same_submission(broken: bytes, again: int) -> None:
    there = Queue([broken, begun() + ACCEPTED], [begun() + RUNNING, begun() + ACCEPTED])
    with Answering(there) as server:
        watched = Watched(server.url)
        assert watched.submit().version == 2
        assert len(uploads(server)) == 1 + again
        assert {asked.headers["idempotency-key"] for asked in uploads(server)} == {KEY}
        assert len(looks(server)) == (0 if again else 2)
    assert watched.pauses == ([1.0] if again else [1.0, 1.0])
    assert len(watched.breaks) == len(watched.pauses)


def test_a_ladder_that_does_not_come_back_is_given_up() -> None:
    with Answering(Queue([begun() + QUEUED], [b""])) as server:
        watched = Watched(server.url)
        with pytest.raises(Unreachable, match="broke"):
            watched.submit()
        assert len(uploads(server)) == 1
    assert watched.pauses == list(RETRIES)


def test_news_before_each_break_are_no_reason_to_go_on_for_ever() -> None:
    with Answering(Queue([begun() + QUEUED], [begun() + RUNNING])) as server:
        watched = Watched(server.url)
        with pytest.raises(BadServer, match="again and again"):
            watched.submit()
        assert len(server.asked) < 200
    assert set(watched.pauses) == {1.0}


def test_a_refusal_is_final_unless_it_is_of_too_many_looks() -> None:
    limited = refusal("RESOURCE_EXHAUSTED", "10 submissions in this hour", 429, 600)
    with Answering(Queue([limited])) as server:
        watched = Watched(server.url)
        with pytest.raises(ApiError, match="in this hour; try again in 10 minutes"):
            watched.submit()
        assert watched.pauses == []
    slower = refusal("RESOURCE_EXHAUSTED", "too many calls", 429, 9)
    endless = refusal("RESOURCE_EXHAUSTED", "too many calls", 429, 99_999)
    with Answering(Queue([begun() + QUEUED], [slower, endless, begun() + ACCEPTED])) as server:
        watched = Watched(server.url)
        assert watched.submit().version == 2
    assert watched.pauses == [1.0, 9, 60]
    gone = refusal("NOT_FOUND", "there is no such submission", 404)
    with (
        Answering(Queue([begun() + QUEUED], [gone])) as server,
        pytest.raises(ApiError, match="no"),
    ):
        Watched(server.url).submit()


def test_a_ladder_that_lets_nobody_follow_is_asked_again_and_again() -> None:
    nobody = refusal("RESOURCE_EXHAUSTED", "its operator has set `streams` to 0", 429)
    queue = Queue([begun() + QUEUED], [nobody])
    lists = [submission(name) for name in ("queued", *["running"] * 8)]
    lists.append(submission("accepted", games=3, version=2, digest="d"))
    queue.documents["/submissions"] = lambda asked: answer(
        {"submissions": [lists.pop(0)["submission"]]}
    )
    with Answering(queue) as server:
        watched = Watched(server.url)
        assert watched.submit().version == 2
        assert len(uploads(server)) == 1
    assert watched.pauses == [*RETRIES, RETRIES[-1], RETRIES[-1], RETRIES[-1]]


def test_an_upload_that_is_refused_before_it_is_whole_says_why() -> None:
    def refuse() -> None:
        with listening.accept()[0] as connection:
            connection.recv(1)
            connection.sendall(refusal("INVALID_ARGUMENT", "the archive is too large", 400))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        refusing = threading.Thread(target=refuse)
        refusing.start()
        watched = Watched(f"http://127.0.0.1:{listening.getsockname()[1]}")
        with pytest.raises(ApiError, match="too large"):
            watched.submit(bytes(64 << 20))
        refusing.join()
    assert watched.sent < 64 << 20


def test_news_are_told_as_they_come() -> None:
    in_time: list[bool] = []

    def reply(_asked: Asked) -> Iterator[bytes]:
        yield begun() + QUEUED
        in_time.append(watched.told.wait(60))
        yield ACCEPTED

    with Answering(Queue([reply])) as server:
        watched = Watched(server.url)
        watched.submit()
    assert in_time == [True]


def test_ctrl_c_ends_an_upload() -> None:
    def interrupt(_count: int) -> None:
        raise KeyboardInterrupt

    with socket.create_server(("127.0.0.1", 0)) as listening:
        watched = Watched(f"http://127.0.0.1:{listening.getsockname()[1]}", interrupt)
        with pytest.raises(KeyboardInterrupt):
            watched.submit()
        with listening.accept()[0] as connection, connection.makefile("rb") as received:
            assert 0 < len(received.read()) < len(ARCHIVE)


# --------------------------------------------------------------------------------- the command


@pytest.fixture
def bundle() -> BotBundle:
    return bundle_for_ladder("greedy")


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", TOKEN)


@pytest.fixture
def there() -> Queue:
    return Queue([begun() + QUEUED + RUNNING])


def test_what_is_accepted_is_said_as_on_the_ladders_machine(
    run: Run, there: Queue, server: Answering, bundle: BotBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    there.uploads = [
        begun() + QUEUED + RUNNING + state("accepted", version=2, digest=bundle.digest)
    ]
    done = run("ladder", "submit", "greedy", "-v", "--remote", server.url)
    assert done.status == 0
    first, second, third = done.out.splitlines()
    assert first == "greedy version 2 by anna is on the ladder"
    assert second.startswith(f"digest {bundle.digest[:16]}... ")
    assert third.startswith("2 files and folders, ")
    assert done.err.splitlines() == [
        "submission 7: waiting, 2 before it",
        "submission 7: checking, game 2 of 3",
        "submission 7: accepted",
    ]
    there.uploads = [begun() + QUEUED + state("accepted", of_games=0, games=0, digest="x")]
    monkeypatch.setattr(sys, "stderr", terminal := Tty())
    monkeypatch.setenv("TERM", "xterm")
    run("ladder", "submit", "greedy", "--remote", server.url)
    assert "waiting, 2 before it" in terminal.getvalue()
    asked = uploads(server)[0]
    with zipfile.ZipFile(io.BytesIO(asked.body)) as archive:
        assert set(archive.namelist()) == set(bundle.files)


def test_what_is_refused_is_said_as_on_the_ladders_machine(
    run: Run, there: Queue, server: Answering
) -> None:
    why = {"found": "season s, decision 0: crash", "remedy": "run it", "error": "Traceback:\n  x"}
    there.uploads = [begun() + state("refused", **why, log=["a", "b"])]
    done = run("ladder", "submit", "greedy", "--remote", server.url)
    assert (done.status, done.err) == (1, "")
    assert done.out.splitlines() == [
        "greedy is refused: season s, decision 0: crash",
        "  Traceback:",
        "    x",
        "to do: run it",
        "for more:",
        "  deepsea-referee check greedy",
    ]
    there.uploads = [begun() + state("refused", **{**why, "error": ""}, log=["a", "b\x1b[2J"])]
    out = run("ladder", "submit", "greedy", "--remote", server.url).out
    assert "its output:\n  a\n  b\\x1b[2J\n" in out
    there.uploads = [begun() + state("refused", found="the bot 'greedy' is Bob's")]
    out = run("ladder", "submit", "greedy", "--remote", server.url).out
    assert out.splitlines()[:2] == ["greedy is refused: the bot 'greedy' is Bob's", "for more:"]
    there.uploads = [begun() + state("failed", found="the sandbox failed", remedy="try again")]
    done = run("ladder", "submit", "greedy", "--remote", server.url)
    assert done.status == 1
    assert "could not check greedy: the sandbox failed" in done.out


@pytest.mark.parametrize("changed", [{"version": None}, {"digest": "f" * 64}])
def test_something_else_than_what_was_sent_is_not_accepted(
    run: Run, there: Queue, server: Answering, bundle: BotBundle, changed: dict[str, Any]
) -> None:
    given = {"version": 2, "digest": bundle.digest, **changed}
    there.uploads = [begun() + state("accepted", **given)]
    done = run("ladder", "submit", "greedy", "--remote", server.url)
    assert (done.status, done.out) == (1, "")
    assert "has accepted something else than was sent" in one_line(done.err)


def test_what_the_ladder_would_not_take_is_not_sent(
    run: Run, there: Queue, server: Answering, tmp_path: Path
) -> None:
    there.server["limits"] = [{"name": "archive_bytes", "value": 100, "unit": "", "about": ""}]
    done = run("ladder", "submit", "greedy", "--remote", server.url)
    assert "takes 100: leave out what it does not need" in done.refusal
    (tmp_path / "bot.py").write_text("print(")
    done = run("ladder", "submit", tmp_path / "bot.py", "--remote", server.url)
    assert done.status == 2
    assert uploads(server) == []


def test_ctrl_c_leaves_the_submission_to_the_ladder(
    there: Queue, server: Answering, bundle: BotBundle
) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    target = Target(server.url, None, TOKEN)
    said = "while it is running; the ladder goes on with submission 7 by itself"
    with pytest.raises(Interrupted, match=said):
        submit_bot(target, bundle, lambda _line: None, interrupt)
    there.uploads = [b""]
    with pytest.raises(Interrupted, match="before the ladder said that it has the bot"):
        submit_bot(target, bundle, lambda _line: None, interrupt)
