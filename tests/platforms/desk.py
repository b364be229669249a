"""The command line with what macOS or Windows lack taken away, as a program of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from helpers.commands import Done, program

FORMS = ("macos", "windows")
WINDOWS = ("windows", pytest.param("macos", marks=pytest.mark.release))
"""For commands that do the same in both forms: Windows lacks whatever macOS lacks, and more."""
LONGEST_S = 600
"""No machine is so slow."""


class Desk:
    """A folder in which commands are run in one form; "linux" is as it is."""

    def __init__(self, form: str, folder: Path) -> None:
        self.form = form
        self.folder = folder

    def environment(self) -> dict[str, str]:
        """What a program needs to run in this form."""
        paths = [path for path in sys.path if path]
        if self.form != "linux":
            paths.insert(0, str(Path(__file__).parent / "forms" / self.form))
        codec = {"PYTHONIOENCODING": "cp1252"} if self.form == "windows" else {}
        # Elsewhere a browser has a window always: here none is to open.
        more = {"BROWSER": "true", "PYTHONPATH": os.pathsep.join(paths)}
        return {**os.environ, **codec, **more}

    def start(self, *arguments: object) -> subprocess.Popen[bytes]:
        """Start a command; the caller ends it."""
        return subprocess.Popen(
            program(*arguments),
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, *arguments: object) -> Done:
        """Run a command to its end."""
        done = subprocess.run(
            program(*arguments),
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LONGEST_S,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def python(self, text: str) -> Done:
        """Run a Python program to its end."""
        done = subprocess.run(
            [sys.executable, "-c", text],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            timeout=LONGEST_S,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def without_times(record: Path) -> dict[str, Any]:
    """A record but for the times of its decisions."""
    document: dict[str, Any] = json.loads(record.read_bytes())
    for decision in document["decisions"]:
        del decision["us"]
    return document


def left(pids: list[int]) -> list[psutil.Process]:
    """Those of these processes that do not end."""
    processes = []
    for pid in pids:
        try:
            processes.append(psutil.Process(pid))
        except psutil.NoSuchProcess:
            continue
    # A zombie is no process of ours that runs: whoever inherited it has not looked at it yet.
    _, alive = psutil.wait_procs(processes, timeout=LONGEST_S / 4)
    return [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]
