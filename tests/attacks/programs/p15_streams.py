"""P15: 200 streams on the connection that plays, without heeding the bound on them."""

from __future__ import annotations

from attacks.guard import insist, say
from attacks.raw import Bot

insist()
bot = Bot()
for count, request in enumerate(bot.requests()):
    if count == 2:
        for stream in range(3, 403, 2):
            bot.open(stream)
    bot.answer(request)
refused = [status for stream, status in bot.status.items() if stream > 1]
say({"refused": len(refused), "how": sorted(set(refused))})
