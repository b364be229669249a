"""T1, T3, T4, T6, T10, T11, T13: ways to take too long. Argument: which."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from attacks.guard import insist, say, wait_to_be_ended
from attacks.raw import DATA, Bot

LONG_S = 1.0
insist()
how = sys.argv[1]


def spin(seconds: float) -> None:
    """Use so much CPU time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def spin_in_children(seconds: float) -> None:
    """Let three children do the work, and wait for them."""
    for _ in range(3):
        if os.fork() == 0:
            spin(seconds)
            os._exit(0)
    for _ in range(3):
        os.wait()


def sleep_beside_threads(seconds: float) -> None:
    """Sleep while others want the CPU, so that it looks as if the host were busy."""
    for _ in range(4):
        threading.Thread(target=spin, args=(seconds,), daemon=True).start()
    time.sleep(seconds)


bot = Bot()
late = []
for count, request in enumerate(bot.requests()):
    if how == "never" and count >= 2:
        continue
    if how == "late" and 2 <= count < 4:
        late.append(request)
        continue
    if late:  # the answers to both come now, together with the one that is asked
        bot.message(b"".join(one.answered(one.legal[-1]) for one in late) + request.answered())
        late = []
        continue
    if how == "sleeps" and count >= 2:
        time.sleep(LONG_S)
    elif how == "spins" and count >= 2:
        spin(LONG_S)
    elif how == "children" and count >= 2:
        spin_in_children(LONG_S)
    elif how == "threads" and count >= 2:
        sleep_beside_threads(LONG_S)
    elif how == "stops" and count == 2:
        os.kill(os.getpid(), signal.SIGSTOP)
    elif how == "drains":
        time.sleep(0.15)
    elif how == "drips" and count >= 2:
        data = request.answered()
        for byte in b"\0" + len(data).to_bytes(4, "big") + data:
            bot.frame(DATA, 0, 1, bytes([byte]))
            time.sleep(0.05)
        continue
    bot.answer(request)
if how == "late":
    say({"ended": bot.status.get(1, "")})
if how == "never":
    wait_to_be_ended()
