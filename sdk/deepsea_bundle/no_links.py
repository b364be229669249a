"""Opens what is in a folder without following links.

Invariants: where the system opens a file relative to an open folder, every part of a path is opened
so, and nobody can put a link there meanwhile; on Windows, which cannot, every part is looked at
before, which is enough for files of one's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_BY_PARTS: Final = os.open in os.supports_dir_fd and os.scandir in os.supports_fd


@contextmanager
def opened(root: Path, place: str) -> Iterator[int]:
    """A descriptor of the file or folder at `place`, of which no part is a link."""
    descriptor = _open_by_parts(root, place) if _BY_PARTS else _open_checked(root, place)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def names_in(root: Path, place: str) -> list[str]:
    """The names in the folder at `place`, sorted."""
    if not _BY_PARTS:
        return sorted(entry.name for entry in os.scandir(_checked(root, place)))
    with opened(root, place) as descriptor:
        return sorted(entry.name for entry in os.scandir(descriptor))


def _open_by_parts(root: Path, place: str) -> int:
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"):
        flags |= getattr(os, name)
    descriptor = os.open(root, flags | getattr(os, "O_DIRECTORY"))  # noqa: B009
    try:
        for part in place.split("/") if place else ():
            outer = descriptor
            descriptor = os.open(part, flags, dir_fd=outer)
            os.close(outer)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open_checked(root: Path, place: str) -> int:
    # As bytes: Windows would change line ends.
    return os.open(_checked(root, place), os.O_RDONLY | getattr(os, "O_BINARY", 0))


def _checked(root: Path, place: str) -> Path:
    path = root
    for part in place.split("/") if place else ():
        path = path / part
        if path.is_symlink():
            raise OSError(f"{path} has become a link")
    return path
