"""Owners of leases: a name for this run, and a check whether another run still exists.

Invariant: a run counts as gone only if that is certain: it ran on this machine and in this process
namespace, and no process with its number started when it did. Other owners' leases must expire.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from deepsea_ladder.store import Store


def own_name() -> str:
    """A unique name for this run."""
    pid = os.getpid()
    return f"{_place()}/{pid}/{_began(pid)}"


def is_gone(owner: str) -> bool:
    """True if the run of that name has certainly ended."""
    *place, pid, began = ["", "", *owner.split("/")]
    if "/".join(place) != f"//{_place()}" or not pid.isdigit():
        return False
    return _began(int(pid)) != began


def take_back(store: Store) -> int:
    """End the leases of runs that have ended; returns the number of tasks, of whatever kind.

    Without this they would wait until their leases expire.
    """
    return sum(store.tasks.lose(owner) for owner in store.tasks.owners() if is_gone(owner))


def release_leases(store: Store, owner: str) -> int:
    """Give up the leases of the run of that name; returns their number. `UserError` for none."""
    tasks = store.tasks.hand_back(owner)
    if not tasks:
        owners = store.tasks.owners()
        known = f"there are {', '.join(owners)}" if owners else "nobody does"
        raise UserError(f"no run called {owner!r} has leases; {known}")
    return tasks


def _place() -> str:
    """This boot of this machine, and the namespace that process numbers are of."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"


def _began(pid: int) -> str | None:
    """When the process began, in ticks since the boot; None if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The program's name in parentheses may contain anything.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]
