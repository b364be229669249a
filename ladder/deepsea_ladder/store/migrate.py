"""The schema of a database: made, checked, upgraded, and copied with all rows.

Invariants: a new ladder has the tables of schema.py and is stamped with its revision; a database
with another revision is refused by name and not touched; the scripts in `migrations/` upgrade an
older one, all in one transaction; what is copied is one snapshot, and it arrives together with its
tables in one transaction.
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
_STAMP = (
    f"CREATE TABLE {_REVISIONS} (version_num VARCHAR(32) NOT NULL,"
    f" CONSTRAINT {_REVISIONS}_pkc PRIMARY KEY (version_num))"
)
"""Alembic's own table: it takes longer to import than all the tables take to be made."""
_LADDERS_ALONE = {"bot_versions", "game_seats", "job_seats"}
"""Tables that a ladder has and nobody else: what lacks others is still a ladder."""
_PORTION = 500


def revision(connection: Connection) -> str | None:
    """The schema's revision; None for an empty database. `StoreError` for somebody else's."""
    tables = set(inspect(connection).get_table_names())
    found = ""
    if _REVISIONS in tables:
        numbers = connection.execute(text(f"SELECT version_num FROM {_REVISIONS}")).scalars()
        found = ",".join(map(str, numbers))
    theirs = sorted(tables - ({_REVISIONS} if found else set()))
    if theirs and (not found or _LADDERS_ALONE.isdisjoint(theirs)):
        raise StoreError(f"it has tables that are no ladder's: {', '.join(theirs[:3])}")
    return found or None


def create(database: Database, source: Database | None = None) -> None:
    """Make all tables in an empty database, with the rows of `source`, which has this schema."""
    with database.write() as connection:
        if _revision(database, connection) is not None:
            raise StoreError(f"there is a ladder at {database} already")
        schema.create_tables(connection)
        connection.execute(text(_STAMP))
        stamp = text(f"INSERT INTO {_REVISIONS} VALUES (:revision)")
        connection.execute(stamp, {"revision": REVISION})
        if source is not None:
            with source.read() as rows:
                _copy(rows, connection)


def check(database: Database, needed: str = REVISION) -> None:
    """Refuse a database with another schema than this revision."""
    with database.read() as connection:
        found = _revision(database, connection)
    if found is None:
        raise _no_ladder(database)
    if found == needed:
        return
    if found in _known(_config(SCRIPTS)):
        raise StoreError(
            f"the ladder at {database} has the older schema {found}, this program needs {needed}:"
            " make a backup, then bring it up with `ladder upgrade`"
        )
    raise _unknown(database, found)


def upgrade(database: Database, scripts: Path = SCRIPTS) -> str:
    """Migrate an older ladder to the newest schema; returns its former revision."""
    from alembic import command

    config = _config(scripts)
    with database.write() as connection:
        found = _revision(database, connection)
        if found is None:
            raise _no_ladder(database)
        if found not in _known(config):
            raise _unknown(database, found)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return found


def _revision(database: Database, connection: Connection) -> str | None:
    try:
        return revision(connection)
    except StoreError as error:
        raise StoreError(f"{database} is no ladder: {error}") from None


def _no_ladder(database: Database) -> StoreError:
    return StoreError(f"there is no ladder at {database}: make one with `ladder init`")


def _unknown(database: Database, found: str) -> StoreError:
    return StoreError(
        f"the ladder at {database} has the schema {found}, which this program does not know (its "
        f"own is {REVISION}): it was made by a newer deepsea-referee, or by one from before the "
        "first release; use that one, or make a new ladder elsewhere with `ladder init`"
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


def _copy(source: Connection, target: Connection) -> None:
    """Copy every row into tables that have none."""
    for table in schema.metadata.sorted_tables:
        in_order = select(table).order_by(*table.primary_key)  # what rows refer to comes first
        rows = source.execute(in_order.execution_options(yield_per=_PORTION))
        for portion in rows.mappings().partitions():
            target.execute(insert(table), [dict(row) for row in portion])
    if target.dialect.name == "postgresql":
        _continue_numbers(target)


def _continue_numbers(connection: Connection) -> None:
    """Let PostgreSQL number new rows after the copied ones."""
    for table in schema.metadata.sorted_tables:
        column = table.autoincrement_column
        if column is not None:
            sequence = func.pg_get_serial_sequence(table.name, column.name)
            highest = select(func.coalesce(func.max(column), 0) + 1).scalar_subquery()
            connection.execute(select(func.setval(sequence, highest, False)))
