"""From the shell prompt to the result, against the import that cannot be avoided.

Invariants: whole programs are started, in turns with the bare import, and medians compared; once
before that, so that compiled code is on the disk, as it is for whoever has run the program before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from deepsea_referee.sandbox.probe import choose
from figures import Row, Scale, at_most, beside, median

RUNS: Final[dict[Scale, int]] = {"tiny": 1, "full": 15}


class Start(NamedTuple):
    """A command line, and the library that it cannot do without."""

    words: tuple[str, ...]
    library: str
    limit: float


STARTS: Final = (
    Start(("match", "greedy", "cautious", "--games", "1"), "grpc", 5),
    Start(("--help",), "click", 2),
)


def measure(scale: Scale) -> list[Row]:
    """The rows of this goal."""
    isolation = choose("auto").name
    return [
        beside("isolation of the match that is started", isolation),
        *(against_import(start, RUNS[scale]) for start in STARTS),
    ]


def against_import(start: Start, runs: int, **environment: str) -> Row:
    """The row of a command line, with these variables besides those of the environment."""
    command = [*_program(), *start.words]
    bare = [sys.executable, "-c", f"import {start.library}"]
    _seconds(command, environment)
    _seconds(bare, environment)
    times = [(_seconds(command, environment), _seconds(bare, environment)) for _ in range(runs)]
    ours, theirs = (median(column) for column in zip(*times, strict=True))
    return at_most(
        f"deepsea-referee {' '.join(start.words)}, against `import {start.library}`",
        f"{ours * 1e3:.0f} ms, {theirs * 1e3:.0f} ms",
        ours / theirs,
        start.limit,
        ours_ms=ours * 1e3,
        import_ms=theirs * 1e3,
    )


def _program() -> list[str]:
    """As it is typed where it is installed; from a checkout, as a module."""
    installed = Path(sys.executable).with_name("deepsea-referee")
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "deepsea_cli"]


def _seconds(command: list[str], more: Mapping[str, str]) -> float:
    environment = {**os.environ, **more}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, env=environment, check=True)
    return time.perf_counter() - began
