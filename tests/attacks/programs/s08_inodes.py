"""S8: 200,000 empty files, which no size of a tmpfs bounds."""

from __future__ import annotations

import os

from attacks.guard import run, tried, wait_to_be_ended


def attack() -> dict[str, object]:
    for number in range(200_000):
        error = tried(os.mkfifo, f"/tmp/{number}")
        if error:
            return {"made": number, "error": error}
    wait_to_be_ended()
    return {}


run(attack)
