"""P18 to P20, P22: ways to leave in the middle of a turn. Argument: which."""

from __future__ import annotations

import os
import signal
import sys

from attacks.guard import insist, wait_to_be_ended
from attacks.raw import DATA, END_STREAM, RST_STREAM, Bot, Connection

CANCEL = b"\0\0\0\x08"
insist()
how = sys.argv[1]
if how == "closed_before_hello":
    for end in (DATA, RST_STREAM):
        door = Connection()
        door.open()
        if end == DATA:
            door.frame(DATA, END_STREAM, 1)
            door.end_of()
        else:
            door.frame(RST_STREAM, 0, 1, CANCEL)
        door.socket.close()
bot = Bot(grpc_timeout="300m") if how == "deadline" else Bot()
for count, request in enumerate(bot.requests()):
    half = b"\0\0\0\0\xff" + request.answered()
    if count != 2 or how == "closed_before_hello":
        bot.answer(request)
    elif how == "half_close_with_answer":
        bot.message(request.answered(), flags=END_STREAM)
    elif how == "reset_within_message":
        bot.frame(DATA, 0, 1, half)
        bot.frame(RST_STREAM, 0, 1, CANCEL)
        break
    elif how == "hang_up_within_frame":
        bot.socket.sendall(b"\0\0\xff\0\0\0\0\0\1\0\0")
        bot.socket.close()
        break
    elif how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "exit":
        sys.exit("enough of this")
if how != "closed_before_hello":
    wait_to_be_ended()
