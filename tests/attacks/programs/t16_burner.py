"""T16: burns the CPU while others are asked or start. Arguments: how, and how many children.

how  `turns` plays default actions; `forfeit` times out until it is not asked any more; `quiet` does
     neither: the same bot without children, to compare with

Its children have sessions of their own (each a scheduling group, where bots have no common share),
spin while others are asked and sleep on its own turn, which would be charged to it.
"""

from __future__ import annotations

import mmap
import os
import signal
import sys
import time

from attacks.guard import LONGEST_S, insist
from attacks.raw import Bot

IDLE, BURN = b"\0", b"\1"


def child(shared: mmap.mmap) -> None:
    """Spin whenever the shared byte says so."""
    os.setsid()
    signal.alarm(LONGEST_S)
    while True:
        while shared[:1] == BURN:
            pass
        time.sleep(0.001)


insist()
signal.alarm(LONGEST_S)
how, count = sys.argv[1], int(sys.argv[2])
order = mmap.mmap(-1, mmap.PAGESIZE)
bot = Bot()  # hello first: nobody asks it yet
for _ in range(0 if how == "quiet" else count):
    if os.fork() == 0:
        child(order)
order[:1] = BURN
for request in bot.requests():
    if how == "forfeit":
        continue
    order[:1] = IDLE
    bot.answer(request)
    order[:1] = BURN
if how == "forfeit":
    time.sleep(LONGEST_S)
