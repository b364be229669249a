"""P16: a flood of decisions, most of which nobody asked for."""

from __future__ import annotations

import contextlib

from attacks.guard import insist, say
from attacks.raw import Bot

insist()
bot = Bot()
sent = 0
for count, request in enumerate(bot.requests()):
    if count == 2:
        with contextlib.suppress(OSError):
            for _ in range(20_000):
                bot.message(request.answered())
                sent += 1
        break
    bot.answer(request)
say({"ended": bot.end_of(), "sent": sent})
