"""Linux: process handles, control groups, signal masks and /proc.

Invariant: methods import the modules that they need, because most commands need few of them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from io import FileIO
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deepsea_referee.pauses import Gauge
    from deepsea_referee.sandbox.interface import IsolatedProcess, Isolation, IsolationLevel
    from deepsea_referee.system import CpuShare


_BEFORE_MAIN = """
import sys
from multiprocessing.connection import Connection
connection = Connection(int(sys.argv[1]))
"""
_CPUS = Path("/sys/devices/system/cpu")


class LinuxSystem:
    """The functions of Linux that other systems do not have, or have differently."""

    confines = True
    """True if there are sandboxes, and so ladders can play games."""
    tells_delays = True
    """True if the kernel counts for how long a process had no CPU.

    If not, bots are charged the wall time.
    """
    tcp_host = None
    """The host for bots to connect to if there are no Unix sockets; None if there are."""

    def cpus(self) -> int:
        """Return the number of CPUs that this process may use."""
        return len(os.sched_getaffinity(0))

    def opens_browsers(self) -> bool:
        """Return True if a browser would open in a window, and not in this terminal."""
        return any(map(os.environ.get, ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")))

    def late_share(self) -> float:
        """Return the share of the time in which this process was late; 0 if it is not measured.

        If the kernel does not count delays, it is the only sign of a machine that is too busy.
        """
        return 0.0

    def make_room(self) -> None:
        """Prepare the control groups of bots; to be called before any process is started."""
        from deepsea_referee.sandbox import cgroup

        cgroup.hierarchies()

    def start_sandbox_test(self, level: IsolationLevel) -> AbstractContextManager[Any]:
        """Start a test of the sandbox that runs beside other work of the `with` block.

        The block gets the running test, to be passed to `choose`: None if the level needs none.
        """
        from deepsea_referee.sandbox import probe

        return probe.start_test(level)

    def choose(self, level: IsolationLevel, test: Any = None) -> Isolation:
        """Return the isolation for a level: a sandbox, or plain processes.

        Raises SandboxUnavailable, with the remedy, if the level needs a sandbox and none works.

        test  the running test that `start_sandbox_test` has started; None to make one now
        """
        from deepsea_referee.sandbox import probe

        return probe.choose(level, test)

    def choose_bot_users(self, text: str) -> None:
        """Set the range of users of bots in a sandbox. Raises ValueError with a line to print."""
        from deepsea_referee.sandbox import bot_users

        bot_users.choose(text)

    def gauge(self, process: IsolatedProcess) -> Gauge:
        """Return the gauge that attributes elapsed time to a bot or to its host."""
        from deepsea_referee.system.gauge import BotGauge

        return BotGauge(process)

    def pipe_reader(self, descriptor: int, ready: Callable[[], object]) -> LoopReader:
        """Return a reader of a pipe; the running event loop calls `ready` when there are bytes."""
        return LoopReader(descriptor, ready)

    def private_folder(self) -> Path:
        """Create a folder for this user alone, which is removed at the end of this process."""
        from deepsea_referee.sandbox import cleanup

        return cleanup.private_folder()

    def socket_folder(self) -> Path:
        """Create a private folder with a short path, for sockets. Raises OSError if it cannot."""
        from deepsea_referee.sandbox import cleanup

        return cleanup.socket_folder()

    def remove_folder(self, folder: Path) -> None:
        """Remove a private folder with its content."""
        from deepsea_referee.sandbox import cleanup

        cleanup.remove_folder(folder)

    def lock(self, descriptor: int) -> bool:
        """Lock an open file until it is closed or this process ends.

        Return False if another process has locked it.
        """
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def start_worker(self, main: str) -> tuple[subprocess.Popen[bytes], Connection]:
        """Start a worker process, and return the process and the connection to it.

        Ctrl-C does not reach the worker before it has called `accept_interrupts`.

        main  the worker's program in Python; in its variable `connection` it finds its end of the
              connection
        """
        own_end, worker_end = Pipe()
        # The worker inherits the blocked signal: Ctrl-C would end it before it has set its handler.
        former_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BEFORE_MAIN + main, str(worker_end.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[worker_end.fileno()],
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, former_mask)
            worker_end.close()
        return process, own_end

    def restrict_to(self, share: CpuShare) -> None:
        """Restrict this process, and processes that it starts later, to a share of the CPUs.

        It must be called before there are other threads, which would not be restricted.
        """
        with suppress(OSError):  # the CPUs of this process have changed just now
            os.sched_setaffinity(0, cpus_of(share, os.sched_getaffinity(0), core_of))

    def accept_interrupts(self) -> None:
        """Let Ctrl-C reach this worker, which has set its handlers."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def give_way(self) -> None:
        """Give this worker the lowest priority, so that other processes get the CPU first."""
        os.nice(19)

    def exit_signal(self, process: subprocess.Popen[bytes]) -> FileIO:
        """Return an object that is readable once a child process has exited; to be closed."""
        return os.fdopen(os.pidfd_open(process.pid), "rb", buffering=0)


class LoopReader:
    """Reads a pipe in the event loop itself."""

    CHUNK = 16 * 1024

    def __init__(self, descriptor: int, ready: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._ready = ready
        self._resuming: asyncio.TimerHandle | None = None
        os.set_blocking(descriptor, False)
        self._resume()

    def take(self) -> bytes | None:
        """Return bytes of the pipe, b"" at its end, or None if it is empty now."""
        try:
            return os.read(self._descriptor, self.CHUNK)
        except BlockingIOError:
            return None

    def pause(self, seconds: float) -> None:
        """Stop reading for so many seconds, so that the writer has to wait."""
        self._loop.remove_reader(self._descriptor)
        self._resuming = self._loop.call_later(seconds, self._resume)

    def wait_for_last_bytes(self) -> None:
        """Wait for the last bytes of an ended process: not necessary here, the pipe has them."""

    def close(self) -> None:
        """Stop reading, and close the pipe."""
        if self._resuming is not None:
            self._resuming.cancel()
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _resume(self) -> None:
        self._loop.add_reader(self._descriptor, self._ready)


def cpus_of(share: CpuShare, cpus: Iterable[int], core_of: Callable[[int], int]) -> list[int]:
    """Return the CPUs of one share; all CPUs if there are more shares than CPUs.

    The CPUs of a core (its hardware threads) are in the same share as far as possible.

    core_of  returns a number for a CPU, which all CPUs of a core have in common
    """
    by_core = sorted(cpus, key=lambda cpu: (core_of(cpu), cpu))
    size = len(by_core) // share.of
    start = size * share.number
    return by_core[start : start + size] or by_core


def core_of(cpu: int) -> int:
    """Return the lowest CPU of the same core; `cpu` itself if the kernel does not list them."""
    with suppress(OSError, ValueError):
        # The list looks like "0,4" or "0-1".
        listed = (_CPUS / f"cpu{cpu}/topology/thread_siblings_list").read_text(encoding="ascii")
        return int(listed.replace("-", ",").split(",")[0])
    return cpu


# ----- Gauges
