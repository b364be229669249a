"""T26: pretends that the host gave it no CPU. Arguments: how, and for how many seconds at most.

"bursts": many threads ask for a CPU at once, as often as makes the sum of their waits look like one
thread's; "sleeps": its twin, which only takes the time.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from pathlib import Path

from attacks.guard import insist, say
from attacks.raw import Bot

THREADS, FEW = 44, 3
FULL = 0.96  # of the idle time is to be filled by waits
PAUSE_S = 0.03
insist()
how, longest_s = sys.argv[1], float(sys.argv[2])


class Crowd:
    """Threads that ask for a CPU together."""

    def __init__(self) -> None:
        self._doors = [threading.Lock() for _ in range(THREADS)]
        for door in self._doors:
            door.acquire()
            threading.Thread(target=self._wake, args=(door,), daemon=True).start()
        tasks = Path("/proc/self/task").iterdir()
        self._times = [os.open(task / "schedstat", os.O_RDONLY) for task in tasks]

    def _wake(self, door: threading.Lock) -> None:
        while True:
            door.acquire()

    def burst(self, threads: int) -> None:
        """Wake so many."""
        for door in self._doors[:threads]:
            if door.locked():
                door.release()

    def ran_and_waited_s(self) -> tuple[float, float]:
        """The time in which threads had a CPU, and that in which they waited for one."""
        times = [os.pread(file, 100, 0).split() for file in self._times]
        return sum(int(ran) for ran, *_ in times) / 1e9, sum(
            int(wait) for _, wait, *_ in times
        ) / 1e9


def pretend(crowd: Crowd) -> None:
    """Keep the sum of the waits a little below the time in which nothing ran."""
    began = time.monotonic()
    before = crowd.ran_and_waited_s()
    ran = waited_s = waited = gain_s = 0.0
    threads = FEW
    while (passed_s := time.monotonic() - began) < longest_s:
        ran, waited = (
            now - then for now, then in zip(crowd.ran_and_waited_s(), before, strict=True)
        )
        gain_s, waited_s = waited - waited_s, waited
        lack_s = FULL * (passed_s - ran) - waited
        if lack_s > 0:
            # The wait of a burst grows as the square of its threads.
            grows = math.sqrt(lack_s / gain_s) if gain_s > 0 else 2
            threads = round(min(THREADS, max(FEW, threads * min(2, grows))))
            crowd.burst(threads)
        time.sleep(PAUSE_S)
    say({"passed": passed_s, "ran": ran, "waited": waited})


bot = Bot()
crowd = Crowd() if how == "bursts" else None
for request in bot.requests():
    if crowd is None:
        time.sleep(longest_s)
    else:
        pretend(crowd)
    bot.answer(request)
