"""Values that columns forbid, in a ladder's file: a damaged disk leaves them, no writer does."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


def damage(path: Path, *statements: str, values: tuple[object, ...] = ()) -> None:
    """Change rows of an SQLite file, whatever its columns allow."""
    with _taking_any_value(path) as connection:
        for statement in statements:
            assert connection.execute(statement, values).rowcount > 0


@contextmanager
def _taking_any_value(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as connection:
        schema = connection.execute("SELECT sql, name FROM sqlite_schema WHERE type = 'table'")
        tables = schema.fetchall()
        connection.execute("PRAGMA writable_schema = ON")
        connection.executemany(
            "UPDATE sqlite_schema SET sql = ? WHERE name = ?",
            [(sql.replace(" STRICT", ""), name) for sql, name in tables],
        )
        connection.commit()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        yield connection
        connection.commit()
        connection.execute("PRAGMA writable_schema = ON")
        connection.executemany("UPDATE sqlite_schema SET sql = ? WHERE name = ?", tables)
        connection.commit()
