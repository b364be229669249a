"""Backups of a running ladder, and the comparison of a ladder's stored values with its games.

Invariants: a backup is one SQLite file, whatever database the ladder uses, and a ladder like any
other; it gets its name only after its copy was verified; no code, token or session of the original
is valid in it; restoring never overwrites a ladder or the files of a removed one. A difference is
one line that names the damaged or contradictory value; damage is returned as a difference, never
raised.

A copy is made in a locked folder. A folder that is not locked was left by a killed process: the
next copy in the same parent folder removes it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from deepsea_bundle.atomic import put_in_place, stored_files
from deepsea_bundle.errors import BundleDamaged
from deepsea_ladder.accounts import MACHINE, AuditKind
from deepsea_ladder.chain import Prove, follow, prove
from deepsea_ladder.errors import ChainBroken, LadderError, StoreDamaged, StoreError
from deepsea_ladder.export import export_lines
from deepsea_ladder.model import StoredSeason
from deepsea_ladder.store import Database, Store, migrate
from deepsea_ladder.store.audit import LATEST_ENTRIES, note
from deepsea_ladder.store.database import (
    UNREADABLE_ERRORS,
    find_damage,
    now,
    read_only_uri,
    refuse_leftovers,
)

_UNFINISHED = ".unfinished-copy"
"""The end of the name of a folder in which a copy is being made."""


def back_up(store: Store, target: Path) -> int:
    """Copy a running ladder to a new file, verify the copy, and return its number of games.

    Raises `StoreDamaged`, and leaves no file, if the copy is damaged or contradicts itself. The
    backup gets an entry in the audit log of the original ladder, unless that cannot be written, for
    example because its disk is full.

    store  the ladder, in a SQLite file or a PostgreSQL database
    """
    with _new_file(target) as scratch:
        if store.database.path is None:  # PostgreSQL: copied table by table
            Store.create(scratch, source=store.database).close()
        else:
            _copy_sqlite(store.database.path, scratch)
        games = _finish_copy(scratch)
    with suppress(StoreError), store.database.write() as connection:
        message = f"a backup of {games} games was made"
        backup_path = str(target.absolute())
        note(connection, now(connection), AuditKind.BACKUP, backup_path, message, actor=MACHINE)
    return games


def restore(backup: Path, target: str) -> int:
    """Create a ladder at `target` from a backup, and return its number of games.

    `target` is a path where no file exists, or the URL of an empty PostgreSQL database. The copy is
    verified before and after it is put there. Raises `StoreError` if `target` is in use, and
    `StoreDamaged` if the backup is not sound.
    """
    is_url = "://" in target
    if is_url:
        return _restore_to_postgresql(backup, target)
    with _new_file(Path(target)) as scratch:
        _copy_backup(backup, scratch)
        games = _finish_copy(scratch)
    with Store.open(target) as store:
        _refuse_differences(find_damage(store.database), target)
    return games


def _restore_to_postgresql(backup: Path, url: str) -> int:
    """Create a ladder in an empty PostgreSQL database; return its number of games.

    The backup is copied and verified in a temporary file, whose tables are copied from there.
    """
    with _scratch_file(_temporary_folder(), backup.name) as scratch:
        _copy_backup(backup, scratch)
        games = _finish_copy(scratch)
        with (
            Store.open(scratch) as source,
            Store.create(url, source=source.database) as store,
        ):
            _refuse_differences(differences(store), url)
    return games


def verify(backup: Path, *, records: bool = False) -> list[str]:
    """Return the differences in a backup, one line each; an empty list means that it is sound.

    The backup itself is not changed: a copy of it is brought up to this program's schema and
    compared. With `records` every game is played again from its record.
    """
    with _scratch_file(_temporary_folder(), backup.name) as scratch:
        _copy_backup(backup, scratch)
        with Store.open(scratch) as store:
            return differences(store, records=records)


def unfinished_copies(store: Store) -> list[Path]:
    """Return the folders of unfinished copies that killed processes left on this machine.

    Searched are the folder for temporary files, the ladder's own folder, and the folders of the
    backups that the latest entries of the audit log name.
    """
    parents = {_temporary_folder()}
    if store.database.path is not None:
        parents.add(store.database.path.absolute().parent)
    for entry in store.audit.latest(LATEST_ENTRIES):
        if entry.kind is AuditKind.BACKUP:
            parents.add(Path(entry.subject).parent)
    return [folder for parent in sorted(parents) for folder in _abandoned_folders(parent)]


def differences(store: Store, *, records: bool = False) -> list[str]:
    """Return everything that is wrong with a ladder's stored data, one line each.

    If tables have damaged or senseless values or broken references, only those are returned, since
    nothing can be computed from them. Otherwise these are the lines of `season_differences` for
    every season. With `records` every game is also played again from its record.
    """
    lines = find_damage(store.database)
    if lines:
        return lines
    for season in store.seasons.all():
        for line in season_differences(store, season, records=records):
            lines.append(f"season {season.name}: {line}")
    return lines


def season_differences(
    store: Store, season: StoredSeason, *, records: bool = False, proof: Prove = prove
) -> list[str]:
    """Return each stored value of a season that does not follow from its games, as one line.

    An empty list means that all is well.

    records  True to also play every game again from its record, which takes a millisecond or two
             each, compare it with the season's seed, and check the bots' archives and the chain
    proof    the function that plays the records again
    """
    try:
        lines = store.ratings.differences(season, records=records, proof=proof)
        if records and not lines:
            lines = _archive_differences(store, season) + _chain_differences(store, season)
    except (LadderError, *UNREADABLE_ERRORS) as error:
        # The check of the tables describes an unreadable value better, if it finds that.
        return find_damage(store.database) or [f"it cannot be read: {error}"]
    return lines


def _archive_differences(store: Store, season: StoredSeason) -> list[str]:
    """Return a line for each bot version of a season whose stored archive is damaged or missing."""
    lines = []
    for version in store.history.players(season):
        try:
            stored_files(store.bots.archive(version.digest), version.digest)
        except (BundleDamaged, LadderError) as error:
            lines.append(f"{version.label}: {error}")
    return lines


def _chain_differences(store: Store, season: StoredSeason) -> list[str]:
    """Check a season's hash chain from its first game to its last; return a line for a mistake.

    It is a mistake if a link is broken, or if the chain does not end with the stored head. An empty
    list means that all is well.
    """
    try:
        # There is at least one link, that of the opening line. A deque of one keeps only the last.
        (last_link,) = deque(follow(export_lines(store, season)), maxlen=1)
    except ChainBroken as broken:
        return [f"its chain is broken: {broken}"]
    if last_link.place < season.place:
        return [f"its chain ends at place {last_link.place}, not {season.place}"]
    # If it is longer than `season` says, games were stored since `season` was read.
    if last_link.place == season.place and last_link.head != season.head:
        return [f"its chain's head is {season.head}, not {last_link.head}"]
    return []


def _finish_copy(path: Path) -> int:
    """Verify a copy of a ladder, make it a single file, and return its number of games.

    All codes, tokens and sessions of the copy end, since the original may have revoked them by the
    time the copy is used. Raises `StoreDamaged` if the copy is not sound.
    """
    with Store.open(path) as store:
        _refuse_differences(differences(store), str(path))
        store.accounts.end_all_secrets()
        games = store.ratings.last_seq()
    with closing(sqlite3.connect(path)) as connection:
        # Without a write-ahead log a backup is one file, readable from read-only media.
        connection.execute("PRAGMA journal_mode = DELETE")
    return games


def _refuse_differences(lines: list[str], location: str) -> None:
    """Raise `StoreDamaged` with the first of a copy's differences, if it has any."""
    if lines:
        raise StoreDamaged(f"the copy at {location} is not sound: {lines[0]}")


def _copy_backup(backup: Path, target: Path) -> None:
    """Copy a backup to a new file, and bring the copy up to this program's schema.

    Errors name the backup, not the copy, whose path the user does not know.
    """
    if not backup.is_file():
        raise StoreError(f"there is no backup at {backup}")
    _copy_sqlite(backup, target)
    database = Database(target)
    try:
        migrate.upgrade(database)
    except StoreError as error:
        raise type(error)(str(error).replace(str(target), str(backup))) from None
    finally:
        database.close()


def _copy_sqlite(source: Path, target: Path) -> None:
    """Copy a consistent snapshot of a SQLite database; others may write to it meanwhile."""
    # Only its owner may read the copy, like the ladder: it has the seeds of games to come.
    target.touch(mode=0o600)
    try:
        with (
            closing(sqlite3.connect(read_only_uri(source.resolve()), uri=True)) as original,
            closing(sqlite3.connect(target)) as copy,
        ):
            original.backup(copy)
    except sqlite3.Error as error:
        raise StoreError(f"{source} cannot be copied to {target}: {error}") from None


@contextmanager
def _new_file(target: Path) -> Iterator[Path]:
    """Yield a path to write a new file to, which is moved to `target` at the end of the block.

    If the block raises an exception, the file is removed instead. Raises `StoreError` if `target`,
    or a left-over journal of a database there, exists.
    """
    if target.exists():
        raise StoreError(f"{target} is there already; name a new file")
    refuse_leftovers(target)
    with _scratch_file(target.parent, target.name) as scratch:
        yield scratch
        put_in_place(scratch, target)


def _temporary_folder() -> Path:
    return Path(tempfile.gettempdir())


@contextmanager
def _scratch_file(parent: Path, name: str) -> Iterator[Path]:
    """Yield the path of a file to be made in a new folder, which is removed after the block.

    The folder is made in `parent`, and `name` is a part of its name. It is locked, so that no other
    process takes it for an abandoned one. Folders that killed processes left there are removed
    first.
    """
    for abandoned in _abandoned_folders(parent):
        shutil.rmtree(abandoned, ignore_errors=True)
    while True:
        try:
            folder = Path(tempfile.mkdtemp(suffix=_UNFINISHED, prefix=f".{name}-", dir=parent))
        except OSError as error:
            reason = error.strerror or error
            raise StoreError(f"no file can be made in {parent}: {reason}") from None
        with _locked(folder, wait=True):
            if not folder.exists():
                continue  # another process has removed it before it was locked: try again
            try:
                yield folder / "ladder.db"
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return


def _abandoned_folders(parent: Path) -> Iterator[Path]:
    """Yield each folder in `parent` in which a process was making a copy when it was killed.

    A running process locks its folder. Each abandoned one is locked while the caller handles it, so
    that it can be removed safely.
    """
    for folder in sorted(parent.glob(f".*{_UNFINISHED}")):
        with _locked(folder) as is_ours:
            if is_ours:
                yield folder


@contextmanager
def _locked(folder: Path, *, wait: bool = False) -> Iterator[bool]:
    """Lock a folder for the block, and yield True if that succeeded.

    It yields False if another process has the lock, if the folder cannot be opened, and on Windows,
    which has no such locks.

    wait  True to wait while another process has the lock
    """
    try:
        fcntl: Any = import_module("fcntl")
        # The slash makes this fail for anything but a folder: opening a named pipe would block.
        descriptor = os.open(f"{folder}/", os.O_RDONLY)
    except (ImportError, OSError):
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        is_ours = True
    except OSError:
        is_ours = False
    try:
        yield is_ours
    finally:
        os.close(descriptor)
