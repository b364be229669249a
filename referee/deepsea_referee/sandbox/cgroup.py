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
from collections.abc import Callable, Iterable
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
_FAILURES = ("memory.failcnt", "memory.memsw.failcnt")
_HIGHEST = ("memory.max_usage_in_bytes", "memory.memsw.max_usage_in_bytes")
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
        """Return the names of the mechanisms that are missing here."""
        mechanisms = {
            "memory": self.memory,
            "processes": self.pids,
            "freezing": self.core,
            "CPU time": self.core,
            "CPU shares": self.cpu,
        }
        return [name for name, place in mechanisms.items() if place is None]

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
    """Return the hierarchies that work for this process; they are tried once.

    A command that may start bots calls this before it starts other processes, because processes of
    this group may have to be moved. Remains of killed referees are removed.
    """
    working = find_hierarchies(
        mounted_hierarchies(Path("/proc/self/mountinfo"), Path("/proc/self/cgroup"))
    )
    cleanup.remove_what_killed_referees_left()
    cleanup.remove_groups(working.folders())
    return working


def mounted_hierarchies(mountinfo: Path, membership: Path) -> list[MountedHierarchy]:
    """Return the mounted cgroup file systems, each with this process's group in it.

    mountinfo   the kernel's list of mounts
    membership  the kernel's list of this process's groups
    """
    try:
        groups = [line.split(":", 2) for line in membership.read_text().splitlines()]
        mounts = [line.split() for line in mountinfo.read_text().splitlines()]
    except OSError:
        return []
    file_systems = []
    for words in mounts:
        root, point = words[3], Path(words[4])
        kind, _source, options = words[words.index("-") + 1 :]
        if kind not in ("cgroup", "cgroup2"):
            continue
        controllers = frozenset(options.split(",")) if kind == "cgroup" else frozenset()
        for _id, names, path in groups:
            # Only the line of cgroup v2 names no controller.
            if kind == "cgroup2":
                is_own_line = names == ""
            else:
                is_own_line = bool(controllers & set(names.split(",")))
            if is_own_line:
                own_group = point / os.path.relpath(path, root)
                file_systems.append(MountedHierarchy(controllers, point, own_group))
                break
    return file_systems


def find_hierarchies(places: list[MountedHierarchy]) -> Hierarchies:
    """Return where each mechanism works, by trying it; version 2 of control groups comes first."""
    by_controller: dict[str, MountedHierarchy] = {}
    version_2: MountedHierarchy | None = None
    for place in places:
        if not place.controllers and version_2 is None:
            version_2 = place
        for name in place.controllers:
            by_controller[name] = place
    # A folder of version 2 whose children can have limits; without it, any writable folder will do
    # for the mechanisms that need no controllers.
    bounded, refused = _bounding_v2(version_2) if version_2 else (None, "")
    core = pressure = bounded or (_writable(version_2) if version_2 else None)
    if core is not None and not _try(core, _has_core):
        core = None
    if pressure is not None and not _try(pressure, _has_pressure):
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
    return _try(folder, lambda _: True)


def _try(folder: Path, has_mechanism: Callable[[Path], bool]) -> bool:
    """Return True if a group can be made in a folder and removed, and the group has a mechanism."""
    trial = folder / cleanup.new_name()
    try:
        trial.mkdir()
        result = has_mechanism(trial)
        trial.rmdir()
    except OSError:
        return False
    return result


def _has_core(group: Path) -> bool:
    return all((group / name).exists() for name in ("cgroup.kill", "cgroup.freeze", "cpu.stat"))


def _has_pressure(group: Path) -> bool:
    """Return True if a group counts when none of its processes that need a CPU has one.

    That is the line `full` of cpu.pressure. Linux before 5.13 does not have it for CPUs, and Linux
    without PSI does not have the file.
    """
    with contextlib.suppress(OSError):
        return b"full " in (group / "cpu.pressure").read_bytes()
    return False


def _bounding_v2(place: MountedHierarchy) -> tuple[Path | None, str]:
    """Return a folder of cgroup v2 whose children can have limits of memory and tasks.

    If there is none, return None and the reason. The reason is "" if no folder can be written, or
    has these controllers.
    """
    own, _ = _candidates(place)
    refused = ""
    for folder in _candidates(place):
        if not (_has_controllers(folder) and _can_have_children(folder)):
            continue
        # If this process is in the leaf, the process that made the leaf has checked delegation.
        must_check = folder == own and place.own.name != LEAF
        reason = delegation.refusal(own, place.point) if must_check else ""
        if not reason:
            try:
                _enable_controllers(folder)
            except OSError as error:
                reason = f"{folder} is {error}" if error.errno is None else str(error)
            else:
                return folder, ""
        refused = refused or reason
    return None, refused


def _has_controllers(folder: Path) -> bool:
    """Return True if a group has the controllers for memory and tasks."""
    try:
        return set((folder / "cgroup.controllers").read_text().split()) >= _BOUNDS
    except OSError:
        return False


def _enable_controllers(folder: Path) -> None:
    """Let the children of a group have limits; processes of the group move into a leaf first.

    The kernel allows this only for a group without processes of its own. Raises OSError if it
    refuses, or if the processes cannot be moved.
    """
    children = folder / "cgroup.subtree_control"
    if not set(children.read_text().split()) >= _BOUNDS:
        for _ in range(_TRIES - 1):
            if write(children, _ENABLE_BOUNDS):
                break
            delegation.make_room(folder, folder / LEAF)
        else:
            children.write_text(_ENABLE_BOUNDS)
    if not _delegates(folder, "cpu"):
        write(children, "+cpu")  # not every group has this controller


def _delegates(folder: Path, controller: str) -> bool:
    """Return True if the children of a group have this controller."""
    return controller in (folder / "cgroup.subtree_control").read_text().split()


def write(file: Path, text: str) -> bool:
    """Write to a file of a group; return False if there is none or the kernel refuses it."""
    try:
        file.write_text(text)
    except OSError:
        return False
    return True


# The groups of one bot


def _remove(folder: Path) -> None:
    """Kill the members of a group and remove it; give up after LONGEST_S."""
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

    def us(self) -> int:
        """Read the time; return the last reading if the group was removed."""
        try:
            us = self._parse(os.pread(self._file, 512, 0))
        except (OSError, ValueError):
            return self._us
        if us > self._us:
            self._us = us
        return self._us

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _counts(file: Path) -> dict[str, str]:
    """Read a file with a name and a number in each line; return {} if it cannot be read."""
    try:
        words = file.read_text().split()
    except OSError:
        return {}
    return dict(zip(words[::2], words[1::2], strict=False))


def _numbers(folder: Path, names: Iterable[str]) -> list[int]:
    """Read files of a group that have one number each; files that cannot be read are left out."""
    numbers = []
    for name in names:
        with contextlib.suppress(OSError, ValueError):
            numbers.append(int((folder / name).read_text()))
    return numbers


class Group:
    """The control groups of one bot, one in each hierarchy that is used."""

    def __init__(self, limits: ResourceLimits, places: Hierarchies) -> None:
        self._places = places
        self._limits = limits
        self._name = cleanup.new_name()
        self._made: list[Path] = []
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
                self._made.append(folder)
                folder.mkdir()
            self._set_bounds()
            if core := self._in(self._places.core):
                self._cpu = _Counter(core / "cpu.stat", lambda text: int(text.split(maxsplit=2)[1]))
                self._freezer = os.open(core / "cgroup.freeze", os.O_WRONLY | os.O_CLOEXEC)
            if pressure := self._in(self._places.pressure):
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
        return [folder / "cgroup.procs" for folder in self._made]

    def _set_bounds(self) -> None:
        """Set the limits of memory and tasks, and the share of the CPU."""
        memory, pids = self._in(self._places.memory), self._in(self._places.pids)
        if cpu := self._in(self._places.cpu):
            for name, share in SHARES:
                write(cpu / name, share)
        if memory is not None:
            limit = str(self._limits.memory_bytes)
            if (memory / "memory.max").exists():  # version 2
                (memory / "memory.max").write_text(limit)
                write(memory / "memory.swap.max", "0")
                write(memory / "memory.oom.group", "1")
            else:
                (memory / "memory.limit_in_bytes").write_text(limit)
                write(memory / "memory.memsw.limit_in_bytes", limit)
                write(memory / "memory.swappiness", "0")
        if pids is not None:
            (pids / "pids.max").write_text(str(self._limits.processes + OWN_TASKS))

    def _in(self, place: Path | None) -> Path | None:
        """Return the bot's group in the parent folder of a mechanism; None if that is missing."""
        return None if place is None else place / self._name

    def kill(self) -> None:
        """Kill all members at once, frozen or not, if the kernel has this mechanism."""
        if core := self._in(self._places.core):
            write(core / "cgroup.kill", "1")

    def set_frozen(self, frozen: bool) -> None:
        """Stop all members, or let them continue."""
        if self._freezer >= 0:
            with contextlib.suppress(OSError):  # the group was removed
                os.pwrite(self._freezer, b"1" if frozen else b"0", 0)

    def cpu_us(self) -> int | None:
        """Return the CPU time of all members, even of ended ones; None if it is not counted."""
        return None if self._cpu is None else self._cpu.us()

    def denied_us(self) -> int | None:
        """Return the time in which members were ready and none had a CPU; None if not counted."""
        return None if self._denied is None else self._denied.us()

    def over_limit(self) -> str | None:
        """Return the limit because of which the kernel has killed a member; None if it has not."""
        return self._limits.memory_text if self._memory_kill() == "limit" else None

    def out_of_memory(self) -> bool:
        """Return True if the kernel has killed a member because of memory outside of this group."""
        return self._memory_kill() == "machine"

    def _memory_kill(self) -> Literal["limit", "machine"] | None:
        """Return why the kernel has killed a member for memory; None if it has not.

        "limit" means that the group has reached its limit; "machine" that this machine, or a group
        above this one, had no free memory.
        """
        memory = self._in(self._places.memory)
        if memory is None:
            return None
        counts = _counts(memory / "memory.events") or _counts(memory / "memory.oom_control")
        # This counter has no reasons.
        if counts.get("oom_kill", "0") == "0":
            return None
        # How often memory could not be allocated within the group's limit. Version 1 of a newer
        # kernel does not count such failures, but has the highest usage.
        failures = [int(counts["oom"])] if "oom" in counts else _numbers(memory, _FAILURES)
        if not failures:
            return "limit"
        almost_bytes = self._limits.memory_bytes - MIB
        is_reached = any(highest >= almost_bytes for highest in _numbers(memory, _HIGHEST))
        return "limit" if is_reached or any(failures) else "machine"

    def remove(self) -> None:
        """Kill the remaining members and remove the groups."""
        self.kill()
        for counter in (self._cpu, self._denied):
            if counter is not None:
                counter.close()
        if self._freezer >= 0:
            os.close(self._freezer)
            self._freezer = -1
        for folder in self._made:
            _remove(folder)
        self._made = []
