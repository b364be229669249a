"""Delegation of a control group of version 2, and the processes that have to leave it.

If systemd runs, only systemd divides the tree of groups, except below units with `Delegate=`. In
any other unit, if the kernel kills a bot because of its memory, systemd takes this for a failure of
the whole unit and ends it (`OOMPolicy=`), together with the referee. If systemd does not run, as in
a container, all groups that can be written may be used.

A group whose children have limits may have no process of its own. It was delegated to the first
process in it from which this process descends, such as a shell, make or a server; these and their
descendants are in the group, too. All of them move into one group below it, where nothing changes
for them: that group has no limits and no controllers of its own. Any other process is a stranger,
which may divide the group itself; then no process is moved.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from deepsea_referee.sandbox import process_tree

SYSTEMD = Path("/run/systemd/system")
"""A folder that exists if systemd runs."""
SYSTEMCTL_S = 20.0
"""The timeout of a query to systemd."""
_MANAGER = re.compile(r"user@(\d+)\.service")


class Unit(NamedTuple):
    """A unit of systemd."""

    name: str
    group: Path
    user: int | None = None
    """The user whose manager has the unit; None for the manager of the system."""


Properties = Mapping[str, str]
ReadProperties = Callable[[Unit], "Properties | None"]


def refusal(group: Path, point: Path, read: ReadProperties | None = None) -> str:
    """Return the reason why groups must not be made in a control group; "" if they may be.

    If systemd runs, they may be made only in units that are delegated (`Delegate=yes`).

    point  the mount point of the group's file system
    read   returns the properties of a unit, or None if they cannot be read; by default it queries
           systemd
    """
    if not SYSTEMD.is_dir():
        return ""
    unit = unit_of(group, point)
    if unit is None:
        is_of_systemd = group == point or group.name.endswith(".slice")
        return "this process is in a group that systemd has for itself" if is_of_systemd else ""
    read_properties = read or ask_systemd
    properties = read_properties(unit)
    if properties is None:
        # systemd did not answer. Its mark at the group tells whether it is delegated, but nothing
        # of the OOM policy.
        properties = {"Delegate": "yes" if _is_marked(unit.group) else "no"}
    if properties.get("Delegate") != "yes":
        return f"{unit.name} has no Delegate=yes"
    policy = properties.get("OOMPolicy", "continue")
    if policy != "continue":
        return f"{unit.name} has OOMPolicy={policy}: it would end with a bot that takes much memory"
    return ""


def unit_of(group: Path, point: Path) -> Unit | None:
    """Return the systemd unit to which a group belongs, by its path.

    The unit is the first service or scope on the path. But a user's manager (user@1000.service) has
    units of its own: below it, the next service or scope is the unit. Return None if the group
    belongs to no unit of these kinds, as a slice.

    point  the mount point of the group's file system
    """
    user = None
    parts = Path(os.path.relpath(group, point)).parts
    for depth, name in enumerate(parts, 1):
        if not name.endswith((".service", ".scope")):
            continue
        user_manager = _MANAGER.fullmatch(name)
        if user_manager and user is None and depth < len(parts):
            user = int(user_manager[1])
            continue
        return Unit(name, point.joinpath(*parts[:depth]), user)
    return None


def ask_systemd(unit: Unit) -> Properties | None:
    """Query systemd for the delegation and the OOM policy of a unit; return None if that fails."""
    manager_options: list[str] = []  # for the manager of the system
    environment = dict(os.environ)
    if unit.user is not None:
        manager_options = ["--user"]
        if unit.user != os.geteuid():
            manager_options.append(f"--machine={unit.user}@.host")
        environment.setdefault("XDG_RUNTIME_DIR", f"/run/user/{unit.user}")
    command = ["systemctl", *manager_options, "show", "--property=Delegate,OOMPolicy"]
    command += ["--", unit.name]
    try:
        result = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SYSTEMCTL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (line.partition("=") for line in result.stdout.splitlines())
    properties = {name: value for name, _, value in lines}
    return properties if result.returncode == 0 and "Delegate" in properties else None


def _is_marked(group: Path) -> bool:
    """Return True if systemd has marked the group of a unit as delegated.

    The mark is an extended attribute of the group's folder. Only root can read trusted.delegate, so
    newer versions of systemd set user.delegate, too.
    """
    for attribute in ("user.delegate", "trusted.delegate"):
        with suppress(OSError):
            if os.getxattr(group, attribute) == b"1":
                return True
    return False


# Moving processes


def make_room(group: Path, leaf: Path) -> None:
    """Move all processes of a group into its child `leaf`, which is created if necessary.

    Raises OSError if a process in the group belongs to a program other than the referee and those
    that have started it (see `outsiders`), or if the kernel refuses.
    """
    moved: set[int] = set()
    # Repeated, since a process may have started another one before it was moved.
    while remaining := sorted(members(group) - moved):
        strangers = outsiders(remaining, moved)
        if strangers:
            names = ", ".join(f"{pid} ({_name(pid)})" for pid in strangers[:3])
            raise OSError(f"not the referee's alone: there are other processes in it, {names}")
        leaf.mkdir(exist_ok=True)
        for pid in remaining:
            with suppress(ProcessLookupError):  # it has ended
                (leaf / "cgroup.procs").write_text(str(pid))
        moved.update(remaining)


def members(group: Path) -> set[int]:
    """Return the processes of a group; 0 stands for those that this process cannot see."""
    return {int(pid) for pid in (group / "cgroup.procs").read_text().split()}


def outsiders(inside: Collection[int], moved: Collection[int]) -> list[int]:
    """Return the processes in a group that do not belong to the referee, sorted.

    This process, its ancestors in the group, and all descendants of these belong to the referee.

    inside  the processes in the group
    moved   processes of the referee that were in the group before
    """
    own_ancestors = {*inside, *moved}.intersection(_with_ancestors(os.getpid()))  # itself included
    return [pid for pid in sorted(inside) if not _descends_from(own_ancestors, pid)]


def _descends_from(processes: set[int], pid: int) -> bool:
    """Return True if a process is one of these, descends from one of them, or has ended."""
    if pid == 0:  # a process that this one cannot see
        return False
    has_ended = _parent_of(pid) is None
    return has_ended or not processes.isdisjoint(_with_ancestors(pid))


def _with_ancestors(pid: int) -> list[int]:
    """Return a process followed by its ancestors, as far as they can be seen from here."""
    line = [pid]
    while (parent := _parent_of(line[-1])) and parent not in line:
        line.append(parent)
    return line


def _parent_of(pid: int) -> int | None:
    """Return the parent of a process: 0 if it cannot be seen, None if the process has ended."""
    fields = process_tree.stat_fields(pid)
    if process_tree.has_ended(pid):
        return None
    return int(fields[1]) if fields else 0


def _name(pid: int) -> str:
    """Return the name of a process's program; "?" if it cannot be read."""
    try:
        return process_tree.read_proc(f"/proc/{pid}/comm").decode(errors="replace").strip()
    except OSError:
        return "?"
