"""The cleanup process of macOS and Windows: cleans up after the referee, also when it is killed.

Invariants: this file is run as a program (`python -I guardian.py`, see portable.py). Its
stdin ends when the referee does, in any way; then what is still registered is killed and removed.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Iterable
from typing import IO


def kept_at_end(lines: Iterable[bytes]) -> dict[str, dict[str, str]]:
    """What is registered when the lines end: by kind, the value and what goes with it."""
    kept: dict[str, dict[str, str]] = {"mark": {}, "session": {}, "folder": {}}
    for line in lines:
        sign, kind, value, extra = line.decode("utf-8", "surrogateescape").rstrip("\n").split("\t")
        if sign == "+":
            kept[kind][value] = extra
        else:
            kept[kind].pop(value, None)
    return kept


def clean_up(kept: dict[str, dict[str, str]]) -> None:
    """End the processes and remove the folders."""
    if kept["mark"] or kept["session"]:
        from deepsea_referee.system import groups

        for session in kept["session"]:
            groups.kill_group(int(session))
        groups.end_marked(kept["mark"])
    for folder in kept["folder"]:
        shutil.rmtree(folder, ignore_errors=True)


def main(stdin: IO[bytes]) -> None:
    """Read what is registered until the referee has ended, and clean up."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):
        if (number := getattr(signal, name, None)) is not None:
            signal.signal(number, signal.SIG_IGN)
    if first := stdin.readline():
        sys.path[:] = json.loads(first)
        clean_up(kept_at_end(stdin))


if __name__ == "__main__":
    main(sys.stdin.buffer)
