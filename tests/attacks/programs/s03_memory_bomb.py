"""S3: one process takes 256 MiB and holds it; argument `private` or `shared`."""

from __future__ import annotations

import mmap
import sys

from attacks.guard import run, wait_to_be_ended

MIB = 1 << 20


def attack() -> dict[str, object]:
    kind = mmap.MAP_PRIVATE if sys.argv[1] == "private" else mmap.MAP_SHARED
    held = []
    for _ in range(256):
        block = mmap.mmap(-1, MIB, flags=kind | mmap.MAP_ANONYMOUS)
        block.write(b"x" * MIB)
        held.append(block)
    wait_to_be_ended()
    return {"held": len(held)}


run(attack)
