"""Removes what referees left that were killed together with their cleanup processes.

Invariants: a folder is removed only if it is this user's, and the process that made it, by its
number, start time and process namespace, has certainly ended; a control group only if nothing runs
in it.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from deepsea_referee.sandbox.cleanup_process import start_time

_FOLDER: Final = re.compile(r"deepsea-(\d+)-(\d+)-(\d+)-\d+")
_GROUP: Final = re.compile(r"deepsea-(\d+)-\d+")
_number = itertools.count(1)


def folder_name() -> str:
    """A new name of a folder that says which process makes it."""
    pid = os.getpid()
    return f"deepsea-{pid}-{start_time(pid)}-{_namespace()}-{next(_number)}"


def remove_folders(parents: Iterable[str | Path] | None = None) -> list[Path]:
    """Remove the folders of ended processes; returns them. By default those for temporary files."""
    if parents is None:
        parents = {tempfile.gettempdir(), "/tmp"}
    removed = []
    for parent in parents:
        for folder in Path(parent).glob("deepsea-*"):
            if _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)
                removed.append(folder)
    return removed


def remove_groups(places: Iterable[Path]) -> None:
    """Remove the empty control groups of ended processes."""
    for place in places:
        for group in place.glob("deepsea-*"):
            found = _GROUP.fullmatch(group.name)
            if found and not start_time(int(found[1])):
                with suppress(OSError):  # something runs in it
                    group.rmdir()


def _is_left(folder: Path) -> bool:
    found = _FOLDER.fullmatch(folder.name)
    if found is None or int(found[3]) != _namespace():
        return False
    with suppress(OSError):
        if folder.is_symlink() or folder.lstat().st_uid != os.geteuid():
            return False
        return start_time(int(found[1])) != int(found[2])
    return False


def _namespace() -> int:
    """The namespace that process numbers are of."""
    return Path("/proc/self/ns/pid").stat().st_ino
