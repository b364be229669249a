"""T5: thinks all the time, in a thread. T12: answers at once when it is let go on."""

from __future__ import annotations

import threading

from attacks.guard import insist
from attacks.raw import Bot


def ponder() -> None:
    """Use CPU time for as long as there is any."""
    while True:
        pass


insist()
threading.Thread(target=ponder, daemon=True).start()
Bot().play()
