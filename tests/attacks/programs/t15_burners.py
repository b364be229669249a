"""T15: burns CPU time on others' turns, in sessions of its own. Arguments: processes, seconds."""

from __future__ import annotations

import os
import signal
import sys

from attacks.guard import insist, say, wait_to_be_ended

insist()
count, seconds = int(sys.argv[1]), int(sys.argv[2])
signal.alarm(seconds)
for _ in range(count):
    if os.fork() == 0:
        os.setsid()
        signal.alarm(seconds)
        while True:
            pass
say({"burning": count})
wait_to_be_ended()
