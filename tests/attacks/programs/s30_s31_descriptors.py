"""S30, S31: count inherited descriptors, then open as many as can be had."""

from __future__ import annotations

import os

from attacks.guard import run, tried


def attack() -> dict[str, object]:
    seen = [int(name) for name in os.listdir("/proc/self/fd")]
    # Without the one that did the listing.
    inherited = sorted(number for number in seen if not tried(os.fstat, number))
    opened, error = 0, ""
    while not error and opened < 5000:
        error = tried(lambda: os.open("/dev/null", os.O_RDONLY))
        opened += not error
    kinds = [os.readlink(f"/proc/self/fd/{number}").partition(":")[0] for number in inherited[:3]]
    return {"inherited": inherited, "kinds": kinds, "opened": opened, "error": error}


run(attack)
