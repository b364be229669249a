"""Control groups: where they can be made; limits, freezing, killing and CPU time of one bot.

Invariants: a mechanism counts as available only if a group could be made and removed there; each
mechanism may come from another hierarchy, and each may be missing: a reading that this kernel lacks
is None. Groups are made for one bot and removed after it, below this process's own group, so its
own limits hold for bots too, or else below a group `deepsea` that an administrator has given to
this user. In version 2 they have bounds only where the group was delegated (delegation.py).
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

GIVEN = "deepsea"
# The leaf into which this process moves so that its own group may have children with limits.
LEAF = "deepsea-referee"
# bubblewrap's two own processes count too.
OWN_TASKS = 2
# The same for all, which is also the kernel's default; v2 and v1.
SHARES = (("cpu.weight", "100"), ("cpu.shares", "1024"))
_BOUNDS = frozenset({"memory", "pids"})
"""The controllers that bound what a bot takes."""
_HAND_ON = "+memory +pids"
_TRIES = 5
"""How often room is made: a process may come while it is being made."""
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
    """cgroup v2: kill, freeze and cpu.stat, also of a hierarchy without controllers beside v1."""
    pressure: Path | None = None
    """The same, if cpu.pressure says there when nothing of a group that wanted a CPU had one."""
    cpu: Path | None = None
    """Every bot has the same share of the CPU, however many processes and sessions it makes."""
    refused: str = ""
    """The reason why no group of version 2 with its controllers can have bounds here, in words."""

    @property
    def counts_cpu(self) -> bool:
        """Whether the kernel counts the CPU time of all processes, also of those that are gone."""
        return self.core is not None

    def missing(self) -> list[str]:
        """What the kernel does not do for groups here, in words."""
        does = {
            "memory": self.memory,
            "processes": self.pids,
            "freezing": self.core,
            "CPU time": self.core,
            "CPU shares": self.cpu,
        }
        return [name for name, place in does.items() if place is None]

    def folders(self) -> tuple[Path, ...]:
        """All of them, each once."""
        places = (self.memory, self.pids, self.core, self.pressure, self.cpu)
        return tuple(dict.fromkeys(place for place in places if place is not None))


class Mounted(NamedTuple):
    """A mounted cgroup file system, and this process's group in it."""

    controllers: frozenset[str]
    """Empty for cgroup v2."""
    point: Path
    own: Path


@cache
def hierarchies() -> Hierarchies:
    """The hierarchies that work for this process.

    A command that may start bots calls this before it starts anything: the fewer processes have to
    be moved, the better.
    """
    found = find(mounted(Path("/proc/self/mountinfo"), Path("/proc/self/cgroup")))
    cleanup.remove_what_killed_referees_left()
    cleanup.remove_groups(found.folders())
    return found


def mounted(mountinfo: Path, membership: Path) -> list[Mounted]:
    """Read the kernel's two lists: file systems and this process's groups."""
    try:
        groups = [line.split(":", 2) for line in membership.read_text().splitlines()]
        mounts = [line.split() for line in mountinfo.read_text().splitlines()]
    except OSError:
        return []
    found = []
    for words in mounts:
        root, point = words[3], Path(words[4])
        kind, _source, options = words[words.index("-") + 1 :]
        if kind not in ("cgroup", "cgroup2"):
            continue
        controllers = frozenset(options.split(",")) if kind == "cgroup" else frozenset()
        for _id, names, path in groups:
            # Only the line of cgroup v2 names no controller.
            if names == "" if kind == "cgroup2" else controllers & set(names.split(",")):
                found.append(Mounted(controllers, point, point / os.path.relpath(path, root)))
                break
    return found


def find(places: list[Mounted]) -> Hierarchies:
    """Try each mechanism in each place, cgroup v2 first."""
    by_controller = {name: place for place in places for name in place.controllers}
    unified = next((place for place in places if not place.controllers), None)
    bounded, refused = _bounding_v2(unified) if unified else (None, "")
    core = pressure = bounded or (_writable(unified) if unified else None)
    if core is not None and not _try(core, _has_core):
        core = None
    if pressure is not None and not _try(pressure, _tells_pressure):
        pressure = None

    def v1(controller: str) -> Path | None:
        place = by_controller.get(controller)
        return _writable(place) if place else None

    return Hierarchies(
        memory=bounded or v1("memory"),
        pids=bounded or v1("pids"),
        core=core,
        pressure=pressure,
        cpu=bounded if bounded and _delegates(bounded, "cpu") else v1("cpu"),
        refused=refused,
    )


def _candidates(place: Mounted) -> tuple[Path, Path]:
    """The folders of a file system in which groups may be made, the best first."""
    own = place.own.parent if place.own.name == LEAF else place.own
    return own, place.point / GIVEN


def _writable(place: Mounted) -> Path | None:
    """The folder of this file system in which groups can be made."""
    return next((folder for folder in _candidates(place) if _can_have_children(folder)), None)


def _can_have_children(folder: Path) -> bool:
    return _try(folder, lambda _: True)


def _try(folder: Path, holds: Callable[[Path], bool]) -> bool:
    """Whether a group can be made in this folder, and removed, of which that holds."""
    trial = folder / cleanup.new_name()
    try:
        trial.mkdir()
        found = holds(trial)
        trial.rmdir()
    except OSError:
        return False
    return found


def _has_core(group: Path) -> bool:
    return all((group / name).exists() for name in ("cgroup.kill", "cgroup.freeze", "cpu.stat"))


def _tells_pressure(group: Path) -> bool:
    # Linux before 5.13 tells only when some of it wanted one, and started without PSI nothing.
    with contextlib.suppress(OSError):
        return b"full " in (group / "cpu.pressure").read_bytes()
    return False


def _bounding_v2(place: Mounted) -> tuple[Path | None, str]:
    """A cgroup v2 folder whose children can have limits on memory and tasks, or why there is none.

    The reason is "" if it is only that nothing can be written, or there are no such controllers.
    """
    own, _ = _candidates(place)
    refused = ""
    for folder in _candidates(place):
        if not (_has_controllers(folder) and _can_have_children(folder)):
            continue
        # In the leaf, who made it has asked.
        asks = folder == own and place.own.name != LEAF
        reason = delegation.refusal(own, place.point) if asks else ""
        if not reason:
            try:
                _hand_on(folder)
            except OSError as error:
                reason = f"{folder} is {error}" if error.errno is None else str(error)
            else:
                return folder, ""
        refused = refused or reason
    return None, refused


def _has_controllers(folder: Path) -> bool:
    try:
        return set((folder / "cgroup.controllers").read_text().split()) >= _BOUNDS
    except OSError:
        return False


def _hand_on(folder: Path) -> None:
    """Let the children of a group have bounds: only of one without processes of its own."""
    children = folder / "cgroup.subtree_control"
    if not set(children.read_text().split()) >= _BOUNDS:
        for _ in range(_TRIES - 1):
            if write(children, _HAND_ON):
                break
            delegation.make_room(folder, folder / LEAF)
        else:
            children.write_text(_HAND_ON)
    if not _delegates(folder, "cpu"):
        write(children, "+cpu")  # not everybody has it


def _delegates(folder: Path, controller: str) -> bool:
    return controller in (folder / "cgroup.subtree_control").read_text().split()


def write(file: Path, text: str) -> bool:
    """Write to a file of a group; False if there is none or the kernel refuses it."""
    try:
        file.write_text(text)
    except OSError:
        return False
    return True


# The groups of one bot


def _remove(folder: Path) -> None:
    """Kill the members of a group and remove it; stays if that takes longer than LONGEST_S."""
    deadline_s = time.monotonic() + LONGEST_S
    while folder.is_dir():
        with contextlib.suppress(OSError):
            for line in (folder / "cgroup.procs").read_text().split():
                os.kill(int(line), signal.SIGKILL)
        try:
            folder.rmdir()
        except OSError:  # it still has members, or their statistics are not yet final
            if time.monotonic() > deadline_s:
                return
            time.sleep(PAUSE_S)


class _Counter:
    """A time in a file that stays open, since it is read at every decision; never decreases."""

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
        try:
            us = self._parse(os.pread(self._file, 512, 0))
        except (OSError, ValueError):  # removed: keep the last reading
            return self._us
        if us > self._us:
            self._us = us
        return self._us

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _counts(file: Path) -> dict[str, str]:
    """A file with a name and a number in each line; empty if it cannot be read."""
    try:
        words = file.read_text().split()
    except OSError:
        return {}
    return dict(zip(words[::2], words[1::2], strict=False))


def _numbers(folder: Path, names: Iterable[str]) -> list[int]:
    """The numbers in some files of a group; those that cannot be read are left out."""
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
        """Stays open: bots are frozen and thawed between decisions, and at want of descriptors."""
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
        """Whether the kernel kills processes that use too much memory."""
        return self._places.memory is not None

    @property
    def freezes(self) -> bool:
        """Whether `freeze` works."""
        return self._places.core is not None

    def joins(self) -> list[Path]:
        """Files to which a process writes 0 to join."""
        return [folder / "cgroup.procs" for folder in self._made]

    def _set_bounds(self) -> None:
        memory, pids = self._in(self._places.memory), self._in(self._places.pids)
        if cpu := self._in(self._places.cpu):
            for name, share in SHARES:
                write(cpu / name, share)
        if memory is not None:
            most = str(self._limits.memory_bytes)
            if (memory / "memory.max").exists():
                (memory / "memory.max").write_text(most)
                write(memory / "memory.swap.max", "0")
                write(memory / "memory.oom.group", "1")
            else:
                (memory / "memory.limit_in_bytes").write_text(most)
                write(memory / "memory.memsw.limit_in_bytes", most)
                write(memory / "memory.swappiness", "0")
        if pids is not None:
            (pids / "pids.max").write_text(str(self._limits.processes + OWN_TASKS))

    def _in(self, place: Path | None) -> Path | None:
        return None if place is None else place / self._name

    def kill(self) -> None:
        """Kill every member at once, frozen or not, if this kernel can."""
        if core := self._in(self._places.core):
            write(core / "cgroup.kill", "1")

    def set_frozen(self, frozen: bool) -> None:
        """Stop every member, or let all go on."""
        if self._freezer >= 0:
            with contextlib.suppress(OSError):  # the group is gone
                os.pwrite(self._freezer, b"1" if frozen else b"0", 0)

    def cpu_us(self) -> int | None:
        """CPU time of all members so far, also of ended ones; None if the kernel counts none."""
        return None if self._cpu is None else self._cpu.us()

    def denied_us(self) -> int | None:
        """Time in which members were ready and none had a CPU; None if the kernel counts none."""
        return None if self._denied is None else self._denied.us()

    def over_limit(self) -> str | None:
        """The limit because of which the kernel killed a member; None if there was none."""
        return self._limits.memory_text if self._memory_kill() == "limit" else None

    def out_of_memory(self) -> bool:
        """Whether the kernel killed a member for want of memory outside of this group."""
        return self._memory_kill() == "machine"

    def _memory_kill(self) -> Literal["limit", "machine"] | None:
        """The memory that was at its end when the kernel killed a member: this group's limit,
        or what this machine or a group above this one has; None if it killed none."""
        memory = self._in(self._places.memory)
        if memory is None:
            return None
        counts = _counts(memory / "memory.events") or _counts(memory / "memory.oom_control")
        # It counts those that it killed for whatever memory was at its end.
        if counts.get("oom_kill", "0") == "0":
            return None
        # How often memory could not be had within the group's limit. Version 1 of a newer kernel
        # counts no such failures, but has the highest use.
        failures = [int(counts["oom"])] if "oom" in counts else _numbers(memory, _FAILURES)
        if not failures:
            return "limit"
        least = self._limits.memory_bytes - MIB
        is_reached = any(most >= least for most in _numbers(memory, _HIGHEST))
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
