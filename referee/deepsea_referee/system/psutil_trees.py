"""The processes of a bot on macOS and Windows: found and killed with psutil.

Invariants: psutil compares the time of a process's start before it kills it, so a reused number is
never hit; what vanishes meanwhile counts as gone. A process belongs to a bot if it descends from
the bot's first process, is in its process group, or has the bot's mark in its first environment.
"""

from __future__ import annotations

import os
import signal
import time  # noqa: TID251  (gives killed processes a moment to vanish)
from collections.abc import Iterable
from contextlib import suppress

import psutil

from deepsea_referee.sandbox.interface import MARK_VARIABLE

LONGEST_S = 2.0
"""The longest wait for killed processes to vanish."""
_PAUSE_S = 0.01
_GONE = (psutil.Error, OSError)


def tree(first: psutil.Process) -> list[psutil.Process]:
    """Return a process and all its descendants that exist now; an empty list if it has ended."""
    with suppress(*_GONE):
        return [first, *first.children(recursive=True)]
    return []


def marked(mark: str) -> list[psutil.Process]:
    """Return the living processes of this user that have this mark in their environment."""
    own_pid, processes = os.getpid(), []
    for process in psutil.process_iter():
        with suppress(*_GONE):
            is_marked = process.pid != own_pid and process.environ().get(MARK_VARIABLE) == mark
            if is_marked and process.status() != psutil.STATUS_ZOMBIE:
                processes.append(process)
    return processes


def kill(processes: Iterable[psutil.Process]) -> None:
    """Kill each of these processes; those that have ended are skipped."""
    for process in processes:
        with suppress(*_GONE):
            process.kill()


def kill_group(leader: int) -> None:
    """Kill the process group with this leader, if the system has process groups."""
    if hasattr(os, "killpg") and hasattr(signal, "SIGKILL"):
        with suppress(OSError):
            os.killpg(leader, signal.SIGKILL)


def end_marked(mark: str) -> bool:
    """Kill the processes with this mark until there is none; return False after LONGEST_S."""
    deadline_s = time.monotonic() + LONGEST_S
    while processes := marked(mark):
        kill(processes)
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_PAUSE_S)
    return True
