"""S1: fork without end (here: 300 times at most)."""

from __future__ import annotations

import errno
import os
import signal

from attacks.guard import run


def attack() -> dict[str, object]:
    made, error = 0, ""
    for _ in range(300):
        try:
            child = os.fork()
        except OSError as refused:
            error = errno.errorcode[refused.errno or 0]
            break
        if child == 0:
            while True:
                signal.pause()
        made += 1
    return {"made": made, "error": error}


run(attack)
