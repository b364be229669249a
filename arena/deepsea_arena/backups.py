"""Verifies and restores backups; upgrades a ladder."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from deepsea_ladder import backup
from deepsea_ladder.errors import StoreError
from deepsea_ladder.store import Store, migrate
from deepsea_ladder.store.database import Database
from deepsea_ladder.store.schema import REVISION


class BackupCheck(Struct, frozen=True):
    """Whether a backup can be trusted."""

    sound: bool
    differences: tuple[str, ...]
    """Damaged pages, broken references, ratings that differ from those of the games."""


class RestoredLadder(Struct, frozen=True):
    """A ladder that was restored from a backup."""

    store: str
    """Where it is, without a password."""
    games: int


class UpgradedLadder(Struct, frozen=True):
    """A ladder whose tables are those of this program."""

    store: str
    former_schema: str
    schema: str
    """The revisions of its tables before and now, which may be the same."""


def check_backup(file: Path, *, records: bool = False) -> BackupCheck:
    """Compare a backup's ratings with its games; `records` also re-runs every record."""
    if not file.is_file():
        raise StoreError(f"there is no backup at {file}")
    found = tuple(backup.verify(file, records=records))
    return BackupCheck(sound=not found, differences=found)


def restore_backup(file: Path, target: str) -> RestoredLadder:
    """Create a ladder at the empty `target`; raises `StoreDamaged` for a damaged backup."""
    games = backup.restore(file, target)
    with Store.open(target) as store:
        return RestoredLadder(str(store.database), games)


def upgrade_ladder(target: str) -> UpgradedLadder:
    """Migrate a ladder's tables to the schema of this program, in one transaction.

    `StoreError` for a database that is empty, newer or no ladder, or whose tables are not those of
    its revision.
    """
    database = Database(target)
    try:
        former = migrate.upgrade(database)
        return UpgradedLadder(str(database), former or "none", REVISION)
    finally:
        database.close()
