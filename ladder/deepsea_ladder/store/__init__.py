"""The store of a ladder: all SQL is in this package.

Invariants: other packages use `Store` only; everything that is stored can be read back unchanged;
every change is one transaction, so that a crash leaves the state before or after it.

Start reading at `games.py` (results of games), then `tasks.py` (leases of runners), `jobs.py`
(scheduled games), `database.py` (transactions), `schema.py` (tables).
"""

from __future__ import annotations

import os

from deepsea_ladder.bot_states import RetryPolicy
from deepsea_ladder.store import migrate
from deepsea_ladder.store.accounts import Accounts
from deepsea_ladder.store.analyses import Analyses
from deepsea_ladder.store.audit import Audit
from deepsea_ladder.store.authors import Authors
from deepsea_ladder.store.bots import Bots
from deepsea_ladder.store.comparisons import Comparisons
from deepsea_ladder.store.counts import Changes, Counts
from deepsea_ladder.store.database import Database, now
from deepsea_ladder.store.games import Games, Logs
from deepsea_ladder.store.history import History
from deepsea_ladder.store.jobs import Jobs, Queue
from deepsea_ladder.store.person_games import PersonGames
from deepsea_ladder.store.ratings import Ratings
from deepsea_ladder.store.seasons import Seasons, Settings
from deepsea_ladder.store.submissions import Submissions
from deepsea_ladder.store.sums import Sums
from deepsea_ladder.store.tasks import AllTasks

__all__ = ["Database", "RetryPolicy", "Store"]


class Store:
    """The store of a ladder. Threads may share it; a forked process has to open its own."""

    def __init__(self, database: Database, policy: RetryPolicy | None = None) -> None:
        policy = policy or RetryPolicy()
        self.database = database
        self.authors = Authors(database, policy)
        self.accounts = Accounts(database, policy)
        self.bots = Bots(database, policy)
        self.seasons = Seasons(database, policy)
        self.jobs = Jobs(database, policy)
        self.queue = Queue(database, policy)
        self.games = Games(database, policy, self.jobs)
        self.submissions = Submissions(database, policy)
        self.analyses = Analyses(database, policy)
        self.comparisons = Comparisons(database, policy)
        self.person_games = PersonGames(database, policy)
        queues = (
            self.jobs,
            self.submissions,
            self.analyses,
            self.comparisons,
            self.person_games,
        )
        self.tasks = AllTasks(database, policy, queues)
        self.logs = Logs(database, policy)
        self.ratings = Ratings(database, policy)
        self.history = History(database, policy)
        self.sums = Sums(database, policy)
        self.audit = Audit(database, policy)
        self.settings = Settings(database, policy)
        self.counts = Counts(database, policy)
        self.changes = Changes(database, policy)

    def now(self) -> int:
        """Return the time of the database's clock in milliseconds since 1970."""
        with self.database.read() as connection:
            return now(connection)

    @classmethod
    def create(cls, target: str | os.PathLike[str], *, source: Database | None = None) -> Store:
        """Create a ladder in a new file or an empty database, and open it.

        With `source`, a database of the same schema, it starts with a copy of all its rows, in the
        same transaction. Raises `StoreError` if the database is not empty.
        """
        database = Database(target, create=True)
        try:
            migrate.create(database, source)
        except BaseException:
            database.close()
            raise
        return cls(database)

    @classmethod
    def open(cls, target: str | os.PathLike[str]) -> Store:
        """Open a ladder.

        Raises `StoreError` if there is none, or if its schema is not that of this program.
        """
        database = Database(target)
        try:
            migrate.check(database)
        except BaseException:
            database.close()
            raise
        return cls(database)

    def close(self) -> None:
        """Close all connections to the database."""
        self.database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
