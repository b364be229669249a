"""S7, S9: fill every place that can be written; write everywhere else."""

from __future__ import annotations

import os
from pathlib import Path

from attacks.guard import run, tried

BLOCK = b"x" * 65536


def fill(folder: str) -> dict[str, object]:
    """Write files until nothing more fits."""
    written, error = 0, ""
    for number in range(64):
        with Path(folder, f"fill{number}").open("wb", buffering=0) as file:
            for _ in range(16):
                error = tried(file.write, BLOCK)
                if error:
                    return {"written": written, "error": error}
                written += len(BLOCK)
    return {"written": written, "error": error}


def too_long() -> str:
    """Make one file as long as it gets."""
    with Path("/tmp/long").open("wb") as file:
        error = tried(os.truncate, file.fileno(), 1 << 40)
    Path("/tmp/long").unlink()
    return error


def attack() -> dict[str, object]:
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    places = ["/etc", "/run", "/root", "/home", "/var/tmp", "/proc", "/proc/1", "/proc/sys/kernel"]
    writable = [
        place
        for place in sorted({*mounted, *places})
        if Path(place).is_dir() and not tried(Path(place, "x").touch)
    ]
    return {
        "writable": writable,
        "long": too_long(),
        "tmp": fill("/tmp"),
        "shm": fill("/dev/shm"),
        "kernel": tried(lambda: Path("/proc/sys/kernel/core_pattern").write_text("x")),
        "sysrq": tried(lambda: Path("/proc/sysrq-trigger").write_text("x")),
    }


run(attack)
