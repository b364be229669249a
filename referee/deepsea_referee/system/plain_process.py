"""The level `process` on macOS and Windows: a plain child process, for trusted bots.

Invariants: it hides only most of the environment and stops no attack; it limits accidents: memory,
processes, a bot that does not exit. A bot has its own process group and is killed with the referee
by the guardian. A helper process that leaves the group and clears its environment can escape.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import psutil

from deepsea_referee.sandbox.interface import (
    MIB,
    LaunchSpec,
    ResourceLimits,
    ThreadTimes,
    TrustedProcess,
)
from deepsea_referee.sandbox.python_paths import PASSED_ON, environment_for
from deepsea_referee.sandbox.watchdog import Watchdog
from deepsea_referee.system import groups, threads
from deepsea_referee.system.own_group import OWN_GROUP_FLAGS
from deepsea_referee.system.private_folders import entries
from deepsea_sdk.entropy import fresh_token

# Without some of these no program of Windows starts.
PASSED_ON_TOO: Final = (
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
LOOK_S: Final = 1.0
"""Interval of the looks at memory and processes: a look searches all processes there are."""

_watchdog = Watchdog(LOOK_S)


class PlainProcess:
    """Starts bots as plain processes."""

    name = "process"
    counts_every_process = False

    def spawn(self, launch: LaunchSpec) -> PlainContained:
        """Start a bot; see `interface.Isolation`."""
        mark = fresh_token()
        environment = environment_for(launch, (*PASSED_ON, *PASSED_ON_TOO), mark)
        environment.setdefault("PYTHONIOENCODING", "utf-8")
        entries().register("mark", mark)
        try:
            process = subprocess.Popen(
                launch.command,
                stdin=subprocess.DEVNULL,
                stdout=launch.stdout,
                stderr=launch.stderr,
                cwd=launch.folder,
                env=environment,
                start_new_session=True,
                creationflags=OWN_GROUP_FLAGS,
            )
        except OSError:
            entries().unregister("mark", mark)
            raise
        return PlainContained(process, mark, launch.limits)


class PlainContained(TrustedProcess):
    """A running plain process; see `interface.IsolatedProcess`."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str, limits: ResourceLimits) -> None:
        super().__init__(process)
        self._mark = mark
        self._limits = limits
        self._lock = threading.Lock()
        self._seen: list[psutil.Process] = []
        """The tree at the last look: on Windows nothing else tells whose the orphans are."""
        self._first: psutil.Process | None = None
        with suppress(psutil.Error):
            self._first = psutil.Process(process.pid)
        self._cpu_us = 0
        self._group_ended = False
        self._closed = False
        entries().register("session", str(process.pid))
        _watchdog.watch(self._look)

    def on_exit(self, call: Callable[[], object]) -> Callable[[], object]:
        return threads.on_exit(self._process, call)

    def kill(self) -> None:
        exited = self._process.poll() is not None
        groups.kill(reversed(self._tree()))
        if not self._group_ended:
            groups.kill_group(self._process.pid)
        if exited and not self._group_ended:
            # From now on the number of its group may be another's.
            self._group_ended = True
            entries().unregister("session", str(self.pid))

    def cpu_us(self) -> int:
        """That of the first process: searching for the others would take longer than a decision."""
        if self._first is not None and self._process.returncode is None:
            with suppress(psutil.Error, OSError):
                times = self._first.cpu_times()
                self._cpu_us = max(self._cpu_us, round((times.user + times.system) * 1_000_000))
        return self._cpu_us

    def threads(self) -> dict[int, ThreadTimes]:
        return {}

    def is_ready(self) -> bool:
        return False

    def close(self) -> None:
        if self._closed:
            return
        _watchdog.forget(self._look)
        self.kill()
        groups.end_marked([self._mark])
        self._process.wait()
        self._closed = True
        entries().unregister("session", str(self.pid))
        entries().unregister("mark", self._mark)

    def _tree(self) -> list[psutil.Process]:
        with self._lock:
            found = groups.tree(self._first) if self._first is not None else []
            # Also those whose parents are gone.
            orphans = [one for one in self._seen if one not in found and one.is_running()]
            self._seen = [*found, *orphans]
            return [*self._seen]

    def _look(self) -> None:
        memory = tasks = 0
        for process in self._tree():
            with suppress(psutil.Error, OSError):
                memory += process.memory_info().rss
                tasks += process.num_threads()
        if tasks > self._limits.processes:
            self._over_limit = f"processes: more than {self._limits.processes}"
        elif memory > self._limits.memory_bytes:
            self._over_limit = f"memory: more than {self._limits.memory_bytes // MIB} MiB"
        if self._over_limit is not None:
            self.kill()
