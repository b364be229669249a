"""P9: bytes that are no message. Argument: which in a game, or `first`: all of them at the door."""

from __future__ import annotations

import sys

from attacks.guard import insist, say
from attacks.raw import Bot, Connection, field, number

insist()
MALFORMED = {
    "truncated": b"\x12\x7f\x0a\x02g0",
    "wire_type": b"\x17\x00",
    "field_zero": b"\x00\x00",
    "overflow": b"\x12" + b"\xff" * 11,
    "length": b"\x12" + number(2**63),
    "negative_length": b"\x12" + number(2**32 - 1),
    "text": field(2, field(1, 1) + field(2, b"\xff\xfe\x80")),
    "nested": b"\x7b" * 60_000,
    "end_group": b"\x7c" * 100,
    "zeros": bytes(60_000),
}
if sys.argv[1] == "first":
    ended = {}
    for which, data in MALFORMED.items():
        door = Connection()
        door.open()
        door.message(data)
        ended[which] = door.end_of()
        door.socket.close()
    say(ended)
    Bot().play()
else:
    bot = Bot()
    for count, request in enumerate(bot.requests()):
        if count == 2:
            bot.message(MALFORMED[sys.argv[1]])
        else:
            bot.answer(request)
    say({"ended": bot.end_of(), "why": bot.details.get(1, "")})
