"""Fixtures that several folders share: the command line, and stores on SQLite and PostgreSQL."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deepsea_cli import main
from deepsea_ladder.store import Store
from helpers.commands import Done, Run
from helpers.postgres import Postgres, find_binaries


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the surroundings of the tests must not change."""
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line with these arguments in this process."""

    def call(*arguments: object) -> Done:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return Done(code, out, err)

    return call


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server for this test run."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    with Postgres(binaries) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a ladder can be made, once for each kind of database."""
    if request.param == "sqlite":
        return str(tmp_path / "ladder.db")
    server: Postgres = request.getfixturevalue("postgres")
    # A new database for each test would be thirty times slower.
    server.execute("DROP SCHEMA public CASCADE")
    server.execute("CREATE SCHEMA public")
    return server.url("postgres")


@pytest.fixture(scope="session")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ladder in a file, to be copied: faster than making one for each test."""
    path = tmp_path_factory.mktemp("pattern") / "ladder.db"
    Store.create(path).close()
    return path


@pytest.fixture
def target(empty: str, pattern: Path) -> str:
    """Where a ladder is, with nothing in it."""
    if "://" in empty:
        Store.create(empty).close()
    else:
        shutil.copy(pattern, empty)
    return empty


@pytest.fixture
def store(target: str) -> Iterator[Store]:
    """A ladder with nothing in it."""
    with Store.open(target) as store:
        yield store


@pytest.fixture
def another(target: str) -> Iterator[Callable[[], Store]]:
    """Opens the same ladder again, as another process would."""
    opened: list[Store] = []

    def open_it() -> Store:
        opened.append(Store.open(target))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()
