"""The level `sandbox`: a bot in its own namespaces, made by bubblewrap without privileges.

Invariants: own user, mount, pid, net, ipc, uts and cgroup namespaces; no capability; the system
call filter of seccomp.py; limits set inside; memory and tasks limited by a control group or, where
there is none, by the watchdog. bubblewrap itself gets an empty environment and its options
through a descriptor: nothing of the referee is in the memory that it shares with the sandbox.
"""

from __future__ import annotations

import logging
import os
import resource
import subprocess
from pathlib import Path

from deepsea_referee.sandbox import cgroup, cleanup, mounts, python_paths, root_staging, seccomp
from deepsea_referee.sandbox.bot_group import Group
from deepsea_referee.sandbox.bubblewrap import SandboxedProcess
from deepsea_referee.sandbox.interface import ADDRESS_VARIABLE, MIB, LaunchSpec, ResourceLimits

_log = logging.getLogger(__name__)

# The same user inside every sandbox, whoever it is outside.
USER = 1000
HOST_NAME = "bot"
_GIB = 1024 * MIB

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
        mark = f"deepsea-{cleanup.new_mark()}"
        cleanup.register("mark", mark)
        group: Group | None = None
        stage: root_staging.Stage | None = None
        status, status_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            stage = root_staging.Stage.build(plan.shown)
            if self._places.folders():
                group = Group(launch.limits, self._places)
            options = [*_options(launch), *mounts.bubblewrap_options(plan, launch, stage.sources)]
            process = _start(launch, options, mark, group, stage, status_end)
        except BaseException:
            os.close(status)
            if group is not None:
                group.remove()
            if stage is not None:
                stage.remove()
            cleanup.unregister("mark", mark)
            raise
        finally:
            os.close(status_end)
        return SandboxedProcess(process, mark, launch.limits, group, stage, status)


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
    mark: str,
    group: Group | None,
    stage: root_staging.Stage,
    status_end: int,
) -> subprocess.Popen[bytes]:
    steps, environment = root_staging.steps(group.joins() if group else [], stage)
    options_end = _descriptor_with(os.fsencode("\0".join(options)))
    filter_end = _descriptor_with(seccomp.program())
    try:
        # The cleanup process finds bubblewrap's processes by this argument, which has no effect.
        command = [*steps, root_staging.tool("bwrap"), "--unsetenv", mark]
        command += ["--args", str(options_end), "--seccomp", str(filter_end)]
        command += ["--json-status-fd", str(status_end), "--"]
        command += [root_staging.tool("prlimit"), *_limits(launch.limits), "--", *launch.command]
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
