"""P1, P3: wrong tokens, then another seat's (the argument), then the right one."""

from __future__ import annotations

import os
import sys

from attacks.guard import insist, say
from attacks.raw import Bot, Connection, hello

insist()
RIGHT = os.environ["DEEPSEA_TOKEN"]
WRONG = ["", " ", RIGHT[:-1], RIGHT + "\0", RIGHT.swapcase(), RIGHT[::-1], "0" * 60_000]
WRONG += sys.argv[1:] + [f"{attempt:043}" for attempt in range(100)]
answers = set()
for token in WRONG:
    while True:
        door = Connection()
        door.open()
        door.message(hello(token))
        door.end_of()
        door.socket.close()
        # Three are let in at once, and the referee may not have seen yet that others have left.
        if door.status[1] != "gone":
            break
    answers.add((door.status[1], door.details.get(1, "")))
say({"answers": sorted(answers)})
Bot().play()
