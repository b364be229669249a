"""The schema of a database: checked, migrated, and copied with all rows.

Invariants: a database is used only with exactly the schema of `schema.REVISION`; one whose tables
are not those of its revision is refused by name and not touched; the scripts in `migrations/`
upgrade an older one, all in one transaction; what is copied is one snapshot, and it arrives in one
transaction.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from sqlalchemy import Connection, MetaData, create_engine, func, insert, inspect, select, text

from deepsea_ladder.errors import StoreError
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import Database
from deepsea_ladder.store.schema import REVISION

if TYPE_CHECKING:
    from alembic.config import Config

SCRIPTS = Path(__file__).parent / "migrations"
_REVISIONS = "alembic_version"
_LADDERS_ALONE = {"bot_versions", "game_seats", "job_seats"}
"""Tables that a ladder has and nobody else: what lacks others is still a ladder."""
_SQLITE_COLUMNS = """
SELECT of.name, its.name, its."notnull" AND its.dflt_value IS NULL
FROM sqlite_master AS of, pragma_table_xinfo(of.name) AS its
WHERE of.type = 'table' AND of.name NOT LIKE 'sqlite~_%' ESCAPE '~' AND its.hidden <> 1
"""
_PORTION = 500
_Tables: TypeAlias = dict[str, dict[str, bool]]
"""Of each table its columns, and whether a new row needs a value there."""


def revision(connection: Connection) -> str | None:
    """The schema's revision; None for an empty database. `StoreError` for somebody else's."""
    return _revision(connection, _tables(connection))


def _tables(connection: Connection) -> _Tables:
    if connection.dialect.name == "sqlite":  # one statement for all tables, at each opening
        found: _Tables = {}
        for table, column, is_needed in connection.exec_driver_sql(_SQLITE_COLUMNS).all():
            found.setdefault(table, {})[column] = bool(is_needed)
        return found
    return {
        name: {
            column["name"]: not column["nullable"] and column["default"] is None
            for column in columns
        }
        for (_, name), columns in inspect(connection).get_multi_columns().items()
    }


def _revision(connection: Connection, tables: _Tables) -> str | None:
    found = ""
    if "version_num" in tables.get(_REVISIONS, ()):
        numbers = connection.execute(text(f"SELECT version_num FROM {_REVISIONS}")).scalars()
        found = ",".join(map(str, numbers))
    theirs = sorted(tables.keys() - ({_REVISIONS} if found else set()))
    if theirs and (not found or _LADDERS_ALONE.isdisjoint(theirs)):
        raise StoreError(f"it has tables that are no ladder's: {', '.join(theirs[:3])}")
    return found or None


def check(database: Database, needed: str = REVISION) -> None:
    """Refuse a database with another schema than this revision."""
    with database.read() as connection:
        found, tables = _look(database, connection)
    if found is None:
        raise _no_ladder(database)
    if found == needed:
        _refuse_misfit(database, found, tables, _columns_of(schema.metadata))
        return
    if found in _known(_config(SCRIPTS)):
        raise StoreError(
            f"the ladder at {database} has the older schema {found}, this program needs {needed}:"
            " make a backup, then bring it up with `ladder upgrade`"
        )
    raise _newer(database, found)


def upgrade(database: Database, scripts: Path = SCRIPTS, *, create: bool = False) -> str | None:
    """Migrate an older database, or with `create` an empty one, to the newest schema.

    Returns its former revision.
    """
    config = _config(scripts)
    with database.write() as connection:
        found, tables = _look(database, connection)
        if found is not None:
            if found not in _known(config):
                raise _newer(database, found)
            _refuse_misfit(database, found, tables, _columns_at(found, scripts))
        elif not create:
            raise _no_ladder(database)
        _migrate(config, connection, "head")
    return found


def _look(database: Database, connection: Connection) -> tuple[str | None, _Tables]:
    tables = _tables(connection)
    try:
        return _revision(connection, tables), tables
    except StoreError as error:
        raise StoreError(f"{database} is no ladder: {error}") from None


def _migrate(config: Config, connection: Connection, target: str) -> None:
    from alembic import command

    config.attributes["connection"] = connection
    command.upgrade(config, target)


def _columns_of(metadata: MetaData) -> dict[str, set[str]]:
    return {table.name: {*table.columns.keys()} for table in metadata.tables.values()}


def _columns_at(revision: str, scripts: Path) -> dict[str, set[str]]:
    """The columns of each table in a new database of that revision."""
    engine = create_engine("sqlite://")
    try:
        with engine.begin() as connection:
            _migrate(_config(scripts), connection, revision)
            tables = _tables(connection)
    finally:
        engine.dispose()
    del tables[_REVISIONS]
    return {name: set(columns) for name, columns in tables.items()}


def _refuse_misfit(
    database: Database, revision: str, tables: _Tables, needed: dict[str, set[str]]
) -> None:
    """Raise `StoreError` if the tables are not those of the revision that they are said to be."""
    for name, columns in sorted(needed.items()):
        if name not in tables:
            trouble = f"no table {name}"
        elif missing := sorted(columns - tables[name].keys()):
            trouble = f"no column {missing[0]} in the table {name}"
        elif more := [one for one, wanted in tables[name].items() if wanted and one not in columns]:
            trouble = f"another column, {more[0]}, in the table {name}"
        else:
            continue
        raise StoreError(
            f"the ladder at {database} does not fit: it is said to have the schema {revision}, but "
            f"has {trouble}; it can be read with the deepsea-referee that made it, and not be "
            "upgraded"
        )


def _no_ladder(database: Database) -> StoreError:
    return StoreError(f"there is no ladder at {database}: make one with `ladder init`")


def _newer(database: Database, found: str) -> StoreError:
    return StoreError(
        f"the ladder at {database} has the schema {found}, which this program does not know "
        f"(it knows up to {REVISION}): use the newer deepsea-referee that made it"
    )


def _config(scripts: Path) -> Config:
    # Alembic takes longer to import than the rest of the ladder, and is seldom needed.
    from alembic.config import Config

    config = Config()
    # Alembic expands % in options.
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    return config


def _known(config: Config) -> set[str]:
    from alembic.script import ScriptDirectory

    return {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}


def copy(source: Database, target: Database) -> None:
    """Copy every row into a ladder that has none; `target` has the same schema."""
    with source.read() as old, target.write() as new:
        for table in schema.metadata.sorted_tables:
            rows = old.execute(select(table).execution_options(yield_per=_PORTION))
            for portion in rows.mappings().partitions():
                new.execute(insert(table), [dict(row) for row in portion])
        if target.path is None:
            _continue_numbers(new)


def _continue_numbers(connection: Connection) -> None:
    """Let PostgreSQL number new rows after the copied ones."""
    for table in schema.metadata.sorted_tables:
        column = table.autoincrement_column
        if column is not None:
            sequence = func.pg_get_serial_sequence(table.name, column.name)
            highest = select(func.coalesce(func.max(column), 0) + 1).scalar_subquery()
            connection.execute(select(func.setval(sequence, highest, False)))
