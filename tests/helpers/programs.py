"""Real bot programs for tests, good and bad, and what must be gone after a match.

A program that hangs says so first, into a pipe that the test waits for: no test waits for time.
Only what a killed process leaves has nobody who could say that it is gone.
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
import select
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import BotSpec, resolve
from deepsea_referee.sandbox import cgroup, delegation, process_tree
from deepsea_referee.sandbox.cgroup import Hierarchies
from deepsea_referee.sandbox.plain_process import PlainProcess

HEAD = """
import os, sys, signal
from deepsea_sdk import Bot, run

class Tester(Bot):
    asked = 0
    games = 0

    def on_game_start(self, info):
        Tester.games += 1
        self.asked = 0

    def search(self, view):
        return "take" if "take" in view.legal and view.me.load < 2 else "leave"

    def turn_back(self, view):
        return view.me.load >= 2

    def decide(self, view):
        self.asked += 1
        self.before(view)
        return super().decide(view)

    def before(self, view):
        pass
"""
TAIL = "\nif __name__ == '__main__':\n    run(Tester)\n"

LINES = """
import json, os, signal, sys
from zlib import crc32
{first}
games, counts = 0, {{}}
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "hello":
        print(json.dumps({{"type": "ready", "features": {features}}}), flush=True)
    elif message["type"] == "start":
        game, commitment = message["game_id"], message["commitment"]
        games, counts[game] = games + 1, 0
        {start}
    elif message["type"] == "decide":
        game, legal = message["game_id"], message["legal"]
        asked = counts[game] = counts[game] + 1
        {before}
        answer = {{"type": "answer", "id": message["id"], "action": {action}}}
        print(json.dumps(answer), flush=True)
"""

PATIENT = Hosting(PlainProcess(), start_limit_us=60_000_000, grace_us=30_000_000)
"""Limits that no machine is too slow for."""


MUTE = """
import os, queue, grpc
from deepsea_sdk._pb import play_pb2 as pb

def report():
    with open({pipe!r}, "w") as pipe:
        pipe.write(".")

asked, outbox = 0, queue.SimpleQueue()
hello = pb.Hello(token=os.environ["DEEPSEA_TOKEN"])
outbox.put(pb.PlayRequest(hello=hello).SerializeToString())
with grpc.insecure_channel(os.environ["DEEPSEA_ADDRESS"]) as channel:
    for data in channel.stream_stream("/deepsea.play.v1.PlayService/Play")(iter(outbox.get, None)):
        message = pb.PlayResponse.FromString(data)
        if message.HasField("welcome") and {answers} < 0:
            report()
        for request in message.requests:
            asked += 1
            if 0 <= {answers} < asked:
                report()
                continue
            decision = pb.Decision(request_id=request.request_id, action=request.legal[0])
            outbox.put(pb.PlayRequest(decisions=[decision]).SerializeToString())
    outbox.put(None)
"""


def program(folder: Path, name: str, before: str = "pass", first: str = "") -> BotSpec:
    """A bot that plays well but for what it does before each decision, or before anything else."""
    return written(folder, name, source(before, first))


def source(before: str = "pass", first: str = "") -> str:
    """The text of such a bot."""
    return f"{first}\n{HEAD}        {before}\n{TAIL}"


def program_in(folder: Path, name: str, before: str = "pass", first: str = "") -> Path:
    """The file of such a bot, which is made."""
    program(folder, name, before, first)
    return folder / f"{name}.py"


def opponent(folder: Path) -> BotSpec:
    """A bot that plays the default action."""
    return lines_bot(folder, "opponent")


def opponent_in(folder: Path, name: str) -> Path:
    """The folder of such a bot with a name, which is made."""
    lines_bot(folder, name)
    return folder / name


def chooser(folder: Path, name: str = "chooser") -> BotSpec:
    """A bot whose actions differ from game to game, and that plays several games at once."""
    action = 'legal[crc32(f\'{game} {asked} {message["view"]["seat"]}\'.encode()) % len(legal)]'
    return lines_bot(folder, name, action=action, features=("concurrent_games",))


def lines_bot(
    folder: Path,
    name: str,
    before: str = "pass",
    first: str = "",
    *,
    start: str = "pass",
    action: str = "legal[0]",
    features: Sequence[str] = (),
) -> BotSpec:
    """A bot without the SDK, whose import takes ten times as long as all the rest.

    before  what it does before each decision, the `asked`-th of its `game`, its `games`-th
    first   what it does before anything else
    start   what it does when a game starts
    action  what it plays, of `legal`
    """
    place = folder / name
    place.mkdir(exist_ok=True)
    text = LINES.format(
        before=before, first=first, start=start, action=action, features=[*features]
    )
    (place / "bot.py").write_text(text, encoding="utf-8")
    manifest = 'command = ["python3", "-S", "bot.py"]\nprotocol = "lines"\n'
    (place / "bot.toml").write_text(manifest, encoding="utf-8")
    return resolve(str(place))


def mute(folder: Path, pipe: Path, answers: int) -> BotSpec:
    """A bot that answers so many questions and no more, and reports each one it leaves open."""
    return written(folder, "mute", MUTE.format(pipe=str(pipe), answers=answers))


def punctual(folder: Path, pipe: Path) -> BotSpec:
    """A bot that reports when it was welcomed and always plays the default action."""
    return written(folder, "punctual", MUTE.format(pipe=str(pipe), answers=-1))


def never_ready(folder: Path) -> BotSpec:
    """A bot that never connects."""
    return written(folder, "never_ready", "import signal\nsignal.pause()\n")


def written(folder: Path, name: str, text: str) -> BotSpec:
    """A bot of this text."""
    file = folder / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    return resolve(str(file))


@contextmanager
def reports(pipe: Path) -> Iterator[Callable[[], Awaitable[None]]]:
    """A named pipe into which a program reports; what it gives waits for the next report."""
    os.mkfifo(pipe)
    descriptor = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    loop = asyncio.get_running_loop()
    unread: asyncio.Queue[bytes] = asyncio.Queue()

    def read() -> None:
        for byte in os.read(descriptor, 100):
            unread.put_nowait(bytes([byte]))

    async def report() -> None:
        await unread.get()

    loop.add_reader(descriptor, read)
    try:
        yield report
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    """Fails if a program, a socket or a folder of the block outlives it."""
    with tempfile.TemporaryDirectory(prefix="t-") as name:
        usual, tempfile.tempdir = tempfile.tempdir, name
        try:
            yield
        finally:
            tempfile.tempdir = usual
        assert list(Path(name).iterdir()) == []
        assert _programs(name) == []


def soon(condition: Callable[[], bool], milliseconds: int = 10_000) -> bool:
    """Whether something becomes true within this time."""
    step = 20
    for _ in range(milliseconds // step):
        if condition():
            return True
        select.poll().poll(step)
    return condition()


def processes_with(text: str) -> list[int]:
    """The other processes that have a text in their first environment or command line."""
    return process_tree.search(
        lambda pid: os.fsencode(text) in process_tree.environment_and_command(pid)
    )


def needs_groups() -> Hierarchies:
    """Return the control groups of bots; skip the test where this process gets none.

    Where they are given it is a fault that bots have no bounds.
    """
    places = cgroup.hierarchies()
    if places.memory is None or places.pids is None:
        found = cgroup.mounted_hierarchies(Path("/proc/self/mountinfo"), Path("/proc/self/cgroup"))
        for place in found:
            controllers = place.own / "cgroup.controllers"
            is_given = controllers.exists() and os.access(place.own, os.W_OK)
            if is_given and {"memory", "pids"} <= set(controllers.read_text().split()):
                assert delegation.refusal(place.own, place.point), places
        pytest.skip(f"no control group with bounds can be made here: {places.refused or 'none'}")
    return places


def has_ended(process: int) -> bool:
    """Wait until a process has ended, by its descriptor, which is closed."""
    try:
        return bool(select.select([process], [], [], 60)[0])
    finally:
        os.close(process)


def open_descriptors() -> set[tuple[str, str]]:
    """The descriptors of this process, each with what it leads to."""
    found = set()
    for path in list(Path("/proc/self/fd").iterdir()):
        with suppress(FileNotFoundError):  # the one that listed them
            found.add((path.name, str(path.readlink())))
    return found


@contextmanager
def nothing_stays_behind(monkeypatch: pytest.MonkeyPatch, seconds: float = 60.0) -> Iterator[None]:
    """The same for programs that this one does not start itself, and that may take their time.

    All have to be started with what is the environment inside.
    """
    with tempfile.TemporaryDirectory(prefix="t-") as name, monkeypatch.context() as patch:
        patch.setenv("TMPDIR", name)
        yield
        for pid, words in _running(name):
            with suppress(ProcessLookupError):
                handle = os.pidfd_open(pid)
                try:
                    assert select.select([handle], [], [], seconds)[0], f"it runs on: {words}"
                finally:
                    os.close(handle)
        assert list(Path(name).iterdir()) == []


def _programs(folder: str) -> list[str]:
    """Running processes whose address is in the folder."""
    return [words for _, words in _running(folder)]


def _running(folder: str) -> list[tuple[int, str]]:
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if folder.encode() in (process / "environ").read_bytes():
                    found.append((int(process.name), (process / "cmdline").read_text()))
            except OSError:
                continue
    return found


def hide(monkeypatch: pytest.MonkeyPatch, hidden: int) -> None:
    """Let /proc not show a process, as where `hidepid` or a unit's ProtectProc= hides it."""

    def blind(read: Callable[..., Any]) -> Callable[..., Any]:
        def looked(path: Any = ".", *args: Any, **options: Any) -> Any:
            if f"{path}/".startswith(f"/proc/{hidden}/"):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            return read(path, *args, **options)

        return looked

    for module, name in ((os, "open"), (os, "listdir"), (os, "stat"), (os, "lstat"), (io, "open")):
        monkeypatch.setattr(module, name, blind(getattr(module, name)))


def children(of: int | str = "self") -> list[int]:
    """The processes that the threads of a process have started, by their ids."""
    found = []
    for task in Path(f"/proc/{of}/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has just ended
            found += [int(pid) for pid in (task / "children").read_text().split()]
    return found


def workers(of: int | str = "self") -> list[int]:
    """The worker processes of a process's pools that run now."""
    return [pid for pid in children(of) if "deepsea_referee.workers" in _command(pid)]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:  # it has just ended
        return ""
