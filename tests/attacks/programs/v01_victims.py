"""Honest bots that a busy host could hurt. Argument: which.

engine   lets a child process compute for 20 ms
thinker  computes for 400 ms
starter  needs half a second of CPU time to start
"""

from __future__ import annotations

import os
import sys
import time

from attacks.guard import insist
from attacks.raw import Bot

# Decisions in which it computes; it answers at once afterwards, so that a game ends soon.
THINKS = 2
insist()
how = sys.argv[1]


def compute(seconds: float) -> None:
    """Use so much CPU time."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def ask_child(seconds: float) -> None:
    """Let a child process compute, and wait for it."""
    child = os.fork()
    if child == 0:
        compute(seconds)
        os._exit(0)
    os.waitpid(child, 0)


if how == "starter":
    compute(0.5)
bot = Bot()
for count, request in enumerate(bot.requests()):
    if count < THINKS and how == "engine":
        ask_child(0.02)
    elif count < THINKS and how == "thinker":
        compute(0.4)
    bot.answer(request)
