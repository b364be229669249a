"""P4 to P7: decisions that nobody asked for. Argument: which."""

from __future__ import annotations

import sys

from attacks.guard import insist, say
from attacks.raw import Bot, decision, hello

insist()
how = sys.argv[1]
bot = Bot()
finished = b""
if how == "early":
    bot.message(decision(1000, "down"))
for count, request in enumerate(bot.requests()):
    again = request.answered()
    if count == 0 and how == "finished":
        finished = request.answered()
    if request.game_id == b"g1" and how == "finished":
        bot.message(finished)
    elif count != 2 or how == "finished":
        bot.answer(request)
    elif how == "twice":
        bot.message(again + again)
    elif how == "twice_apart":
        bot.message(again)
        bot.message(again)
    elif how == "stale":
        bot.message(decision(request.request_id - 1, "down"))
    elif how == "future":
        bot.message(decision(request.request_id + 1, "down"))
    elif how == "negative":
        bot.message(decision(2**64 - 1, "down"))
    elif how == "zero":
        bot.message(decision(0, "down"))
    elif how == "hello":
        bot.message(hello())
    elif how == "nothing":
        bot.message(b"")
say({"ended": bot.end_of(), "why": bot.details.get(1, "")})
