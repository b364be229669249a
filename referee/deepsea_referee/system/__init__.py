"""Operating system abstraction: `SYSTEM` has the functions that differ between systems.

Invariants: the choice is made once, at the import, by the functions that Python has here. Linux's
form (linux.py, which documents each method) uses functions that only Linux has. The portable form
(portable.py) runs on macOS and Windows, and for tests on Linux. Other modules check at most whether
Python has a certain function, such as a signal. No method waits for a bot; everything that is
started here ends with this process, even if this process is killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from deepsea_referee.system.linux import LinuxSystem
    from deepsea_referee.system.portable import PortableSystem

System: TypeAlias = "LinuxSystem | PortableSystem"

_LINUX_FUNCTIONS = ("pidfd_open", "pipe2", "sched_getaffinity")
"""The functions of `os` that Linux's form needs; some builds of Python lack them."""
OWN_GROUP_FLAGS: int = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0) | getattr(
    subprocess, "CREATE_NO_WINDOW", 0
)
"""Flags of Windows for a process that neither Ctrl-C nor a closed window reaches.

On other systems they are 0, and `start_new_session` has that effect.
"""


MOST_OPEN = 8192
"""The largest number of open files that a server, or a worker with many bots, needs."""


class CpuShare(NamedTuple):
    """One of `of` equal shares of the CPUs, for workers side by side; its number begins at 0.

    In a game the referee and one bot at a time take turns. If both use the same CPU, no other CPU
    has to be woken: N workers on N CPUs play nearly N times as many games. All shares have the same
    size and no CPU in common. If there are more workers than CPUs, all workers use all CPUs.
    """

    number: int
    of: int


ALL_CPUS = CpuShare(0, 1)


def equal_shares(workers: int) -> list[CpuShare]:
    """Return a share of the CPUs for each worker."""
    return [CpuShare(number, workers) for number in range(workers)]


def open_many_files() -> None:
    """Raise this process's limit of open files to `MOST_OPEN`, or as far as the system allows.

    Programs that it starts inherit the limit; bots have a limit of their own.
    """
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        new_limit = MOST_OPEN if hard == resource.RLIM_INFINITY else min(MOST_OPEN, hard)
        if soft != resource.RLIM_INFINITY and soft < new_limit:
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard))


def free_descriptors() -> int:
    """Return the number of files that this process can still open.

    On systems other than Linux it is unknown, and `MOST_OPEN` is returned.
    """
    if sys.platform == "linux":
        import resource

        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if soft != resource.RLIM_INFINITY:
            try:
                return soft - sum(1 for _ in os.scandir("/proc/self/fd"))
            except OSError:  # listing the open files needs a descriptor itself
                return 0
    return MOST_OPEN


def _choose() -> System:
    """Return the implementation for this operating system: the one for Linux, or the portable one.

    Some builds of Python for Linux lack functions of `os` that the former needs. They get the
    portable one, too.
    """
    if sys.platform == "linux" and all(hasattr(os, name) for name in _LINUX_FUNCTIONS):
        from deepsea_referee.system.linux import LinuxSystem

        return LinuxSystem()
    from deepsea_referee.system.portable import PortableSystem

    return PortableSystem()


SYSTEM = _choose()
