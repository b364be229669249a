"""Where control groups can be made: limits, freezing, killing and CPU time of a process tree.

Invariants: a mechanism counts as available only if a group could be made and removed there; each
mechanism may come from another hierarchy, and each may be missing. Groups are made below this
process's own group, so its own limits hold for bots too, or else below a group `deepsea` that an
administrator has given to this user.
"""

from __future__ import annotations

import itertools
import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

from deepsea_referee.sandbox import leftovers

GIVEN = "deepsea"
# The leaf into which this process moves so that its own group may have children with limits.
LEAF = "deepsea-referee"
_number = itertools.count(1)


class Hierarchies(NamedTuple):
    """The parent folder for new groups, for each mechanism; None if it is missing."""

    memory: Path | None = None
    pids: Path | None = None
    core: Path | None = None
    """cgroup v2: kill, freeze and cpu.stat, which need no controller."""
    freezer: Path | None = None
    """cgroup v1, used where `core` is missing."""
    cpuacct: Path | None = None
    pressure: Path | None = None
    """cgroup v2: cpu.pressure, also of a hierarchy without controllers beside cgroup v1."""
    cpu: Path | None = None
    """Every bot has the same share of the CPU, however many processes and sessions it makes."""

    @property
    def counts_cpu(self) -> bool:
        """Whether the kernel counts the CPU time of all processes, also of those that are gone."""
        return self.core is not None or self.cpuacct is not None

    def missing(self) -> list[str]:
        """What the kernel does not do for groups here, in words."""
        does = {
            "memory": self.memory,
            "processes": self.pids,
            "freezing": self.core or self.freezer,
            "CPU time": self.core or self.cpuacct,
            "CPU shares": self.cpu,
        }
        return [name for name, place in does.items() if place is None]

    def folders(self) -> tuple[Path, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys(folder for folder in self if folder is not None))


class Mounted(NamedTuple):
    """A mounted cgroup file system, and this process's group in it."""

    controllers: frozenset[str]
    """Empty for cgroup v2."""
    point: Path
    own: Path


@cache
def hierarchies() -> Hierarchies:
    """The hierarchies that work for this process."""
    found = find(mounted(Path("/proc/self/mountinfo"), Path("/proc/self/cgroup")))
    leftovers.remove_groups(found.folders())
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
    bounded = _bounding_v2(unified) if unified else None
    core = pressure = bounded or (_writable(unified) if unified else None)
    if core is not None and not _has(core, "cgroup.kill", "cgroup.freeze", "cpu.stat"):
        core = None
    if pressure is not None and not _has(pressure, "cpu.pressure"):
        pressure = None

    def v1(controller: str) -> Path | None:
        place = by_controller.get(controller)
        return _writable(place) if place else None

    return Hierarchies(
        memory=bounded or v1("memory"),
        pids=bounded or v1("pids"),
        core=core,
        freezer=None if core else v1("freezer"),
        cpuacct=None if core else v1("cpuacct"),
        pressure=pressure,
        cpu=bounded if bounded and _delegates(bounded, "cpu") else v1("cpu"),
    )


def _writable(place: Mounted) -> Path | None:
    """The folder of this file system in which groups can be made."""
    own = place.own.parent if place.own.name == LEAF else place.own
    for folder in (own, place.point / GIVEN):
        trial = folder / group_name()
        try:
            trial.mkdir()
            trial.rmdir()
        except OSError:
            continue
        return folder
    return None


def _has(folder: Path, *names: str) -> bool:
    """Whether a new group in this folder has these files."""
    trial = folder / group_name()
    try:
        trial.mkdir()
    except OSError:
        return False
    try:
        return all((trial / name).exists() for name in names)
    finally:
        trial.rmdir()


def _bounding_v2(place: Mounted) -> Path | None:
    """A cgroup v2 folder whose children can have limits on memory and tasks."""
    folder = _writable(place)
    if folder is None:
        return None
    wanted = {"memory", "pids"}
    try:
        if not wanted <= set((folder / "cgroup.controllers").read_text().split()):
            return None
        given = folder / "cgroup.subtree_control"
        if not wanted <= set(given.read_text().split()) and not write(given, "+memory +pids"):
            # Only a group without processes of its own may delegate controllers.
            _move_into_leaf(folder)
            given.write_text("+memory +pids")
        if not _delegates(folder, "cpu"):
            write(given, "+cpu")  # not everybody has it
    except OSError:
        return None
    return folder


def _delegates(folder: Path, controller: str) -> bool:
    return controller in (folder / "cgroup.subtree_control").read_text().split()


def _move_into_leaf(folder: Path) -> None:
    inside = [int(pid) for pid in (folder / "cgroup.procs").read_text().split()]
    if inside != [os.getpid()]:
        raise OSError("other processes are in this control group: it is not the referee's alone")
    leaf = folder / LEAF
    leaf.mkdir(exist_ok=True)
    (leaf / "cgroup.procs").write_text(str(os.getpid()))


def group_name() -> str:
    """A name for a new group."""
    return f"deepsea-{os.getpid()}-{next(_number)}"


def write(file: Path, text: str) -> bool:
    """Write to a file of a group; False if the kernel refuses it."""
    try:
        file.write_text(text)
    except OSError:
        return False
    return True
