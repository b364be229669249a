"""The ladder's store: all SQL is in this package.

Invariants: others use `Store` only; everything that is stored can be read back unchanged; every
change is one transaction, so a crash leaves the state before or after it.

Start reading at `games.py` (how a result comes in), then `jobs.py` (leases), `database.py`
(transactions), `schema.py` (tables).
"""

from __future__ import annotations

import os
from types import TracebackType

from deepsea_ladder.errors import StoreError
from deepsea_ladder.store import migrate
from deepsea_ladder.store.audit import Audit
from deepsea_ladder.store.bots import Bots
from deepsea_ladder.store.database import Database
from deepsea_ladder.store.games import Games
from deepsea_ladder.store.history import History
from deepsea_ladder.store.job_queries import Queue
from deepsea_ladder.store.jobs import Jobs
from deepsea_ladder.store.logs import Logs
from deepsea_ladder.store.ratings import Ratings
from deepsea_ladder.store.retry_policy import RetryPolicy
from deepsea_ladder.store.seasons import Seasons

__all__ = [
    "Audit",
    "Bots",
    "Database",
    "Games",
    "History",
    "Jobs",
    "Logs",
    "Queue",
    "Ratings",
    "RetryPolicy",
    "Seasons",
    "Store",
]


class Store:
    """A ladder's store. Threads may share one; a forked process opens its own."""

    def __init__(self, database: Database, policy: RetryPolicy | None = None) -> None:
        policy = policy or RetryPolicy()
        self.database = database
        self.bots = Bots(database)
        self.seasons = Seasons(database)
        self.jobs = Jobs(database, policy)
        self.queue = Queue(database)
        self.games = Games(database, policy)
        self.logs = Logs(database)
        self.ratings = Ratings(database)
        self.history = History(database)
        self.audit = Audit(database)

    @classmethod
    def create(cls, target: str | os.PathLike[str], policy: RetryPolicy | None = None) -> Store:
        """Create a ladder in a new file or an empty database; `StoreError` if it is not empty."""
        database = Database(target, create=True)
        try:
            if migrate.upgrade(database) is not None:
                raise StoreError(f"there is a ladder at {database} already")
        except BaseException:
            database.close()
            raise
        return cls(database, policy)

    @classmethod
    def open(cls, target: str | os.PathLike[str], policy: RetryPolicy | None = None) -> Store:
        """Open a ladder; `StoreError` if there is none, or none that this program can use."""
        database = Database(target)
        try:
            migrate.check(database)
        except BaseException:
            database.close()
            raise
        return cls(database, policy)

    def close(self) -> None:
        """Close every connection."""
        self.database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
