"""Backups as use cases: what is not sound is not restored, and who asks learns why."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepsea_arena.backups import check_backup, restore_backup, upgrade_ladder
from deepsea_ladder.backup import back_up
from deepsea_ladder.errors import StoreDamaged, StoreError
from deepsea_ladder.store import Store


@pytest.fixture
def copy(played: Store, tmp_path: Path) -> Path:
    """A backup of a ladder with eight games."""
    file = tmp_path / "copy.db"
    assert back_up(played, file) == 8
    return file


def test_a_sound_backup_becomes_a_ladder(copy: Path, tmp_path: Path) -> None:
    assert check_backup(copy, records=True).sound
    again = str(tmp_path / "again.db")
    restored = restore_backup(copy, again)
    assert (restored.store, restored.games) == (again, 8)
    with pytest.raises(StoreError, match="already"):
        restore_backup(copy, again)


def test_a_backup_that_contradicts_itself_is_not_restored(copy: Path, tmp_path: Path) -> None:
    with Store.open(copy) as store, store.database.write() as connection:
        connection.exec_driver_sql("UPDATE ratings SET wins = wins + 1 WHERE version_id = 1")
    check = check_backup(copy)
    assert not check.sound
    assert "wins" in check.differences[0]
    with pytest.raises(StoreDamaged):
        restore_backup(copy, str(tmp_path / "again.db"))
    assert not (tmp_path / "again.db").exists()


def test_a_missing_backup_is_named(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.db"
    for look in (check_backup, lambda file: restore_backup(file, str(tmp_path / "again.db"))):
        with pytest.raises(StoreError, match="there is no backup at"):
            look(nothing)
    assert not nothing.exists()


def test_a_ladder_of_this_program_is_upgraded_to_itself(copy: Path) -> None:
    upgraded = upgrade_ladder(str(copy))
    assert upgraded.store == str(copy)
    assert upgraded.former_schema == upgraded.schema
