"""The file of an SQLite ladder and the files that SQLite keeps beside it.

Invariants: no ladder is made beside the log of another one, which SQLite would take for its own;
a connection never makes a file; what is written to a file that has lost its name counts as lost.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Final

from deepsea_ladder.errors import StoreError, StoreGone

BESIDE: Final = ("-wal", "-shm", "-journal")
"""The endings of what SQLite keeps beside its file."""


def find(path: Path, *, create: bool) -> None:
    """Make sure that there is a file; `create` makes it, for its owner alone."""
    if str(path) in ("", ".", ":memory:"):
        raise StoreError("a ladder needs a file: give its path")
    try:
        if create:
            if not path.exists():
                refuse_leftovers(path)
            # What is there already was perhaps left by a crash; its content is looked at later.
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        elif not path.is_file():
            raise StoreError(f"there is no ladder at {path}: make one with `ladder init`")
    except OSError as error:
        raise StoreError(f"{path} cannot be made: {error.strerror or error}") from None


def refuse_leftovers(path: Path) -> None:
    """Raise `StoreError` if SQLite would take another ladder's files for those of a new `path`."""
    for leftover in (Path(f"{path}{ending}") for ending in BESIDE):
        if leftover.exists():
            raise StoreError(
                f"{leftover} is there, left of another ladder, and may hold its last games: move "
                "it to that ladder's file, under the same name with this ending, then try again"
            )


def connect(path: Path, seconds: float) -> sqlite3.Connection:
    """Connect to the file at an absolute path; a write waits so many seconds for another one."""
    # Without `mode`, SQLite would make an empty file where a ladder was.
    where = f"{path.as_uri()}?mode=rw"
    return sqlite3.connect(where, uri=True, timeout=seconds, check_same_thread=False)


def prepare(connection: sqlite3.Connection, *, read_only: bool = False) -> bool:
    """Set a new connection up; whether it has a write-ahead log, which some disks do not allow."""
    connection.isolation_level = None  # transactions begin where the engine's events say
    for pragma in ("synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    ((mode,),) = connection.execute("PRAGMA journal_mode = WAL")
    if read_only:
        connection.execute("PRAGMA query_only = ON")
    return bool(mode == "wal")


class FileWatch:
    """Notices that the file that was opened lost its name."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._log = Path(f"{self._path}-wal")
        self._identity = _identity(self._path)

    def check(self, *, log: bool) -> None:
        """Raise `StoreGone` unless the file is there, and with `log` its write-ahead log too."""
        if _identity(self._path) != self._identity:
            self._refuse(self._path)
        if log and _identity(self._log) is None:
            self._refuse(self._log)

    def _refuse(self, path: Path) -> None:
        raise StoreGone(
            f"{path} was removed or replaced while the ladder was open, and nothing is stored any "
            "more: put the ladder's files back or restore a backup, then start again"
        )


def shorten_log(connection: sqlite3.Connection) -> None:
    """Move what is in the write-ahead log to the file, as far as others let it happen now."""
    with contextlib.suppress(sqlite3.Error):
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino
