"""The control groups of one bot: limits on memory and tasks, freezing, killing, CPU time.

Invariants: groups are made for one bot and removed after it; a reading that this kernel lacks is
None.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from deepsea_referee.sandbox import cleanup, cleanup_process
from deepsea_referee.sandbox.cgroup import Hierarchies, group_name, write
from deepsea_referee.sandbox.interface import MIB, ResourceLimits

# bubblewrap's two own processes count too.
OWN_TASKS = 2

# The same for all, which is also the kernel's default; v2 and v1.
SHARES = (("cpu.weight", "100"), ("cpu.shares", "1024"))


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


class Group:
    """The control groups of one bot, one in each hierarchy that is used."""

    def __init__(self, limits: ResourceLimits, places: Hierarchies) -> None:
        self._places = places
        self._limits = limits
        self._name = group_name()
        self._made: list[Path] = []
        self._cpu: _Counter | None = None
        self._denied: _Counter | None = None
        try:
            for place in places.folders():
                folder = place / self._name
                cleanup.register("group", folder)
                self._made.append(folder)
                folder.mkdir()
            self._set_bounds()
            self._cpu = self._cpu_counter()
            self._denied = self._pressure_counter()
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
        return self._places.core is not None or self._places.freezer is not None

    def joins(self) -> list[Path]:
        """Files to which a process writes 0 to join."""
        return [folder / "cgroup.procs" for folder in self._made]

    def _set_bounds(self) -> None:
        memory, pids = self._in(self._places.memory), self._in(self._places.pids)
        if cpu := self._in(self._places.cpu):
            for name, share in SHARES:
                _write_if_there(cpu / name, share)
        if memory is not None:
            most = str(self._limits.memory_bytes)
            if (memory / "memory.max").exists():
                (memory / "memory.max").write_text(most)
                _write_if_there(memory / "memory.swap.max", "0")
                _write_if_there(memory / "memory.oom.group", "1")
            else:
                (memory / "memory.limit_in_bytes").write_text(most)
                _write_if_there(memory / "memory.memsw.limit_in_bytes", most)
                _write_if_there(memory / "memory.swappiness", "0")
        if pids is not None:
            (pids / "pids.max").write_text(str(self._limits.processes + OWN_TASKS))

    def _in(self, place: Path | None) -> Path | None:
        return None if place is None else place / self._name

    def kill(self) -> None:
        """Kill every member at once, frozen or not, if this kernel can."""
        if core := self._in(self._places.core):
            write(core / "cgroup.kill", "1")

    def freeze(self) -> None:
        """Stop every member until `thaw`."""
        self._set_frozen(True)

    def thaw(self) -> None:
        """Resume every member."""
        self._set_frozen(False)

    def _set_frozen(self, frozen: bool) -> None:
        if core := self._in(self._places.core):
            _switch(core / "cgroup.freeze", b"1" if frozen else b"0")
        elif freezer := self._in(self._places.freezer):
            _switch(freezer / "freezer.state", b"FROZEN" if frozen else b"THAWED")

    def cpu_us(self) -> int | None:
        """CPU time of all members so far, also of ended ones; None if the kernel counts none."""
        return None if self._cpu is None else self._cpu.us()

    def denied_us(self) -> int | None:
        """Time in which members were ready and none had a CPU; None if the kernel counts none."""
        return None if self._denied is None else self._denied.us()

    def _cpu_counter(self) -> _Counter | None:
        if core := self._in(self._places.core):
            return _Counter(core / "cpu.stat", lambda text: int(text.split(maxsplit=2)[1]))
        if cpuacct := self._in(self._places.cpuacct):
            return _Counter(cpuacct / "cpuacct.usage", lambda text: int(text) // 1000)
        return None

    def _pressure_counter(self) -> _Counter | None:
        pressure = self._in(self._places.pressure)
        if pressure is None:
            return None
        try:
            # Two lines, "some" and "full"; older kernels have the first alone.
            counter = _Counter(
                pressure / "cpu.pressure",
                lambda text: int(text.partition(b"full ")[2].rpartition(b"total=")[2]),
            )
        except (OSError, ValueError):
            return None  # an older kernel, or started without PSI
        return counter

    def over_limit(self) -> str | None:
        """The limit because of which the kernel killed a member; None if there was none."""
        memory = self._in(self._places.memory)
        if memory is None:
            return None
        for name in ("memory.events", "memory.oom_control"):
            try:
                words = (memory / name).read_text().split()
            except OSError:
                continue
            counts = dict(zip(words[::2], words[1::2], strict=False))
            if counts.get("oom_kill", "0") != "0":
                return f"memory: more than {self._limits.memory_bytes // MIB} MiB"
        return None

    def remove(self) -> None:
        """Kill the remaining members and remove the groups."""
        self.kill()
        for counter in (self._cpu, self._denied):
            if counter is not None:
                counter.close()
        for folder in self._made:
            cleanup_process.remove_group(str(folder))
            cleanup.unregister("group", folder)
        self._made = []


def _switch(file: Path, text: bytes) -> None:
    """Write in half the time of Path.write_text: bots are frozen and thawed between decisions."""
    with contextlib.suppress(OSError):
        descriptor = os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(descriptor, text)
        finally:
            os.close(descriptor)


def _write_if_there(file: Path, text: str) -> None:
    if file.exists():
        with contextlib.suppress(OSError):
            file.write_text(text)
