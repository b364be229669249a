"""Copies a whole ladder from one database to another.

Invariant: what is copied is one snapshot, and it arrives in one transaction.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, func, insert, inspect, select, text

from deepsea_ladder.errors import StoreError
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import Database
from deepsea_ladder.store.schema import REVISION

if TYPE_CHECKING:
    from alembic.config import Config

_PORTION: Final = 500


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


SCRIPTS: Final = Path(__file__).parent / "migrations"

_REVISIONS: Final = "alembic_version"


def revision(connection: Connection) -> str | None:
    """The schema's revision; None for an empty database. `StoreError` for somebody else's."""
    tables = inspect(connection).get_table_names()
    if _REVISIONS in tables:
        found = connection.execute(text(f"SELECT version_num FROM {_REVISIONS}")).scalars().all()
        return ",".join(found) or None
    if tables:
        raise StoreError(f"it has tables that are no ladder's: {', '.join(sorted(tables)[:3])}")
    return None


def check(database: Database, needed: str = REVISION) -> None:
    """Refuse a database with another schema than this revision."""
    with database.read() as connection:
        found = _revision_at(database, connection)
    if found is None:
        raise StoreError(f"there is no ladder at {database}: make one with `ladder init`")
    if found == needed:
        return
    if found in _known(_config(SCRIPTS)):
        raise StoreError(
            f"the ladder at {database} has the older schema {found}, this program needs {needed}:"
            " make a backup, then bring it up with `ladder upgrade`"
        )
    raise _newer(database, found)


def upgrade(database: Database, scripts: Path = SCRIPTS) -> str | None:
    """Migrate an empty or older database to the newest schema; returns its former revision."""
    config = _config(scripts)
    with database.write() as connection:
        found = _revision_at(database, connection)
        if found is not None and found not in _known(config):
            raise _newer(database, found)
        from alembic import command

        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return found


def _revision_at(database: Database, connection: Connection) -> str | None:
    try:
        return revision(connection)
    except StoreError as error:
        raise StoreError(f"{database} is no ladder: {error}") from None


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
