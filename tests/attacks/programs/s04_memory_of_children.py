"""S4: eight children take 24 MiB each, so no single process takes much."""

from __future__ import annotations

import os

from attacks.guard import run, wait_to_be_ended


def attack() -> dict[str, object]:
    for _ in range(8):
        if os.fork() == 0:
            held = bytearray(os.urandom(1 << 20) * 24)
            wait_to_be_ended()
            del held
    wait_to_be_ended()
    return {}


run(attack)
