"""S5, S6: memory that belongs to no process: SysV segments, memfd, message queues, attributes."""

from __future__ import annotations

import os
from pathlib import Path

from attacks.guard import call, run, tried

PRIVATE, CREATE = 0, 0o1600


def attack() -> dict[str, object]:
    file = Path("/tmp/file")
    file.touch()
    return {
        "shmget": call(29, 194, PRIVATE, 1 << 20, CREATE),
        "semget": call(64, 190, PRIVATE, 1, CREATE),
        "msgget": call(68, 186, PRIVATE, CREATE),
        "mq_open": call(240, 180, 0, 0, 0, 0),
        "memfd_create": tried(lambda: os.memfd_create("hidden")),
        "memfd_secret": call(447, 447, 0),
        "setxattr": tried(lambda: os.setxattr(file, "user.hidden", b"x" * 1000)),
        "mlock": call(149, 228, 0, 1 << 30),
    }


run(attack)
