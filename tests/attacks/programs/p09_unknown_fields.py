"""P9: answers among as many unknown fields as a message can hold. They are passed over."""

from __future__ import annotations

from attacks.guard import insist
from attacks.raw import Bot, field

insist()
unknown = field(1000, 0) * 20_000
bot = Bot()
for request in bot.requests():
    bot.message(unknown + request.answered())
