"""P8: three answers that are errors, not actions. Arguments: which in each game, from the first."""

from __future__ import annotations

import sys
from collections import Counter

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
errors = [ERRORS[which] for which in sys.argv[1:]]
asked: Counter[bytes] = Counter()
bot = Bot()
for request in bot.requests():
    count = asked[request.game_id]
    asked[request.game_id] += 1
    if len(asked) <= len(errors) and 2 <= count < 5:
        bot.message(failure(request.request_id, errors[len(asked) - 1]))
    else:
        bot.answer(request)
