"""Reads strangers' bots in a process of its own, with limits on memory and time.

Invariant: what a bot's files do to their reader (a zip, TOML, Python to be compiled) happens in
that process; here the answer's names, paths and digest are checked, nothing else is made of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import deepsea_bundle
from deepsea_bundle.errors import BundleError
from deepsea_bundle.reader import BotBundle
from deepsea_bundle.reader_process import OUT_OF_MEMORY, bundle_from, request
from deepsea_rules.printable import printable

_PASSED_ON: Final = ("LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "TMP")
"""Of the environment, for Linux and for Windows; the rest may hold the password of a ladder."""


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """What reading a bot may take. Compiling a program of 1 MiB takes 400 MiB."""

    memory_mib: int = 1024
    cpu_seconds: int = 20
    seconds: float = 120.0
    """Of wall time, on a busy machine."""


LIMITS: Final = ReaderLimits()


def read_apart(path: Path, name: str | None = None, limits: ReaderLimits = LIMITS) -> BotBundle:
    """Read the bot at `path` as `read_bot` does; `BundleError` also if it takes too much."""
    # Isolated (-I): neither the environment nor the current folder adds modules.
    folder = str(Path(deepsea_bundle.__file__).parents[1])
    start = f"import sys; sys.path.insert(0, {folder!r}); from deepsea_bundle import reader_process"
    question = request(path, name, limits.memory_mib << 20, limits.cpu_seconds)
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", f"{start}; sys.exit(reader_process.main())"],
            input=question,
            capture_output=True,
            timeout=limits.seconds,
            env={key: os.environ[key] for key in _PASSED_ON if key in os.environ},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BundleError(
            f"bot {str(path)!r}: reading it takes more than {limits.seconds:g} s; make it smaller, "
            "or try again on a machine that is less busy"
        ) from None
    if done.returncode == 0:
        return bundle_from(done.stdout)
    if done.returncode < 0 or done.returncode == OUT_OF_MEMORY:
        raise BundleError(
            f"bot {str(path)!r}: reading it takes more than {limits.memory_mib} MiB of memory or "
            f"{limits.cpu_seconds} s of CPU time; make its files smaller and simpler"
        )
    last = printable((done.stderr.decode(errors="replace").splitlines() or ["no reason"])[-1])
    raise BundleError(f"bot {str(path)!r}: it cannot be read: {last}")
