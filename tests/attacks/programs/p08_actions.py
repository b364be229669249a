"""P8: three answers that are no legal action. Arguments: which three in each game, in order."""

from __future__ import annotations

import sys
from collections import Counter

from attacks.guard import insist
from attacks.raw import Bot

ACTIONS: dict[str, tuple[str | bytes, str | bytes, str | bytes]] = {
    "nothing": ("", " ", "\0"),
    "words": ("fly", "DOWN", "down "),
    "numbers": ("drop:99999999999999999999", "drop:-1", "drop:1e3"),
    "foreign": ("drop:\u0662", "dro\u200bp:2", "\u202edown"),
    "long": ("x" * 60_000, "order:" + "1," * 20_000, "drop:[" + "1" * 50_000 + "]"),
    "strange": ("drop:[[1]]", "order:,", "order:[1,[2]]"),
    "not_now": ("order:1,2", "turn,take", "order:"),
    "escapes": ("\x1b[2Jdown", "down\ntake", "{seed}%s%n"),
}

insist()
chosen = [ACTIONS[which] for which in sys.argv[1:]]
asked: Counter[bytes] = Counter()
bot = Bot()
for request in bot.requests():
    count = asked[request.game_id]
    asked[request.game_id] += 1
    attacks = len(asked) <= len(chosen) and 2 <= count < 5
    bot.answer(request, chosen[len(asked) - 1][count - 2] if attacks else None)
