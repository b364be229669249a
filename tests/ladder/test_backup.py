"""Backups: of a running ladder, verified, and never over something else."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import sqlalchemy

from deepsea_ladder import backup
from deepsea_ladder.accounts import AuditKind
from deepsea_ladder.errors import StoreDamaged, StoreError
from deepsea_ladder.model import StoredSeason
from deepsea_ladder.store import Store
from helpers import ladder
from helpers.killing import answered
from helpers.postgres import Postgres


def _contents(store: Store) -> None:
    """A season with four bots and ten games, of which six are played."""
    season = ladder.to_play(store, 6)
    ladder.play_all(store, season)
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 4))


CONTENTS = _contents


def _same(one: Store, other: Store, season: StoredSeason) -> None:
    assert list(other.history.games()) == list(one.history.games())
    assert other.ratings.entries(season) == one.ratings.entries(season)
    assert other.bots.all() == one.bots.all()
    assert other.seasons.all() == one.seasons.all()
    backups = ladder.audited(one, AuditKind.BACKUP)
    assert [entry for entry in one.audit.latest() if entry not in backups] == other.audit.latest()
    assert other.queue.counts(season).done == one.queue.counts(season).done


def test_a_backup_is_a_ladder_in_one_file(
    store: Store, season: StoredSeason, tmp_path: Path
) -> None:
    copy = tmp_path / "backup.db"
    assert backup.back_up(store, copy) == 6
    assert [path.name for path in tmp_path.glob("backup*")] == ["backup.db"]
    assert list(tmp_path.glob(".*")) == []
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert backup.verify(copy, records=True) == []
    with Store.open(copy) as other:
        _same(store, other, season)


def test_what_was_restored_goes_on(store: Store, season: StoredSeason, tmp_path: Path) -> None:
    held = ladder.claim(store, season, "somebody")
    copy, restored = tmp_path / "backup.db", tmp_path / "restored.db"
    backup.back_up(store, copy)
    copy.chmod(0o400)
    assert backup.restore(copy, str(restored)) == 6
    with Store.open(restored) as other:
        _same(store, other, season)
        # Whoever held a lease may still report, to the ladder that knows of it.
        assert other.games.report(held, ladder.play(held)).seq == 7
        ladder.play_all(other, season)
        ladder.submit(other, "eve")
        assert other.ratings.differences(season, records=True) == []
        assert other.queue.counts(season).done == 10


# On PostgreSQL alone before a release: here it is backed up and restored there too.
def test_a_ladder_moves_between_the_databases(
    store: Store, season: StoredSeason, tmp_path: Path, postgres: Postgres
) -> None:
    copy = tmp_path / "backup.db"
    backup.back_up(store, copy)
    elsewhere = postgres.url(postgres.new_database())
    assert backup.restore(copy, elsewhere) == 6
    with Store.open(elsewhere) as other:
        _same(store, other, season)
        ladder.submit(other, "eve")
        other.jobs.add(season, ladder.rotations(ladder.ids(other)[1:], 2))
        ladder.play_all(other, season)
        assert other.ratings.differences(season, records=True) == []
        back = tmp_path / "back.db"
        assert backup.back_up(other, back) == 12
        with Store.open(back) as third:
            _same(other, third, season)


@pytest.mark.databases
def test_a_backup_under_load_is_sound(
    store: Store, season: StoredSeason, tmp_path: Path, another: Callable[[], Store]
) -> None:
    own = another()
    writer = threading.Thread(target=ladder.play_all, args=(own, season))
    writer.start()
    games: list[int] = []
    while writer.is_alive():
        games.append(backup.back_up(store, tmp_path / f"backup{len(games)}.db"))
    writer.join()
    assert games
    assert games == sorted(games)
    assert store.ratings.last_seq() == 10
    for number in range(len(games)):
        assert backup.verify(tmp_path / f"backup{number}.db") == []


def test_nothing_is_written_over(store: Store, season: StoredSeason, tmp_path: Path) -> None:
    copy, precious = tmp_path / "backup.db", tmp_path / "precious"
    precious.write_text("precious")
    backup.back_up(store, copy)
    with pytest.raises(StoreError, match=r"precious is there already; name a new file"):
        backup.back_up(store, precious)
    with pytest.raises(StoreError, match=r"precious is there already"):
        backup.restore(copy, str(precious))
    target = store.database.url.render_as_string(hide_password=False)
    with pytest.raises(StoreError, match=r"there already|already"):
        backup.restore(copy, target if store.database.path is None else str(store.database.path))
    assert precious.read_text() == "precious"


def test_a_ladder_that_contradicts_itself_gives_no_backup(
    store: Store, season: StoredSeason, tmp_path: Path
) -> None:
    ladder.write(store, "UPDATE ratings SET wins = wins + 1 WHERE version_id = 1")
    with pytest.raises(StoreDamaged, match="is not sound: season s1: version 1: wins is"):
        backup.back_up(store, tmp_path / "backup.db")
    assert list(tmp_path.glob("*backup*")) == []


def test_a_damaged_backup_is_not_restored(
    store: Store, season: StoredSeason, tmp_path: Path
) -> None:
    copy = tmp_path / "backup.db"
    backup.back_up(store, copy)
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("DELETE FROM games WHERE seq = 3")
        connection.commit()
    (line, *_) = backup.verify(copy)
    assert "what it refers to is gone" in line
    with pytest.raises(StoreDamaged, match="is not sound"):
        backup.restore(copy, str(tmp_path / "restored.db"))

    content = bytearray(copy.read_bytes())
    half = len(content) // 2
    content[half : half + 8192] = b"\0" * 8192
    copy.write_bytes(content)
    with pytest.raises(StoreError):
        backup.restore(copy, str(tmp_path / "restored.db"))
    assert not (tmp_path / "restored.db").exists()


def test_what_is_no_backup_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no backup at"):
        backup.restore(tmp_path / "nothing.db", str(tmp_path / "restored.db"))
    notes = tmp_path / "notes.txt"
    notes.write_text("no database " * 100)
    with pytest.raises(StoreError, match="cannot be copied"):
        backup.verify(notes)
    sqlite3.connect(tmp_path / "other.db").close()
    with pytest.raises(StoreError, match="there is no ladder at"):
        backup.verify(tmp_path / "other.db")


# Copies of killed processes


def _killed(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _killed_in_a_copy(
    answer: Connection, target: str, source: str, folder: Path, temporary: Path
) -> None:
    """A backup, a restore or a check of a backup that is killed when its copy is written."""
    tempfile.tempdir = str(temporary)
    backup._finish_copy = backup.differences = _killed  # type: ignore[assignment]
    if target.endswith("again.db"):
        backup.restore(folder / "copy.db", target)
    elif target.endswith("killed.db"):
        with Store.open(source) as store:
            backup.back_up(store, Path(target))
    else:
        backup.verify(folder / "copy.db")


def test_copies_of_killed_processes_go_with_the_next_copy_to_the_same_place(
    store: Store, season: StoredSeason, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup.back_up(store, tmp_path / "copy.db")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    source = store.database.url.render_as_string(hide_password=False)
    for target in ("killed.db", "again.db", "verify"):
        words = (str(tmp_path / target), source, tmp_path, temporary)
        assert answered(_killed_in_a_copy, *words) is None
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    killed = {*tmp_path.glob(".*"), *temporary.iterdir()}
    assert len(killed) == 2  # the killed restore had removed that of the backup
    assert {*backup.unfinished_copies(store)} == killed
    assert backup.verify(tmp_path / "copy.db") == []
    backup.back_up(store, tmp_path / "next.db")
    assert backup.unfinished_copies(store) == []
    assert [*tmp_path.glob(".*"), *temporary.iterdir()] == []


def test_the_copy_of_a_process_that_lives_stays(
    store: Store, season: StoredSeason, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify = backup._finish_copy

    def back_up_meanwhile(path: Path) -> int:
        monkeypatch.setattr(backup, "_finish_copy", verify)
        assert backup.back_up(store, tmp_path / "other.db") == 6
        assert backup.unfinished_copies(store) == []
        return verify(path)

    monkeypatch.setattr(backup, "_finish_copy", back_up_meanwhile)
    assert backup.back_up(store, tmp_path / "slow.db") == 6
    assert backup.verify(tmp_path / "slow.db") == []


def test_a_copy_that_is_removed_before_it_is_locked_is_begun_again(
    store: Store, season: StoredSeason, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = tempfile.mkdtemp
    made = []

    def make_and_lose(suffix: str, prefix: str, dir: Path) -> str:  # noqa: A002  (tempfile's)
        made.append(make(suffix, prefix, dir))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_lose)
    assert backup.back_up(store, tmp_path / "copy.db") == 6
    assert len(made) == 2


def _killed_in_a_restore(answer: Connection, file: Path, target: str, number: int) -> None:
    """A restore that is killed before its statement or commit `number` on PostgreSQL."""
    count = 0

    def before(connection: sqlalchemy.Connection, *_: object) -> None:
        nonlocal count
        count += connection.dialect.name == "postgresql"
        if count == number:
            _killed()

    for name in ("before_cursor_execute", "commit"):
        sqlalchemy.event.listen(sqlalchemy.Engine, name, before)
    backup.restore(file, target)
    answer.send(count)


def test_a_restore_to_postgresql_that_is_killed_can_be_repeated(
    store: Store, season: StoredSeason, tmp_path: Path, postgres: Postgres
) -> None:
    copy, number = tmp_path / "copy.db", 1
    backup.back_up(store, copy)
    while True:
        elsewhere = postgres.url(postgres.new_database())
        if answered(_killed_in_a_restore, copy, elsewhere, number) is not None:
            break
        try:
            assert backup.restore(copy, elsewhere) == 6
        except StoreError:  # it was whole before the end of the killed one
            with Store.open(elsewhere) as other:
                assert backup.differences(other) == []
                _same(store, other, season)
        number = number * 3 // 2 + 1
    assert number > 20
