"""P9: bytes that are no message. Arguments: which, and `first` (at the door) or `later`."""

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
data, when = MALFORMED[sys.argv[1]], sys.argv[2]
if when == "first":
    door = Connection()
    door.open()
    door.message(data)
    say({"first": door.end_of()})
    door.socket.close()
    Bot().play()
else:
    bot = Bot()
    for count, request in enumerate(bot.requests()):
        if count == 2:
            bot.message(data)
        else:
            bot.answer(request)
    say({"ended": bot.end_of(), "why": bot.details.get(1, "")})
