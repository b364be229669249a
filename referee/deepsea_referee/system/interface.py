"""The interface of an operating system: what the referee and its commands need of it.

Invariants: no method waits for a bot; what is started here ends with this process, however this
process ends.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Protocol

from deepsea_referee.sandbox.interface import IsolatedProcess, Isolation, IsolationLevel
from deepsea_referee.timing.host_load import Gauge

OWN_GROUP_FLAGS: int = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0) | getattr(
    subprocess, "CREATE_NO_WINDOW", 0
)
"""On Windows neither Ctrl-C nor a closed window reaches such a process; elsewhere 0, and
`start_new_session` does that."""


class CpuShare(NamedTuple):
    """One of `of` equal shares of the CPUs, for workers side by side; its number begins at 0.

    A game is a ping-pong between the referee and one bot at a time. Where both are on one CPU,
    nothing has to wake another CPU for it: N workers on N CPUs play nearly N times as many games.
    All shares are equally large, and no CPU is in two of them; where there are more workers than
    CPUs, the kernel divides all among all.
    """

    number: int
    of: int


ALL_CPUS = CpuShare(0, 1)


def equal_shares(workers: int) -> list[CpuShare]:
    """A share for each of so many workers."""
    return [CpuShare(number, workers) for number in range(workers)]


class ExitSignal(Protocol):
    """A signal that a process has exited."""

    def fileno(self) -> int:
        """Readable once the process has exited; for `multiprocessing.connection.wait`."""

    def close(self) -> None:
        """Free it."""


class PipeReader(Protocol):
    """Reads a pipe for an event loop."""

    def take(self) -> bytes | None:
        """What has come, b"" at the end of the pipe, or None if there is nothing now."""

    def pause(self, seconds: float) -> None:
        """Read on in a while, so that the writer has to wait."""

    def settle(self) -> None:
        """Wait shortly for what an ended process has written, where that is still on its way."""

    def close(self) -> None:
        """Read no more, and close the pipe."""


class System(Protocol):
    """An operating system."""

    @property
    def confines(self) -> bool:
        """Whether there are sandboxes, and ladders that play games: on Linux."""

    @property
    def tells_delays(self) -> bool:
        """Whether the kernel tells for how long a process had no CPU; else the wall clock counts"""

    @property
    def tcp_host(self) -> str | None:
        """Where bots connect to if there are no Unix sockets; None if there are."""

    def cpus(self) -> int:
        """The number of CPUs that this process may use."""

    def opens_browsers(self) -> bool:
        """Whether a browser would open in a window of its own, not in this terminal."""

    def late_share(self) -> float:
        """The part of the time in which this process was late, since bots run; 0 if not measured.

        Where the kernel does not tell delays it is the only sign of a machine that is too busy.
        """

    # Bots

    def begin_test(self, level: IsolationLevel) -> AbstractContextManager[Any]:
        """Start the test of a sandbox early, beside other work; `choose` takes what it gives."""

    def choose(self, level: IsolationLevel, begun: Any = None) -> Isolation:
        """Select the isolation for a level; raises SandboxUnavailable with the remedy."""

    def choose_bot_users(self, text: str) -> None:
        """Set the users that bots in a sandbox run as; raises ValueError with a line to print"""

    def gauge(self, process: IsolatedProcess) -> Gauge:
        """What attributes elapsed time to a bot or to its host."""

    def pipe_reader(self, descriptor: int, ready: Callable[[], object]) -> PipeReader:
        """Read a pipe; `ready` is called in the running event loop when something has come."""

    def private_folder(self) -> Path:
        """Make a folder for this user alone; removed at the latest when this process has ended."""

    def remove_folder(self, folder: Path) -> None:
        """Remove a private folder with all that is in it."""

    # Workers

    def start_worker(self, main: str) -> tuple[subprocess.Popen[bytes], Connection]:
        """Start Python with the program `main`, whose variable `connection` leads here.

        Ctrl-C does not reach it before it has called `accept_interrupts`, if at all.
        """

    def keep_to(self, share: CpuShare) -> None:
        """Run this process, and what it starts from now on, on its share of the CPUs, if it can.

        Call it before there are other threads, which would stay where they are.
        """

    def accept_interrupts(self) -> None:
        """In a worker that has set its handlers: signals may come now."""

    def give_way(self) -> None:
        """In a worker: take from now on what others leave of the CPU, as far as possible."""

    def exit_signal(self, process: subprocess.Popen[bytes]) -> ExitSignal:
        """A signal of the exit of a process that was started here."""

    # This process

    def interrupt_main(self) -> None:
        """Deliver SIGINT to the main thread of this process, also if it sleeps."""

    def ticking(
        self, seconds: float, tick: Callable[[FrameType | None], object]
    ) -> AbstractContextManager[None]:
        """Call `tick` in the main thread every few seconds, between two steps of what it runs."""

    async def read_stdin(self, reader: asyncio.StreamReader) -> None:
        """Feed the reader with what comes on stdin, from now on."""
