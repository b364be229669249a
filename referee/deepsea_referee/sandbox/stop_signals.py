"""Freezes and kills process trees with signals, where there is no control group.

Invariants: stopping is repeated until every member was seen stopped, because a process may fork
while it is being stopped. Members are searched each time, never remembered.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable

from deepsea_referee.sandbox.process_tree import is_stopped

ROUNDS = 50

Members = Callable[[], Iterable[int]]


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Signal each of these processes; those that are gone are skipped."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def stop_all(members: Members) -> bool:
    """Stop every member; False if some still ran after ROUNDS attempts."""
    for _ in range(ROUNDS):
        running = [pid for pid in members() if not is_stopped(pid)]
        if not running:
            return True
        send(running, signal.SIGSTOP)
    return False


def go_all(members: Members) -> None:
    """Resume every member."""
    send(members(), signal.SIGCONT)
