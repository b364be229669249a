"""Control groups of bots: available hierarchies; limits, freezing, killing and CPU time of a bot.

Invariants: a mechanism counts as available only if a group could be made and removed there; each
mechanism may come from another hierarchy, and each may be missing: a reading that this kernel lacks
is None. Groups are made for one bot and removed after it, below this process's own group, so that
its limits hold for bots, too, or else below a group `deepsea` that an administrator has assigned to
this user. In version 2, groups have limits only if the parent was delegated (delegation.py).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from deepsea_referee.sandbox import cleanup, delegation
from deepsea_referee.sandbox.interface import MIB, ResourceLimits

ASSIGNED = "deepsea"
# The leaf into which this process moves so that its own group may have children with limits.
LEAF = "deepsea-referee"
# bubblewrap's two own processes count too.
OWN_TASKS = 2
# The same for all, which is also the kernel's default; v2 and v1.
SHARES = (("cpu.weight", "100"), ("cpu.shares", "1024"))
_BOUNDS = frozenset({"memory", "pids"})
"""The controllers that limit the memory and the processes of a bot."""
_ENABLE_BOUNDS = "+memory +pids"
"""The text that lets the children of a group have these controllers."""
_TRIES = 5
"""The number of attempts to move all processes out of a group: new ones may appear meanwhile."""
_FAILURE_FILES_V1 = ("memory.failcnt", "memory.memsw.failcnt")
_PEAK_FILES_V1 = ("memory.max_usage_in_bytes", "memory.memsw.max_usage_in_bytes")
LONGEST_S = 1.0
"""The longest time for killed members to leave their group."""
PAUSE_S = 0.005


class Hierarchies(NamedTuple):
    """The parent folder for new groups, for each mechanism; None if it is missing."""

    memory: Path | None = None
    pids: Path | None = None
    core: Path | None = None
    """Version 2 with kill, freeze and cpu.stat; it may have no controllers, beside version 1."""
    pressure: Path | None = None
    """Version 2 with a cpu.pressure.

    It counts the time in which no process of a group that needs a CPU has one.
    """
    cpu: Path | None = None
    """Gives every bot the same share of the CPU, however many processes and sessions it makes."""
    refused: str = ""
    """The reason why no group of version 2 can have limits here, in words; "" if there is none."""

    @property
    def counts_cpu(self) -> bool:
        """Return True if the kernel counts the CPU time of all processes, even of ended ones."""
        return self.core is not None

    def missing(self) -> list[str]:
        """Return the names, for a person, of the mechanisms that work nowhere on this machine."""
        parent_folders = {
            "memory": self.memory,
            "processes": self.pids,
            "freezing": self.core,
            "CPU time": self.core,
            "CPU shares": self.cpu,
        }
        return [name for name, folder in parent_folders.items() if folder is None]

    def folders(self) -> tuple[Path, ...]:
        """Return all parent folders, without repetitions."""
        places = (self.memory, self.pids, self.core, self.pressure, self.cpu)
        return tuple(dict.fromkeys(place for place in places if place is not None))


class MountedHierarchy(NamedTuple):
    """A mounted cgroup file system, and this process's group in it."""

    controllers: frozenset[str]
    """Empty for cgroup v2."""
    point: Path
    own: Path


@cache
def hierarchies() -> Hierarchies:
    """Return the folders in which this process can make control groups for bots.

    They are found by trial, once in each process. A trial may move all processes of this process's
    group into another group. So a command that starts bots calls this before it starts other
    processes. Remains of killed referees are removed, too.
    """
    mounted = mounted_hierarchies(Path("/proc/self/mountinfo"), Path("/proc/self/cgroup"))
    working = find_hierarchies(mounted)
    cleanup.remove_what_killed_referees_left()
    cleanup.remove_groups(working.folders())
    return working


def mounted_hierarchies(mountinfo: Path, membership: Path) -> list[MountedHierarchy]:
    """Return the mounted cgroup file systems, each with this process's group in it.

    mountinfo   the kernel's list of mounts, as /proc/self/mountinfo
    membership  the kernel's list of this process's groups, as /proc/self/cgroup
    """
    try:
        # Each line is "ID:CONTROLLERS:PATH"; only that of cgroup v2 names no controllers.
        groups = [line.split(":", 2) for line in membership.read_text().splitlines()]
        mounts = [line.split() for line in mountinfo.read_text().splitlines()]
    except OSError:
        return []
    file_systems = []
    for fields in mounts:
        # See proc(5): the number of fields before the "-" varies.
        root, point = fields[3], Path(fields[4])
        kind, _source, options = fields[fields.index("-") + 1 :]
        if kind not in ("cgroup", "cgroup2"):
            continue
        controllers = frozenset(options.split(",")) if kind == "cgroup" else frozenset()
        for _id, names, path in groups:
            if kind == "cgroup2":
                is_group_of_mount = names == ""
            else:
                is_group_of_mount = bool(controllers & set(names.split(",")))
            if is_group_of_mount:
                own_group = point / os.path.relpath(path, root)
                file_systems.append(MountedHierarchy(controllers, point, own_group))
                break
    return file_systems


def find_hierarchies(places: list[MountedHierarchy]) -> Hierarchies:
    """Return the parent folder for the groups of each mechanism; each mechanism is tried there.

    A folder of version 2 is preferred to one of version 1. A mechanism that works nowhere is None.
    """
    by_controller: dict[str, MountedHierarchy] = {}
    version_2: MountedHierarchy | None = None
    for place in places:
        if not place.controllers and version_2 is None:
            version_2 = place
        for name in place.controllers:
            by_controller[name] = place
    # A folder of version 2 whose children can have limits; without it, any writable folder will do
    # for the mechanisms that need no controllers.
    bounded, refused = _folder_with_limits(version_2) if version_2 else (None, "")
    core = pressure = bounded or (_writable(version_2) if version_2 else None)
    if core is not None and not _try_group(core, _has_core):
        core = None
    if pressure is not None and not _try_group(pressure, _has_pressure):
        pressure = None

    def v1_parent(controller: str) -> Path | None:
        place = by_controller.get(controller)
        return _writable(place) if place else None

    return Hierarchies(
        memory=bounded or v1_parent("memory"),
        pids=bounded or v1_parent("pids"),
        core=core,
        pressure=pressure,
        cpu=bounded if bounded and _delegates(bounded, "cpu") else v1_parent("cpu"),
        refused=refused,
    )


def _candidates(place: MountedHierarchy) -> tuple[Path, Path]:
    """Return the folders of a file system in which groups may be made, in order of preference."""
    own = place.own.parent if place.own.name == LEAF else place.own
    return own, place.point / ASSIGNED


def _writable(place: MountedHierarchy) -> Path | None:
    """Return the folder of a file system in which groups can be made; None if there is none."""
    return next((folder for folder in _candidates(place) if _can_have_children(folder)), None)


def _can_have_children(folder: Path) -> bool:
    return _try_group(folder, lambda _: True)


def _try_group(folder: Path, has_mechanism: Callable[[Path], bool]) -> bool:
    """Make a group in a folder and remove it again; return True if it has a mechanism.

    Return False if the group cannot be made or removed.

    has_mechanism  returns True for a group that has the mechanism
    """
    trial_group = folder / cleanup.new_name()
    try:
        trial_group.mkdir()
        result = has_mechanism(trial_group)
        trial_group.rmdir()
    except OSError:
        return False
    return result


def _has_core(group: Path) -> bool:
    return all((group / name).exists() for name in ("cgroup.kill", "cgroup.freeze", "cpu.stat"))


def _has_pressure(group: Path) -> bool:
    """Return True if a group counts the time in which all of its busy processes lack a CPU.

    That is the line `full` of cpu.pressure. Linux before 5.13 has no such line, and Linux without
    PSI (pressure stall information) no such file.
    """
    with contextlib.suppress(OSError):
        return b"full " in (group / "cpu.pressure").read_bytes()
    return False


def _folder_with_limits(place: MountedHierarchy) -> tuple[Path | None, str]:
    """Find a folder of cgroup v2 whose children can have limits of memory and tasks.

    Returns the folder and "". If there is none, returns None and the reason why the first candidate
    was refused; "" if no candidate can be written and has these controllers.
    """
    own_group, assigned_group = _candidates(place)
    first_reason = ""
    for folder in (own_group, assigned_group):
        if not (_has_controllers(folder) and _can_have_children(folder)):
            continue
        reason = ""
        # If this process is in the leaf, the referee that has made the leaf has checked delegation.
        if folder == own_group and place.own.name != LEAF:
            reason = delegation.refusal(own_group, place.point)
        reason = reason or _try_to_enable_controllers(folder)
        if not reason:
            return folder, ""
        first_reason = first_reason or reason
    return None, first_reason


def _try_to_enable_controllers(folder: Path) -> str:
    """Let the children of a group have limits; return "", or the reason why that is impossible."""
    try:
        _enable_controllers(folder)
    except OSError as error:
        # An error without an errno is from `delegation.make_room`: "not the referee's alone: ...".
        return f"{folder} is {error}" if error.errno is None else str(error)
    return ""


def _has_controllers(folder: Path) -> bool:
    """Return True if a group has the controllers for memory and tasks."""
    try:
        return set((folder / "cgroup.controllers").read_text().split()) >= _BOUNDS
    except OSError:
        return False


def _enable_controllers(folder: Path) -> None:
    """Let the children of a group have limits of memory and tasks, and shares of the CPU.

    The kernel allows limits only if the group has no processes of its own: they are moved into a
    child group, the leaf. Raises OSError if the kernel refuses nevertheless, or if the processes
    cannot be moved. A group without the controller of the CPU is no error.
    """
    enabled = folder / "cgroup.subtree_control"
    has_limits = set(enabled.read_text().split()) >= _BOUNDS
    if not has_limits:
        for _ in range(_TRIES - 1):
            if write(enabled, _ENABLE_BOUNDS):
                break
            # Another process may appear in the group after this: the kernel refuses again then.
            delegation.make_room(folder, folder / LEAF)
        else:
            enabled.write_text(_ENABLE_BOUNDS)  # the last attempt: it raises the kernel's error
    if not _delegates(folder, "cpu"):
        write(enabled, "+cpu")


def _delegates(folder: Path, controller: str) -> bool:
    """Return True if a controller is enabled for the children of a group."""
    return controller in (folder / "cgroup.subtree_control").read_text().split()


def write(file: Path, text: str) -> bool:
    """Write to a file of a group; return False if there is none or the kernel refuses it."""
    try:
        file.write_text(text)
    except OSError:
        return False
    return True


# The groups of one bot


def _remove_group(folder: Path) -> None:
    """Kill the processes in a group and remove it; give up after LONGEST_S."""
    deadline_s = time.monotonic() + LONGEST_S
    while folder.is_dir():
        with contextlib.suppress(OSError):
            for line in (folder / "cgroup.procs").read_text().split():
                os.kill(int(line), signal.SIGKILL)
        try:
            folder.rmdir()
        except OSError:  # it still has members, or the kernel has not finished their statistics
            if time.monotonic() > deadline_s:
                return
            time.sleep(PAUSE_S)


class _Counter:
    """A time in a file of a group; it never decreases.

    The file stays open, because it is read at every decision.
    """

    def __init__(self, file: Path, parse: Callable[[bytes], int]) -> None:
        self._parse = parse
        self._us = 0
        self._file = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._us = parse(os.pread(self._file, 512, 0))
        except (OSError, ValueError):
            self.close()
            raise

    def read_us(self) -> int:
        """Read and return the time in microseconds; if the group was removed, the last reading."""
        try:
            new_us = self._parse(os.pread(self._file, 512, 0))
        except (OSError, ValueError):
            return self._us
        if new_us > self._us:  # it never decreases
            self._us = new_us
        return self._us

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _read_counters(file: Path) -> dict[str, str]:
    """Return the values of a file whose lines are "NAME VALUE"; {} if it cannot be read."""
    try:
        words = file.read_text().split()
    except OSError:
        return {}
    names, values = words[::2], words[1::2]
    return dict(zip(names, values, strict=False))


def _read_numbers(group: Path, file_names: Iterable[str]) -> list[int]:
    """Return the numbers of a group's files with one number each, without unreadable files."""
    numbers = []
    for name in file_names:
        with contextlib.suppress(OSError, ValueError):
            numbers.append(int((group / name).read_text()))
    return numbers


class Group:
    """The control groups of one bot, one in each hierarchy that is used."""

    def __init__(self, limits: ResourceLimits, places: Hierarchies) -> None:
        self._places = places
        self._limits = limits
        self._name = cleanup.new_name()
        self._folders: list[Path] = []
        self._cpu: _Counter | None = None
        self._denied: _Counter | None = None
        self._freezer = -1
        """The descriptor of cgroup.freeze.

        It stays open, because bots are frozen and thawed between decisions, even if there is no
        free descriptor.
        """
        try:
            for place in places.folders():
                folder = place / self._name
                self._folders.append(folder)
                folder.mkdir()
            self._set_bounds()
            if core := self._group_in(self._places.core):
                self._cpu = _Counter(core / "cpu.stat", lambda text: int(text.split(maxsplit=2)[1]))
                self._freezer = os.open(core / "cgroup.freeze", os.O_WRONLY | os.O_CLOEXEC)
            if pressure := self._group_in(self._places.pressure):
                self._denied = _Counter(
                    pressure / "cpu.pressure",
                    lambda text: int(text.partition(b"full ")[2].rpartition(b"total=")[2]),
                )
        except OSError:
            self.remove()
            raise

    @property
    def bounds_memory(self) -> bool:
        """Return True if the kernel kills processes that use too much memory."""
        return self._places.memory is not None

    @property
    def freezes(self) -> bool:
        """Return True if `set_frozen` works."""
        return self._places.core is not None

    def joins(self) -> list[Path]:
        """Return the files to which a process writes 0 to join the groups."""
        return [folder / "cgroup.procs" for folder in self._folders]

    def _set_bounds(self) -> None:
        """Set the limits of memory and tasks, and the share of the CPU.

        Raises OSError if a limit cannot be set. The other settings are not on every kernel.
        """
        cpu_group = self._group_in(self._places.cpu)
        memory_group = self._group_in(self._places.memory)
        pids_group = self._group_in(self._places.pids)
        if cpu_group is not None:
            for name, share in SHARES:
                write(cpu_group / name, share)
        if memory_group is not None:
            limit = str(self._limits.memory_bytes)
            if (memory_group / "memory.max").exists():  # version 2
                (memory_group / "memory.max").write_text(limit)
                write(memory_group / "memory.swap.max", "0")
                write(memory_group / "memory.oom.group", "1")
            else:
                (memory_group / "memory.limit_in_bytes").write_text(limit)
                write(memory_group / "memory.memsw.limit_in_bytes", limit)
                write(memory_group / "memory.swappiness", "0")
        if pids_group is not None:
            (pids_group / "pids.max").write_text(str(self._limits.processes + OWN_TASKS))

    def _group_in(self, parent: Path | None) -> Path | None:
        """Return the bot's group in the parent folder of a mechanism; None without a parent."""
        return None if parent is None else parent / self._name

    def kill(self) -> None:
        """Kill all members at once, frozen or not, if the kernel has this mechanism."""
        if core := self._group_in(self._places.core):
            write(core / "cgroup.kill", "1")

    def set_frozen(self, frozen: bool) -> None:
        """Stop all members, or let them continue."""
        if self._freezer >= 0:
            with contextlib.suppress(OSError):  # the group was removed
                os.pwrite(self._freezer, b"1" if frozen else b"0", 0)

    def cpu_us(self) -> int | None:
        """Return the CPU time of all members, even of ended ones; None if it is not counted."""
        return None if self._cpu is None else self._cpu.read_us()

    def denied_us(self) -> int | None:
        """Return the time in which members were ready and none had a CPU; None if not counted."""
        return None if self._denied is None else self._denied.read_us()

    def over_limit(self) -> str | None:
        """Return the limit because of which the kernel has killed a member; None if it has not."""
        return self._limits.memory_text if self._reason_of_memory_kill() == "limit" else None

    def out_of_memory(self) -> bool:
        """Return True if the kernel has killed a member because of memory outside of this group."""
        return self._reason_of_memory_kill() == "machine"

    def _reason_of_memory_kill(self) -> Literal["limit", "machine"] | None:
        """Return why the kernel has killed a member for memory; None if it has not.

        "limit" means that the group has reached its limit; "machine" that this machine, or a group
        above this one, had no free memory.
        """
        group = self._group_in(self._places.memory)
        if group is None:
            return None
        # The first file is that of cgroup v2, the second one that of v1.
        counters = _read_counters(group / "memory.events")
        counters = counters or _read_counters(group / "memory.oom_control")
        if counters.get("oom_kill", "0") == "0":
            return None
        # oom_kill counts members that were killed for either reason.
        return "limit" if self._has_reached_limit(group, counters) else "machine"

    def _has_reached_limit(self, group: Path, counters: Mapping[str, str]) -> bool:
        """Return True if the kernel has refused memory because of the group's limit, or may have.

        counters  the counters of the group's memory.events or memory.oom_control
        """
        if "oom" in counters:
            failure_counts = [int(counters["oom"])]
        else:
            failure_counts = _read_numbers(group, _FAILURE_FILES_V1)
        if not failure_counts:
            return True  # this kernel does not tell
        if any(failure_counts):
            return True
        # v1 of newer kernels does not count such failures, but records the highest usage.
        nearly_full_bytes = self._limits.memory_bytes - MIB
        peaks_bytes = _read_numbers(group, _PEAK_FILES_V1)
        return any(peak_bytes >= nearly_full_bytes for peak_bytes in peaks_bytes)

    def remove(self) -> None:
        """Kill the remaining members, close the open files and remove the groups."""
        self.kill()
        for counter in (self._cpu, self._denied):
            if counter is not None:
                counter.close()
        if self._freezer >= 0:
            os.close(self._freezer)
            self._freezer = -1
        for folder in self._folders:
            _remove_group(folder)
        self._folders = []
