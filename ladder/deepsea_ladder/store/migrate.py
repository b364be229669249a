"""Creating, checking, upgrading and copying the schema of a database.

Invariants: a new ladder has the tables of schema.py and the name of its revision; a database with
another revision is refused by that name and not touched; the scripts in `migrations/` upgrade an
older one in a single transaction; a copy has the rows of one snapshot, and they are stored in the
transaction that creates the tables.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, insert, inspect, select, text

from deepsea_ladder.errors import StoreError
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import Database
from deepsea_ladder.store.schema import REVISION

if TYPE_CHECKING:
    from alembic.config import Config

SCRIPTS = Path(__file__).parent / "migrations"
_REVISIONS = "alembic_version"
_CREATE_REVISIONS = (
    f"CREATE TABLE {_REVISIONS} (version_num VARCHAR(32) NOT NULL,"
    f" CONSTRAINT {_REVISIONS}_pkc PRIMARY KEY (version_num))"
)
"""Creates the table of Alembic, which takes longer to import than all tables take to be created."""
_TABLES_OF_LADDERS_ONLY = {"bot_versions", "game_seats", "job_seats"}
"""Tables by which a ladder is known.

A database with one of them is a ladder, even if it is damaged and lacks others.
"""
_ROWS_PER_PORTION = 500


def revision(connection: Connection) -> str | None:
    """Return the revision of a ladder's schema; None for an empty database.

    Raises `StoreError` for a database that is no ladder but has tables.
    """
    tables = set(inspect(connection).get_table_names())
    revisions: list[str] = []
    if _REVISIONS in tables:
        query = text(f"SELECT version_num FROM {_REVISIONS}")
        revisions = [str(number) for number in connection.execute(query).scalars()]
    if revisions:
        tables.remove(_REVISIONS)
    has_tables_of_ladder = not _TABLES_OF_LADDERS_ONLY.isdisjoint(tables)
    is_ladder = bool(revisions) and has_tables_of_ladder
    if tables and not is_ladder:
        examples = ", ".join(sorted(tables)[:3])
        raise StoreError(f"it has tables that are no ladder's: {examples}")
    # There is one revision; several would be shown in the error on an unknown one.
    return ",".join(revisions) or None


def create(database: Database, source: Database | None = None) -> None:
    """Create all tables of a ladder in an empty database.

    Raises `StoreError` for a database that has tables already.

    source  a ladder of the same schema, whose rows are copied; None leaves the tables empty
    """
    with database.write() as connection:
        if _ladder_revision(database, connection) is not None:
            raise StoreError(f"there is a ladder at {database} already")
        schema.create_tables(connection)
        connection.execute(text(_CREATE_REVISIONS))
        insert_revision = text(f"INSERT INTO {_REVISIONS} VALUES (:revision)")
        connection.execute(insert_revision, {"revision": REVISION})
        if source is not None:
            with source.read() as source_connection:
                _copy_rows(source_connection, connection)


def check(database: Database, needed: str = REVISION) -> None:
    """Raise `StoreError` unless the schema of the database has the needed revision."""
    with database.read() as connection:
        present = _ladder_revision(database, connection)
    if present is None:
        raise _no_ladder(database)
    if present == needed:
        return
    if present in _known_revisions(_alembic_config(SCRIPTS)):
        raise StoreError(
            f"the ladder at {database} has the older schema {present}, this program needs {needed}:"
            " make a backup, then bring it up with `ladder upgrade`"
        )
    raise _unknown_revision(database, present)


def upgrade(database: Database, scripts: Path = SCRIPTS) -> str:
    """Migrate an older ladder to the newest schema and return its former revision.

    Raises `StoreError` for a database that is no ladder, and for an unknown revision.
    """
    from alembic import command

    config = _alembic_config(scripts)
    with database.write() as connection:
        former = _ladder_revision(database, connection)
        if former is None:
            raise _no_ladder(database)
        if former not in _known_revisions(config):
            raise _unknown_revision(database, former)
        config.attributes["connection"] = connection  # the scripts run in this transaction
        command.upgrade(config, "head")
    return former


def _ladder_revision(database: Database, connection: Connection) -> str | None:
    """Return the same as `revision`, with an error that names the database."""
    try:
        return revision(connection)
    except StoreError as error:
        raise StoreError(f"{database} is no ladder: {error}") from None


def _no_ladder(database: Database) -> StoreError:
    return StoreError(f"there is no ladder at {database}: make one with `ladder init`")


def _unknown_revision(database: Database, present: str) -> StoreError:
    return StoreError(
        f"the ladder at {database} has the schema {present}, which this program does not know (its "
        f"own is {REVISION}): it was made by a newer deepsea-referee, or by one from before the "
        "first release; use that one, or make a new ladder elsewhere with `ladder init`"
    )


def _alembic_config(scripts: Path) -> Config:
    """Return a configuration of Alembic with a folder of migration scripts."""
    # Imported here, since Alembic takes longer to import than the rest of the ladder.
    from alembic.config import Config

    config = Config()
    # Alembic expands % in options, so that one in the path has to be doubled.
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    return config


def _known_revisions(config: Config) -> set[str]:
    """Return the revisions that the migration scripts start from or lead to."""
    from alembic.script import ScriptDirectory

    return {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}


def _copy_rows(source: Connection, target: Connection) -> None:
    """Copy every row of a ladder into the empty tables of another database."""
    # In an order in which rows are copied after those to which they refer in other tables.
    for table in schema.metadata.sorted_tables:
        # Rows may also refer to earlier rows of their own table, which have smaller keys.
        in_order = select(table).order_by(*table.primary_key)
        rows = source.execute(in_order.execution_options(yield_per=_ROWS_PER_PORTION))
        for portion in rows.mappings().partitions():
            target.execute(insert(table), [dict(row) for row in portion])
    if target.dialect.name == "postgresql":
        _continue_ids(target)


def _continue_ids(connection: Connection) -> None:
    """Let PostgreSQL give new rows ids above those of the copied rows.

    It takes ids from a sequence of each table, which does not know of rows with given ids.
    """
    for table in schema.metadata.sorted_tables:
        column = table.autoincrement_column
        if column is not None:
            sequence = func.pg_get_serial_sequence(table.name, column.name)
            next_id = select(func.coalesce(func.max(column), 0) + 1).scalar_subquery()
            # The third argument of `setval`: the sequence has not given out this id yet.
            is_used = False
            connection.execute(select(func.setval(sequence, next_id, is_used)))
