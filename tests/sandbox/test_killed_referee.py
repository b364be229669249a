"""When the referee is killed with -9, its bots end too; the next referee removes what is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deepsea_referee.sandbox import cleanup
from deepsea_referee.sandbox.cgroup import hierarchies
from deepsea_sdk.entropy import fresh_token
from helpers.programs import processes_with, soon
from helpers.tiers import daily
from helpers.tools import require

VICTIM = Path(__file__).with_name("victim.py")


def killed_referee(level: str, groups: str, word: str, *, at_once: bool) -> str:
    """Start a referee with two bots and kill it; returns how names begin that it gives."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment["AT_ONCE"] = "1" if at_once else "0"
    referee = subprocess.Popen(
        [sys.executable, VICTIM, level, groups, word],
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    assert referee.stdout is not None
    try:
        assert referee.stdout.readline() == b"ready\n"
        if not at_once:
            assert len(processes_with(word)) >= 4
    finally:
        os.killpg(referee.pid, signal.SIGKILL)
        referee.wait()
        referee.stdout.close()
    return f"deepsea-{referee.pid}-"


def next_referee_removes(mine: str, word: str) -> None:
    """See that a start of a referee ends and removes what a killed one left."""

    def nothing_runs() -> bool:
        # A process that executes another program at this moment has no words.
        cleanup.end_processes()
        return not processes_with(word) and not processes_with(mine)

    assert soon(nothing_runs)
    cleanup.remove_folders([Path("/tmp")])
    assert not list(Path("/tmp").glob(f"{mine}*"))
    for place in hierarchies().folders():

        def no_group(place: Path = place) -> bool:
            cleanup.remove_groups([place])
            return not list(place.glob(f"{mine}*"))

        assert soon(no_group)


@pytest.mark.parametrize("at_once", daily([False, True], [False]))
def test_of_plain_bots_the_next_referee_ends_what_the_kernel_does_not(at_once: bool) -> None:
    word = fresh_token()
    next_referee_removes(killed_referee("process", "-", word, at_once=at_once), word)


@pytest.mark.parametrize("groups", ["groups", "none"])
def test_the_kernel_ends_all_of_a_sandbox(groups: str) -> None:
    require("bubblewrap")
    word = fresh_token()
    mine = killed_referee("sandbox", groups, word, at_once=False)
    assert soon(lambda: not processes_with(word) and not processes_with(mine))
    next_referee_removes(mine, word)


@pytest.mark.parametrize("groups", daily(["groups", "none"], ["none"]))
def test_the_next_referee_ends_a_sandbox_that_was_being_set_up(groups: str) -> None:
    require("bubblewrap")
    word = fresh_token()
    next_referee_removes(killed_referee("sandbox", groups, word, at_once=True), word)
