"""P8: three answers that are errors, not actions. Argument: which."""

from __future__ import annotations

import sys

from attacks.guard import insist
from attacks.raw import Bot, failure

ERRORS = {
    "nothing": "",
    "long": "x" * 60_000,
    "lines": "\n" * 60_000,
    "escapes": "\x1b[2Jdown\r\n\u202e{seed}%s%n\x9b2J",
    "text": "Traceback (most recent call last):\nKeyError: 'no way'",
}

insist()
error = ERRORS[sys.argv[1]]
bot = Bot()
for count, request in enumerate(bot.requests()):
    if 2 <= count < 5:
        bot.message(failure(request.request_id, error))
    else:
        bot.answer(request)
