"""Owners of leases: a name for this run, and a check whether another run still exists.

Invariant: a run counts as ended only if that is certain: it ran on this machine and in this process
namespace, and no process with its number started when it did. Leases of other owners have to
expire. So have those of a run that /proc hides, as it may from a server with ProtectProc=.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from deepsea_ladder.store import Store


def own_run_name() -> str:
    """Return the name under which this run leases tasks, unlike that of any other run.

    It consists of the machine's boot, the process namespace, the process number and the time at
    which the process was started. `is_gone` takes it apart.
    """
    # Imported only here: it needs Linux, and other users of this module do not.
    from deepsea_referee.sandbox.process_tree import start_time

    pid = os.getpid()
    return f"{_boot_and_namespace()}/{pid}/{start_time(pid)}"


def is_gone(owner: str) -> bool:
    """Return True if it is certain that the run with the name `owner` has ended.

    That can only be known of a run on this machine, in this namespace of processes.
    """
    from deepsea_referee.sandbox.process_tree import has_ended

    name = re.fullmatch(r"(?P<machine>.*)/(?P<pid>\d+)/(?P<start_time>\d+)", owner, re.ASCII)
    if name is None or name["machine"] != _boot_and_namespace():
        return False
    return has_ended(int(name["pid"]), int(name["start_time"]))


def take_back(store: Store) -> int:
    """End the leases of runs that have ended, and return the number of tasks.

    Otherwise these tasks would wait until their leases expire.
    """
    return sum(
        store.tasks.end_leases_of_lost_runner(owner)
        for owner in store.tasks.owners()
        if is_gone(owner)
    )


def release_leases(store: Store, owner: str) -> int:
    """Give back all leases of the run with the name `owner`, and return their number.

    Raises UserError if it has none.
    """
    released = store.tasks.hand_back(owner)
    if not released:
        owners = store.tasks.owners()
        known = f"there are {', '.join(owners)}" if owners else "nobody does"
        raise UserError(f"no run called {owner!r} has leases; {known}")
    return released


def _boot_and_namespace() -> str:
    """Return the id of this boot of the machine, and of the namespace of its process numbers.

    Within both, a process number and a start time name one process.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
