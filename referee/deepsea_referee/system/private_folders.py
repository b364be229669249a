"""Folders and processes that must not outlive this process, where a guardian looks after them."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from deepsea_referee.sandbox.cleanup import CleanupProcess, of_this_process
from deepsea_referee.system import guardian
from deepsea_referee.system.own_group import OWN_GROUP_FLAGS

_COMMAND: Final = (sys.executable, "-I", "-B", guardian.__file__)


def entries() -> CleanupProcess:
    """The entries of this process at its guardian."""
    return of_this_process(
        lambda: CleanupProcess(
            _COMMAND,
            # It is isolated from the environment, and still needs psutil.
            first=json.dumps(sys.path).encode() + b"\n",
            flags=OWN_GROUP_FLAGS,
        )
    )


def make() -> Path:
    """Make a folder for this user alone; its name is short, because sockets' paths must be."""
    folder = Path(tempfile.mkdtemp(prefix="deepsea-"))
    entries().register("folder", str(folder))
    return folder


def remove(folder: Path) -> None:
    """Remove a private folder with all that is in it."""
    shutil.rmtree(folder, ignore_errors=True)
    entries().unregister("folder", str(folder))
