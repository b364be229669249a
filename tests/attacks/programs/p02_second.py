"""P2: a second connection with the same token. Argument: `beside` the first, or `after` it."""

from __future__ import annotations

import sys

from attacks.guard import insist, say
from attacks.raw import Bot, Connection, hello


def second() -> str:
    """Knock once more; how it ends."""
    door = Connection()
    door.open()
    door.message(hello())
    return door.end_of()


insist()
bot = Bot()
for count, request in enumerate(bot.requests()):
    if count == 2 and sys.argv[1] == "after":
        bot.socket.close()
        say({"second": second()})
        break
    if count == 2:
        say({"second": second()})
        bot.open(3)
        bot.message(hello(), 3)
        say({"on_the_same_connection": bot.end_of(3)})
    bot.answer(request)
