"""From the shell prompt to the result, against the import that cannot be avoided.

Invariants: whole programs are started, in turns with the bare import, and medians compared; once
before that, so that compiled code is on the disk, as it is for whoever has run the program before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import web_store
from deepsea_referee.sandbox.probe import choose
from figures import Row, Scale, at_most, beside, median

RUNS: dict[Scale, int] = {"tiny": 1, "full": 15}


class Start(NamedTuple):
    """A command line, and the library that it cannot do without."""

    words: tuple[str, ...]
    library: str
    limit: float


STARTS = (
    Start(("match", "greedy", "cautious", "--games", "1"), "grpc", 5),
    Start(("--help",), "click", 2),
)


def measure(scale: Scale) -> Iterator[Row]:
    """The rows of this goal."""
    yield beside("isolation of the match that is started", choose("auto").name)
    for start in STARTS:
        yield against_import(start, RUNS[scale])


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


# What one looks a ladder up with


SIZES: dict[Scale, tuple[int, int, int]] = {"tiny": (6, 20, 2), "full": (300, 20_000, 200)}
"""Bots, games, and the different ones among these."""
COMMANDS = (("standings",), ("bot", web_store.VETERAN), ("games",))
LIMIT = 1.6


def measure_ladder(scale: Scale) -> Iterator[Row]:
    """The rows of commands on a large ladder, made by the project's own functions."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ladder.db"
        web_store.make(path, *SIZES[scale])
        for words in COMMANDS:
            start = Start(("ladder", *words), "sqlalchemy", LIMIT)
            yield against_import(start, RUNS[scale], DEEPSEA_LADDER=str(path))
