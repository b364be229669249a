"""A ladder's file and what lies beside it: leftovers, a clean end, a file that goes in mid-run."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deepsea_bundle.atomic import put_in_place
from deepsea_ladder import backup
from deepsea_ladder.errors import StoreError, StoreGone
from deepsea_ladder.store import Store, database
from helpers import ladder
from helpers.tools import require


@pytest.fixture
def killed(pattern: Path, tmp_path: Path) -> Path:
    """Where a ladder was when its process was killed: its log is still there, its file is not."""
    place = tmp_path / "here" / "ladder.db"
    place.parent.mkdir()
    original = tmp_path / "original.db"
    with Store.open(shutil.copy(pattern, original)) as store:
        season = ladder.to_play(store, 6)
        ladder.play_all(store, season)
        for ending in ("-wal", "-shm"):
            shutil.copy(f"{original}{ending}", f"{place}{ending}")
    return place


@pytest.fixture(scope="module")
def backed_up(pattern: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of another ladder, with two games."""
    folder = tmp_path_factory.mktemp("other")
    with Store.open(shutil.copy(pattern, folder / "other.db")) as store:
        season = ladder.to_play(store, 2)
        ladder.play_all(store, season)
        backup.back_up(store, folder / "copy.db")
    return folder / "copy.db"


@pytest.fixture
def copy(backed_up: Path, tmp_path: Path) -> Path:
    """That backup, for one test."""
    return Path(shutil.copy(backed_up, tmp_path / "copy.db"))


def test_nothing_is_made_beside_the_log_of_another_ladder(killed: Path, copy: Path) -> None:
    before = {path.name: path.read_bytes() for path in killed.parent.iterdir()}
    words = r"ladder\.db-wal is there, .* of another ladder"
    with pytest.raises(StoreError, match=words):
        backup.restore(copy, str(killed))
    with pytest.raises(StoreError, match=words):
        Store.create(killed)
    with Store.open(copy) as store, pytest.raises(StoreError, match=words):
        backup.back_up(store, killed)
    assert {path.name: path.read_bytes() for path in killed.parent.iterdir()} == before


def test_each_leftover_alone_is_refused(tmp_path: Path, copy: Path) -> None:
    place = tmp_path / "place.db"
    for ending in ("-wal", "-shm", "-journal"):
        leftover = Path(f"{place}{ending}")
        leftover.touch()
        with pytest.raises(StoreError, match=f"place.db{ending} is there"):
            backup.restore(copy, str(place))
        leftover.unlink()
    assert backup.restore(copy, str(place)) == 2


def test_what_was_restored_is_looked_over_in_its_place(
    tmp_path: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place.db"

    def put_and_damage(written: Path, target: Path) -> None:
        put_in_place(written, target)
        with target.open("r+b") as file:
            file.seek(4096 * 3)
            file.write(b"\xff" * 4096 * 4)

    monkeypatch.setattr("deepsea_ladder.backup.put_in_place", put_and_damage)
    with pytest.raises(StoreError, match=r"place\.db"):
        backup.restore(copy, str(place))


def test_a_clean_end_leaves_one_file_or_an_empty_log(target_file: Path) -> None:
    log = Path(f"{target_file}-wal")
    with Store.open(target_file) as store:
        ladder.stocked(store)
        assert log.stat().st_size > 0
    assert not log.exists()
    with Store.open(target_file) as reader:
        assert len(reader.bots.all()) == 4
        with Store.open(target_file) as store:
            ladder.submit(store, "eve")
        assert log.stat().st_size == 0
        assert len(reader.bots.all()) == 5


def test_opening_the_ladder_of_a_killed_run_gathers_its_games_in_one_file(
    pattern: Path, tmp_path: Path
) -> None:
    original, moved = tmp_path / "original.db", tmp_path / "moved.db"
    with Store.open(shutil.copy(pattern, original)) as store:
        ladder.stocked(store)
        for ending in ("", "-wal"):
            shutil.copy(f"{original}{ending}", f"{moved}{ending}")
    with Store.open(moved) as store:
        store.bots.all()
    assert not Path(f"{moved}-wal").exists()
    alone = shutil.copy(moved, tmp_path / "alone.db")
    with Store.open(alone) as store:
        assert len(store.bots.all()) == 4


@pytest.fixture
def target_file(tmp_path: Path, pattern: Path) -> Path:
    """An SQLite ladder with nothing in it."""
    return Path(shutil.copy(pattern, tmp_path / "ladder.db"))


def _remove(file: Path, copy: Path) -> None:
    for path in file.parent.glob("ladder.db*"):
        path.unlink()


def _replace(file: Path, copy: Path) -> None:
    copy.rename(file)


def _move(file: Path, copy: Path) -> None:
    file.rename(file.with_name("elsewhere.db"))


def _remove_log(file: Path, copy: Path) -> None:
    Path(f"{file}-wal").unlink()


@pytest.mark.parametrize("deed", [_remove, _replace, _move, _remove_log])
def test_a_ladder_that_goes_while_it_is_open_is_noticed_at_the_next_write(
    target_file: Path, copy: Path, deed: Callable[[Path, Path], None]
) -> None:
    with Store.open(target_file) as store:
        season = ladder.to_play(store, 2)
        job = ladder.claim(store, season)
        deed(target_file, copy)
        found = {path.name for path in target_file.parent.iterdir()}
        for _ in range(2):
            with pytest.raises(StoreGone, match=r"ladder\.db(-wal)? was removed or replaced"):
                store.games.report(job, ladder.play(job))
        assert {path.name for path in target_file.parent.iterdir()} == found


def test_a_connection_makes_no_file_where_a_ladder_was(target_file: Path) -> None:
    with Store.open(target_file) as store:
        store.close()
        target_file.unlink()
        with pytest.raises(StoreError):
            store.bots.all()
        assert not target_file.exists()


def test_a_commit_waits_for_the_disk(
    pattern: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As the module has it: the tests' own commits need not wait.
    shipped = runpy.run_path(database.__file__)["SYNCHRONOUS"]
    monkeypatch.setattr(database, "SYNCHRONOUS", shipped)
    path = shutil.copy(pattern, tmp_path / "ladder.db")
    with Store.open(path) as store, store.database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2


IN_SANDBOX = ("bwrap", "--cap-drop", "ALL", "--dev-bind", "/", "/")
READ = """
import sys
from deepsea_ladder.errors import StoreError
from deepsea_ladder.store import Store
from helpers import ladder
try:
    with Store.open(sys.argv[1]) as store:
        print(len(store.bots.all()), "bots")
        ladder.submit(store, "eve")
except StoreError as error:
    print(error)
"""


def read_in_a_sandbox(file: Path, *options: str) -> list[str]:
    """The lines that a process prints that reads the ladder's bots, and then submits one."""
    require("bubblewrap")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [*IN_SANDBOX, *options, sys.executable, "-c", READ, str(file)]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return answer.stdout.splitlines()


def test_a_closed_ladder_and_a_backup_are_read_from_a_disk_that_is_read_only(
    target_file: Path, copy: Path
) -> None:
    with Store.open(target_file) as store:
        ladder.stocked(store)
    before = {path.name: path.read_bytes() for path in target_file.parent.iterdir()}
    read_only = ("--ro-bind", str(target_file.parent), str(target_file.parent))
    for file in (target_file, copy):
        bots, refusal = read_in_a_sandbox(file, *read_only)
        assert bots == "4 bots"
        assert "it may only be read; look at the permissions" in refusal
    Path(f"{target_file}-wal").touch()
    (refusal,) = read_in_a_sandbox(target_file, *read_only)
    assert "it cannot be opened; " in refusal
    assert "it has no -wal file" in refusal
    Path(f"{target_file}-wal").unlink()
    assert {path.name: path.read_bytes() for path in target_file.parent.iterdir()} == before


def test_a_backup_that_may_not_be_written_is_read(copy: Path) -> None:
    copy.chmod(0o400)
    copy.parent.chmod(0o500)
    try:
        bots, refusal = read_in_a_sandbox(copy)
    finally:
        copy.parent.chmod(0o700)
    assert bots == "4 bots"
    assert "it may only be read; look at the permissions" in refusal
