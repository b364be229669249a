"""Backups, taken while the ladder runs, and whether a ladder can be trusted.

Invariants: a backup is one SQLite file, whatever the ladder is kept in, and a ladder like any
other; it gets its name only after it was verified; what is verified is the copy, not the original;
no code, token or session of the original is valid in it; restoring never touches a ladder that is
there, nor what is left of one.

A copy that is being made is in a locked folder. One that is not locked was left by a killed
process: the next copy in the same place removes it.

What was stored follows from the games, and nothing is damaged: every difference is one line that
names what is wrong; damage of any kind is a difference, never an exception.
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
    """Copy a running ladder to a new file, and verify the copy; returns its number of games.

    The original's audit log says so; one that cannot be written gets its backup all the same.
    Raises `StoreDamaged` if what was copied contradicts itself; no file is left then.
    """
    with _new_file(target) as scratch:
        if store.database.path is None:
            Store.create(scratch, source=store.database).close()
        else:
            _copy_sqlite(store.database.path, scratch)
        games = _verified(scratch)
    with suppress(StoreError), store.database.write() as connection:
        words = f"a backup of {games} games was made"
        place = str(target.absolute())
        note(connection, now(connection), AuditKind.BACKUP, place, words, actor=MACHINE)
    return games


def restore(backup: Path, target: str) -> int:
    """Create a ladder at `target` from a backup; returns its number of games.

    `target` is a path where nothing is yet, or the URL of an empty PostgreSQL database.
    """
    if "://" not in target:
        with _new_file(Path(target)) as scratch:
            _copy_backup(backup, scratch)
            games = _verified(scratch)
        with Store.open(target) as store:
            _refuse(find_damage(store.database), target)
            return games
    with _scratch_file(_temporary(), backup.name) as scratch:
        _copy_backup(backup, scratch)
        games = _verified(scratch)
        with (
            Store.open(scratch) as source,
            Store.create(target, source=source.database) as store,
        ):
            _refuse(differences(store), target)
    return games


def verify(backup: Path, *, records: bool = False) -> list[str]:
    """The differences found in a backup; none if it is sound. `records` also re-runs every game."""
    with _scratch_file(_temporary(), backup.name) as scratch:
        _copy_backup(backup, scratch)
        with Store.open(scratch) as store:
            return differences(store, records=records)


def unfinished_copies(store: Store) -> list[Path]:
    """Copies left by killed processes where a ladder, its backups and temporary files are."""
    file = store.database.path
    places = {_temporary(), *([file.absolute().parent] if file else [])}
    places |= {
        Path(entry.subject).parent
        for entry in store.audit.latest(LATEST_ENTRIES)
        if entry.kind is AuditKind.BACKUP
    }
    return [copy for place in sorted(places) for copy in _unfinished(place)]


def differences(store: Store, *, records: bool = False) -> list[str]:
    """Differences of a ladder: damaged or senseless values, broken references, ratings that do not
    follow from the games; `records` as for `season_differences`."""
    found = find_damage(store.database)
    for season in store.seasons.all() if not found else ():
        found += [
            f"season {season.name}: {line}"
            for line in season_differences(store, season, records=records)
        ]
    return found


def season_differences(
    store: Store, season: StoredSeason, *, records: bool = False, proof: Prove = prove
) -> list[str]:
    """Differences between a season and what its games and its seed give, one line each.

    records  also re-run every record, which takes a millisecond or two for each, compare it with
             the season's seed, the versions and their files, and follow the season's chain
    proof    how records are re-run
    """
    try:
        found = store.ratings.differences(season, records=records, proof=proof)
        if records and not found:
            found = _archive_differences(store, season) + _chain_differences(store, season)
    except (LadderError, *UNREADABLE_ERRORS) as error:
        return find_damage(store.database) or [f"it cannot be read: {error}"]
    return found


def _archive_differences(store: Store, season: StoredSeason) -> list[str]:
    found = []
    for version in store.history.players(season):
        try:
            stored_files(store.bots.archive(version.digest), version.digest)
        except (BundleDamaged, LadderError) as error:
            found.append(f"{version.label}: {error}")
    return found


def _chain_differences(store: Store, season: StoredSeason) -> list[str]:
    try:
        (link,) = deque(follow(export_lines(store, season)), maxlen=1)
    except ChainBroken as broken:
        return [f"its chain is broken: {broken}"]
    if link.place < season.place:
        return [f"its chain ends at place {link.place}, not {season.place}"]
    if link.place == season.place and link.head != season.head:
        return [f"its chain's head is {season.head}, not {link.head}"]
    return []


def _verified(path: Path) -> int:
    """Look through a copy, and leave it as one plain file; how many games are in it.

    What proved who somebody is ends in it: it may have been revoked since.
    """
    with Store.open(path) as store:
        _refuse(differences(store), str(path))
        store.accounts.end_everything()
        games = store.ratings.last_seq()
    with closing(sqlite3.connect(path)) as connection:
        # Without a write-ahead log a backup is one file, readable from read-only media.
        connection.execute("PRAGMA journal_mode = DELETE")
    return games


def _refuse(found: list[str], where: str) -> None:
    if found:
        raise StoreDamaged(f"the copy at {where} is not sound: {found[0]}")


def _copy_backup(backup: Path, target: Path) -> None:
    """Copy a backup, and bring the copy up to this program's schema."""
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
    """SQLite's own copy of a snapshot; writers go on meanwhile."""
    # Like the ladder itself for its owner alone: seeds of games to come are in it.
    target.touch(mode=0o600)
    try:
        with (
            closing(sqlite3.connect(read_only_uri(source.resolve()), uri=True)) as old,
            closing(sqlite3.connect(target)) as new,
        ):
            old.backup(new)
    except sqlite3.Error as error:
        raise StoreError(f"{source} cannot be copied to {target}: {error}") from None


@contextmanager
def _new_file(target: Path) -> Iterator[Path]:
    """A path next to `target` that becomes it, whole, if all goes well."""
    if target.exists():
        raise StoreError(f"{target} is there already; name a new file")
    refuse_leftovers(target)
    with _scratch_file(target.parent, target.name) as scratch:
        yield scratch
        put_in_place(scratch, target)


def _temporary() -> Path:
    return Path(tempfile.gettempdir())


@contextmanager
def _scratch_file(place: Path, name: str) -> Iterator[Path]:
    """A path in a locked folder in `place` for this user alone, which is removed at the end.

    Those of killed processes in the same place are removed first.
    """
    for copy in _unfinished(place):
        shutil.rmtree(copy, ignore_errors=True)
    while True:
        try:
            folder = Path(tempfile.mkdtemp(_UNFINISHED, f".{name}-", place))
        except OSError as error:
            reason = error.strerror or error
            raise StoreError(f"no file can be made in {place}: {reason}") from None
        with _locked(folder, wait=True):
            if not folder.exists():
                continue  # another process took it for unfinished before it was locked
            try:
                yield folder / "ladder.db"
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return


def _unfinished(place: Path) -> Iterator[Path]:
    """Copies left by killed processes, each locked until the next one is asked for."""
    for copy in sorted(place.glob(f".*{_UNFINISHED}")):
        with _locked(copy) as locked:
            if locked:
                yield copy


@contextmanager
def _locked(folder: Path, *, wait: bool = False) -> Iterator[bool]:
    """Lock a folder; False if another process has locked it, or if nobody can lock it."""
    try:
        fcntl: Any = import_module("fcntl")  # which Windows lacks
        # With the slash nothing but a folder is opened, which could keep this waiting.
        descriptor = os.open(f"{folder}/", os.O_RDONLY)
    except (ImportError, OSError):
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        locked = True
    except OSError:
        locked = False
    try:
        yield locked
    finally:
        os.close(descriptor)
