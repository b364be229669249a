"""P14: connections that are still in their handshake when the bot is ended."""

from __future__ import annotations

import contextlib
import socket

from attacks.guard import insist
from attacks.raw import PREFACE, Bot, connect

insist()
bot = Bot()
held: list[socket.socket] = []
for request in bot.requests():
    if len(held) < 24:
        held += [connect() for _ in range(8)]
        for one in held[-8::2]:
            with contextlib.suppress(OSError):  # it is one too many, and was closed
                one.sendall(PREFACE[:12])
    bot.answer(request)
