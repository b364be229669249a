"""T17: works in children that nobody waits for, whose CPU time is lost with them.

Where no control group counts it, the work looks like other programs': other processes of the bot
ask for a CPU all the time, and what they wait for would be credit.
"""

from __future__ import annotations

import os
import signal
import time

from attacks.guard import LONGEST_S, insist
from attacks.raw import Bot

LONG_S = 2.0
WORK_S = 0.02
DISPATCHERS, WAITING = 2, 28


def forked() -> int:
    """The number of a child, 0 in the child; -1 if there are as many processes as may be."""
    try:
        return os.fork()
    except BlockingIOError:
        return -1


def dispatch(end: float) -> None:
    """Start one worker after the other; the kernel forgets each as it ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while time.monotonic() < end:
        if forked() == 0:
            until = time.process_time() + WORK_S
            while time.process_time() < until:
                pass
            os._exit(0)
        try:
            os.wait()
        except ChildProcessError:
            continue


def ask_for_a_cpu(end: float) -> None:
    """Wake up without end."""
    while time.monotonic() < end:
        time.sleep(0.001)


def children(end: float) -> None:
    """Start them all; they end by themselves."""
    for number in range(DISPATCHERS + WAITING):
        if forked() == 0:
            signal.alarm(LONGEST_S)
            (dispatch if number < DISPATCHERS else ask_for_a_cpu)(end)
            os._exit(0)


insist()
signal.alarm(LONGEST_S)
bot = Bot()
for count, request in enumerate(bot.requests()):
    if count >= 2:
        until = time.monotonic() + LONG_S
        children(until)
        time.sleep(LONG_S)
    bot.answer(request)
