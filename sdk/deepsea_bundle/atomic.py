"""Files that are there whole or not at all, even after a crash or a power cut.

Invariants: new content is written beside its place, synced and renamed, and the folder is synced.
After an error no new file is left, and an old one is unchanged.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


def write_atomically(path: Path, text: str | Iterable[str], mode: int = 0o644) -> None:
    """Write a text, or pieces of it, to a file with this mode. An OSError names the file."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
                file.writelines((text,) if isinstance(text, str) else text)
                if hasattr(os, "fchmod"):  # Windows takes permissions from the folder
                    os.fchmod(file.fileno(), mode)
            put_in_place(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:  # of a full disk, for example, which does not name the file
        raise OSError(error.errno, error.strerror, str(path)) from error


def put_in_place(written: Path, target: Path) -> None:
    """Rename a finished file to its place in the same file system; a file there is replaced."""
    _sync(written)
    written.replace(target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    """Wait until a file or a folder is on the disk."""
    flags = os.O_RDONLY
    if not hasattr(os, "O_DIRECTORY"):
        # Windows cannot open a folder, and syncs only files that are open for writing.
        if path.is_dir():
            return
        flags = os.O_RDWR
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
