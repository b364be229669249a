"""The interface of a level of isolation: how the referee starts, measures and kills a bot.

Invariants: a bot is started from a `LaunchSpec` and controlled only through its `IsolatedProcess`.
`kill` kills the whole process tree, whatever it ignores or forked; `close` leaves nothing behind.
No call waits for the bot: only `close` may take a moment (ended processes, folders, cgroups).

Call `spawn` from a thread that outlives the bot, normally the main thread: the kernel kills the
bot when the thread that started it ends. Wait for the exit with `on_exit`, then call `poll`. For
folders that must be removed even when this process is killed (for sockets, say) use
`System.private_folder`.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias

MIB = 1024 * 1024

IsolationLevel: TypeAlias = Literal["auto", "sandbox", "process"]

# The users that bots in a sandbox run as where the referee is root, if nothing else is said.
BOT_USERS = (60600, 61099)

# Where a bot reads how to reach the referee; every level sets it from `Launch.socket`.
ADDRESS_VARIABLE = "DEEPSEA_ADDRESS"

# By its value the processes of a bot are found that left its tree; at the level `process`.
MARK_VARIABLE = "DEEPSEA_TREE"


class SandboxUnavailable(Exception):
    """No sandbox works here: one line that says what is missing, and what to do."""


class ResourceLimits(NamedTuple):
    """The resource limits of one bot with all its processes."""

    memory_bytes: int = 512 * MIB
    """Memory of the whole tree together."""
    processes: int = 64
    """Processes and threads of the whole tree together."""
    open_files: int = 256
    """Open descriptors of each process."""
    file_bytes: int = 16 * MIB
    """Largest file; in the sandbox also the size of /tmp and of /dev/shm."""


class LaunchSpec(NamedTuple):
    """The settings to start one bot process.

    `folder` is the bot's own folder (read-only in the sandbox, and the working directory); without
    one, only the files that `command` names are visible. `environment` is added to a small base.
    If `socket` is given, DEEPSEA_ADDRESS is set to its path inside the sandbox. `stdin`, `stdout`
    and `stderr` are descriptors that the bot inherits; the caller closes its own copies.
    """

    command: tuple[str, ...]
    folder: Path | None
    environment: Mapping[str, str]
    socket: Path | None
    stdout: int
    stderr: int
    limits: ResourceLimits = ResourceLimits()
    rivals: tuple[Path, ...] = ()
    """Folders and files of other bots: not visible in the sandbox, wherever they are."""
    stdin: int = subprocess.DEVNULL


class ThreadTimes(NamedTuple):
    """The times of one thread since it began, in microseconds."""

    cpu_us: int
    waited_us: int
    """It was ready to run but had no CPU; a wait counts when it is over."""


class IsolatedProcess(Protocol):
    """A started bot: the handle of its whole process tree."""

    @property
    def pid(self) -> int:
        """The process to wait for: it exits when the bot's first process has exited."""

    @property
    def returncode(self) -> int | None:
        """None while it runs (as of the last `poll`); negative or 128 + n: killed by signal n."""

    def on_exit(self, call: Callable[[], object]) -> Callable[[], object]:
        """Call from the running event loop once its first process has exited.

        Returns what cancels that. Raises OSError if its exit cannot be waited for.
        """

    def poll(self) -> int | None:
        """Refresh and return `returncode`."""

    def kill(self) -> None:
        """Kill every process of the tree, frozen or not. May be called again."""

    def abort(self) -> None:
        """Send SIGABRT to the bot's processes: Python writes its stack to stderr and exits."""

    def cpu_us(self) -> int:
        """CPU time of the whole tree so far, in microseconds; never decreases."""

    def denied_us(self) -> int | None:
        """Time in which the tree was ready and nothing of it had a CPU, in microseconds.

        Never decreases; None if the kernel does not count it (cpu.pressure of a control group).
        """

    def threads(self) -> dict[int, ThreadTimes]:
        """The times of every thread of the tree."""

    def is_ready(self) -> bool:
        """Whether a thread of the tree is running or waits for a CPU at this moment."""

    def freeze(self) -> None:
        """Stop every process of the tree until `thaw`, except at the level `process`."""

    def thaw(self) -> None:
        """Resume a frozen tree. Does nothing if it is not frozen."""

    def over_limit(self) -> str | None:
        """The limit that the bot was killed for ("memory: more than 512 MiB"), or None."""

    def setup_error(self) -> str | None:
        """The reason why the isolation failed before the bot started, or None: no bot's fault."""

    def close(self) -> None:
        """Kill what still runs and remove cgroups and folders. May be called again."""


class Isolation(Protocol):
    """A level of isolation."""

    @property
    def name(self) -> str:
        """`process` or `sandbox`."""

    @property
    def counts_every_process(self) -> bool:
        """Whether `cpu_us` has the time of every process that a bot ever had.

        If not, it lacks children that ended and were not waited for: a bot that works in such
        children seems to sleep.
        """

    def spawn(self, launch: LaunchSpec) -> IsolatedProcess:
        """Start a bot; returns at once. Raises OSError if nothing could be started."""


class TrustedProcess:
    """A part of `interface.IsolatedProcess`: bots at the level `process` are trusted."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._over_limit: str | None = None

    def cpu_us(self) -> int:
        raise NotImplementedError

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def poll(self) -> int | None:
        self.cpu_us()  # the last chance to read it
        return self._process.poll()

    def abort(self) -> None:
        with suppress(OSError, ValueError):  # Windows has no signals
            self._process.send_signal(signal.SIGABRT)

    def denied_us(self) -> None:
        return None

    def freeze(self) -> None:
        """Do nothing: these bots are trusted."""

    def thaw(self) -> None:
        """Do nothing."""

    def over_limit(self) -> str | None:
        return self._over_limit

    def setup_error(self) -> str | None:
        return None
