"""P17: takes a message when it likes to: six bytes of each get through by themselves.

Argument: how. It answers the first request with an illegal action, and then it

thinks  does not take the notice of that, but computes, and says so after each 10 ms of CPU time
holds   takes nothing any more

or it plays well, and

results  takes nothing from the first result on
slowly   takes everything
"""

from __future__ import annotations

import signal
import sys
import time

from attacks.guard import LONGEST_S, insist, say, wait_to_be_ended
from attacks.raw import DATA, WIDE, WINDOW_UPDATE, Bot, fields, request_of

insist()

# Bytes of gRPC before each message; one byte of the message gets through, too.
HEAD = 5
STEP_US = 10_000
REQUEST, RESULT, GOODBYE = 4, 5, 6


class Tight(Bot):
    """A bot whose window has room for a message's head, and for more only if it says so."""

    def __init__(self) -> None:
        super().__init__(window=HEAD + 1)
        self.frame(WINDOW_UPDATE, payload=(WIDE - 65535).to_bytes(4, "big"))  # of the connection
        self._data = b""

    def allow(self, count: int) -> None:
        """Make room for so many bytes."""
        self.frame(WINDOW_UPDATE, stream=1, payload=count.to_bytes(4, "big"))

    def read(self, count: int) -> None:
        """Wait until there are so many bytes of the message."""
        while len(self._data) < count:
            one = self.receive()
            if one is None:
                sys.exit(0)
            if one.kind == DATA:
                self._data += one.payload

    def sees(self) -> int:
        """Wait until a message comes; the number of its first field."""
        self.read(HEAD + 1)
        return self._data[HEAD] >> 3

    def take(self) -> bytes:
        """The next message."""
        self.sees()
        length = int.from_bytes(self._data[1:HEAD], "big")
        self.allow(length - 1)
        self.read(HEAD + length)
        data, self._data = self._data[HEAD:], b""
        self.allow(HEAD + 1)
        return data


signal.alarm(LONGEST_S)
how = sys.argv[1]
fails = how in ("thinks", "holds")
bot = Tight()
goes_on = True
while goes_on:
    if how == "results" and bot.sees() == RESULT:
        wait_to_be_ended()
    for index, value in fields(bot.take()):
        if index == REQUEST and isinstance(value, bytes):
            bot.answer(request_of(value), "nonsense" if fails else None)
            goes_on = not fails
        goes_on = goes_on and index != GOODBYE
if how == "thinks":
    bot.sees()
    while True:
        end = time.process_time() + STEP_US / 1e6
        while time.process_time() < end:
            pass
        say({"used_us": STEP_US})
if how == "holds":
    wait_to_be_ended()
