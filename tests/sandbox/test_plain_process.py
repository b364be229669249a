"""What is special about plain processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from deepsea_referee.sandbox import probe, process_tree
from deepsea_referee.sandbox.interface import LaunchSpec, ResourceLimits
from deepsea_referee.sandbox.plain_process import PlainProcess

PYTHON = (sys.executable, "-I", "-S", "-c")


def test_a_daemon_that_left_the_session_is_ended_on_closing() -> None:
    program = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    os.fork()\n"
        "    print('on', flush=True)\n"
        "    time.sleep(60)\n"
        "time.sleep(60)"
    )
    reading, writing = os.pipe()
    contained = PlainProcess().spawn(LaunchSpec((*PYTHON, program), None, {}, None, writing, 2))
    os.close(writing)
    assert os.read(reading, 1)
    contained.close()
    # Nobody holds the pipe any more.
    while piece := os.read(reading, 100):
        assert piece
    os.close(reading)


def test_the_environment_of_older_processes_is_not_read_on_closing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pids = []

    def environment_and_command(pid: int) -> bytes:
        pids.append(pid)
        return b""

    with subprocess.Popen(["sleep", "60"]) as older:
        began = process_tree.start_time(older.pid)
        contained = PlainProcess().spawn(LaunchSpec(("sleep", "60"), None, {}, None, 2, 2))
        while process_tree.start_time(contained.pid) == began:  # in the same tick
            contained.close()
            contained = PlainProcess().spawn(LaunchSpec(("sleep", "60"), None, {}, None, 2, 2))
        monkeypatch.setattr(process_tree, "environment_and_command", environment_and_command)
        contained.close()
        older.kill()
    assert older.pid not in pids


def test_too_many_processes_are_ended() -> None:
    program = (
        "import os, time\n"
        "for _ in range(20):\n"
        "    if os.fork() == 0: time.sleep(60)\n"
        "time.sleep(60)"
    )
    outcome = probe.run(PlainProcess(), (*PYTHON, program), limits=ResourceLimits(processes=10))
    assert outcome.ended
    assert outcome.over_limit == "processes: more than 10"


def test_a_session_is_known_by_its_leaders_start_time() -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as leader:
        began = process_tree.start_time(leader.pid)
        assert process_tree.is_in_session(leader.pid, leader.pid, began)
        # It began at another time: its number was used anew.
        assert not process_tree.is_in_session(leader.pid, leader.pid, began + 1)
        assert not process_tree.is_in_session(os.getpid(), leader.pid, began)
        leader.kill()
