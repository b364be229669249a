"""P17: reads no byte of what comes. Argument: how many bytes it has room for."""

from __future__ import annotations

import sys

from attacks.guard import insist, wait_to_be_ended
from attacks.raw import Bot

insist()
bot = Bot(window=int(sys.argv[1]))
wait_to_be_ended()
