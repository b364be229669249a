"""S15: signal everybody, process 1, and the number of a process outside (the argument)."""

from __future__ import annotations

import os
import signal
import sys

from attacks.guard import run, tried


def attack() -> dict[str, object]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return {
        "everybody": tried(lambda: os.kill(-1, signal.SIGTERM)),
        "first": tried(lambda: os.kill(1, signal.SIGKILL)),
        "first_stop": tried(lambda: os.kill(1, signal.SIGSTOP)),
        "parent": tried(lambda: os.kill(os.getppid(), signal.SIGKILL)),
        "outside": tried(lambda: os.kill(int(sys.argv[1]), signal.SIGKILL)),
        "outside_group": tried(lambda: os.killpg(int(sys.argv[1]), signal.SIGKILL)),
        "outside_handle": tried(lambda: os.pidfd_open(int(sys.argv[1]))),
        "in_sight": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
    }


run(attack)
