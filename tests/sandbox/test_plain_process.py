"""What is special about plain processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from deepsea_referee.sandbox import cleanup_process, probe
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


def test_strangers_are_not_taken_for_members() -> None:
    assert not cleanup_process.belongs(os.getpid(), [b"DEEPSEA_TREE=no-such-mark"], {})


def test_a_session_is_known_by_its_leaders_start_time() -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as leader:
        began = cleanup_process.start_time(leader.pid)
        assert cleanup_process.belongs(leader.pid, [], {leader.pid: began})
        # It began at another time: its number was used anew.
        assert not cleanup_process.belongs(leader.pid, [], {leader.pid: began + 1})
        leader.kill()


def test_session_0_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose session leader is outside this pid namespace shows session 0."""
    fields = [b"S", b"1", b"1", b"0", *[b"0"] * 20]
    monkeypatch.setattr(cleanup_process, "stat_fields", lambda pid: fields if pid == 7 else None)
    assert not cleanup_process.belongs(7, [], {0: 1})
