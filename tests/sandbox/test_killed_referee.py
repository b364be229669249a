"""When the referee is killed with -9, its bots, control groups and folders go too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from deepsea_referee.sandbox import cleanup_process
from deepsea_referee.sandbox.cgroup import hierarchies
from deepsea_sdk.entropy import fresh_token
from helpers.programs import needs_sandbox, soon
from helpers.tiers import daily

VICTIM = Path(__file__).with_name("victim.py")


def kill_referee(level: str, groups: str, *, at_once: bool) -> None:
    """Start a referee with two bots, kill it, and see that nothing is left."""
    word = fresh_token()
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
            assert len(cleanup_process.members([word.encode()], {})) >= 4
    finally:
        # The whole group: the keeper is not in it.
        os.killpg(referee.pid, signal.SIGKILL)
        referee.wait()
        referee.stdout.close()
    mine = f"deepsea-{referee.pid}-"
    assert soon(lambda: not cleanup_process.members([word.encode()], {}))
    assert soon(lambda: not list(Path("/tmp").glob(f"{mine}*")))
    for place in hierarchies().folders():
        assert soon(lambda place=place: not list(place.glob(f"{mine}*")))  # type: ignore[misc]


@pytest.mark.parametrize("at_once", daily([False, True], [True]))
def test_plain_processes_go_with_the_referee(at_once: bool) -> None:
    kill_referee("process", "-", at_once=at_once)


@pytest.mark.parametrize(
    ("groups", "at_once"),
    daily(product(("groups", "none"), (False, True)), [("groups", False), ("none", True)]),
)
def test_sandboxes_go_with_the_referee(groups: str, at_once: bool) -> None:
    needs_sandbox()
    kill_referee("sandbox", groups, at_once=at_once)
