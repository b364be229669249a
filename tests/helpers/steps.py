"""What SQLite does for a call, and ladders that differ in their number of games alone."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import event

from deepsea_ladder.store import Store

_SUMS = {
    "pair_sums": ("games", "better", "level"),
    "seat_sums": ("games", "wins", "placements", "points", "faults", "faulty", "halves"),
    "ratings": ("games", "wins", "placements", "points", "decisions", "faults", "forfeits"),
    "seasons": ("games", "place"),
}


class Work:
    """Counts what SQLite does: the steps of its programs, of which every row read takes some."""

    def __init__(self, store: Store) -> None:
        self.steps = 0
        event.listen(store.database.engine, "connect", self._watch)
        store.database.engine.dispose()

    def _watch(self, connection: sqlite3.Connection, _: Any) -> None:
        connection.set_progress_handler(self._step, 10)

    def _step(self) -> int:
        self.steps += 10
        return 0


def repeated(path: Path, to: Path, times: int) -> Path:
    """A copy of a ladder of one season, whose games were played so many times one after another.

    Its sums are those of its games; its chain and the ratings after each game are not, and the
    added games have no jobs.
    """
    played = "SELECT games FROM played WHERE version_id = game_seats.version_id"
    with closing(sqlite3.connect(shutil.copy(path, to), isolation_level=None)) as database:
        database.execute("BEGIN")
        database.execute("CREATE TEMP TABLE played AS SELECT version_id, games FROM ratings")
        (games,) = database.execute("SELECT max(seq) FROM games").fetchone()
        for time in range(1, times):
            more = time * games
            numbered = {name: f"{name} + {more}" for name in ("seq", "job_id", "place")}
            changed = {
                "games": numbered | {"game_id": f"'s1-' || (seq + {more})"},
                "game_seats": numbered | {"number": f"number + {time} * ({played})"},
            }
            for table, values in changed.items():
                names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
                row = ", ".join(values.get(name, name) for name in names)
                database.execute(
                    f"INSERT INTO {table} SELECT {row} FROM {table} WHERE seq <= {games}"
                )
        for table, sums_of in _SUMS.items():
            sums = ", ".join(f"{name} = {times} * {name}" for name in sums_of)
            database.execute(f"UPDATE {table} SET {sums}")
        database.execute(f"UPDATE ratings SET last_seq = last_seq + {(times - 1) * games}")
        database.execute("COMMIT")
    return to
