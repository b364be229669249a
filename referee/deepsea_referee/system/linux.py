"""Linux: process handles, control groups, signal masks and what /proc tells.

Invariant: what a method needs is imported in it, because most commands need little of it.
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
    from deepsea_referee.sandbox.interface import IsolatedProcess, Isolation, IsolationLevel
    from deepsea_referee.system import CpuShare
    from deepsea_referee.timing.host_load import Gauge

_BEFORE_MAIN = """
import sys
from multiprocessing.connection import Connection
connection = Connection(int(sys.argv[1]))
"""
_CPUS = Path("/sys/devices/system/cpu")


class LinuxSystem:
    confines = True
    """Whether there are sandboxes, and ladders that play games: on Linux."""
    tells_delays = True
    """Whether the kernel tells for how long a process had no CPU; else the wall clock counts."""
    tcp_host = None
    """Where bots connect to if there are no Unix sockets; None if there are."""

    def cpus(self) -> int:
        """The number of CPUs that this process may use."""
        return len(os.sched_getaffinity(0))

    def opens_browsers(self) -> bool:
        """Whether a browser would open in a window of its own, not in this terminal."""
        return any(map(os.environ.get, ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")))

    def late_share(self) -> float:
        """The part of the time in which this process was late, since bots run; 0 if not measured.

        Where the kernel does not tell delays it is the only sign of a machine that is too busy.
        """
        return 0.0

    def make_room(self) -> None:
        """Prepare the control groups of bots: called before anything else is started."""
        from deepsea_referee.sandbox import cgroup

        cgroup.hierarchies()

    def begin_test(self, level: IsolationLevel) -> AbstractContextManager[Any]:
        """Start the test of a sandbox early, beside other work; `choose` takes what it gives."""
        from deepsea_referee.sandbox import probe

        return probe.look(level)

    def choose(self, level: IsolationLevel, begun: Any = None) -> Isolation:
        """Select the isolation for a level; raises SandboxUnavailable with the remedy."""
        from deepsea_referee.sandbox import probe

        return probe.choose(level, begun)

    def choose_bot_users(self, text: str) -> None:
        """Set the users that bots in a sandbox run as; raises ValueError with a line to print."""
        from deepsea_referee.sandbox import bot_users

        bot_users.choose(text)

    def gauge(self, process: IsolatedProcess) -> Gauge:
        """What attributes elapsed time to a bot or to its host."""
        from deepsea_referee.system.gauge import BotGauge

        return BotGauge(process)

    def pipe_reader(self, descriptor: int, ready: Callable[[], object]) -> LoopReader:
        """Read a pipe; `ready` is called in the running event loop when something has come."""
        return LoopReader(descriptor, ready)

    def private_folder(self) -> Path:
        """Make a folder for this user alone; removed at the latest when this process has ended."""
        from deepsea_referee.sandbox import cleanup

        return cleanup.private_folder()

    def socket_folder(self) -> Path:
        """Make such a folder for sockets. Raises OSError if there is no place for it."""
        from deepsea_referee.sandbox import cleanup

        return cleanup.socket_folder()

    def remove_folder(self, folder: Path) -> None:
        """Remove a private folder with all that is in it."""
        from deepsea_referee.sandbox import cleanup

        cleanup.remove_folder(folder)

    def lock(self, descriptor: int) -> bool:
        """Lock an open file until it is closed or this process ends; False if it is locked."""
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def start_worker(self, main: str) -> tuple[subprocess.Popen[bytes], Connection]:
        """Start Python with the program `main`, whose variable `connection` leads here.

        Ctrl-C does not reach it before it has called `accept_interrupts`, if at all.
        """
        ours, theirs = Pipe()
        # Ctrl-C reaches workers too, even before they have set their handler.
        former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BEFORE_MAIN + main, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, former)
            theirs.close()
        return process, ours

    def keep_to(self, share: CpuShare) -> None:
        """Run this process, and what it starts from now on, on its share of the CPUs, if it can.

        Call it before there are other threads, which would stay where they are.
        """
        with suppress(OSError):  # the CPUs that it may use have changed just now
            os.sched_setaffinity(0, cpus_of(share, os.sched_getaffinity(0), core_of))

    def accept_interrupts(self) -> None:
        """In a worker that has set its handlers: signals may come now."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def give_way(self) -> None:
        """In a worker: take from now on what others leave of the CPU, as far as possible."""
        os.nice(19)

    def exit_signal(self, process: subprocess.Popen[bytes]) -> FileIO:
        """What is readable once a process that was started here has exited; to be closed."""
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
        """What has come, b"" at the end of the pipe, or None if there is nothing now."""
        try:
            return os.read(self._descriptor, self.CHUNK)
        except BlockingIOError:
            return None

    def pause(self, seconds: float) -> None:
        """Read on in a while, so that the writer has to wait."""
        self._loop.remove_reader(self._descriptor)
        self._resuming = self._loop.call_later(seconds, self._resume)

    def settle(self) -> None:
        """Wait shortly for what an ended process has written; nothing here: the pipe has it."""

    def close(self) -> None:
        """Read no more, and close the pipe."""
        if self._resuming is not None:
            self._resuming.cancel()
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _resume(self) -> None:
        self._loop.add_reader(self._descriptor, self._ready)


def cpus_of(share: CpuShare, cpus: Iterable[int], core_of: Callable[[int], int]) -> list[int]:
    """The CPUs of a share; those of one core stay together while shares have several.

    core_of  returns a number that the CPUs (hardware threads) of a core have in common
    """
    ordered = sorted(cpus, key=lambda cpu: (core_of(cpu), cpu))
    each = len(ordered) // share.of
    return ordered[each * share.number :][:each] or ordered


def core_of(cpu: int) -> int:
    """The lowest CPU of the same core, as the kernel lists them; `cpu` if it lists none."""
    with suppress(OSError, ValueError):
        # Like "0,4" or "0-1".
        listed = (_CPUS / f"cpu{cpu}/topology/thread_siblings_list").read_text(encoding="ascii")
        return int(listed.replace("-", ",").split(",")[0])
    return cpu
