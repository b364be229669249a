"""S23 to S27: stay after the end. Argument: how."""

from __future__ import annotations

import os
import signal
import sys

from attacks.guard import insist, say, wait_to_be_ended


def ignore_signals() -> None:
    """S26: ignore every signal that can be ignored."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        signal.signal(number, signal.SIG_IGN)


def daemon() -> None:
    """S23: leave the session and the parent; S24: hold standard output."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            ignore_signals()
            os.execve(sys.executable, ["other-name", "-c", "import time; time.sleep(60)"], {})
        os._exit(0)
    os.wait()


def zombies() -> None:
    """S25: children that nobody waits for."""
    for _ in range(15):
        if os.fork() == 0:
            os._exit(0)


def tree() -> None:
    """Children of children, each in a session of its own."""
    for _ in range(10):
        if os.fork():
            break
        os.setsid()


insist()
if sys.argv[1] == "daemon":
    daemon()
    say({"ready": True})
    os._exit(7)
if sys.argv[1] == "zombies":
    zombies()
if sys.argv[1] == "ignore":
    ignore_signals()
say({"ready": True})
if sys.argv[1] == "stop":
    os.kill(os.getpid(), signal.SIGSTOP)
if sys.argv[1] == "tree":
    tree()
wait_to_be_ended()
