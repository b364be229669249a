"""Copies a whole ladder from one database to another.

Invariant: what is copied is one snapshot, and it arrives in one transaction.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, func, insert, select

from deepsea_ladder.store import schema
from deepsea_ladder.store.database import Database

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
