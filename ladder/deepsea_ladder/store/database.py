"""The database: SQLite in one file, or PostgreSQL by URL.

Invariants: a write is one transaction under the one writer's lock, so that the order of commits is
the order of sequence numbers; a write for a caller begins with a check of the caller's rights; a
read is one snapshot; time is the database's, so that the clocks of workers do not matter; drivers'
exceptions leave this module as a `StoreError`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    URL,
    BigInteger,
    Connection,
    Engine,
    create_engine,
    event,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.functions import FunctionElement

from deepsea_ladder.errors import StoreDamaged, StoreError, StoreUnavailable
from deepsea_ladder.store import sqlite_file

BUSY_SECONDS: Final = 30.0
STILL_SECONDS: Final = 30.0
"""Timeout of an idle transaction on PostgreSQL before the server rolls it back."""

_LOCK: Final = text("SELECT pg_advisory_xact_lock(:key)")
_LOCK_KEY: Final = int.from_bytes(b"deepsea", "big")
"""The advisory lock that makes one writer of all on PostgreSQL."""
_check: ContextVar[Callable[[Connection], object] | None] = ContextVar("check", default=None)


class database_now(FunctionElement[int]):  # noqa: N801  (reads like a function in SQL)
    """The database's clock in milliseconds since 1970."""

    type = BigInteger()
    inherit_cache = True


@compiles(database_now, "sqlite")
def _now_in_sqlite(*_: Any, **__: Any) -> str:
    return "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"


@compiles(database_now, "postgresql")
def _now_in_postgresql(*_: Any, **__: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"


class Database:
    """A database that may be empty; `target` is a file's path or a URL.

    `create` makes the file, if it is SQLite's and not there, readable for its owner alone: the
    seeds of games to come are in it.
    `read_only` refuses every write.
    `busy_seconds` is the timeout of a write that waits for another writer.
    """

    def __init__(
        self,
        target: str | os.PathLike[str],
        *,
        create: bool = False,
        read_only: bool = False,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self.url = _url_of(os.fspath(target))
        self.path: Path | None = None
        """The file of an SQLite database, else None."""
        if self.url.get_backend_name() == "sqlite":
            self.path = Path(self.url.database or "")
            sqlite_file.find(self.path, create=create)
            self._watch = sqlite_file.FileWatch(self.path)
        self._written = False
        self._read_only = read_only
        self.engine = _engine(self.url, busy_seconds, read_only=read_only)

    def __str__(self) -> str:
        return str(self.path) if self.path else self.url.render_as_string(hide_password=True)

    def close(self) -> None:
        """Close every connection; an SQLite file then has everything that was written."""
        if self.path is not None and self._written:
            # The last connection does it by itself; another process may hold the file open.
            with suppress(StoreError), self._translated(), self.engine.connect() as connection:
                self._check_place(connection)
                sqlite_file.shorten_log(_driver(connection))
            self._written = False
        self.engine.dispose()

    @contextmanager
    def checked_writes(self, check: Callable[[Connection], object]) -> Iterator[None]:
        """Begin each write of this thread meanwhile with a check; what it raises ends the write."""
        before = _check.set(check)
        try:
            yield
        finally:
            _check.reset(before)

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction as the only writer; an exception rolls it back.

        Raises `StoreGone` if the file was removed or replaced since it was opened.
        """
        if self._read_only:
            raise StoreError(f"the ladder at {self} was opened to be read only")
        with self._translated(), self.engine.connect() as connection:
            connection.execution_options(deepsea_writer=True)
            with connection.begin():
                if self.path is None:
                    connection.execute(_LOCK, {"key": _LOCK_KEY})
                self._check_place(connection)
                if (check := _check.get()) is not None:
                    check(connection)
                yield connection
                self._check_place(connection)
            self._written = True

    def _check_place(self, connection: Connection) -> None:
        if self.path is not None:
            self._watch.check(log=connection.info["log"])

    def check_place(self) -> None:
        """Raise `StoreGone` if the file was removed or replaced since it was opened."""
        if self.path is not None:
            self._watch.check(log=False)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One snapshot of the database; keeps no writer waiting."""
        with self._translated(), self.engine.connect() as connection:
            if self.path is None:
                connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
            with connection.begin():
                yield connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            refusal = _refusal(str(self), error)
            if refusal is None:
                raise
            raise refusal from error


_NOW: Final = select(database_now())


def now(connection: Connection) -> int:
    """The database's clock in milliseconds since 1970."""
    return int(connection.execute(_NOW).scalar_one())


def _url_of(target: str) -> URL:
    if "://" not in target:
        return URL.create("sqlite", database=target)
    try:
        url = make_url(target)
        backend = url.get_backend_name()
    except (ArgumentError, ValueError) as error:
        raise StoreError(f"{target!r} is no database URL: {error}") from None
    if backend in ("postgres", "postgresql"):
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise StoreError(f"a ladder is kept in SQLite or PostgreSQL, not in {backend!r}")
    if url.query:
        raise StoreError(f"{target!r}: name the SQLite file without options")
    return url


def _engine(url: URL, busy_seconds: float, *, read_only: bool) -> Engine:
    if url.get_backend_name() == "sqlite":
        path = Path(url.database or "").absolute()
        engine = create_engine(url, creator=partial(sqlite_file.connect, path, busy_seconds))
        event.listen(engine, "connect", partial(_prepare_sqlite, read_only=read_only))
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    # A writer that was stopped in mid-transaction must not hold the others up for ever.
    options = (
        f"-c lock_timeout={round(busy_seconds * 1000)} "
        f"-c idle_in_transaction_session_timeout={round(STILL_SECONDS * 1000)}"
    )
    try:
        return create_engine(url, connect_args={"options": options, "connect_timeout": 10})
    except (ModuleNotFoundError, NoSuchModuleError):
        raise StoreError(
            "PostgreSQL needs the package psycopg: pip install 'psycopg[binary]'"
        ) from None


def _prepare_sqlite(
    connection: sqlite3.Connection, record: ConnectionPoolEntry, *, read_only: bool
) -> None:
    record.info["log"] = sqlite_file.prepare(connection, read_only=read_only)


def _driver(connection: Connection) -> sqlite3.Connection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads before it writes could not be made a writer later on.
    writer = connection.get_execution_options().get("deepsea_writer", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writer else "BEGIN")


_SQLITE: Final[dict[str, tuple[type[StoreError], str]]] = {
    "SQLITE_FULL": (StoreUnavailable, "the disk is full; nothing was changed, free some space"),
    "SQLITE_BUSY": (StoreUnavailable, "another process keeps it busy; try again"),
    "SQLITE_LOCKED": (StoreUnavailable, "another connection keeps it busy; try again"),
    "SQLITE_IOERR": (StoreUnavailable, "the disk cannot be read or written; nothing was changed"),
    "SQLITE_CANTOPEN": (StoreError, "it cannot be opened; look at the file and its folder"),
    "SQLITE_READONLY": (StoreError, "it may only be read; look at the permissions of its folder"),
    "SQLITE_PERM": (StoreError, "it may not be opened; look at its permissions"),
    "SQLITE_CORRUPT": (StoreDamaged, "the file is damaged; restore a backup"),
    "SQLITE_NOTADB": (StoreError, "the file is no SQLite database"),
}

_POSTGRESQL: Final[dict[str, tuple[type[StoreError], str]]] = {
    "08": (StoreUnavailable, "the connection broke"),
    "40": (StoreUnavailable, "another transaction was in the way"),
    "53": (StoreUnavailable, "the server is short of disk, memory or connections"),
    "57P": (StoreUnavailable, "the server is stopping or starting"),
    "55P03": (StoreUnavailable, "another writer keeps it busy; try again"),
    "25P0": (StoreUnavailable, "the transaction stood still for too long"),
    "28": (StoreError, "the server does not let this user in"),
    "3D": (StoreError, "there is no such database; create it first"),
    "42501": (StoreError, "this user may not do that"),
    "XX": (StoreDamaged, "the server reports damaged data; restore a backup"),
}


def _refusal(where: str, error: DBAPIError) -> StoreError | None:
    """The refusal that a driver's error stands for; None for a mistake of this program's own."""
    cause = error.orig
    if isinstance(cause, sqlite3.Error):
        name = str(getattr(cause, "sqlite_errorname", ""))
        if not name and str(cause).startswith("Could not decode"):
            return StoreDamaged(f"the ladder at {where}: it has text that is not UTF-8")
        for start, (kind, words) in _SQLITE.items():
            if name.startswith(start):
                return kind(f"the ladder at {where}: {words}")
        return None
    state = getattr(cause, "sqlstate", None)
    if state is None:
        if not isinstance(error, (OperationalError, InterfaceError)):
            return None
        # Without a code the server never spoke: it is away, or the connection is.
        line = str(cause).strip().splitlines()[0] if str(cause).strip() else "no connection"
        return StoreUnavailable(f"the ladder at {where}: {line}")
    for start, (kind, words) in _POSTGRESQL.items():
        if state.startswith(start):
            return kind(f"the ladder at {where}: {words}")
    return None
