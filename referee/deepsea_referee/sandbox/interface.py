"""The interface of a level of isolation: how the referee starts, measures and kills a bot.

Invariants: a bot is started from a `LaunchSpec` and controlled only through its `IsolatedProcess`.
`kill` kills the whole process tree, even if it ignores signals or forks; `close` removes all
remains. No call waits for the bot: only `close` may take a moment (ended processes, folders,
control groups).

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
"""The number of failed checks in a row after which a bot is killed.

Its limits cannot be enforced then.
"""

IsolationLevel: TypeAlias = Literal["auto", "sandbox", "process"]

# The users that bots in a sandbox run as where the referee is root, if nothing else is said.
BOT_USERS = (60600, 61099)

# Where a bot reads how to reach the referee; every level sets it from `LaunchSpec.socket`.
ADDRESS_VARIABLE = "DEEPSEA_ADDRESS"

# By its value the processes of a bot are found that left its tree; at the level `process`.
MARK_VARIABLE = "DEEPSEA_TREE"


class SandboxUnavailable(Exception):
    """No sandbox works here. The message is one line with the reason and the remedy."""


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
    """The times of a thread since its start, in microseconds."""

    cpu_us: int
    waited_us: int
    """The time in which it was ready to run but had no CPU; a wait counts when it is over."""


class IsolatedProcess:
    """A started bot: the handle of its whole process tree.

    The methods that are implemented here are those of the level `process`, for trusted bots.
    """

    def __init__(self, process: subprocess.Popen[bytes], limits: ResourceLimits) -> None:
        self._process = process
        self._limits = limits
        self._over_limit: str | None = None
        self._closed = False
        self._failed_checks = 0
        self.check_error: Exception | None = None
        """The error because of which the bot was killed: it could not be checked or frozen."""

    @property
    def pid(self) -> int:
        """The number of the process to wait for, which exits after the bot's first process."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status at the last `poll`; None while the bot runs.

        A bot that was killed by signal n has the status -n or 128 + n.
        """
        return self._process.returncode

    def on_exit(self, call: Callable[[], object]) -> Callable[[], object]:
        """Let the running event loop make a call once the bot's first process has exited.

        Returns the function that cancels the call. Raises OSError if the exit cannot be awaited.
        """
        raise NotImplementedError

    def poll(self) -> int | None:
        """Refresh and return `returncode`."""
        with suppress(OSError):  # no free descriptor
            self.cpu_us()  # it cannot be read any more once the process was polled
        return self._process.poll()

    def kill(self) -> None:
        """Kill every process of the tree, frozen or not; may be called more than once."""
        raise NotImplementedError

    def abort(self) -> None:
        """Send SIGABRT to the bot's processes: Python writes its stack to stderr and exits."""
        with suppress(OSError, ValueError):  # Windows has no signals
            self._process.send_signal(signal.SIGABRT)

    def cpu_us(self) -> int:
        """Return the CPU time of the whole tree in microseconds; it never decreases."""
        raise NotImplementedError

    def denied_us(self) -> int | None:
        """Return how long the bot has wanted a CPU while none of its threads had one.

        The time is in microseconds and never decreases. Return None if it is not known: without a
        control group that counts it (cpu.pressure), as this base class assumes.
        """
        return None

    def threads(self) -> dict[int, ThreadTimes]:
        """Return the times of the threads of the tree by their numbers; {} if they are unknown."""
        return {}

    def is_ready(self) -> bool:
        """Return True if a thread of the tree is known to run or to wait for a CPU now."""
        return False

    def freeze(self) -> None:
        """Stop every process of the tree until `thaw`, except at the level `process`."""

    def thaw(self) -> None:
        """Resume a frozen tree; do nothing if it is not frozen."""

    def over_limit(self) -> str | None:
        """Return the limit that the bot has exceeded, such as "memory: more than 512 MiB".

        Return None if the bot was not killed because of a limit.
        """
        return self._over_limit

    def out_of_memory(self) -> bool:
        """Return True if the kernel killed a process because this machine had no free memory.

        A bot that has exceeded its own limit is over that limit instead.
        """
        return False

    def setup_error(self) -> str | None:
        """Return why the isolation failed before the bot started, which is not the bot's fault.

        Return None if it did not fail.
        """
        return None

    def close(self) -> None:
        """Kill the remaining processes, and remove control groups and folders.

        It may be called more than once.
        """
        raise NotImplementedError

    def check_limits(self) -> None:
        """Kill the bot if it exceeds a limit, or if its limits could not be checked several times.

        The watchdog calls this regularly. A single failed check has no effect.
        """
        try:
            self._check_once()
        except Exception as error:  # noqa: BLE001  (after any error the limits are not enforced)
            self._failed_checks += 1
            if self._failed_checks == MOST_FAILED_CHECKS:
                self.check_error = error
                self.kill()
        else:
            self._failed_checks = 0

    def _check_once(self) -> None:
        """Kill the bot if it exceeds a limit. Raises an exception if its usage cannot be read."""
        raise NotImplementedError

    def _end_if_over(self, tasks: int, memory_bytes: int) -> None:
        """Kill the bot if it has too many tasks (processes and threads) or uses too much memory."""
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
        """The name of the level: `process` or `sandbox`."""

    @property
    def counts_every_process(self) -> bool:
        """Return True if `cpu_us` includes all processes that a bot has ever had.

        If not, it lacks children that ended without being waited for, so that a bot that works in
        such children seems to sleep.
        """

    def spawn(self, launch: LaunchSpec) -> IsolatedProcess:
        """Start a bot, without waiting for it. Raises OSError if it cannot be started."""


class Watchdog:
    """Calls the checks of all running bots every `gap_s` seconds, in one thread.

    The thread starts with the first bot and ends with the last one. A check must be short. If a
    check raises an exception, it is logged; other checks, and the next call, are made nevertheless.
    Without a control group these checks limit a bot's memory, so that a bot may exceed its limit
    for the time between two checks.
    """

    def __init__(self, gap_s: float = 0.1) -> None:
        self._gap_s = gap_s
        self._lock = threading.Lock()
        self._checks: list[Callable[[], None]] = []
        self._stop_thread = threading.Event()
        """Ends the present thread; each thread has an event of its own."""
        self._thread: threading.Thread | None = None

    def watch(self, check: Callable[[], None]) -> None:
        """Call `check` regularly from now on, and start the thread if none is running."""
        with self._lock:
            self._checks.append(check)
            # A thread does not survive a fork of the process.
            if self._thread is None or not self._thread.is_alive():
                self._stop_thread = threading.Event()
                self._thread = threading.Thread(
                    target=self._call_checks, name="deepsea-watchdog", daemon=True
                )
                self._thread.start()

    def unwatch(self, check: Callable[[], None]) -> None:
        """Stop calling `check`; a call in progress may still finish.

        Without any check left, the thread ends, and the next `watch` starts another one.
        """
        with self._lock:
            if check in self._checks:
                self._checks.remove(check)
            if not self._checks:
                self._stop_thread.set()
                self._thread = None

    def _call_checks(self) -> None:
        """Call all checks, then pause, until the last check is removed; runs in the thread."""
        stop = self._stop_thread  # that of this thread: a later thread gets another one
        while not stop.wait(self._gap_s):
            with self._lock:
                checks = list(self._checks)
            for check in checks:
                try:
                    check()
                except Exception:  # noqa: BLE001  (other bots have limits, too)
                    _log.exception("a check of a bot's limits failed")


WATCHDOG = Watchdog()
