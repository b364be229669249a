"""S2: start threads without end (here: 300 at most)."""

from __future__ import annotations

import threading

from attacks.guard import run


def attack() -> dict[str, object]:
    never = threading.Event()
    made = 0
    try:
        for _ in range(300):
            threading.Thread(target=never.wait, daemon=True).start()
            made += 1
    except RuntimeError as error:
        return {"made": made, "error": str(error)}
    return {"made": made, "error": ""}


run(attack)
