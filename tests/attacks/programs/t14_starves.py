"""T14: pretends that the host gave it no CPU while it takes its time.

Arguments: which way, and for how many seconds, if not LONG_S.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time

from attacks.guard import insist
from attacks.raw import Bot

LONG_S = 2.0
insist()
how, long_s = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else LONG_S


def pin(cpu: int) -> None:
    """Stay on one CPU, if that is allowed."""
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, {cpu})


def wake_in_phase(end: float) -> None:
    """Wake together with the others, four times a second, for a short time."""
    pin(0)
    while time.monotonic() < end:
        time.sleep(0.25 - time.monotonic() % 0.25)
        while time.monotonic() % 0.25 < 0.0085:
            pass


def starve(end: float) -> None:
    """Want a CPU but get it only if nobody else wants it, if that can be had."""
    pin(1)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while time.monotonic() < end:
        pass


bot = Bot()
for count, request in enumerate(bot.requests()):
    if count >= 2:
        act, threads = (wake_in_phase, 31) if how == "wakers" else (starve, 4)
        until = time.monotonic() + long_s
        others = [threading.Thread(target=act, args=(until,), daemon=True) for _ in range(threads)]
        for other in others:
            other.start()
        if how == "wakers":
            time.sleep(long_s)
            for other in others:  # with those of the next question they would be too many
                other.join()
        else:
            pin(0)
            while time.monotonic() < until:
                pass
    bot.answer(request)
