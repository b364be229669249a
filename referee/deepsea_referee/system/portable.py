"""macOS and Windows, with the standard library and psutil: plain processes and the wall clock.

Invariants: nothing here is of one system alone; a function that a system lacks (Unix sockets,
process groups, timer signals) is looked for where it is used.

Bots are plain child processes, for trusted bots: that hides only most of the environment and stops
no attack; it limits accidents: memory, processes, a bot that does not exit. A bot has its own
process group. When the referee is killed, its bots' streams end, which ends those that do not hang.
A helper process that leaves the group and clears its environment can escape. A process belongs to a
bot if it descends from the bot's first process, is in its process group, or has the bot's mark in
its first environment. psutil compares the time of a process's start before it kills it, so a reused
number is never hit; a process that vanishes meanwhile counts as ended.

Bots are charged the wall time: nothing counts as denied to them; the referee's own lateness is not
charged, as far as its pulse shows it (clock.py).

Threads wait for exits and pipes, because some event loops cannot. A thread changes no state of its
owner; it passes data on and calls the event loop. All threads are daemons, so that waiting for a
process that nobody can end does not block the exit.

Python's `subprocess` passes no descriptor but the standard streams on Windows: workers connect to
this process over loopback, with a token that is used once and goes through the worker's stdin,
which nobody else reads; a connection without the token is closed.
"""

from __future__ import annotations

import asyncio
import atexit
import hmac
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time  # noqa: TID251  (gives killed processes a moment to vanish)
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from deepsea_referee.clock import PULSE
from deepsea_referee.interrupts import WakePipe
from deepsea_referee.pauses import BUSY_US, Gauge, Reading, Usage
from deepsea_referee.sandbox.interface import (
    MARK_VARIABLE,
    IsolatedProcess,
    Isolation,
    IsolationLevel,
    LaunchSpec,
    ResourceLimits,
    SandboxUnavailable,
    Watchdog,
)
from deepsea_referee.sandbox.mounts import PASSED_ON, environment_for
from deepsea_referee.system import OWN_GROUP_FLAGS, CpuShare
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
"""The wait of the referee that is assumed at the first check after a limit.

These systems do not count it. It is long enough to cause a second check.
"""
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

    def start_sandbox_test(self, level: IsolationLevel) -> AbstractContextManager[Any]:
        return nullcontext()

    def choose(self, level: IsolationLevel, test: Any = None) -> Isolation:
        if level == "sandbox":
            raise SandboxUnavailable(NEEDS_LINUX)
        return PortableIsolation()

    def choose_bot_users(self, text: str) -> None:
        raise ValueError(NEEDS_LINUX)

    def gauge(self, process: IsolatedProcess) -> Gauge:
        return PortableGauge(process, self.cpus())

    def pipe_reader(self, descriptor: int, ready: Callable[[], object]) -> ThreadReader:
        return ThreadReader(descriptor, ready)

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
        """Lock an open file until it is closed or this process ends.

        Return False if another process has locked it.
        """
        from deepsea_referee.system.linux import LinuxSystem

        try:
            return LinuxSystem().lock(descriptor)  # macOS has the same lock
        except ImportError:
            msvcrt: Any = import_module("msvcrt")  # Windows
        # On Windows nobody can read a locked byte: lock one beyond the content.
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def start_worker(self, main: str) -> tuple[subprocess.Popen[bytes], Connection]:
        """Start a worker process, and return the process and the connection to it.

        main  the worker's program in Python; in its variable `connection` it finds its end of the
              connection
        """
        with listen_for_worker() as listening:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BEFORE_MAIN + main],
                stdin=subprocess.PIPE,
                # Ctrl-C must not reach the worker: this process requests it to stop.
                start_new_session=True,
                creationflags=OWN_GROUP_FLAGS,
            )
            return process, accept_worker(listening, process)

    def restrict_to(self, share: CpuShare) -> None:
        """Do nothing: macOS cannot bind a process to a CPU."""

    def accept_interrupts(self) -> None:
        """Do nothing: Ctrl-C does not reach a worker, which has a group of its own."""

    def give_way(self) -> None:
        if hasattr(os, "nice"):
            os.nice(19)

    def exit_signal(self, process: subprocess.Popen[bytes]) -> WakePipe:
        return exit_signal(process)


# Bots


class PortableIsolation:
    """Starts bots as plain processes."""

    name = "process"
    counts_every_process = False

    def spawn(self, launch: LaunchSpec) -> PlainBotProcess:
        """Start a bot's program as a child process with a group of its own, and return it.

        launch  the program, its folder, pipes and limits
        """
        # All processes of the bot inherit the mark in their environment, and can be found by it.
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
        return PlainBotProcess(process, mark, launch.limits)


class PlainBotProcess(IsolatedProcess):
    """A running plain process; see `interface.IsolatedProcess`."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str, limits: ResourceLimits) -> None:
        super().__init__(process, limits)
        self._mark = mark
        self._lock = threading.Lock()
        self._last_members: list[psutil.Process] = []
        """The processes of the bot at the last call of `_tree`."""
        self._first: psutil.Process | None = None
        with suppress(psutil.Error):
            self._first = psutil.Process(process.pid)
        self._cpu_us = 0
        self._group_ended = False
        _watchdog.watch(self.check_limits)

    def on_exit(self, call: Callable[[], object]) -> Callable[[], object]:
        return on_exit(self._process, call)

    def kill(self) -> None:
        """Kill all processes of the bot's tree, children first, and those of its process group.

        Once the first process is reaped, another group may get the number of the bot's group. So
        the group is killed once more at most.
        """
        was_reaped = self._process.poll() is not None
        kill(reversed(self._tree()))
        if not self._group_ended:
            kill_group(self._process.pid)
            self._group_ended = was_reaped

    def cpu_us(self) -> int:
        """Return the CPU time of the bot's first process; after its exit, the last known value.

        Other processes of the bot are not counted: to find them takes longer than a decision.
        """
        if self._first is not None and self._process.returncode is None:
            with suppress(psutil.Error, OSError):
                times = self._first.cpu_times()
                cpu_us = round((times.user + times.system) * 1_000_000)
                self._cpu_us = max(self._cpu_us, cpu_us)  # it never falls
        return self._cpu_us

    def close(self) -> None:
        """Kill all processes of the bot, and reap the first one; further calls do nothing.

        Processes that have left the tree and the group are found by the mark in their environment.
        """
        if self._closed:
            return
        _watchdog.unwatch(self.check_limits)
        self.kill()
        end_marked(self._mark)
        self._process.wait()
        self._closed = True

    def _tree(self) -> list[psutil.Process]:
        """Return the living processes of the bot, parents before their children.

        Processes whose parents have ended are no descendants any more on Windows: they are
        remembered from the last call.
        """
        with self._lock:
            members = tree(self._first) if self._first is not None else []
            orphans = [
                process
                for process in self._last_members
                if process not in members and process.is_running()
            ]
            self._last_members = [*members, *orphans]
            return [*self._last_members]

    def _check_once(self) -> None:
        """Add up memory and tasks of all processes, and end the bot if it exceeds a limit."""
        memory = tasks = 0
        for process in self._tree():
            with suppress(psutil.Error, OSError):
                memory += process.memory_info().rss
                tasks += process.num_threads()
        self._end_if_over(tasks, memory)


class PortableGauge:
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
    """Wait until a worker has connected, and return the connection.

    The worker is sent the port and a token, which it has to send back first. Other connections are
    closed, since any program of this machine can make one. Raises OSError if the worker exits.

    listening  a socket as from `listen_for_worker`
    process    the worker, which reads the port and the token from its stdin
    """
    token = fresh_token().encode()
    assert process.stdin is not None
    try:
        port = listening.getsockname()[1]
        process.stdin.write(b"%d %s\n" % (port, token))
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
    """Return `count` bytes from a connection, or fewer if the other side closes it first.

    Return b"" if the bytes do not come in time, or the connection fails.
    """
    link.settimeout(_TOKEN_S)
    data = b""
    try:
        while len(data) < count:
            chunk = link.recv(count - len(data))
            if not chunk:
                break
            data += chunk
    except OSError:
        return b""
    return data


# ----- Processes of a bot, by psutil

LONGEST_S = 2.0
"""The longest wait for killed processes to vanish."""
_PAUSE_S = 0.01
_GONE = (psutil.Error, OSError)


def tree(first: psutil.Process) -> list[psutil.Process]:
    """Return a process and all its descendants that exist now; an empty list if it has ended."""
    with suppress(*_GONE):
        return [first, *first.children(recursive=True)]
    return []


def marked_processes(mark: str) -> list[psutil.Process]:
    """Return the living processes of this user with a bot's mark in their environment.

    The referee itself is never among them.
    """
    processes = []
    for process in psutil.process_iter():
        with suppress(*_GONE):  # it has ended meanwhile, or belongs to another user
            if process.pid == os.getpid() or process.environ().get(MARK_VARIABLE) != mark:
                continue
            if process.status() != psutil.STATUS_ZOMBIE:
                processes.append(process)
    return processes


def kill(processes: Iterable[psutil.Process]) -> None:
    """Kill each of these processes; those that have ended are skipped."""
    for process in processes:
        with suppress(*_GONE):
            process.kill()


def kill_group(leader: int) -> None:
    """Kill the process group with this leader, if the system has process groups."""
    if hasattr(os, "killpg") and hasattr(signal, "SIGKILL"):
        with suppress(OSError):
            os.killpg(leader, signal.SIGKILL)


def end_marked(mark: str) -> bool:
    """Kill the processes with a bot's mark until there is none left, and return True.

    Return False if there are still some after LONGEST_S.
    """
    deadline_s = time.monotonic() + LONGEST_S
    while processes := marked_processes(mark):
        kill(processes)
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_PAUSE_S)
    return True


# ----- Threads that wait for exits and pipes

_CHUNK = 16 * 1024
"""The largest number of bytes that are read at once."""
_LAST_CHUNKS = 16
"""The number of chunks that are read after the end of a process."""
_LAST_BYTES_S = 0.25
"""The longest wait for the last output of an ended process: a child may hold the pipe open."""


def exit_signal(process: subprocess.Popen[bytes]) -> WakePipe:
    """Return a pipe that becomes readable once a child process has exited; the caller closes it."""
    wake_pipe = WakePipe()

    def wait_and_wake() -> None:
        process.wait()
        wake_pipe.ring()

    threading.Thread(target=wait_and_wake, name="exit", daemon=True).start()
    return wake_pipe


def on_exit(process: subprocess.Popen[bytes], call: Callable[[], object]) -> Callable[[], object]:
    """Let the running event loop call a function once a process has exited.

    Return a function that cancels this.
    """
    loop = asyncio.get_running_loop()
    cancelled = threading.Event()

    def call_unless_cancelled() -> None:
        if not cancelled.is_set():
            call()

    def wait() -> None:
        """Wait for the exit, in a thread of its own."""
        process.wait()
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(call_unless_cancelled)

    threading.Thread(target=wait, name="exit", daemon=True).start()
    return cancelled.set


class ThreadReader:
    """Reads a pipe in a thread; `linux.LoopReader` documents the methods.

    The thread reads one chunk ahead, and then waits until the event loop has taken it.
    """

    def __init__(self, descriptor: int, ready: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._ready = ready
        self._changed = threading.Condition()
        self._chunks: deque[bytes] = deque()
        self._room = 1
        """The number of chunks that may be read ahead.

        It is one, so that a bot that prints without end has to wait.
        """
        self._ended = False
        self._closed = threading.Event()
        self._pause_s = 0.0
        threading.Thread(target=self._read, name="output", daemon=True).start()

    def take(self) -> bytes | None:
        with self._changed:
            if not self._chunks:
                return b"" if self._ended else None
            self._changed.notify_all()
            return self._chunks.popleft()

    def pause(self, seconds: float) -> None:
        self._pause_s = seconds

    def wait_for_last_bytes(self) -> None:
        """Let the thread read the last bytes of an ended process, and wait shortly for that."""
        with self._changed:
            self._room, self._pause_s = _LAST_CHUNKS, 0.0
            self._changed.notify_all()
            self._changed.wait_for(self._has_last_bytes, _LAST_BYTES_S)

    def close(self) -> None:
        with self._changed:
            self._closed.set()
            self._changed.notify_all()

    def _has_last_bytes(self) -> bool:
        """Return True at the end of the pipe, or if enough was read."""
        return self._ended or len(self._chunks) >= self._room

    def _has_room(self) -> bool:
        """Return True if another chunk may be read, or the reader is closed."""
        return self._closed.is_set() or len(self._chunks) < self._room

    def _read(self) -> None:
        """Read the pipe, in the reader's own thread, until its end or until `close` is called.

        After each chunk the thread calls `ready` in the event loop, which takes the chunk. Then it
        waits until there is room for another chunk, and for as long as `pause` has set.
        """
        # Only this thread closes the descriptor: afterwards its number may be another file's.
        with os.fdopen(self._descriptor, "rb", buffering=0) as pipe, suppress(OSError):
            while not self._closed.is_set():
                data = pipe.read(_CHUNK)
                if not data:
                    break
                with self._changed:
                    self._chunks.append(data)
                    self._changed.notify_all()
                self._call_ready()
                with self._changed:
                    self._changed.wait_for(self._has_room)
                self._closed.wait(self._pause_s)
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._call_ready()

    def _call_ready(self) -> None:
        """Let the event loop call `ready`, unless it is closed."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._ready)
