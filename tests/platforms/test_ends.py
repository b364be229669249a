"""Nothing is left running, with what macOS or Windows lack taken away from Python.

A bot says into a named pipe who it is and whom it started, so no test waits for time to pass.
"""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from helpers.tiers import daily
from platforms.desk import FORMS, LONGEST_S, WINDOWS, Desk, left

pytestmark = pytest.mark.slow

PARENT = """
import os, subprocess, sys
from deepsea_sdk import Bot, run

class Parent(Bot):
    def on_game_start(self, info):
        wait = "import time; time.sleep(600)"
        child = subprocess.Popen([sys.executable, "-S", "-c", wait], start_new_session={apart})
        with open({pipe!r}, "w") as pipe:
            pipe.write(f"{{os.getpid()}} {{child.pid}}")

    def decide(self, view):
        {decides}

run(Parent)
"""
HANGS = "import time; time.sleep(600)"
PLAYS = "return view.legal[0]"
EXITS = "os._exit(3)"


class Family:
    """A bot that starts a child of its own."""

    def __init__(self, folder: Path, decides: str, apart: bool = True) -> None:
        self._pipe = folder / "pipe"
        os.mkfifo(self._pipe)
        text = PARENT.format(pipe=str(self._pipe), decides=decides, apart=apart)
        (folder / "parent.py").write_text(text, encoding="utf-8")

    def pids(self) -> list[int]:
        """The bot and its child, once they run."""
        return [int(pid) for pid in self._pipe.read_text(encoding="utf-8").split()]


@pytest.fixture(params=FORMS)
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Desk:
    return Desk(request.param, tmp_path)


@pytest.mark.parametrize(
    ("desk", "workers"),
    daily(product(FORMS, (1, 2)), [("macos", 2), ("windows", 1)]),
    indirect=["desk"],
)
def test_ctrl_c_leaves_nothing(desk: Desk, workers: int) -> None:
    family = Family(desk.folder, HANGS)
    words = ("--games", 2, "--clock", "600s+0s", "--workers", workers)
    match = desk.start("match", "parent.py", "greedy", *words)
    pids = family.pids()
    os.killpg(match.pid, signal.SIGINT)
    _, said = match.communicate(timeout=LONGEST_S)
    assert match.returncode == 130, said
    assert left(pids) == []


@pytest.mark.parametrize("desk", ["macos"], indirect=True)
def test_a_closed_terminal_leaves_nothing(desk: Desk) -> None:
    family = Family(desk.folder, HANGS)
    match = desk.start("match", "parent.py", "greedy", "--clock", "600s+0s")
    pids = family.pids()
    os.killpg(match.pid, signal.SIGHUP)
    match.communicate(timeout=LONGEST_S)
    assert left(pids) == []


@pytest.mark.parametrize("desk", WINDOWS, indirect=True)
def test_when_the_referee_is_killed_a_bot_ends_with_its_stream(desk: Desk) -> None:
    family = Family(desk.folder, PLAYS)
    (desk.folder / "hangs").mkdir()
    hanging = Family(desk.folder / "hangs", HANGS)
    match = desk.start("match", "parent.py", "hangs/parent.py", "--clock", "600s+0s")
    bot, child = family.pids()
    others = hanging.pids()
    os.killpg(match.pid, signal.SIGKILL)
    try:
        match.communicate(timeout=LONGEST_S)
        assert left([bot]) == []
    finally:
        for pid in (child, *others):
            # The next match that starts, which another test may run, ends these too.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("desk", "decides", "apart"),
    daily(
        product(FORMS, (PLAYS, EXITS), (False, True)),
        [("macos", PLAYS, True), ("windows", EXITS, False)],
    ),
    indirect=["desk"],
)
def test_what_a_bot_leaves_behind_ends_with_it(desk: Desk, decides: str, apart: bool) -> None:
    family = Family(desk.folder, decides, apart)
    match = desk.start("match", "parent.py", "greedy", "--quiet")
    pids = family.pids()
    _, said = match.communicate(timeout=LONGEST_S)
    assert match.returncode == 0, said
    assert left(pids) == []


@pytest.mark.parametrize("desk", WINDOWS, indirect=True)
def test_a_bot_that_hangs_is_at_fault_and_ends(desk: Desk) -> None:
    family = Family(desk.folder, HANGS)
    match = desk.start("match", "parent.py", "greedy", "--clock", "50ms+0s", "--json")
    pids = family.pids()
    out, said = match.communicate(timeout=LONGEST_S)
    assert match.returncode == 0, said
    kinds = [fault["fault"] for game in json.loads(out)["games"] for fault in game["faults"]]
    assert "timeout" in kinds
    assert left(pids) == []


@pytest.mark.parametrize("desk", WINDOWS, indirect=True)
def test_a_bot_in_this_process_that_never_returns_ends_the_run(desk: Desk) -> None:
    (desk.folder / "loops.py").write_text(
        "from deepsea_sdk import Bot, run\n"
        "class Loops(Bot):\n"
        "    def decide(self, view):\n"
        "        while True: pass\n"
        "run(Loops)\n",
        encoding="utf-8",
    )
    done = desk.python(
        "from deepsea_cli import main\n"
        "from deepsea_referee import in_process\n"
        "in_process.SHORTEST_S = 0.3\n"
        "main(['match', 'loops.py', 'greedy', '--in-process', '--clock', '1ms'])\n"
    )
    assert done.status == 2
    assert "'loops' did not return for 0.3 s in game 1 (loops.py, line 4" in done.err


# In both forms psutil looks at it and ends it.
@pytest.mark.parametrize("desk", WINDOWS, indirect=True)
def test_a_bot_that_takes_too_much_memory_is_killed(desk: Desk) -> None:
    family = Family(desk.folder, f"self.kept = b'x' * (600 << 20); {HANGS}")
    match = desk.start("match", "parent.py", "greedy", "--clock", "600s+0s", "--json")
    pids = family.pids()
    out, said = match.communicate(timeout=LONGEST_S)
    assert match.returncode == 0, said
    kinds = [fault["fault"] for game in json.loads(out)["games"] for fault in game["faults"]]
    assert kinds[0] == "resource_limit"
    assert left(pids) == []
