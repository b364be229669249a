"""What differs between operating systems; this module alone chooses.

Invariants: the choice is made by what Python offers here, once, when this is imported; Linux's form
(linux.py, where each method says what it does) uses what only Linux has, the portable form
(portable.py) runs on macOS and Windows, and on Linux too, which is how it is tested. Other modules
ask at most whether Python has one thing here, such as a signal. No method waits for a bot; what is
started here ends with this process, however this process ends.
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

_CALLS = ("pidfd_open", "pipe2", "sched_getaffinity")
"""What Linux's form cannot do without; some builds of Python lack them."""
OWN_GROUP_FLAGS: int = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0) | getattr(
    subprocess, "CREATE_NO_WINDOW", 0
)
"""On Windows neither Ctrl-C nor a closed window reaches such a process; elsewhere 0, and
`start_new_session` does that."""


MOST_OPEN = 8192
"""Open files that a server, or a worker with many bots, needs at most."""


class CpuShare(NamedTuple):
    """One of `of` equal shares of the CPUs, for workers side by side; its number begins at 0.

    A game is a ping-pong between the referee and one bot at a time. Where both are on one CPU,
    nothing has to wake another CPU for it: N workers on N CPUs play nearly N times as many games.
    All shares are equally large, and no CPU is in two of them; where there are more workers than
    CPUs, the kernel divides all among all.
    """

    number: int
    of: int


ALL_CPUS = CpuShare(0, 1)


def equal_shares(workers: int) -> list[CpuShare]:
    """A share for each of so many workers."""
    return [CpuShare(number, workers) for number in range(workers)]


def open_many_files() -> None:
    """Raise the limit of open files of this process, as far as the system lets it.

    Programs that it starts inherit that; bots have a limit of their own.
    """
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = MOST_OPEN if hard == resource.RLIM_INFINITY else min(MOST_OPEN, hard)
        if soft != resource.RLIM_INFINITY and soft < most:
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def free_descriptors() -> int:
    """The number of files that this process may still open; on Linux alone it is known."""
    if sys.platform == "linux":
        import resource

        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if soft != resource.RLIM_INFINITY:
            try:
                return soft - sum(1 for _ in os.scandir("/proc/self/fd"))
            except OSError:  # there is not even one for the list
                return 0
    return MOST_OPEN


def _choose() -> System:
    if sys.platform == "linux" and all(hasattr(os, name) for name in _CALLS):
        from deepsea_referee.system.linux import LinuxSystem

        return LinuxSystem()
    from deepsea_referee.system.portable import PortableSystem

    return PortableSystem()


SYSTEM = _choose()
