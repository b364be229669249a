"""The portable form of what differs between systems, part by part, with made-up time."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from deepsea_bundle import reader, reader_process
from deepsea_referee.bots.output import OutputCapture
from deepsea_referee.decision_timer import DecisionTimer, Timeout
from deepsea_referee.interrupts import first_ready
from deepsea_referee.pauses import AGAIN_US
from deepsea_referee.sandbox.interface import IsolatedProcess, SandboxUnavailable
from deepsea_referee.system import System, portable
from deepsea_referee.system.portable import PortableGauge, PortableSystem, exit_signal
from deepsea_sdk.bot import TimeLeft

PORTABLE: System = PortableSystem()


# Time


class Process:
    """As much of a process as a gauge reads."""

    def cpu_us(self) -> int:
        return 0


def timed_by_wall() -> DecisionTimer:
    return DecisionTimer(PortableGauge(cast(IsolatedProcess, Process()), 2))


def looks(timer: DecisionTimer, until_us: int) -> list[object]:
    """Look whenever it is due; what ends by then."""
    found: list[object] = []
    while timer.due_us is not None and timer.due_us <= until_us:
        found += timer.check(timer.due_us)
    return found


def test_a_timeout_by_the_wall_clock_takes_a_second_look() -> None:
    timer = timed_by_wall()
    timer.start([(1, TimeLeft(100_000, 0))], 0)
    assert looks(timer, 100_000 + AGAIN_US) == []
    (ended,) = looks(timer, 200_000)
    assert isinstance(ended, tuple)
    assert isinstance(ended[1], Timeout)


def test_an_answer_that_is_late_itself_is_not() -> None:
    timer = timed_by_wall()
    timer.start([(1, TimeLeft(100_000, 0))], 0)
    assert looks(timer, 90_000) == []
    ended = timer.stop(1, 150_000)
    assert isinstance(ended, Timeout)
    assert ended.us == pytest.approx(150_000, abs=1)


# Locks


class Msvcrt:
    """Locks of Windows: of bytes, which others then cannot read."""

    LK_NBLCK = 2

    def __init__(self) -> None:
        self.locked: set[tuple[int, int]] = set()

    def locking(self, descriptor: int, mode: int, count: int) -> None:
        where = os.fstat(descriptor).st_ino, os.lseek(descriptor, 0, os.SEEK_CUR)
        assert (mode, count) == (self.LK_NBLCK, 1)
        assert where[1] > os.fstat(descriptor).st_size
        if where in self.locked:
            raise PermissionError
        self.locked.add(where)


@pytest.mark.parametrize("form", ["macos", "windows"])
def test_a_file_is_locked_once(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if form == "windows":
        monkeypatch.setitem(sys.modules, "fcntl", None)
        monkeypatch.setitem(sys.modules, "msvcrt", Msvcrt())
    (tmp_path / "file").write_text("who has it")
    first, second = (os.open(tmp_path / "file", os.O_RDWR) for _ in range(2))
    assert PORTABLE.lock(first)
    assert not PORTABLE.lock(second)
    os.close(first)
    os.close(second)


# Output


@pytest.mark.parametrize("size", [0, 5, 16_384, 60_000])
async def test_all_of_what_an_ended_program_wrote_is_read(size: int) -> None:
    capture = OutputCapture(kept_bytes=100_000, system=PORTABLE)
    os.write(capture.writing, b"x" * size)
    capture.close_writing()
    capture.finish()
    assert len(capture.tail.text()) == size


async def test_what_a_program_prints_comes_while_it_runs() -> None:
    come: asyncio.Queue[bytes] = asyncio.Queue()
    capture = OutputCapture(come.put_nowait, system=PORTABLE)
    os.write(capture.writing, b"hello")
    assert await come.get() == b"hello"
    capture.finish()


async def test_a_flood_waits() -> None:
    capture = OutputCapture(system=PORTABLE)
    flooding = asyncio.get_running_loop().run_in_executor(
        None, os.write, capture.writing, b"x" * 1_000_000
    )
    await flooding  # all of it passes, in chunks
    capture.finish()
    assert "bytes left out" in capture.tail.text()


# Processes


def test_the_exit_of_a_process_is_a_signal() -> None:
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    signal = exit_signal(process)
    assert first_ready([signal], 0) == []
    process.communicate(b"\n")
    assert first_ready([signal], 60) == [signal]
    signal.close()


def begun(program: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-S", "-c", program], stdin=subprocess.PIPE)


def test_a_worker_that_ends_before_it_connects_is_an_error() -> None:
    with portable.listen_for_worker() as listening, pytest.raises(OSError, match="status 3"):
        portable.accept_worker(listening, begun("import sys; sys.stdin.readline(); sys.exit(3)"))


def test_a_connection_without_the_token_is_closed() -> None:
    stranger = (
        "import socket, sys\n"
        "port, token = sys.stdin.readline().split()\n"
        "def call(word):\n"
        "    link = socket.create_connection(('127.0.0.1', int(port)))\n"
        "    link.sendall(word.encode())\n"
        "    return link\n"
        "wrong = call('x' * len(token))\n"
        "assert wrong.recv(1) == b''\n"
        "right = call(token)\n"
        "from multiprocessing.connection import Connection\n"
        "Connection(right.detach()).send('here')\n"
    )
    process = begun(stranger)
    with portable.listen_for_worker() as listening:
        connection = portable.accept_worker(listening, process)
    assert connection.recv() == "here"
    connection.close()
    assert process.wait() == 0


def test_a_sandbox_is_refused_in_a_line() -> None:
    with pytest.raises(SandboxUnavailable, match="needs Linux"):
        PORTABLE.choose("sandbox")
    assert PORTABLE.choose("auto").name == "process"


# Files


@pytest.mark.parametrize("open_it", [reader._open_by_parts, reader._open_checked])
def test_no_part_of_a_path_is_a_link(open_it: Callable[[Path, str], int], tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_bytes(b"1\r\n")
    (tmp_path / "link").symlink_to("real")
    descriptor = open_it(tmp_path, "real/file")
    assert os.read(descriptor, 10) == b"1\r\n"
    os.close(descriptor)
    with pytest.raises(OSError, match="link"):
        open_it(tmp_path, "link/file")


def test_a_limit_that_does_not_hold_is_an_error_on_linux() -> None:
    with pytest.raises(AttributeError):
        reader_process.set_limits({"NONSENSE": 1})
