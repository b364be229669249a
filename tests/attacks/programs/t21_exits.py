"""T21: leaves children behind that burn the CPU, and exits. Arguments: when, and how many.

when  `turn`: on its third turn of a game; `between`: when a game is over
"""

from __future__ import annotations

import os
import signal
import sys

from attacks.guard import LONGEST_S, insist
from attacks.raw import Bot, fields, request_of


def leave(count: int) -> None:
    """Exit; each child has a session of its own, and the connection too."""
    for _ in range(count):
        if os.fork() == 0:
            os.setsid()
            signal.alarm(LONGEST_S)
            while True:
                pass
    os._exit(0)


insist()
signal.alarm(LONGEST_S)
when, count, turns = sys.argv[1], int(sys.argv[2]), 0
bot = Bot()
for message in bot.messages():
    for index, value in fields(message):
        if index == 4 and isinstance(value, bytes):
            turns += 1
            if when == "turn" and turns == 3:
                leave(count)
            bot.answer(request_of(value))
        elif index == 5 and when == "between":
            leave(count)
