"""The level `sandbox`: a bot in its own namespaces, made by bubblewrap without privileges.

The tree: bubblewrap's monitor (the process that we started) > the sandbox's process 1, also
bubblewrap > the bot's first process > its children. When process 1 exits, the kernel kills
everything in the sandbox; it exits when the bot's first process, the monitor or this process does.

Invariants: own user, mount, pid, net, ipc, uts and cgroup namespaces; no capability; the system
call filter of seccomp.py; limits set inside; memory and tasks limited by a control group or, where
there is none, by the watchdog. bubblewrap itself gets an empty environment and its options through
a descriptor: nothing of the referee is in the memory that it shares with the sandbox. Readings come
from the control group where it has them, the rest from /proc. Process numbers may be reused:
process 1 is held by a pidfd.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from deepsea_referee.sandbox import bot_users, cgroup, cleanup, mounts, process_tree, seccomp
from deepsea_referee.sandbox.cgroup import Group
from deepsea_referee.sandbox.interface import (
    ADDRESS_VARIABLE,
    MIB,
    WATCHDOG,
    IsolatedProcess,
    LaunchSpec,
    ResourceLimits,
    ThreadTimes,
)

_log = logging.getLogger(__name__)

# The same user inside every sandbox, whoever it is outside.
USER = 1000
HOST_NAME = "bot"
_GIB = 1024 * MIB
# What a file in a tmpfs costs the kernel, as the watchdog counts it.
INODE_BYTES = 1024
_END_MS = 1000

ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "USER": "bot",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    # Fewer and smaller reservations of address space by glibc.
    "MALLOC_ARENA_MAX": "2",
}


class Sandbox:
    """Starts bots in bubblewrap."""

    name = "sandbox"

    def __init__(self, places: cgroup.Hierarchies | None = None) -> None:
        """Prepare the isolation; `places` are the control groups to use, by default all."""
        self._places = cgroup.hierarchies() if places is None else places
        self._warned: set[tuple[Path, ...]] = set()

    @property
    def counts_every_process(self) -> bool:
        return self._places.counts_cpu

    def spawn(self, launch: LaunchSpec) -> SandboxedProcess:
        """Start a bot in a new sandbox. Raises OSError if it cannot be started.

        If it fails, all that was made for the sandbox is removed.
        """
        layout = mounts.layout_for(launch)
        self._warn_of_hidden(layout)
        group: Group | None = None
        stage: bot_users.Stage | None = None
        # bubblewrap writes its status to a pipe.
        status_reader, status_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            stage = bot_users.Stage.build(layout.shown)
            if self._places.folders():
                group = Group(launch.limits, self._places)
            options = _isolation_options(launch)
            options += mounts.bubblewrap_options(layout, launch, stage.sources)
            process = _start(launch, options, group, stage, status_writer)
        except BaseException:
            os.close(status_reader)
            if group is not None:
                group.remove()
            if stage is not None:
                stage.remove()
            raise
        finally:
            os.close(status_writer)
        return SandboxedProcess(process, launch.limits, group, stage, status_reader)

    def _warn_of_hidden(self, layout: mounts.Layout) -> None:
        """Log which files and folders are hidden from a bot, once for the same ones."""
        if layout.hidden and layout.hidden not in self._warned:
            self._warned.add(layout.hidden)
            _log.warning(
                "the bot in %s does not see %s: settings, a ladder's store or another bot",
                layout.directory,
                ", ".join(map(str, layout.hidden)),
            )


def _isolation_options(launch: LaunchSpec) -> list[str]:
    """Return bubblewrap's options for namespaces, users and the environment of a bot.

    Those of the file system are in `mounts.bubblewrap_options`.
    """
    environment = dict(ENVIRONMENT)
    if search_path := mounts.search_path():
        environment["PYTHONPATH"] = search_path
    environment.update(launch.environment)
    if launch.socket is not None:
        environment[ADDRESS_VARIABLE] = f"unix:{mounts.SOCKET}"
    namespaces = ("user", "pid", "net", "ipc", "uts", "cgroup")
    options = [f"--unshare-{namespace}" for namespace in namespaces]
    options += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    options += ["--uid", str(USER), "--gid", str(USER), "--hostname", HOST_NAME, "--clearenv"]
    for name, value in environment.items():
        options += ["--setenv", name, value]
    return options


def _limit_options(limits: ResourceLimits) -> list[str]:
    """Return the options of the program prlimit that set a bot's limits, each hard and soft.

    prlimit runs inside of the sandbox, because only there are processes counted per sandbox. If a
    limit of this process is lower, the bot gets that one: nobody can raise it without privileges.
    """
    limit_of_option = {
        "nproc": (resource.RLIMIT_NPROC, limits.processes),
        "nofile": (resource.RLIMIT_NOFILE, limits.open_files),
        "fsize": (resource.RLIMIT_FSIZE, limits.file_bytes),
        # Additional limits of one process; the whole tree is limited elsewhere. Programs reserve
        # much more address space than they use (gRPC in Python: 35 MiB used, 600 reserved).
        "data": (resource.RLIMIT_DATA, 2 * limits.memory_bytes + _GIB // 2),
        "as": (resource.RLIMIT_AS, max(16 * _GIB, 8 * limits.memory_bytes)),
        "memlock": (resource.RLIMIT_MEMLOCK, 64 * 1024),
        "sigpending": (resource.RLIMIT_SIGPENDING, 256),
        "msgqueue": (resource.RLIMIT_MSGQUEUE, 0),
        "rtprio": (resource.RLIMIT_RTPRIO, 0),
        "nice": (resource.RLIMIT_NICE, 0),
        # Not 0, with which the kernel would still call a core dump program of the host.
        "core": (resource.RLIMIT_CORE, 1),
    }
    options = []
    for name, (resource_number, wanted) in limit_of_option.items():
        _soft, own_limit = resource.getrlimit(resource_number)
        limit = wanted if own_limit == resource.RLIM_INFINITY else min(wanted, own_limit)
        options.append(f"--{name}={limit}:{limit}")
    return options


def _start(
    launch: LaunchSpec,
    options: list[str],
    group: Group | None,
    stage: bot_users.Stage,
    status_end: int,
) -> subprocess.Popen[bytes]:
    """Start bubblewrap with a bot, and return its process, the monitor of the sandbox.

    options     bubblewrap's options, which it reads from a descriptor
    status_end  the descriptor to which bubblewrap writes its status
    """
    launcher, environment = bot_users.launcher(group.joins() if group else [], stage)
    program, *arguments = launch.command
    if program == sys.executable:
        program = str(mounts.executable())
    options_end = _descriptor_with(os.fsencode("\0".join(options)))
    filter_end = _descriptor_with(seccomp.program())
    try:
        # The mark has no other effect: if this referee is killed while a sandbox is set up, the
        # next one finds the remaining processes by this argument.
        command = [*launcher, bot_users.tool_path("bwrap"), cleanup.MARK_OPTION, cleanup.new_name()]
        command += ["--args", str(options_end), "--seccomp", str(filter_end)]
        command += ["--json-status-fd", str(status_end), "--"]
        command += [
            bot_users.tool_path("prlimit"),
            *_limit_options(launch.limits),
            "--",
            program,
            *arguments,
        ]
        return subprocess.Popen(
            command,
            stdin=launch.stdin,
            stdout=launch.stdout,
            stderr=launch.stderr,
            cwd="/",
            env=environment,
            pass_fds=(options_end, filter_end, status_end),
            start_new_session=True,
        )
    finally:
        os.close(options_end)
        os.close(filter_end)


def _descriptor_with(content: bytes) -> int:
    """Return the descriptor of a file in memory with this content, to be read from its start."""
    descriptor = os.memfd_create("deepsea")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


# A running bot: measured, frozen and killed from outside


class SandboxedProcess(IsolatedProcess):
    """A bot in its sandbox; `interface.IsolatedProcess` documents the methods.

    The watchdog's thread checks limits while another thread may kill, freeze or close: the lock
    protects the status, the handle of process 1, and the frozen state.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        limits: ResourceLimits,
        group: Group | None,
        stage: bot_users.Stage,
        status_pipe: int,
    ) -> None:
        super().__init__(process, limits)
        self._group = group
        self._stage = stage
        self._status_pipe = status_pipe
        self._lock = threading.RLock()
        self._status_text = b""
        self._init_pid: int | None = None  # of the sandbox's process 1, as it is numbered outside
        self._init_pidfd = -1  # holds process 1; -1 while it is not open
        self._cpu_us = 0
        self._frozen = False
        self._killed = False
        self._out_of_memory = False
        self._oom_kills = process_tree.oom_kills()
        self._activity = process_tree.TreeActivity()
        WATCHDOG.watch(self.check_limits)

    def on_exit(self, call: Callable[[], object]) -> Callable[[], object]:
        return process_tree.on_exit(self.pid, call)

    def kill(self) -> None:
        """Kill every process of the sandbox, frozen or not.

        Once the sandbox is set up, it is enough to kill its process 1: the kernel kills the others,
        and the monitor (the process that this one started) reaps process 1 and exits. Until then,
        processes are killed by their group, and one by one, as some may not have joined it yet.
        """
        with self._lock:
            with contextlib.suppress(OSError):  # no free descriptor
                self._read_status()
            has_exited = self._process.poll() is not None
            if not has_exited:
                self._killed = True
            if self._init_pidfd >= 0:
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(self._init_pidfd, signal.SIGKILL)
            elif not has_exited:
                if self._group is not None:
                    self._group.kill()
                self._kill_during_setup()
            # Last: the monitor must run to exit, but no process may run again before its death.
            self.thaw()

    def abort(self) -> None:
        process_tree.send_signal(self._members(), signal.SIGABRT)

    def cpu_us(self) -> int:
        """Return the CPU time of the sandbox in microseconds; it never decreases.

        It is counted by the control group. Without one, it is the sum for the processes that have
        not ended.
        """
        used_us = self._group.cpu_us() if self._group else None
        if used_us is None and self._process.returncode is None:
            init_pid = self._read_status()
            if init_pid is not None:
                # Process 1 is included, as it has the time of the children that it has reaped.
                used_us = sum(process_tree.cpu_us(pid) for pid in process_tree.tree(init_pid))
        self._cpu_us = max(self._cpu_us, used_us or 0)
        return self._cpu_us

    def denied_us(self) -> int | None:
        return self._group.denied_us() if self._group else None

    def threads(self) -> dict[int, ThreadTimes]:
        return process_tree.threads(self._members())

    def is_ready(self) -> bool:
        return any(process_tree.is_ready(pid) for pid in self._members())

    def freeze(self) -> None:
        with self._lock:
            if self._killed or self._closed:
                return
            self._frozen = True
            self._stop_or_continue()

    def thaw(self) -> None:
        with self._lock:
            if not self._frozen:
                return
            self._frozen = False
            self._stop_or_continue()

    def _stop_or_continue(self) -> None:
        """Stop all processes of the sandbox if `_frozen` is True, otherwise let them continue.

        If that fails, for example without a free descriptor, the bot is killed.
        """
        try:
            if self._group is not None and self._group.freezes:
                self._group.set_frozen(self._frozen)
            elif self._frozen:
                process_tree.stop_all(self._members)
            else:
                process_tree.send_signal(self._members(), signal.SIGCONT)
        except OSError as error:
            if not self._killed:
                self.check_error = error
                self.kill()

    def over_limit(self) -> str | None:
        if self._over_limit is None and self._group is not None:
            self._over_limit = self._group.over_limit()
        return self._over_limit

    def out_of_memory(self) -> bool:
        """Return True if the kernel has killed a process because this machine had no free memory.

        The control group knows that. Without one, it is assumed if the bot was killed, but not by
        the referee, and the kernel has counted such a kill on this machine since the bot's start.
        """
        if not self._out_of_memory and self._over_limit is None:
            if self._group is not None and self._group.bounds_memory:
                self._out_of_memory = self._group.out_of_memory()
            elif not self._killed:
                status = self._process.poll()
                self._out_of_memory = process_tree.ended_for_memory(status, self._oom_kills)
        return self._out_of_memory

    def setup_error(self) -> str | None:
        """Return the reason why the sandbox could not be set up, for the user.

        Return None if the bot was started, still runs, or was killed.
        """
        if self._process.poll() is None or self._killed:
            return None
        if self.over_limit() or self.out_of_memory():
            return None  # the kernel may have killed bubblewrap, too
        self._read_status()
        # bubblewrap reports the bot's exit status if and only if the bot was started.
        was_started = b'"exit-code"' in self._status_text
        if was_started:
            return None
        return (
            f"the sandbox could not be set up (status {self._process.returncode}): see stderr, "
            "and run `deepsea-referee doctor`"
        )

    def close(self) -> None:
        """Kill the sandbox, wait for its end, and remove its group and files.

        The counters are read before the end, as they vanish with the processes.
        """
        if self._closed:
            return
        self._closed = True
        WATCHDOG.unwatch(self.check_limits)
        with contextlib.suppress(OSError):
            self.cpu_us()
        self.over_limit()
        self.out_of_memory()
        self.kill()
        if self._process.poll() is None:
            if not process_tree.wait_for_end(self._process.pid, _END_MS):
                self._process.kill()
            self._process.wait()
        with self._lock:
            if self._init_pidfd >= 0:
                # The monitor may exit before process 1 has ended, so wait for process 1, too.
                waiting = select.poll()
                waiting.register(self._init_pidfd, select.POLLIN)
                waiting.poll(_END_MS)
                os.close(self._init_pidfd)
                self._init_pidfd = -1
            with contextlib.suppress(OSError):
                self._read_status()
            os.close(self._status_pipe)
            self._status_pipe = -1
        if self._group is not None:
            self._group.remove()
        self._stage.remove()

    def _read_status(self) -> int | None:
        """Read the new part of bubblewrap's status; return the pid of the sandbox's process 1.

        Return None until bubblewrap has reported that pid, in the first line of the status. Raises
        OSError without a free descriptor.
        """
        with self._lock:
            if self._status_pipe >= 0:  # it is not closed yet
                with contextlib.suppress(BlockingIOError):  # nothing new
                    self._status_text += os.read(self._status_pipe, 65536)
            first_line, newline, _ = self._status_text.partition(b"\n")
            if self._init_pid is None and newline:  # the line is complete
                self._hold_init(int(json.loads(first_line)["child-pid"]))
        return self._init_pid

    def _hold_init(self, pid: int) -> None:
        """Open a pidfd of the sandbox's process 1, and store its pid.

        If the pidfd cannot be opened, no pid is stored, so that the next call tries it again.
        """
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            self._init_pidfd = os.pidfd_open(pid)
        self._init_pid = pid

    def _members(self) -> list[int]:
        """Return the processes of the sandbox, except those of bubblewrap."""
        init_pid = self._read_status()
        if init_pid is None or self._process.returncode is not None:
            return []
        return process_tree.tree(init_pid)[1:]

    def _kill_during_setup(self) -> None:
        """Kill the monitor and its descendants, while the sandbox is not set up.

        The monitor is stopped first, so that it cannot start the sandbox's first process between
        the listing and its death: at its start, that process does not die with the monitor yet.
        """
        monitor = self._process.pid
        descendants: list[int] = []
        with contextlib.suppress(OSError):  # no free descriptor
            process_tree.stop_all(lambda: [monitor])
            descendants = process_tree.tree(monitor)[1:]
        process_tree.send_signal([*descendants, monitor], signal.SIGKILL)

    def _check_once(self) -> None:
        """Kill the bot if it exceeds a limit, or if the kernel has killed one of its processes.

        If a control group limits the memory, the kernel enforces the limits. Otherwise the memory
        and the tasks of all processes are added up here.
        """
        if self._group is not None and self._group.bounds_memory:
            # The kernel may have killed a single process: kill the others, too.
            if self.over_limit() or self.out_of_memory():
                self.kill()
            return
        init_pid = self._read_status()
        if init_pid is None or self._process.returncode is not None:
            return  # before the setup, the sizes of /tmp and /dev/shm would be those of the host
        # Empty if no process has used CPU time since the last check: then the usage is the same.
        processes = self._activity.tree_if_active(init_pid)
        members = processes[1:]  # without process 1, which is bubblewrap
        if not members:
            return
        file_bytes = self._bytes_in_files()
        remaining_bytes = self._limits.memory_bytes - file_bytes
        tasks, memory_bytes = process_tree.usage(members, remaining_bytes)
        self._end_if_over(tasks, memory_bytes + file_bytes)

    def _bytes_in_files(self) -> int:
        """Return the bytes of memory that the files in the sandbox's /tmp and /dev/shm use.

        Each file counts INODE_BYTES in addition, so that many empty files count, too.
        """
        total_bytes = 0
        for folder in ("tmp", "dev/shm"):
            try:
                usage = os.statvfs(Path(f"/proc/{self._init_pid}/root", folder))
            except OSError:
                continue
            if usage.f_blocks * usage.f_frsize > self._limits.file_bytes + usage.f_frsize:
                continue  # too large for the bot's own tmpfs: the setup is not complete
            used_blocks = usage.f_blocks - usage.f_bfree
            files = usage.f_files - usage.f_ffree
            total_bytes += used_blocks * usage.f_frsize + files * INODE_BYTES
        return total_bytes
