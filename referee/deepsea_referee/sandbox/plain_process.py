"""The level `process`: a plain child process, for trusted bots.

Invariants: it hides only most of the environment and stops no attack; it limits accidents: memory,
processes, files, a bot that does not exit. A bot has its own session, and its first process is
killed with the referee; other remains after a killed referee are removed by the next one. A helper
process that leaves the session and clears its environment can escape; use the level `sandbox`
against that.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable

from deepsea_referee.sandbox import cleanup, process_tree
from deepsea_referee.sandbox.interface import (
    MARK_VARIABLE,
    WATCHDOG,
    IsolatedProcess,
    LaunchSpec,
    ResourceLimits,
    ThreadTimes,
)
from deepsea_referee.sandbox.mounts import PASSED_ON, environment_for


class PlainProcess:
    """Starts bots as plain processes."""

    name = "process"
    counts_every_process = False

    def spawn(self, launch: LaunchSpec) -> PlainBotProcess:
        """Start a bot as a child process in a session of its own.

        Raises OSError if its program cannot be started.
        """
        cleanup.remove_what_killed_referees_left()
        mark = cleanup.new_name()
        setpriv = shutil.which("setpriv")
        # With setpriv, the kernel kills the bot when this process is killed.
        die_with_referee = (setpriv, "--pdeathsig", "KILL", "--") if setpriv else ()
        process = subprocess.Popen(
            (*die_with_referee, *launch.command),
            stdin=launch.stdin,
            stdout=launch.stdout,
            stderr=launch.stderr,
            cwd=launch.folder,
            env=environment_for(launch, PASSED_ON, mark),
            start_new_session=True,
        )
        return PlainBotProcess(process, mark, launch.limits)


class PlainBotProcess(IsolatedProcess):
    """A running plain process; see `interface.IsolatedProcess`."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str, limits: ResourceLimits) -> None:
        super().__init__(process, limits)
        self._mark = f"{MARK_VARIABLE}={mark}\0".encode()
        self._started = process_tree.start_time(process.pid)
        self._cpu_us = 0
        self._killed = False
        self._oom_kills = process_tree.oom_kills()
        self._activity = process_tree.TreeActivity()
        self._set_limits()
        WATCHDOG.watch(self.check_limits)

    def on_exit(self, call: Callable[[], object]) -> Callable[[], object]:
        return process_tree.on_exit(self.pid, call)

    def kill(self) -> None:
        """Kill the process tree, children first, and the process group.

        Nothing is done once the first process was reaped: its number may belong to another one.
        """
        if self._process.returncode is None:
            has_exited = process_tree.exit_status(self.pid) is not None
            if not has_exited:
                self._killed = True
            with contextlib.suppress(OSError):  # no free descriptor
                process_tree.send_signal(reversed(self._tree()), signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def cpu_us(self) -> int:
        used = sum(process_tree.cpu_us(pid) for pid in self._tree())
        self._cpu_us = max(self._cpu_us, used)
        return self._cpu_us

    def threads(self) -> dict[int, ThreadTimes]:
        return process_tree.threads(self._tree())

    def out_of_memory(self) -> bool:
        """Return True if the kernel killed the bot because this machine had no free memory.

        That is assumed if the bot was killed, but not by the referee, and the kernel has counted
        such a kill on this machine since the bot's start.
        """
        status = self._process.returncode
        if status is None:  # the process is reaped only after the rest of its tree was killed
            status = process_tree.exit_status(self.pid)
        return not self._killed and process_tree.ended_for_memory(status, self._oom_kills)

    def is_ready(self) -> bool:
        return any(process_tree.is_ready(pid) for pid in self._tree())

    def close(self) -> None:
        """Kill the bot's processes, also those that have left its tree; may be called again.

        Such processes are found by the bot's session, or by the mark in their environment.
        """
        if self._closed:
            return
        self._closed = True
        WATCHDOG.unwatch(self.check_limits)
        self.kill()
        process_tree.end_all(self._is_of_bot)
        self._process.wait()

    def _is_of_bot(self, pid: int) -> bool:
        """Return True if a process is in the bot's session, or has the mark in its environment."""
        # The cheapest test first: most processes of the machine are older than the bot.
        if process_tree.start_time(pid) < self._started:
            return False
        if process_tree.is_in_session(pid, self.pid, self._started):
            return True
        return self._mark in process_tree.environment_and_command(pid)

    def _tree(self) -> list[int]:
        """Return the bot's processes; none once the first one was reaped.

        After that, its number may belong to another process.
        """
        return process_tree.tree(self.pid) if self._process.returncode is None else []

    def _set_limits(self) -> None:
        """Set the limits of the bot's first process, which its children inherit.

        A limit that is lower already stays.
        """
        limits = {
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_NOFILE: self._limits.open_files,
            resource.RLIMIT_FSIZE: self._limits.file_bytes,
        }
        for resource_number, limit in limits.items():
            try:
                resource.prlimit(self.pid, resource_number, (limit, limit))
            except (ProcessLookupError, ValueError, PermissionError):
                continue  # the process has exited, or has a lower limit already

    def _check_once(self) -> None:
        """Kill the bot if its processes or their memory exceed a limit."""
        if self._process.returncode is not None:
            return
        # Empty if no process has used CPU time since the last check: then the usage is the same.
        pids = self._activity.tree_if_active(self.pid)
        if pids:
            tasks, memory_bytes = process_tree.usage(pids, self._limits.memory_bytes)
            self._end_if_over(tasks, memory_bytes)
