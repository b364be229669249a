"""Files that are there whole or not at all, also after a crash or a power cut.

Invariants: what is new is written beside its place, synced and renamed, and the folder is synced;
after an error nothing is left of it, and what was there before is as it was.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


def write_atomically(path: Path, text: str | Iterable[str], mode: int = 0o644) -> None:
    """Write a text, or pieces of it, to a file with that mode; an OSError names it."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
                file.writelines((text,) if isinstance(text, str) else text)
                if hasattr(os, "fchmod"):  # not on Windows, where the folder says who may read
                    os.fchmod(file.fileno(), mode)
            put_in_place(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:  # a full disk, say, which does not tell where
        raise OSError(error.errno, error.strerror, str(path)) from error


def put_in_place(written: Path, target: Path) -> None:
    """Give a whole file its name, in the same file system; a file of that name is replaced."""
    _sync(written)
    written.replace(target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    flags = os.O_RDONLY
    if not hasattr(os, "O_DIRECTORY"):
        # Windows opens no folder, whose entries it looks after, and syncs what may be written.
        if path.is_dir():
            return
        flags = os.O_RDWR
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
