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
import threading
from collections.abc import Callable
from pathlib import Path

from deepsea_referee.sandbox import (
    bot_users,
    cgroup,
    cleanup,
    mounts,
    process_tree,
    python_paths,
    seccomp,
)
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
    """Starts bots in bubblewrap. `places`: the control groups to use, by default all found."""

    name = "sandbox"

    def __init__(self, places: cgroup.Hierarchies | None = None) -> None:
        self._places = cgroup.hierarchies() if places is None else places
        self._warned: set[tuple[Path, ...]] = set()

    @property
    def counts_every_process(self) -> bool:
        return self._places.counts_cpu

    def spawn(self, launch: LaunchSpec) -> SandboxedProcess:
        """Start a bot; see `interface.Isolation`."""
        plan = mounts.layout_for(launch)
        if plan.hidden and plan.hidden not in self._warned:
            self._warned.add(plan.hidden)
            _log.warning(
                "the bot in %s does not see %s: settings, a ladder's store or another bot",
                plan.directory,
                ", ".join(map(str, plan.hidden)),
            )
        group: Group | None = None
        stage: bot_users.Stage | None = None
        status, status_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            stage = bot_users.Stage.build(plan.shown)
            if self._places.folders():
                group = Group(launch.limits, self._places)
            options = [*_options(launch), *mounts.bubblewrap_options(plan, launch, stage.sources)]
            process = _start(launch, options, group, stage, status_end)
        except BaseException:
            os.close(status)
            if group is not None:
                group.remove()
            if stage is not None:
                stage.remove()
            raise
        finally:
            os.close(status_end)
        return SandboxedProcess(process, launch.limits, group, stage, status)


def _options(launch: LaunchSpec) -> list[str]:
    """bubblewrap's options, except those of the file system."""
    environment = dict(ENVIRONMENT)
    if search_path := python_paths.search_path():
        environment["PYTHONPATH"] = search_path
    environment.update(launch.environment)
    if launch.socket is not None:
        environment[ADDRESS_VARIABLE] = f"unix:{mounts.SOCKET}"
    options = [f"--unshare-{one}" for one in ("user", "pid", "net", "ipc", "uts", "cgroup")]
    options += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    options += ["--uid", str(USER), "--gid", str(USER), "--hostname", HOST_NAME, "--clearenv"]
    for name, value in environment.items():
        options += ["--setenv", name, value]
    return options


def _limits(limits: ResourceLimits) -> list[str]:
    """Options for prlimit, which runs inside: only there are processes counted per sandbox."""
    wanted = {
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
        # 0 would write no core file either but still call a core dump program of the host.
        "core": (resource.RLIMIT_CORE, 1),
    }
    options = []
    for name, (which, value) in wanted.items():
        hard = resource.getrlimit(which)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        options.append(f"--{name}={most}:{most}")
    return options


def _start(
    launch: LaunchSpec,
    options: list[str],
    group: Group | None,
    stage: bot_users.Stage,
    status_end: int,
) -> subprocess.Popen[bytes]:
    steps, environment = bot_users.steps(group.joins() if group else [], stage)
    options_end = _descriptor_with(os.fsencode("\0".join(options)))
    filter_end = _descriptor_with(seccomp.program())
    try:
        # By this argument, which has no other effect, the next referee finds what is left of a
        # sandbox that was being set up when this one was killed.
        command = [*steps, bot_users.tool("bwrap"), cleanup.MARK_OPTION, cleanup.new_name()]
        command += ["--args", str(options_end), "--seccomp", str(filter_end)]
        command += ["--json-status-fd", str(status_end), "--"]
        command += [bot_users.tool("prlimit"), *_limits(launch.limits), "--", *launch.command]
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
    descriptor = os.memfd_create("deepsea")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


# A bot that runs: measured, frozen and killed from outside


class SandboxedProcess(IsolatedProcess):
    """A bot in its sandbox; see `interface.IsolatedProcess`."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        limits: ResourceLimits,
        group: Group | None,
        stage: bot_users.Stage,
        status: int,
    ) -> None:
        super().__init__(process, limits)
        self._group = group
        self._stage = stage
        self._status = status
        # The watchdog's thread checks while another kills or closes.
        self._lock = threading.RLock()
        self._status_text = b""
        self._first: int | None = None  # the sandbox's process 1, in our numbers
        self._first_handle = -1
        self._cpu_us = 0
        self._frozen = False
        self._killed = False
        self._out_of_memory = False
        self._oom_kills = process_tree.oom_kills()
        self._changes = process_tree.Changes()
        WATCHDOG.watch(self.check_limits)

    def on_exit(self, call: Callable[[], object]) -> Callable[[], object]:
        return process_tree.on_exit(self.pid, call)

    def kill(self) -> None:
        with self._lock:
            with contextlib.suppress(OSError):  # no descriptor is left
                self._read_status()
            ended = self._process.poll() is not None
            self._killed |= not ended
            if self._first_handle >= 0:
                # All processes die with process 1; the monitor then reaps it and exits.
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(self._first_handle, signal.SIGKILL)
            elif not ended:
                if self._group is not None:
                    self._group.kill()
                self._kill_during_setup()  # it may not have joined its group yet
            self.thaw()  # or the monitor could not exit; not before, lest killed ones run again

    def abort(self) -> None:
        process_tree.send_signal(self._members(), signal.SIGABRT)

    def cpu_us(self) -> int:
        used = self._group.cpu_us() if self._group else None
        if used is None and self._process.returncode is None and (first := self._read_status()):
            # With process 1: it has the time of the children that it reaped.
            used = sum(process_tree.cpu_us(pid) for pid in process_tree.tree(first))
        self._cpu_us = max(self._cpu_us, used or 0)
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
        """Let it be as `_frozen` says; ended if that is impossible, as at want of descriptors."""
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
        if not self._out_of_memory and self._over_limit is None:
            if self._group is not None and self._group.bounds_memory:
                self._out_of_memory = self._group.out_of_memory()
            elif not self._killed:
                status = self._process.poll()
                self._out_of_memory = process_tree.ended_for_memory(status, self._oom_kills)
        return self._out_of_memory

    def setup_error(self) -> str | None:
        if self._process.poll() is None or self._killed or self.over_limit():
            return None
        self._read_status()
        if b'"exit-code"' in self._status_text:
            return None
        # bubblewrap reports the bot's exit if and only if the bot was started.
        return (
            f"the sandbox could not be set up (status {self._process.returncode}): see stderr, "
            "and run `deepsea-referee doctor`"
        )

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        WATCHDOG.forget(self.check_limits)
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
            if self._first_handle >= 0:
                # The monitor may end before process 1 has: wait for that one too.
                waiting = select.poll()
                waiting.register(self._first_handle, select.POLLIN)
                waiting.poll(_END_MS)
                os.close(self._first_handle)
                self._first_handle = -1
            with contextlib.suppress(OSError):
                self._read_status()
            os.close(self._status)
            self._status = -1
        if self._group is not None:
            self._group.remove()
        self._stage.remove()

    def _read_status(self) -> int | None:
        """Read bubblewrap's status; returns the number of the sandbox's process 1 if known."""
        with self._lock:
            if self._status >= 0:
                with contextlib.suppress(BlockingIOError):
                    self._status_text += os.read(self._status, 65536)
            line, end, _rest = self._status_text.partition(b"\n")
            if self._first is None and end:
                first = int(json.loads(line)["child-pid"])
                with contextlib.suppress(ProcessLookupError):
                    self._first_handle = os.pidfd_open(first)
                self._first = first  # only now: without a descriptor it is tried again
        return self._first

    def _members(self) -> list[int]:
        """Every process of the sandbox except bubblewrap's own."""
        first = self._read_status()
        if first is None or self._process.returncode is not None:
            return []
        return process_tree.tree(first)[1:]

    def _kill_during_setup(self) -> None:
        # The monitor is stopped first so that it cannot start the sandbox's first process between
        # our listing and its death; at its start that process does not yet die with the monitor.
        pid = self._process.pid
        below: list[int] = []
        with contextlib.suppress(OSError):  # no descriptor is left
            process_tree.stop_all(lambda: [pid])
            below = process_tree.tree(pid)[1:]
        process_tree.send_signal([*below, pid], signal.SIGKILL)

    def _look(self) -> None:
        if self._group is not None and self._group.bounds_memory:
            # The kernel may have killed one process only: kill the rest too.
            if self.over_limit() or self.out_of_memory():
                self.kill()
            return
        first = self._read_status()
        if first is None or self._process.returncode is not None:
            return  # not yet set up: the figures would be this machine's
        if not (members := self._changes.tree(first)[1:]):
            return
        in_files = self._bytes_in_files()
        most = self._limits.memory_bytes - in_files
        tasks, memory_bytes = process_tree.usage(members, most)
        self._end_if_over(tasks, memory_bytes + in_files)

    def _bytes_in_files(self) -> int:
        """The size of /tmp and /dev/shm, including what empty files cost."""
        total = 0
        for folder in ("tmp", "dev/shm"):
            try:
                found = os.statvfs(Path(f"/proc/{self._first}/root", folder))
            except OSError:
                continue
            if found.f_blocks * found.f_frsize > self._limits.file_bytes + found.f_frsize:
                continue  # not the tmpfs that was made for the bot
            total += (found.f_blocks - found.f_bfree) * found.f_frsize
            total += (found.f_files - found.f_ffree) * INODE_BYTES
        return total
