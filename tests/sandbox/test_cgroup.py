"""Control groups: what is found where, and what is written into them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deepsea_referee.sandbox import cgroup, delegation
from deepsea_referee.sandbox.cgroup import (
    OWN_TASKS,
    SHARES,
    Group,
    Hierarchies,
    MountedHierarchy,
)
from deepsea_referee.sandbox.interface import ResourceLimits
from helpers.programs import needs_groups

MIXED_MOUNTS = """\
22 1 0:21 / /proc rw - proc proc rw
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime shared:9 - cgroup cgroup rw,pids
33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
MIXED_GROUPS = """\
8:pids:/
4:memory:/box/7
2:cpu,cpuacct:/box/7
0::/box
"""
# Inside a container the mount shows a part of the hierarchy only.
UNIFIED_MOUNTS = "30 25 0:26 /user.slice /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
UNIFIED_GROUPS = "0::/user.slice/user-1000.slice/run-7.scope\n"


@pytest.fixture(autouse=True)
def no_systemd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Folders that look like groups are nobody's units."""
    monkeypatch.setattr(delegation, "SYSTEMD", tmp_path / "no-systemd")


def places(tmp_path: Path, mounts: str, groups: str) -> dict[str, Path]:
    """Where this process is in each file system, by its controllers."""
    (tmp_path / "mountinfo").write_text(mounts)
    (tmp_path / "cgroup").write_text(groups)
    found = cgroup.mounted_hierarchies(tmp_path / "mountinfo", tmp_path / "cgroup")
    return {",".join(sorted(place.controllers)): place.own for place in found}


def test_places_where_versions_are_mixed(tmp_path: Path) -> None:
    found = places(tmp_path, MIXED_MOUNTS, MIXED_GROUPS)
    assert {name: str(os.path.normpath(path)) for name, path in found.items()} == {
        "memory,rw": "/sys/fs/cgroup/memory/box/7",
        "pids,rw": "/sys/fs/cgroup/pids",
        "cpu,cpuacct,rw": "/sys/fs/cgroup/cpu,cpuacct/box/7",
        "": "/sys/fs/cgroup/unified/box",
    }


def test_places_where_there_is_version_2_only(tmp_path: Path) -> None:
    found = places(tmp_path, UNIFIED_MOUNTS, UNIFIED_GROUPS)
    assert found == {"": Path("/sys/fs/cgroup/user-1000.slice/run-7.scope")}


def test_nothing_is_found_where_there_is_nothing(tmp_path: Path) -> None:
    assert cgroup.mounted_hierarchies(tmp_path / "none", tmp_path / "none") == []
    assert cgroup.find_hierarchies([]) == Hierarchies()


def delegated(tmp_path: Path, *processes: int) -> MountedHierarchy:
    """A folder that looks like a cgroup v2 with both controllers, not yet handed on."""
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    (tmp_path / "cgroup.subtree_control").write_text("memory pids\n")
    (tmp_path / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in processes))
    return MountedHierarchy(frozenset(), tmp_path, tmp_path)


def test_version_2_with_controllers_bounds_memory_and_processes(tmp_path: Path) -> None:
    found = cgroup.find_hierarchies([delegated(tmp_path, os.getpid())])
    assert found.memory == found.pids == tmp_path
    # The kernel would have put its files into a new group; a plain folder has none.
    assert found.core is None


@pytest.fixture
def fake_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cgroup v2 with all controllers as a plain folder: new groups get the kernel's files."""
    delegated(tmp_path, os.getpid())
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory pids\n")
    made, removed = os.mkdir, os.rmdir

    def mkdir(path: Path, mode: int = 0o777) -> None:
        made(path, mode)
        if Path(path).is_relative_to(tmp_path):
            for name in NEW_GROUP:
                Path(path, name).write_text(NEW_GROUP[name])

    def rmdir(path: Path) -> None:
        for file in Path(path).iterdir():
            file.unlink()
        removed(path)

    monkeypatch.setattr(os, "mkdir", mkdir)
    monkeypatch.setattr(os, "rmdir", rmdir)
    return tmp_path


NEW_GROUP = {
    "cgroup.procs": "",
    "cgroup.kill": "",
    "cgroup.freeze": "0\n",
    "cpu.stat": "usage_usec 1234567\nuser_usec 1\n",
    "cpu.weight": "100\n",
    "memory.max": "max\n",
    "memory.swap.max": "max\n",
    "memory.oom.group": "0\n",
    "memory.events": "low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\n",
    "pids.max": "max\n",
}


def test_version_2_does_everything_in_one_group(fake_kernel: Path) -> None:
    found = cgroup.find_hierarchies([MountedHierarchy(frozenset(), fake_kernel, fake_kernel)])
    assert found.folders() == (fake_kernel,)
    assert found.missing() == []
    assert found.counts_cpu
    group = Group(ResourceLimits(memory_bytes=64 << 20, processes=10), found)
    (joined,) = group.joins()

    def content(name: str) -> str:
        return (joined.parent / name).read_text()

    assert content("memory.max") == str(64 << 20)
    assert (content("memory.swap.max"), content("memory.oom.group")) == ("0", "1")
    assert content("pids.max") == str(10 + OWN_TASKS)
    assert content("cpu.weight") == "100"
    group.set_frozen(True)
    assert content("cgroup.freeze").strip() == "1"
    group.set_frozen(False)
    assert content("cgroup.freeze").strip() == "0"
    assert group.cpu_us() == 1_234_567
    assert group.over_limit() == "memory: more than 64 MiB"
    group.kill()
    assert content("cgroup.kill") == "1"
    group.remove()
    assert not joined.parent.exists()


@pytest.mark.parametrize(
    ("files", "limit", "machine"),
    [
        # Version 2: oom counts those of this group, oom_kill those that anybody killed.
        ({"memory.events": "oom 0\noom_kill 0\n"}, False, False),
        ({"memory.events": "oom 1\noom_kill 0\n"}, False, False),
        ({"memory.events": "oom 1\noom_kill 2\n"}, True, False),
        ({"memory.events": "oom 0\noom_kill 2\noom_group_kill 1\n"}, False, True),
        # Version 1: failcnt counts how often this group's limit was met.
        ({"memory.oom_control": "under_oom 0\noom_kill 0\n", "memory.failcnt": "5"}, False, False),
        ({"memory.oom_control": "under_oom 0\noom_kill 1\n", "memory.failcnt": "5"}, True, False),
        ({"memory.oom_control": "under_oom 0\noom_kill 1\n", "memory.failcnt": "0"}, False, True),
        (
            {
                "memory.oom_control": "oom_kill 1\n",
                "memory.failcnt": "0",
                "memory.memsw.failcnt": "3",
            },
            True,
            False,
        ),
        # A newer kernel does not count them: the highest use is next to the limit, or is not.
        (
            {
                "memory.oom_control": "oom_kill 1\n",
                "memory.failcnt": "0",
                "memory.max_usage_in_bytes": f"{(512 << 20) - 4096}",
            },
            True,
            False,
        ),
        (
            {
                "memory.oom_control": "oom_kill 1\n",
                "memory.failcnt": "0",
                "memory.max_usage_in_bytes": f"{500 << 20}",
            },
            False,
            True,
        ),
        ({"memory.oom_control": "oom_kill 1\n"}, True, False),  # nothing says whose it was
        ({}, False, False),
    ],
)
def test_a_bot_is_charged_with_the_end_of_its_own_limit_alone(
    files: dict[str, str],
    limit: bool,
    machine: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Group, "_set_bounds", lambda _: None)
    group = Group(ResourceLimits(), Hierarchies(memory=tmp_path))
    (joined,) = group.joins()
    for name, text in files.items():
        joined.with_name(name).write_text(text)
    assert group.over_limit() == (ResourceLimits().memory_text if limit else None)
    assert group.out_of_memory() is machine
    for name in files:
        joined.with_name(name).unlink()
    group.remove()


def test_version_2_without_the_cpu_controller_gives_no_shares(fake_kernel: Path) -> None:
    for name in ("controllers", "subtree_control"):
        (fake_kernel / f"cgroup.{name}").write_text("memory pids\n")
    assert cgroup.find_hierarchies(
        [MountedHierarchy(frozenset(), fake_kernel, fake_kernel)]
    ).missing() == ["CPU shares"]


def test_version_2_without_the_controllers_bounds_nothing(tmp_path: Path) -> None:
    place = delegated(tmp_path)
    (tmp_path / "cgroup.controllers").write_text("cpu\n")
    assert cgroup.find_hierarchies([place]) == Hierarchies()


def refuse_to_hand_on(
    monkeypatch: pytest.MonkeyPatch, folder: Path, ended: int = 0, born: int = 0
) -> list[int]:
    """As the kernel does while the group has processes of its own; returns those that move.

    ended  a process that has ended when it is moved
    born   one that is started at that moment
    """
    written = Path.write_text
    moved: list[int] = []

    def write_text(self: Path, data: str) -> int:
        procs = folder / "cgroup.procs"
        if self.name == "cgroup.subtree_control" and procs.read_text().split():
            raise OSError(16, "busy")
        if self.parent.name == cgroup.LEAF and self.name == "cgroup.procs":
            moved.append(int(data))
            left = {*procs.read_text().split()} - {data}
            if moved == [ended, os.getpid()]:
                left.add(str(born))
            written(procs, "\n".join(sorted(left)))
            if int(data) == ended:
                raise ProcessLookupError
        return written(self, data)

    monkeypatch.setattr(Path, "write_text", write_text)
    return moved


def test_the_referee_moves_into_a_leaf_so_that_bounds_can_be_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = delegated(tmp_path, os.getpid())
    (tmp_path / "cgroup.subtree_control").write_text("")
    refuse_to_hand_on(monkeypatch, tmp_path)
    assert cgroup.find_hierarchies([place]).memory == tmp_path
    assert (tmp_path / cgroup.LEAF / "cgroup.procs").read_text() == str(os.getpid())
    # A process that starts there finds its way back up.
    again = MountedHierarchy(frozenset(), tmp_path, tmp_path / cgroup.LEAF)
    assert cgroup.find_hierarchies([again]).memory == tmp_path


SHELL, SERVER, WORKER, TEE, INIT, STRANGER, UNSEEN = 11, 12, 13, 14, 1, 77, 0


@pytest.mark.parametrize(
    ("inside", "stay"),
    [
        ((), ()),
        ((SHELL,), ()),  # behind a shell, make or uv
        ((SHELL, TEE), ()),  # in a pipeline
        ((SERVER, WORKER), ()),  # the runner of a server, and what it has started
        ((INIT, SHELL, TEE, STRANGER), ()),  # in a container, whose first process has started all
        ((TEE,), (TEE,)),  # of a shell that is elsewhere
        ((SHELL, STRANGER), (STRANGER,)),
        ((SHELL, UNSEEN), (UNSEEN,)),  # from outside of a container
    ],
)
def test_the_referees_family_moves_and_a_stranger_stops_it(
    inside: tuple[int, ...],
    stay: tuple[int, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = os.getpid()
    parents = {own: SERVER, WORKER: own, SERVER: SHELL, TEE: SHELL, SHELL: INIT, STRANGER: INIT}
    monkeypatch.setattr(delegation, "_parent_of", lambda pid: parents.get(pid, 0))
    place = delegated(tmp_path, own, *inside)
    (tmp_path / "cgroup.subtree_control").write_text("")
    moved = refuse_to_hand_on(monkeypatch, tmp_path)
    found = cgroup.find_hierarchies([place])
    assert found.memory == (None if stay else tmp_path)
    assert sorted(moved) == ([] if stay else sorted((own, *inside)))
    assert all(f"{pid} (" in found.refused for pid in stay)
    if stay:
        assert not (tmp_path / cgroup.LEAF).exists()


def test_processes_that_come_or_end_while_room_is_made_do_not_stop_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child, ended = 21, 22
    monkeypatch.setattr(delegation, "_parent_of", {os.getpid(): 0, child: os.getpid()}.get)
    place = delegated(tmp_path, os.getpid(), ended)
    (tmp_path / "cgroup.subtree_control").write_text("")
    moved = refuse_to_hand_on(monkeypatch, tmp_path, ended=ended, born=child)
    assert cgroup.find_hierarchies([place]).memory == tmp_path
    assert moved == [ended, os.getpid(), child]


def test_a_group_that_an_administrator_gave_is_used(tmp_path: Path) -> None:
    (tmp_path / cgroup.ASSIGNED).mkdir()
    place = MountedHierarchy(frozenset({"memory"}), tmp_path, tmp_path / "not-there")
    assert cgroup.find_hierarchies([place]).memory == tmp_path / cgroup.ASSIGNED


@pytest.mark.parametrize(
    ("text", "us"),
    [
        pytest.param("some avg10=9.00 total=81\nfull avg10=0.00 total=7100\n", 7100, id="read"),
        pytest.param("some avg10=9.00 total=81\n", None, id="Linux before 5.13"),
        pytest.param(None, None, id="started without it"),
    ],
)
def test_pressure_is_read_where_the_kernel_counts_it(
    text: str | None, us: int | None, fake_kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text is not None:
        monkeypatch.setitem(NEW_GROUP, "cpu.pressure", text)
    places = cgroup.find_hierarchies([MountedHierarchy(frozenset(), fake_kernel, fake_kernel)])
    assert (places.pressure is None) == (us is None)
    group = Group(ResourceLimits(), places)
    assert group.denied_us() == us
    group.remove()


def test_bounds_are_written_and_the_group_goes_again() -> None:
    found = needs_groups()
    assert found.memory is not None
    assert found.pids is not None
    group = Group(ResourceLimits(memory_bytes=64 << 20, processes=10), found)
    try:
        memory, pids = (
            place / group.joins()[0].parent.name for place in (found.memory, found.pids)
        )
        (bound,) = (
            memory / name
            for name in ("memory.max", "memory.limit_in_bytes")
            if (memory / name).exists()
        )
        assert bound.read_text().strip() == str(64 << 20)
        assert (pids / "pids.max").read_text().strip() == str(10 + OWN_TASKS)
        if found.cpu is not None:
            share = found.cpu / memory.name
            (weight,) = (share / name for name, _ in SHARES if (share / name).exists())
            assert weight.read_text().strip() == dict(SHARES)[weight.name]
        assert group.over_limit() is None
    finally:
        group.remove()
    assert not memory.exists()
    assert not pids.exists()
