"""T7: ways not to start. Argument: `never`, `no_hello` or `late` (with a number of seconds)."""

from __future__ import annotations

import sys
import time

from attacks.guard import insist, wait_to_be_ended
from attacks.raw import Bot, Connection

insist()
if sys.argv[1] == "no_hello":
    door = Connection()
    door.open()
    wait_to_be_ended()
if sys.argv[1] == "never":
    wait_to_be_ended()
time.sleep(float(sys.argv[2]))
Bot().play()
