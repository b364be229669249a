"""Ladders of former schemas, with rows in every table, as the programs of their time made them.

Each `tests/data/ladder-REVISION.db.gz` is the fixture `sound` of tests/cli/test_damaged_ladder.py,
run by the last program that had this schema. For 0001 that is commit 6542e2f.
"""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from sqlalchemy import MetaData, create_engine, insert, select

from deepsea_ladder.store import Database, migrate

DATA: Final = Path(__file__).parent.parent / "data"
REVISIONS: Final = sorted(file.name[7:-6] for file in DATA.glob("ladder-*.db.gz"))


def put(revision: str, target: str) -> None:
    """Put the stored ladder of that schema to a new file, or into an empty PostgreSQL database."""
    content = gzip.decompress((DATA / f"ladder-{revision}.db.gz").read_bytes())
    if "://" not in target:
        Path(target).write_bytes(content)
        return
    with TemporaryDirectory() as folder:
        scripts = shutil.copytree(migrate.SCRIPTS, Path(folder, "migrations"))
        for script in (scripts / "versions").glob("r*.py"):
            if script.name[1:5] > revision:
                script.unlink()
        database = Database(target)
        migrate.upgrade(database, scripts, create=True)
        file = Path(folder, "ladder.db")
        file.write_bytes(content)
        engine = create_engine(f"sqlite:///{file}")
        tables = MetaData()
        tables.reflect(engine)
        tables.remove(tables.tables["alembic_version"])
        with engine.connect() as old, database.write() as new:
            for table in tables.sorted_tables:
                if rows := old.execute(select(table)).mappings().all():
                    new.execute(insert(table), [dict(row) for row in rows])
        engine.dispose()
        database.close()
