"""Schemas: made whole or not at all, and never guessed at."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from textwrap import dedent

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect, text

from deepsea_ladder.errors import StoreError
from deepsea_ladder.store import Database, Store, migrate, schema
from helpers import ladder
from helpers.killing import NEVER, answered, kill_before
from helpers.tiers import daily

pytestmark = pytest.mark.databases

NEXT = """
    '''A step that is not there yet.'''
    import sqlalchemy as sa
    from alembic import op

    revision = "next"
    down_revision = "%s"

    def upgrade():
        op.add_column("bots", sa.Column("motto", sa.Text))
        op.execute("UPDATE bots SET motto = 'dive deep'")
        op.create_table("medals", sa.Column("id", sa.Integer, primary_key=True))
        op.create_index("ix_medals_id", "medals", ["id"])
    """


@pytest.fixture
def next_scripts(tmp_path: Path) -> Path:
    """The scripts of a later version of this program."""
    scripts = tmp_path / "migrations"
    shutil.copytree(migrate.SCRIPTS, scripts)
    later = dedent(NEXT % schema.REVISION).lstrip()
    (scripts / "versions" / "later.py").write_text(later)
    return scripts


@pytest.fixture
def database(target: str) -> Iterator[Database]:
    """The database of a ladder with four bots and a season."""
    with Store.open(target) as store:
        ladder.stocked(store)
    database = Database(target)
    yield database
    # A test may leave its rows to others that share the database, but no tables.
    if "medals" in inspect(database.engine).get_table_names():
        _undo(database)
    database.close()


@pytest.mark.release
def test_a_ladder_has_the_tables_that_the_program_uses(database: Database) -> None:
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []
        assert migrate.revision(connection) == schema.REVISION
    migrate.check(database)


def test_a_ladder_is_not_made_over_another(target: str) -> None:
    with pytest.raises(StoreError, match=r"there is a ladder at .* already"):
        Store.create(target)


def test_where_no_ladder_is_none_is_opened(empty: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"there is no ladder at .*: make one with `ladder init`"):
        Store.open(empty)
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    Store.create(tmp_path / "ladder.db").close()
    assert stat.S_IMODE((tmp_path / "ladder.db").stat().st_mode) == 0o600


def test_somebody_elses_tables_are_left_alone(empty: str) -> None:
    database = Database(empty, create=True)
    with database.write() as connection:
        connection.execute(text("CREATE TABLE recipes (id INTEGER)"))
    for use in (Store.open, Store.create):
        with pytest.raises(StoreError, match=r"is no ladder: it has tables .*: recipes"):
            use(empty)
    database.close()


def test_the_migrations_of_another_program_are_no_ladders(empty: str) -> None:
    database = Database(empty, create=True)
    with database.write() as connection:
        connection.execute(text("CREATE TABLE recipes (id INTEGER)"))
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('0001')"))
    for use in (Store.open, Store.create, lambda _: migrate.upgrade(database)):
        with pytest.raises(StoreError, match=r"is no ladder: it has tables .*: recipes"):
            use(empty)
    database.close()


def test_an_empty_database_is_not_upgraded(empty: str) -> None:
    database = Database(empty, create=True)
    with pytest.raises(StoreError, match="there is no ladder at"):
        migrate.upgrade(database)
    with database.read() as connection:
        assert inspect(connection).get_table_names() == []
    database.close()


@pytest.mark.parametrize("kind", daily(["sqlite", "postgresql"], ["sqlite"]), indirect=True)
def test_what_else_is_in_the_database_does_no_harm(empty: str) -> None:
    with Store.create(empty) as store, store.database.write() as connection:
        connection.execute(text("CREATE TABLE recipes (id INTEGER)"))
        connection.execute(text("ALTER TABLE bots ADD motto TEXT"))
    with Store.open(empty) as store:
        assert migrate.upgrade(store.database) == schema.REVISION


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("not a database, but longer than the header of one would be\n" * 20)
    before = notes.read_bytes()
    for use in (Store.open, Store.create):
        with pytest.raises(StoreError, match="the file is no SQLite database"):
            use(notes)
    assert notes.read_bytes() == before


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("", "a ladder needs a file"),
        (":memory:", "a ladder needs a file"),
        ("mysql://localhost/x", "in SQLite or PostgreSQL, and the URL names another"),
        ("nonsense://", "and the URL names another"),
        ("/no/such/folder/ladder.db", "cannot be made: No such file or directory"),
    ],
)
def test_a_place_where_no_ladder_can_be_is_refused(wrong: str, words: str) -> None:
    with pytest.raises(StoreError, match=words):
        Store.create(wrong)


# The last schema and the first one of the time when nothing was released, and a later one.
@pytest.mark.parametrize("other", ["0007", "0001", "7777"])
def test_the_schema_of_another_program_is_refused_and_stays(database: Database, other: str) -> None:
    with database.write() as connection:
        stamp = text("UPDATE alembic_version SET version_num = :other")
        connection.execute(stamp, {"other": other})
    target = database.url.render_as_string(hide_password=False)
    for use in (lambda: Store.open(target), lambda: migrate.upgrade(database)):
        with pytest.raises(StoreError, match=f"has the schema {other}, which this program does"):
            use()
    with database.read() as connection:
        assert migrate.revision(connection) == other


def test_an_older_schema_is_named_and_brought_up(database: Database, next_scripts: Path) -> None:
    older = f"has the older schema {schema.REVISION}, this program needs next"
    with pytest.raises(StoreError, match=older):
        migrate.check(database, "next")
    assert migrate.upgrade(database, next_scripts) == schema.REVISION
    assert migrate.upgrade(database, next_scripts) == "next"
    migrate.check(database, "next")
    with database.read() as connection:
        mottos = connection.execute(text("SELECT motto FROM bots")).scalars().all()
    assert mottos == ["dive deep"] * 4


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.release), 5])
def test_a_migration_that_is_killed_anywhere_leaves_the_old_schema(
    database: Database, next_scripts: Path, step: int
) -> None:
    statements = _kill_at(database, next_scripts, NEVER)
    assert statements
    assert statements > 5
    with database.read() as connection:
        assert migrate.revision(connection) == "next"
    _undo(database)
    for number in range(step, statements + 1, step):
        assert _kill_at(database, next_scripts, number) is None
        with database.read() as connection:
            assert migrate.revision(connection) == schema.REVISION
            names = set(inspect(connection).get_table_names()) - {"alembic_version"}
            assert names == set(schema.metadata.tables)
            columns = [column["name"] for column in inspect(connection).get_columns("bots")]
            assert "motto" not in columns
    assert migrate.upgrade(database, next_scripts) == schema.REVISION


def test_making_a_ladder_that_is_killed_anywhere_can_be_repeated(empty: str) -> None:
    for number in (5, 20):
        database = Database(empty, create=True)
        database.close()
        assert answered(_create, empty, number) is None
        with pytest.raises(StoreError, match="there is no ladder at"):
            Store.open(empty)
    Store.create(empty).close()
    Store.open(empty).close()


def _kill_at(database: Database, scripts: Path, number: int) -> int | None:
    """Upgrade in a process that is killed before its statement of that number.

    None if it was killed; else how many statements there were.
    """
    target = database.url.render_as_string(hide_password=False)
    return answered(_upgrade, target, scripts, number)


def _create(answer: Connection, target: str, number: int) -> None:
    database = Database(target)
    count = kill_before(database.engine, number)
    migrate.create(database)
    answer.send(count())


def _upgrade(answer: Connection, target: str, scripts: Path, number: int) -> None:
    database = Database(target)
    count = kill_before(database.engine, number)
    migrate.upgrade(database, scripts)
    answer.send(count())


def _undo(database: Database) -> None:
    with database.write() as connection:
        connection.execute(text("DROP TABLE medals"))
        connection.execute(text("ALTER TABLE bots DROP COLUMN motto"))
        before = {"before": schema.REVISION}
        connection.execute(text("UPDATE alembic_version SET version_num = :before"), before)


def test_a_damaged_file_is_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "ladder.db"
    with Store.create(path) as store:
        ladder.to_play(store, 30)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x5a" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"ladder\.db: the file is damaged; restore a backup"):
        Store.open(path).seasons.all()
