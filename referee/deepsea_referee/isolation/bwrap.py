"""The level `sandbox`: a bot in namespaces of its own, made by bubblewrap without any rights.

Laws: own user, mount, pid, net, ipc, uts and cgroup namespaces; no capability; the system call
filter of seccomp.py; limits set inside; memory and tasks bounded by a control group or, where
there is none, by the watchdog. bubblewrap itself gets an empty environment and its options
through a descriptor, because its first process is visible to the bot.

The tree: bubblewrap's monitor (the process that we started) > the sandbox's process 1, also
bubblewrap > the bot's first process > whatever it makes. When process 1 ends, the kernel ends
everything in the sandbox; it ends when the bot's first process, the monitor or this process does.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import threading
from pathlib import Path

from deepsea_referee.isolation import (
    cgroup,
    keeper,
    launcher,
    layout,
    proctree,
    runtime,
    seccomp,
    signals,
    watchdog,
)
from deepsea_referee.isolation.contract import ADDRESS_VARIABLE, MIB, Launch, Limits
from deepsea_referee.random import fresh_token

# The same user inside every sandbox, whoever it is outside.
USER = 1000
HOST_NAME = "bot"
# What a file in a tmpfs costs the kernel, for the watchdog's account.
INODE_BYTES = 1024
_GIB = 1024 * MIB
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
    """Starts bots in bubblewrap. `places` are the control groups to use, as a rule all found."""

    def __init__(self, places: cgroup.Hierarchies | None = None) -> None:
        self._places = cgroup.hierarchies() if places is None else places

    @property
    def name(self) -> str:
        return "sandbox"

    def spawn(self, launch: Launch) -> SandboxedProcess:
        """Start a bot; see `contract.Isolation`."""
        plan = layout.layout_for(launch)
        mark = f"deepsea-{fresh_token()[:20]}"
        keeper.enter("mark", mark)
        group: cgroup.Group | None = None
        stage: launcher.Stage | None = None
        status, status_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            stage = launcher.Stage.build(plan.shown)
            if self._places.folders():
                group = cgroup.Group(launch.limits, self._places)
            options = [*_options(launch), *layout.bubblewrap_options(plan, launch, stage.sources)]
            process = _start(launch, options, mark, group, stage, status_end)
        except BaseException:
            os.close(status)
            if group is not None:
                group.remove()
            if stage is not None:
                stage.remove()
            keeper.strike("mark", mark)
            raise
        finally:
            os.close(status_end)
        return SandboxedProcess(process, mark, launch.limits, group, stage, status)


def _options(launch: Launch) -> list[str]:
    """bubblewrap's options but for the file system."""
    environment = dict(ENVIRONMENT)
    if search_path := runtime.search_path():
        environment["PYTHONPATH"] = search_path
    environment.update(launch.environment)
    if launch.socket is not None:
        environment[ADDRESS_VARIABLE] = f"unix:{layout.SOCKET}"
    options = [f"--unshare-{one}" for one in ("user", "pid", "net", "ipc", "uts", "cgroup")]
    options += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    options += ["--uid", str(USER), "--gid", str(USER), "--hostname", HOST_NAME, "--clearenv"]
    for name, value in environment.items():
        options += ["--setenv", name, value]
    return options


def _limits(limits: Limits) -> list[str]:
    """Options for prlimit, which runs inside: only there are processes counted per sandbox."""
    wanted = {
        "nproc": (resource.RLIMIT_NPROC, limits.processes),
        "nofile": (resource.RLIMIT_NOFILE, limits.open_files),
        "fsize": (resource.RLIMIT_FSIZE, limits.file_bytes),
        # Back-stops for one process; the bound on the whole is elsewhere. Address space is
        # reserved much more freely than used (gRPC in Python: 35 MiB used, 600 reserved).
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
    launch: Launch,
    options: list[str],
    mark: str,
    group: cgroup.Group | None,
    stage: launcher.Stage,
    status_end: int,
) -> subprocess.Popen[bytes]:
    steps, environment = launcher.steps(group.joins() if group else [], stage)
    options_end = _descriptor_with(os.fsencode("\0".join(options)))
    filter_end = _descriptor_with(seccomp.program())
    try:
        # The keeper finds bubblewrap's processes by the mark, as an argument that does nothing.
        command = [*steps, launcher.tool("bwrap"), "--unsetenv", mark]
        command += ["--args", str(options_end), "--seccomp", str(filter_end)]
        command += ["--json-status-fd", str(status_end), "--"]
        command += [launcher.tool("prlimit"), *_limits(launch.limits), "--", *launch.command]
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
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


class SandboxedProcess:
    """A bot in its sandbox; see `contract.Contained`."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        mark: str,
        limits: Limits,
        group: cgroup.Group | None,
        stage: launcher.Stage,
        status: int,
    ) -> None:
        self._process = process
        self._mark = mark
        self._limits = limits
        self._group = group
        self._stage = stage
        self._status = status
        # The watchdog's thread looks while another kills or closes.
        self._lock = threading.RLock()
        self._said = b""
        self._first: int | None = None  # the sandbox's process 1, in our numbers
        self._first_handle = -1
        self._bot: int | None = None
        self._cpu_us = 0
        self._waited_us = 0
        self._over_limit: str | None = None
        self._frozen = False
        self._killed = False
        self._closed = False
        watchdog.watch(self._look)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def poll(self) -> int | None:
        self.cpu_us()  # the last chance to read it
        return self._process.poll()

    def kill(self) -> None:
        with self._lock:
            self._learn()
            ended = self._process.poll() is not None
            self._killed |= not ended
            if self._first_handle >= 0:
                # Process 1 goes and takes all with it; the monitor sees that, reaps it and ends.
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(self._first_handle, signal.SIGKILL)
            elif not ended and not (self._group and self._group.kill()):
                self._kill_during_setup()
            # Not before: what dies must not run again first. A v1 freezer holds back even SIGKILL.
            self.thaw()

    def cpu_us(self) -> int:
        used = self._group.cpu_us() if self._group else None
        if used is None and self._process.returncode is None and (first := self._learn()):
            # Process 1 too: it has the time of what it reaped.
            used = sum(proctree.cpu_us(pid) for pid in proctree.tree(first))
        self._cpu_us = max(self._cpu_us, used or 0)
        return self._cpu_us

    def waited_us(self) -> int:
        if self._bot is None and (first := self._learn()) is not None:
            self._bot = next(iter(proctree.children(first)), None)
        if self._bot is not None and self._process.returncode is None:
            self._waited_us = max(self._waited_us, proctree.waited_us(self._bot))
        return self._waited_us

    def freeze(self) -> None:
        self._frozen = True
        if self._group is not None and self._group.freezes:
            self._group.freeze()
        else:
            signals.stop_all(self._members)

    def thaw(self) -> None:
        if not self._frozen:
            return
        self._frozen = False
        if self._group is not None and self._group.freezes:
            self._group.thaw()
        else:
            signals.go_all(self._members)

    def over_limit(self) -> str | None:
        if self._over_limit is None and self._group is not None:
            self._over_limit = self._group.over_limit()
        return self._over_limit

    def setup_error(self) -> str | None:
        if self._process.poll() is None or self._killed or self.over_limit():
            return None
        self._learn()
        if b'"exit-code"' in self._said:
            return None
        # bubblewrap reports the bot's exit if and only if the bot was started.
        return (
            f"the sandbox could not be built (status {self._process.returncode}): see stderr, "
            "and run `deepsea-referee doctor`"
        )

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        watchdog.forget(self._look)
        self.cpu_us()
        self.over_limit()
        self.kill()
        try:
            self._process.wait(timeout=_END_MS / 1000)
        except subprocess.TimeoutExpired:
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
            self._learn()
            os.close(self._status)
            self._status = -1
        if self._group is not None:
            self._group.remove()
        self._stage.remove()
        keeper.strike("mark", self._mark)

    def _learn(self) -> int | None:
        """Read what bubblewrap has said so far; the number of the sandbox's process 1 if known."""
        with self._lock:
            if self._status >= 0:
                with contextlib.suppress(BlockingIOError):
                    self._said += os.read(self._status, 65536)
            line, end, _rest = self._said.partition(b"\n")
            if self._first is None and end:
                self._first = int(json.loads(line)["child-pid"])
                with contextlib.suppress(ProcessLookupError):
                    self._first_handle = os.pidfd_open(self._first)
        return self._first

    def _members(self) -> list[int]:
        """Every process of the sandbox but for bubblewrap's own."""
        first = self._learn()
        if first is None or self._process.returncode is not None:
            return []
        return proctree.tree(first)[1:]

    def _kill_during_setup(self) -> None:
        # The monitor is stopped first so that it cannot make the sandbox's first process between
        # our look and its end; that one dies with the monitor only a little later in its life.
        pid = self._process.pid
        signals.stop_all(lambda: [pid])
        signals.send([*proctree.tree(pid)[1:], pid], signal.SIGKILL)

    def _look(self) -> None:
        if self._group is not None and self._group.bounds_memory:
            # The kernel may have ended one process only: the rest is to go too.
            if self.over_limit():
                self.kill()
            return
        members = self._members()
        if not members:  # not yet built: what would be looked at is this machine
            return
        usage = proctree.usage(members)
        in_files = self._bytes_in_files()
        most = self._limits.memory_bytes
        if usage.memory_bytes + in_files > most:
            exact = proctree.exact_memory_bytes(members)
            if exact is None or exact + in_files > most:
                self._over_limit = f"memory: more than {most // MIB} MiB"
        if usage.tasks > self._limits.processes + cgroup.OWN_TASKS:
            self._over_limit = f"processes: more than {self._limits.processes}"
        if self._over_limit is not None:
            self.kill()

    def _bytes_in_files(self) -> int:
        """What /tmp and /dev/shm hold, with what their files cost even if they are empty."""
        total = 0
        for folder in ("tmp", "dev/shm"):
            try:
                found = os.statvfs(Path(f"/proc/{self._first}/root", folder))
            except OSError:
                continue
            if found.f_blocks * found.f_frsize > self._limits.file_bytes + found.f_frsize:
                continue  # not the one that was made for the bot
            total += (found.f_blocks - found.f_bfree) * found.f_frsize
            total += (found.f_files - found.f_ffree) * INODE_BYTES
        return total
