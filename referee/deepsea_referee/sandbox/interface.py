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

import logging
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias

MIB = 1024 * 1024

_log = logging.getLogger(__name__)

MOST_FAILED_CHECKS = 20
"""Checks of a bot's limits in a row that fail before it is ended, as nobody knows what it uses."""

IsolationLevel: TypeAlias = Literal["auto", "sandbox", "process"]

# The users that bots in a sandbox run as where the referee is root, if nothing else is said.
BOT_USERS = (60600, 61099)

# Where a bot reads how to reach the referee; every level sets it from `LaunchSpec.socket`.
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

    @property
    def memory_text(self) -> str:
        """The fault of a bot that exceeds its memory."""
        return f"memory: more than {self.memory_bytes // MIB} MiB"


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


class IsolatedProcess:
    """A started bot: the handle of its whole process tree.

    What is given here is true of bots at the level `process`, which are trusted.
    """

    def __init__(self, process: subprocess.Popen[bytes], limits: ResourceLimits) -> None:
        self._process = process
        self._limits = limits
        self._over_limit: str | None = None
        self._closed = False
        self._failed_checks = 0
        self.check_error: Exception | None = None
        """The error for which it was ended: nobody could check its limits, or freeze it."""

    @property
    def pid(self) -> int:
        """The process to wait for: it exits when the bot's first process has exited."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs (as of the last `poll`); negative or 128 + n: killed by signal n."""
        return self._process.returncode

    def on_exit(self, call: Callable[[], object]) -> Callable[[], object]:
        """Call from the running event loop once its first process has exited.

        Returns what cancels that. Raises OSError if its exit cannot be waited for.
        """
        raise NotImplementedError

    def poll(self) -> int | None:
        """Refresh and return `returncode`."""
        with suppress(OSError):  # no descriptor is left
            self.cpu_us()  # the last chance to read it
        return self._process.poll()

    def kill(self) -> None:
        """Kill every process of the tree, frozen or not. May be called again."""
        raise NotImplementedError

    def abort(self) -> None:
        """Send SIGABRT to the bot's processes: Python writes its stack to stderr and exits."""
        with suppress(OSError, ValueError):  # Windows has no signals
            self._process.send_signal(signal.SIGABRT)

    def cpu_us(self) -> int:
        """CPU time of the whole tree so far, in microseconds; never decreases."""
        raise NotImplementedError

    def denied_us(self) -> int | None:
        """Time in which the tree was ready and nothing of it had a CPU, in microseconds.

        Never decreases; None if the kernel does not count it (cpu.pressure of a control group).
        """
        return None

    def threads(self) -> dict[int, ThreadTimes]:
        """The times of every thread of the tree, where they are known."""
        return {}

    def is_ready(self) -> bool:
        """Whether a thread of the tree is known to run or to wait for a CPU at this moment."""
        return False

    def freeze(self) -> None:
        """Stop every process of the tree until `thaw`, except at the level `process`."""

    def thaw(self) -> None:
        """Resume a frozen tree. Does nothing if it is not frozen."""

    def over_limit(self) -> str | None:
        """The limit that the bot was killed for ("memory: more than 512 MiB"), or None."""
        return self._over_limit

    def out_of_memory(self) -> bool:
        """Whether the kernel killed a process of the tree because this machine had no memory left.

        Not if the bot exceeded its own limit: then it is over that.
        """
        return False

    def setup_error(self) -> str | None:
        """The reason why the isolation failed before the bot started, or None: no bot's fault."""
        return None

    def close(self) -> None:
        """Kill what still runs and remove cgroups and folders. May be called again."""
        raise NotImplementedError

    def check_limits(self) -> None:
        """End it if it is over a limit, or if nobody can say so again and again.

        The watchdog calls it. A check that fails once is repeated with the next one.
        """
        try:
            self._look()
        except Exception as error:  # noqa: BLE001  (whatever it is, its limits are not kept)
            self._failed_checks += 1
            if self._failed_checks == MOST_FAILED_CHECKS:
                self.check_error = error
                self.kill()
        else:
            self._failed_checks = 0

    def _look(self) -> None:
        """Check the limits once. Raises if what it uses cannot be read."""
        raise NotImplementedError

    def _end_if_over(self, tasks: int, memory_bytes: int) -> None:
        """Kill it if its processes and threads, or its memory, are more than its limits."""
        if memory_bytes > self._limits.memory_bytes:
            self._over_limit = self._limits.memory_text
        if tasks > self._limits.processes:
            self._over_limit = f"processes: more than {self._limits.processes}"
        if self._over_limit is not None:
            self.kill()


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


class Watchdog:
    """Calls the check of every running bot each `gap_s`, in one thread.

    The thread starts with the first bot and ends with the last. A check must be short. One that
    raises is logged, and keeps no other check from being made, nor itself the next time. Without a
    control group these checks limit a bot's memory, so a bot may be over its limit for that time.
    """

    def __init__(self, gap_s: float = 0.1) -> None:
        self._gap_s = gap_s
        self._lock = threading.Lock()
        self._looks: list[Callable[[], None]] = []
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, look: Callable[[], None]) -> None:
        """Call `look` from now on."""
        with self._lock:
            self._looks.append(look)
            # A thread does not survive a fork of the process.
            if self._thread is None or not self._thread.is_alive():
                self._changed = threading.Event()
                self._thread = threading.Thread(
                    target=self._run, name="deepsea-watchdog", daemon=True
                )
                self._thread.start()

    def forget(self, look: Callable[[], None]) -> None:
        """Stop calling `look`; a call that is under way may still finish."""
        with self._lock:
            if look in self._looks:
                self._looks.remove(look)
            if not self._looks:
                self._thread = None
                self._changed.set()

    def _run(self) -> None:
        ended = self._changed
        while not ended.wait(self._gap_s):
            with self._lock:
                looks = list(self._looks)
            for look in looks:
                try:
                    look()
                except Exception:  # noqa: BLE001  (other bots have limits, too)
                    _log.exception("a check of a bot's limits failed")


WATCHDOG = Watchdog()
