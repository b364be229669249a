"""P10 to P12: messages and headers that are too large. Arguments: which, and `first` or `later`.

At the door (`first`) it may be several, one after the other, with commas.
"""

from __future__ import annotations

import gzip
import sys

from attacks.guard import insist, say
from attacks.raw import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    HEADERS,
    SETTINGS,
    Bot,
    Connection,
    header,
    headers,
    hello,
)

MIB = 1024 * 1024
insist()
how, when = sys.argv[1:]


def bomb() -> bytes:
    """A small message that becomes 60 MiB."""
    return gzip.compress(bytes(60 * MIB))


def send(how: str, connection: Connection, stream: int) -> None:
    """The message that is too large."""
    if how == "large":
        connection.message(bytes(65_537), stream)
    elif how == "announced":
        # It is said to be 4 GiB long; nothing of it comes.
        connection.frame(DATA, 0, stream, b"\0" + b"\xff" * 4)
    elif how == "bomb":
        connection.message(bomb(), stream, packed=1)
    elif how == "not_packed":
        connection.message(b"no gzip at all", stream, packed=1)


def first(how: str) -> str:
    """At the door; how it ends."""
    door = Connection()
    if how == "headers":
        # The bound holds for those who have acknowledged it.
        while (frame := door.receive()) and (frame.kind, frame.flags) != (SETTINGS, ACK):
            pass
    if how.startswith("headers"):
        block = headers() + b"".join(header(f"x-{n}", "y" * 1000) for n in range(100))
        door.frame(HEADERS, 0, 1, block[:16000])
        for at in range(16000, len(block), 16000):
            last = END_HEADERS if at + 16000 >= len(block) else 0
            door.frame(CONTINUATION, last, 1, block[at : at + 16000])
        door.message(hello("" if how == "headers_unheeded" else None))
    else:
        door.open(grpc_encoding="gzip")
        send(how, door, 1)
    ended = door.end_of()
    door.socket.close()
    return ended


if when == "first":
    say({one: first(one) for one in how.split(",")})
    Bot().play()
else:
    bot = Bot(grpc_encoding="gzip")
    for count, request in enumerate(bot.requests()):
        if count == 2:
            send(how, bot, 1)
        else:
            bot.answer(request)
    say({"ended": bot.end_of(), "why": bot.details.get(1, "")})
