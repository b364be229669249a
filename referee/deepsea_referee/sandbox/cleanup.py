"""The cleanup process: cleans up after the referee, also when the referee is killed.

Invariants: whatever must not outlive the referee (processes, control groups, folders) is
registered before it exists and unregistered after it is gone. When the referee exits in any way,
`kill -9` included, the cleanup process kills and removes everything that is still registered.
Each referee process has one; it starts with the first entry.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import shutil
import sys
import tempfile
from pathlib import Path

from deepsea_referee.sandbox import cleanup_process, leftovers
from deepsea_referee.sandbox.cleanup_entries import CleanupProcess, Kind, of_this_process

_number = itertools.count()
_COMMAND = (sys.executable, "-I", "-S", "-B", cleanup_process.__file__)


def _mine() -> CleanupProcess:
    return of_this_process(lambda: CleanupProcess((*_COMMAND, str(os.getpid())), environment={}))


def new_mark() -> str:
    """A text that is unique on this machine, to find the processes of one bot."""
    owner = os.getpid()
    source = f"{owner} {cleanup_process.start_time(owner)} {next(_number)}"
    # Of one length: none is a part of another.
    return hashlib.sha256(source.encode()).hexdigest()[:32]


def register(kind: Kind, value: str | Path, extra: int = 0) -> None:
    """Add something that must not outlive this process. `extra`: a session leader's start time."""
    _mine().register(kind, str(value), extra)


def unregister(kind: Kind, value: str | Path) -> None:
    """Remove an entry: its resource is gone."""
    _mine().unregister(kind, str(value))


def private_folder(parent: str | None = None) -> Path:
    """Make a folder (mode 700) for `remove_folder`; removed at the latest with this process."""
    while True:
        folder = Path(parent or tempfile.gettempdir(), leftovers.folder_name())
        register("folder", folder)
        try:
            folder.mkdir(mode=0o700)
            return folder
        except OSError as error:
            unregister("folder", folder)
            if error.errno != errno.EEXIST:  # somebody else may have made one of that name
                raise


def remove_folder(folder: Path) -> None:
    """Remove a private folder with all that is in it."""
    shutil.rmtree(folder, ignore_errors=True)
    unregister("folder", folder)
