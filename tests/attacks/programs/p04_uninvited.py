"""P4 to P7: decisions that nobody asked for. Argument: which."""

from __future__ import annotations

import sys

from attacks.guard import insist, say
from attacks.raw import Bot, decision

insist()
how = sys.argv[1]
bot = Bot()
finished = first_game = b""
for count, request in enumerate(bot.requests()):
    again = request.answered()
    if count == 0 and how == "finished":
        finished, first_game = request.answered(), request.game_id
    if request.game_id != first_game and how == "finished":
        bot.message(finished)
    elif count != 2 or how == "finished":
        bot.answer(request)
    elif how == "twice":
        bot.message(again + again)
    elif how == "stale":
        bot.message(decision(request.request_id - 1, "down"))
    elif how == "nothing":
        bot.message(b"")
say({"ended": bot.end_of(), "why": bot.details.get(1, "")})
