"""macOS and Windows, with the standard library and psutil: plain processes and the wall clock.

Invariants: nothing here is of one system alone; what a system lacks (Unix sockets, process groups,
timer signals) is asked for where it is used. Waiting is done by threads, so that any event loop
will do.

Bots are plain child processes, for those that are trusted: it hides only most of the environment
and stops no attack; it limits accidents: memory, processes, a bot that does not exit. A bot has its
own process group. When the referee is killed, its bots' streams end, which ends those that do not
hang. A helper process that leaves the group and clears its environment can escape. Bots are charged
the wall time: nothing counts as denied to them; the referee's own lateness is not charged, as far
as its pulse shows it (timing/clock.py).

Python's `subprocess` passes no descriptor but the standard streams on Windows: workers connect to
this process over loopback, with a token that is used once and goes through the worker's stdin,
which nobody else reads; a connection without the token is closed.
"""

from __future__ import annotations

import atexit
import hmac
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from deepsea_referee.interrupts import WakePipe
from deepsea_referee.sandbox.interface import (
    IsolatedProcess,
    Isolation,
    IsolationLevel,
    LaunchSpec,
    ResourceLimits,
    SandboxUnavailable,
    Watchdog,
)
from deepsea_referee.sandbox.python_paths import PASSED_ON, environment_for
from deepsea_referee.system import OWN_GROUP_FLAGS, CpuShare, psutil_trees, threads
from deepsea_referee.timing.clock import PULSE
from deepsea_referee.timing.host_load import BUSY_US, Gauge, Reading, Usage
from deepsea_sdk.entropy import fresh_token

NEEDS_LINUX = (
    "a sandbox needs Linux: use --isolation process for your own bots, or run the referee there"
)
# Without some of these no program of Windows starts.
PASSED_ON_TOO = (
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATHEXT",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
)
LOOK_S = 1.0
"""The interval of checks of memory and processes; a check searches all processes of the machine."""
_watchdog = Watchdog(LOOK_S)
UNSEEN_US = BUSY_US + 1
"""The wait of the referee that is assumed at the first look after a limit, since these systems do
not count it. It is long enough to cause a second look."""
_LOOPBACK = "127.0.0.1"
_CONNECT_LOOK_S = 0.5
"""The interval at which a worker that has not connected is checked to be running."""
_TOKEN_S = 10.0
"""The longest wait for the token of a connection."""
_LOCKED_BYTE = 1 << 20
"""The offset of the byte of a file that is locked on Windows, beyond its content."""

_BEFORE_MAIN = """
import socket, sys
port, token = sys.stdin.readline().split()
link = socket.create_connection(("127.0.0.1", int(port)))
link.sendall(token.encode())
from multiprocessing.connection import Connection
connection = Connection(link.detach())
"""


class PortableSystem:
    """macOS or Windows; see `linux.LinuxSystem` for the methods."""

    confines = False
    tells_delays = False

    def __init__(self) -> None:
        self.tcp_host = None if hasattr(socket, "AF_UNIX") else _LOOPBACK

    def cpus(self) -> int:
        return os.cpu_count() or 1

    def opens_browsers(self) -> bool:
        return True

    def late_share(self) -> float:
        return PULSE.missing_share()

    def make_room(self) -> None:
        """Do nothing: there are no control groups."""

    def begin_test(self, level: IsolationLevel) -> AbstractContextManager[Any]:
        return nullcontext()

    def choose(self, level: IsolationLevel, begun: Any = None) -> Isolation:
        if level == "sandbox":
            raise SandboxUnavailable(NEEDS_LINUX)
        return PlainProcess()

    def choose_bot_users(self, text: str) -> None:
        raise ValueError(NEEDS_LINUX)

    def gauge(self, process: IsolatedProcess) -> Gauge:
        return WallGauge(process, self.cpus())

    def pipe_reader(self, descriptor: int, ready: Callable[[], object]) -> threads.ThreadReader:
        return threads.ThreadReader(descriptor, ready)

    def private_folder(self, parent: str | None = None) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="deepsea-", dir=parent))
        atexit.register(self.remove_folder, folder)
        return folder

    def socket_folder(self) -> Path:
        # Not TMPDIR, which may be long: the path of a socket has at most 103 bytes on macOS.
        return self.private_folder("/tmp" if self.tcp_host is None else None)

    def remove_folder(self, folder: Path) -> None:
        for path in folder.rglob("*"):  # Windows does not remove read-only files
            with suppress(OSError):
                path.chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)

    def lock(self, descriptor: int) -> bool:
        """Lock an open file until this process ends; return False if another one has locked it."""
        from deepsea_referee.system.linux import LinuxSystem

        try:
            return LinuxSystem().lock(descriptor)  # macOS has this lock too
        except ImportError:
            windows: Any = import_module("msvcrt")
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)  # other processes may read the content
        try:
            windows.locking(descriptor, windows.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def start_worker(self, main: str) -> tuple[subprocess.Popen[bytes], Connection]:
        """Start a worker with this program; return its process and the connection to it."""
        with listen_for_worker() as listening:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BEFORE_MAIN + main],
                stdin=subprocess.PIPE,
                # Ctrl-C must not reach the worker: this process requests it to stop.
                start_new_session=True,
                creationflags=OWN_GROUP_FLAGS,
            )
            return process, accept_worker(listening, process)

    def keep_to(self, share: CpuShare) -> None:
        """Do nothing: macOS cannot bind a process to a CPU."""

    def accept_interrupts(self) -> None:
        """Do nothing: Ctrl-C does not reach a worker, which has a group of its own."""

    def give_way(self) -> None:
        if hasattr(os, "nice"):
            os.nice(19)

    def exit_signal(self, process: subprocess.Popen[bytes]) -> WakePipe:
        return threads.exit_signal(process)


# Bots


class PlainProcess:
    """Starts bots as plain processes."""

    name = "process"
    counts_every_process = False

    def spawn(self, launch: LaunchSpec) -> PlainContained:
        """Start a bot; see `interface.Isolation`."""
        mark = fresh_token()
        environment = environment_for(launch, (*PASSED_ON, *PASSED_ON_TOO), mark)
        environment.setdefault("PYTHONIOENCODING", "utf-8")
        process = subprocess.Popen(
            launch.command,
            stdin=launch.stdin,
            stdout=launch.stdout,
            stderr=launch.stderr,
            cwd=launch.folder,
            env=environment,
            start_new_session=True,
            creationflags=OWN_GROUP_FLAGS,
        )
        return PlainContained(process, mark, launch.limits)


class PlainContained(IsolatedProcess):
    """A running plain process; see `interface.IsolatedProcess`."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str, limits: ResourceLimits) -> None:
        super().__init__(process, limits)
        self._mark = mark
        self._lock = threading.Lock()
        self._seen: list[psutil.Process] = []
        """The tree at the last check, which has the orphans that Windows does not connect to it."""
        self._first: psutil.Process | None = None
        with suppress(psutil.Error):
            self._first = psutil.Process(process.pid)
        self._cpu_us = 0
        self._group_ended = False
        _watchdog.watch(self.check_limits)

    def on_exit(self, call: Callable[[], object]) -> Callable[[], object]:
        return threads.on_exit(self._process, call)

    def kill(self) -> None:
        """Kill the process tree, children first, and the process group once."""
        exited = self._process.poll() is not None
        psutil_trees.kill(reversed(self._tree()))
        if not self._group_ended:
            psutil_trees.kill_group(self._process.pid)
        if exited and not self._group_ended:
            # From now on another group may have this number.
            self._group_ended = True

    def cpu_us(self) -> int:
        """Return the CPU time of the first process alone.

        Searching for the others would take longer than a decision.
        """
        if self._first is not None and self._process.returncode is None:
            with suppress(psutil.Error, OSError):
                times = self._first.cpu_times()
                self._cpu_us = max(self._cpu_us, round((times.user + times.system) * 1_000_000))
        return self._cpu_us

    def close(self) -> None:
        """Kill all processes of the bot, also those that have left its tree, and reap the first."""
        if self._closed:
            return
        _watchdog.forget(self.check_limits)
        self.kill()
        psutil_trees.end_marked(self._mark)
        self._process.wait()
        self._closed = True

    def _tree(self) -> list[psutil.Process]:
        """Return the living processes of the bot, including those whose parents have ended."""
        with self._lock:
            members = psutil_trees.tree(self._first) if self._first is not None else []
            orphans = [
                process for process in self._seen if process not in members and process.is_running()
            ]
            self._seen = [*members, *orphans]
            return [*self._seen]

    def _look(self) -> None:
        """Add up memory and tasks of all processes, and end the bot if it exceeds a limit."""
        memory = tasks = 0
        for process in self._tree():
            with suppress(psutil.Error, OSError):
                memory += process.memory_info().rss
                tasks += process.num_threads()
        self._end_if_over(tasks, memory)


class WallGauge:
    """A `Gauge` without counters: bots are charged the wall time."""

    def __init__(self, process: IsolatedProcess, cpus: int) -> None:
        self.cpus = cpus
        self.cpu_us = process.cpu_us

    def glance(self, now_us: int) -> Usage | None:
        return None

    def read(self) -> Reading:
        return Reading(
            usage=Usage(cpu_us=0, denied_us=0, outside_us=0),
            threads_us={},
            referee_waited_us=UNSEEN_US,
        )

    def bot_is_ready(self) -> bool:
        return False

    def referee_is_ready(self) -> bool:
        return False


# Workers, which connect over loopback


def listen_for_worker() -> socket.socket:
    """Listen on a free loopback port."""
    listening = socket.create_server((_LOOPBACK, 0))
    listening.settimeout(_CONNECT_LOOK_S)
    return listening


def accept_worker(listening: socket.socket, process: subprocess.Popen[bytes]) -> Connection:
    """Send a worker the port and a token, and wait until it has connected with the token.

    Other connections are closed. Raises OSError if the worker exits first.
    """
    token = fresh_token().encode()
    assert process.stdin is not None
    try:
        process.stdin.write(b"%d %s\n" % (listening.getsockname()[1], token))
        process.stdin.close()
        while True:
            try:
                link, _ = listening.accept()
            except TimeoutError:
                if process.poll() is not None:
                    raise OSError(
                        f"a worker exited with status {process.returncode} as it started"
                    ) from None
                continue
            if hmac.compare_digest(_receive(link, len(token)), token):
                link.settimeout(None)
                return Connection(link.detach())
            link.close()
    except OSError:
        process.kill()
        process.wait()
        raise


def _receive(link: socket.socket, count: int) -> bytes:
    """Receive up to `count` bytes; b"" if they do not come in time."""
    link.settimeout(_TOKEN_S)
    data = b""
    try:
        while len(data) < count and (chunk := link.recv(count - len(data))):
            data += chunk
    except OSError:
        return b""
    return data
