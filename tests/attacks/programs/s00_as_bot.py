"""Any attack on the sandbox, by a bot in the middle of a game. Arguments: which, and its own."""

from __future__ import annotations

import contextlib
import runpy
import signal
import sys

from attacks.guard import insist
from attacks.raw import Bot

insist()
program, sys.argv[1:] = sys.argv[1], sys.argv[2:]
bot = Bot()
for count, request in enumerate(bot.requests()):
    if count == 2:
        with contextlib.suppress(SystemExit):
            runpy.run_module(program)
        signal.alarm(0)
    bot.answer(request)
