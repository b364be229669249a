"""P14: 600 connections that do not speak the protocol, a few of them held open, during a turn."""

from __future__ import annotations

import contextlib
import select
import socket
import time

from attacks.guard import insist, say
from attacks.raw import PREFACE, Bot, connect

BEGINNINGS = [
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    PREFACE[:12],
    PREFACE + b"\xff" * 100,
    PREFACE + b"\0\0\5\4\0\0\0\0\0hello",
    bytes(1000),
    b"",
]
HELD = 60


def held_open() -> float:
    """Hold connections until the referee has closed them all; how many seconds that took."""
    began = time.monotonic()
    open_ones: list[socket.socket] = []
    for count in range(HELD):
        with contextlib.suppress(OSError):
            one = connect()
            open_ones.append(one)
            one.sendall((b"", PREFACE[:12])[count % 2])
    while open_ones and time.monotonic() - began < 15:
        ready, _, _ = select.select(open_ones, [], [], 1)
        for one in ready:
            with contextlib.suppress(OSError):
                if one.recv(4096):
                    continue
            open_ones.remove(one)
            one.close()
    assert not open_ones
    return time.monotonic() - began


insist()
bot = Bot()
for count, request in enumerate(bot.requests()):
    if count == 2:
        for number in range(600 - HELD):
            with contextlib.suppress(OSError), connect() as garbage:
                garbage.sendall(BEGINNINGS[number % len(BEGINNINGS)])
        say({"held": held_open()})
    bot.answer(request)
