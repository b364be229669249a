"""Ladders of former schemas, with rows in every table that there was.

The file in tests/data is the fixture `sound` of tests/cli/test_damaged_ladder.py, run by the
program of commit 6542e2f, whose schema is the first that was released. Ladders of later schemas are
made of it by the migrations up to theirs.
"""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from sqlalchemy import MetaData, create_engine, insert, select

from deepsea_ladder.store import Database, migrate

FIRST: Final = "0001"
FILE: Final = Path(__file__).parent.parent / "data" / f"ladder-{FIRST}.db.gz"
REVISIONS: Final = sorted(file.name[1:5] for file in migrate.SCRIPTS.glob("versions/r*.py"))


def put(revision: str, target: str) -> None:
    """Put a ladder of that schema to a new file, or into an empty PostgreSQL database."""
    content = gzip.decompress(FILE.read_bytes())
    with TemporaryDirectory() as folder:
        if "://" not in target:
            Path(target).write_bytes(content)
            database = Database(target)
        else:
            database = Database(target)
            migrate.upgrade(database, _scripts(FIRST, Path(folder, "first")), create=True)
            file = Path(folder, "ladder.db")
            file.write_bytes(content)
            _copy(file, database)
        migrate.upgrade(database, _scripts(revision, Path(folder, "then")))
        database.close()


def _scripts(revision: str, folder: Path) -> Path:
    """The migrations up to that revision."""
    shutil.copytree(migrate.SCRIPTS, folder)
    for script in folder.glob("versions/r*.py"):
        if script.name[1:5] > revision:
            script.unlink()
    return folder


def _copy(file: Path, database: Database) -> None:
    engine = create_engine(f"sqlite:///{file}")
    tables = MetaData()
    tables.reflect(engine)
    tables.remove(tables.tables["alembic_version"])
    with engine.connect() as old, database.write() as new:
        for table in tables.sorted_tables:
            if rows := old.execute(select(table)).mappings().all():
                new.execute(insert(table), [dict(row) for row in rows])
    engine.dispose()
