"""`ladder submit --remote`: one submission, however often the connection breaks."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from deepsea_bundle.reader import BotBundle
from deepsea_cli.errors import Interrupted
from deepsea_cli.ladder.submit_remote import submit_bot
from deepsea_cli.remote.address import read_address
from deepsea_cli.remote.answers import Submission
from deepsea_cli.remote.client import Client
from deepsea_cli.remote.errors import BadServer, Refused, Unreachable
from deepsea_cli.remote.logins import Target
from deepsea_cli.remote.submitting import RETRIES, header_of, submit
from deepsea_referee.bots.resolve import bundle_for_ladder
from helpers.answering import Answering, Asked, Reply, Scripted, begun, refusal
from helpers.commands import Run, one_line

TOKEN = "dsl_" + "a" * 49
KEY = "a-key-of-the-client"
ARCHIVE = bytes(range(256)) * 1000


def state(name: str, **changed: Any) -> bytes:
    """A line of the stream."""
    usual = {"id": "7", "bot": "greedy", "author": "anna", "state": name, "of_games": 3}
    return json.dumps({"submission": {**usual, **changed}}).encode() + b"\n"


QUEUED, CHECKING = state("queued", ahead=2), state("checking", games=1)
ACCEPTED = state("accepted", games=3, version=2, digest="d")


class Queue(Scripted):
    """Answers each upload and each look with the next reply of a list, then with the last one."""

    def __init__(self, uploads: Sequence[Reply], looks: Sequence[Reply] = ()) -> None:
        super().__init__()
        self.uploads, self.looks = list(uploads), list(looks)
        self.documents = {
            "/bots/greedy": lambda _asked: _next(self.uploads),
            "/submissions/7": lambda _asked: _next(self.looks),
        }


def _next(replies: list[Reply]) -> Reply:
    return replies.pop(0) if len(replies) > 1 else replies[0]


class Watched:
    """What `submit` said of itself."""

    def __init__(self, url: str) -> None:
        self.client = Client(read_address(url), TOKEN)
        self.sent = 0
        self.states: list[str] = []
        self.breaks: list[str] = []
        self.pauses: list[float] = []

    def submit(self) -> Submission:
        def sent(count: int) -> None:
            self.sent += count

        return submit(
            self.client,
            header_of("greedy", ARCHIVE, KEY),
            ARCHIVE,
            sent=sent,
            news=lambda now: self.states.append(now.state),
            broken=lambda error: self.breaks.append(str(error)),
            pause=self.pauses.append,
        )


def uploads(server: Answering) -> list[Asked]:
    return [asked for asked in server.asked if asked.verb == "PUT"]


def looks(server: Answering) -> list[Asked]:
    return [asked for asked in server.asked if asked.path.startswith("/api/v1/submissions/7")]


def test_an_upload_has_a_header_and_every_byte_once() -> None:
    with Answering(Queue([begun() + QUEUED + b"\n\n" + CHECKING + ACCEPTED])) as server:
        watched = Watched(server.url)
        found = watched.submit()
        (asked,) = uploads(server)
    assert (found.version, found.is_final) == (2, True)
    assert watched.states == ["queued", "checking", "accepted"]
    assert watched.sent == len(ARCHIVE)
    assert asked.body == ARCHIVE
    assert asked.headers["content-length"] == str(len(ARCHIVE))
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
        (begun() + QUEUED, 0),
        (begun() + QUEUED + CHECKING + b"\n", 0),
        (refusal("UNAVAILABLE", "the ladder's store is busy; try again", 503, 1), 1),
    ],
    ids=["nothing", "status", "head", "half a line", "queued", "checking", "busy"],
)
def test_a_broken_stream_goes_on_with_the_same_submission(broken: bytes, again: int) -> None:
    queue = Queue([broken, begun() + ACCEPTED], [begun() + CHECKING, begun() + ACCEPTED])
    with Answering(queue) as server:
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
    with Answering(Queue([begun() + QUEUED], [begun() + CHECKING])) as server:
        watched = Watched(server.url)
        with pytest.raises(BadServer, match="again and again"):
            watched.submit()
        assert len(server.asked) < 200
    assert set(watched.pauses) == {1.0}


def test_a_refusal_is_final_unless_it_is_of_too_many_looks() -> None:
    limited = refusal("RESOURCE_EXHAUSTED", "10 submissions in this hour", 429, 600)
    with Answering(Queue([limited])) as server:
        watched = Watched(server.url)
        with pytest.raises(Refused, match="in this hour; try again in 10 minutes"):
            watched.submit()
        assert watched.pauses == []
    slower = refusal("RESOURCE_EXHAUSTED", "too many calls", 429, 9)
    endless = refusal("RESOURCE_EXHAUSTED", "too many calls", 429, 99_999)
    with Answering(Queue([begun() + QUEUED], [slower, endless, begun() + ACCEPTED])) as server:
        watched = Watched(server.url)
        assert watched.submit().version == 2
    assert watched.pauses == [1.0, 9, 60]
    gone = refusal("NOT_FOUND", "there is no such submission", 404)
    with Answering(Queue([begun() + QUEUED], [gone])) as server, pytest.raises(Refused, match="no"):
        Watched(server.url).submit()


def test_an_upload_that_is_refused_before_it_is_whole_says_why() -> None:
    def refuse(_asked: Asked) -> Reply:
        return refusal("INVALID_ARGUMENT", "the archive is too large", 400)

    server = Answering(Scripted({"/bots/greedy": refuse}))
    with server, pytest.raises(Refused, match="too large"):
        Watched(server.url).submit()


# --------------------------------------------------------------------------------- the command


class Terminal(io.StringIO):
    """Stands for stderr."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def bundle() -> BotBundle:
    return bundle_for_ladder("greedy")


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", TOKEN)


@pytest.fixture
def queue() -> Queue:
    return Queue([begun() + QUEUED + CHECKING])


@pytest.fixture
def server(queue: Queue) -> Iterator[Answering]:
    with Answering(queue) as answering:
        yield answering


def test_what_is_accepted_is_said_as_on_the_ladders_machine(
    run: Run,
    queue: Queue,
    server: Answering,
    bundle: BotBundle,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue.uploads = [
        begun() + QUEUED + CHECKING + state("accepted", version=2, digest=bundle.digest)
    ]
    done = run("ladder", "submit", "greedy", "-v", "--remote", server.url)
    assert done.status == 0
    first, second, third = done.out.splitlines()
    assert first == "greedy version 2 by anna is on the ladder"
    assert second == f"digest {bundle.digest}"
    assert third.startswith("files 2 of ")
    assert done.err.splitlines() == [
        f"HTTP API at {server.url}: it has no gRPC",
        "submission 7: waiting, 2 before it",
        "submission 7: checking, game 2 of 3",
        "submission 7: accepted",
    ]
    queue.uploads = [begun() + QUEUED + state("accepted", of_games=0, games=0, digest="x")]
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    run("ladder", "submit", "greedy", "--remote", server.url)
    assert "waiting, 2 before it" in terminal.getvalue()
    asked = uploads(server)[0]
    with zipfile.ZipFile(io.BytesIO(asked.body)) as archive:
        assert set(archive.namelist()) == set(bundle.files)


def test_what_is_refused_is_said_as_on_the_ladders_machine(
    run: Run, queue: Queue, server: Answering
) -> None:
    why = {"found": "season s, decision 0: crash", "remedy": "run it", "error": "Traceback:\n  x"}
    queue.uploads = [begun() + state("refused", **why, log=["a", "b"])]
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
    queue.uploads = [begun() + state("refused", **{**why, "error": ""}, log=["a", "b\x1b[2J"])]
    out = run("ladder", "submit", "greedy", "--remote", server.url).out
    assert "its output:\n  a\n  b\\x1b[2J\n" in out
    queue.uploads = [begun() + state("failed", found="the sandbox failed", remedy="try again")]
    done = run("ladder", "submit", "greedy", "--remote", server.url)
    assert done.status == 1
    assert "could not check greedy: the sandbox failed" in done.out


@pytest.mark.parametrize("changed", [{"version": None}, {"digest": "f" * 64}])
def test_something_else_than_what_was_sent_is_not_accepted(
    run: Run, queue: Queue, server: Answering, bundle: BotBundle, changed: dict[str, Any]
) -> None:
    given = {"version": 2, "digest": bundle.digest, **changed}
    queue.uploads = [begun() + state("accepted", **given)]
    done = run("ladder", "submit", "greedy", "--remote", server.url)
    assert (done.status, done.out) == (1, "")
    assert "has accepted something else than was sent" in one_line(done.err)


def test_what_the_ladder_would_not_take_is_not_sent(
    run: Run, queue: Queue, server: Answering, tmp_path: Path
) -> None:
    queue.server["limits"] = [{"name": "archive_bytes", "value": "100", "unit": "", "about": ""}]
    done = run("ladder", "submit", "greedy", "--remote", server.url)
    assert (done.status, done.out) == (2, "")
    assert "takes 100: leave out what it does not need" in one_line(done.err)
    (tmp_path / "bot.py").write_text("print(")
    done = run("ladder", "submit", tmp_path / "bot.py", "--remote", server.url)
    assert done.status == 2
    assert uploads(server) == []


def test_ctrl_c_leaves_the_submission_to_the_ladder(
    queue: Queue, server: Answering, bundle: BotBundle
) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    target = Target(read_address(server.url), None, TOKEN)
    said = "while it is checking; the ladder goes on with submission 7 by itself"
    with pytest.raises(Interrupted, match=said):
        submit_bot(target, bundle, lambda _line: None, interrupt)
    queue.uploads = [b""]
    with pytest.raises(Interrupted, match="before the ladder said that it has the bot"):
        submit_bot(target, bundle, lambda _line: None, interrupt)
