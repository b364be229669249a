"""Runs hostile programs in a sandbox that was just verified, and looks for what they left.

Invariants: a program is copied with the guard into a folder of its own; it gets the numbers of the
host's namespaces and must find itself elsewhere. After every run: no process, control group,
folder, mount or descriptor more than before, and the bot's folder as it was.
"""

from __future__ import annotations

import gc
import json
import os
import re
import select
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attacks import guard
from deepsea_referee.sandbox import probe, process_tree
from deepsea_referee.sandbox.bubblewrap import Sandbox
from deepsea_referee.sandbox.cgroup import hierarchies
from deepsea_referee.sandbox.interface import MIB, IsolatedProcess, LaunchSpec, ResourceLimits
from helpers.programs import processes_with, soon

PROGRAMS = Path(__file__).parent / "programs"
SMALL = ResourceLimits(memory_bytes=64 * MIB, processes=24, open_files=64, file_bytes=4 * MIB)


@dataclass(frozen=True, slots=True)
class Result:
    """What a hostile program reported, and what became of it."""

    report: dict[str, Any]
    outcome: probe.RunOutcome


@dataclass(frozen=True, slots=True)
class Running:
    """A hostile program that runs, and the read end of its standard output."""

    contained: IsolatedProcess
    stdout: int

    def read_report(self, milliseconds: int = 15_000) -> dict[str, Any]:
        """Wait for the next line that it prints."""
        line = b""
        while not line.endswith(b"\n"):
            assert readable(self.stdout, milliseconds), "the program says nothing"
            piece = os.read(self.stdout, 1)
            assert piece, f"the program ended: {line!r}"
            line += piece
        report = json.loads(line)
        assert isinstance(report, dict)
        return report


def readable(descriptor: int, milliseconds: int) -> bool:
    """Whether there is something to read, or the end, within this time."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(milliseconds))


class Arena:
    """A place for hostile programs: one sandbox level and a folder for one test."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self.sandbox = sandbox
        self.folder = folder
        self._count = 0

    def bot_folder(self, program: str) -> Path:
        """A new bot's folder with this program, the guard and a bot.toml."""
        self._count += 1
        folder = self.folder / f"bot{self._count}"
        folder.mkdir()
        shutil.copy(PROGRAMS / f"{program}.py", folder / "program.py")
        (folder / "attacks").mkdir()
        shutil.copy(guard.__file__, folder / "attacks" / "guard.py")
        (folder / "bot.toml").write_text('command = "python program.py"\n')
        return folder

    def run(
        self,
        program: str,
        *arguments: str,
        limits: ResourceLimits = SMALL,
        socket: Path | None = None,
        environment: Mapping[str, str] | None = None,
        milliseconds: int = 30_000,
    ) -> Result:
        """Run a program to its end, or end it after this time."""
        with self.started(
            program, *arguments, limits=limits, socket=socket, environment=environment
        ) as running:
            ended = process_tree.wait_for_end(running.contained.pid, milliseconds)
            returncode = running.contained.poll()
            outcome = probe.RunOutcome(
                ended,
                returncode,
                _rest(running.stdout),
                "",
                running.contained.over_limit(),
                running.contained.setup_error(),
            )
        assert outcome.setup_error is None, outcome
        assert returncode != guard.REFUSED, "the guard refused inside a sandbox"
        lines = outcome.stdout.splitlines()
        return Result(json.loads(lines[-1]) if lines else {}, outcome)

    @contextmanager
    def started(
        self,
        program: str,
        *arguments: str,
        limits: ResourceLimits = SMALL,
        socket: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Iterator[Running]:
        """Start a program; at the end of the block it is ended and nothing of it may be left."""
        folder = self.bot_folder(program)
        before = belongings_before(folder)
        out, out_end = os.pipe()
        contained: IsolatedProcess | None = None
        try:
            launch = LaunchSpec(
                command=(sys.executable, "program.py", *arguments),
                folder=folder,
                environment={
                    guard.HOST_VARIABLE: json.dumps(guard.namespaces()),
                    **(environment or {}),
                },
                socket=socket,
                stdout=out_end,
                stderr=2,
                limits=limits,
            )
            try:
                contained = self.sandbox.spawn(launch)
            finally:
                os.close(out_end)
            yield Running(contained, out)
        finally:
            if contained is not None:
                contained.close()
            os.close(out)
        left = left_of(folder, before)
        assert [one for one in left if not one.startswith("/proc/")] == [], left
        # The watchdog's thread may be reading there at this moment.
        assert soon(lambda: left_of(folder, before) == [])


def _rest(descriptor: int) -> str:
    os.set_blocking(descriptor, False)
    pieces = []
    try:
        while piece := os.read(descriptor, 65536):
            pieces.append(piece)
    except BlockingIOError:
        pass
    return b"".join(pieces).decode("utf-8", "replace")


def belongings_before(folder: Path) -> dict[str, Counter[str]]:
    """Everything that a run might add to, before it."""
    gc.collect()  # servers and sockets of tests before this one
    gc.freeze()  # what still lives takes long to be looked through again after each run
    return _belongings(folder)


def _belongings(folder: Path) -> dict[str, Counter[str]]:
    mine = f"deepsea-{os.getpid()}-"
    groups = (group for place in hierarchies().folders() for group in place.glob(f"{mine}*"))
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return {
        "groups": Counter(map(str, groups)),
        "folders": Counter(map(str, Path("/tmp").glob(f"{mine}*"))),
        "mounts": Counter(line for line in mounts if mine in line),
        "descriptors": Counter(_descriptors()),
        "bot": Counter(f"{path}: {path.stat().st_size}" for path in folder.rglob("*")),
    }


def _descriptors() -> Iterator[str]:
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one of this list
            yield re.sub(r"\[\d+\]", "", os.readlink(f"/proc/self/fd/{name}"))


def left_of(folder: Path, before: Mapping[str, Counter[str]]) -> list[str]:
    """What is there that was not there before, what its folder lacks, and processes in there."""
    gc.collect()
    after = _belongings(folder)
    more = [found for name in before for found in (after[name] - before[name]).elements()]
    lacking = (before["bot"] - after["bot"]).elements()
    return [*more, *lacking, *map(str, processes_with(str(folder)))]
