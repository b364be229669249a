"""The database: SQLite in one file, or PostgreSQL by URL.

Invariants: a write is one transaction under the one writer's lock, so that the order of commits is
the order of sequence numbers; a read is one snapshot; time is the database's, so that the clocks of
workers do not matter; drivers' exceptions leave this module as a `StoreError`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
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
from sqlalchemy.sql.functions import FunctionElement

from deepsea_ladder.errors import StoreDamaged, StoreError, StoreUnavailable

BUSY_SECONDS: Final = 30.0
"""Timeout of a write that waits for another writer."""
STILL_SECONDS: Final = 30.0
"""Timeout of an idle transaction on PostgreSQL before the server rolls it back."""

_LOCK: Final = text("SELECT pg_advisory_xact_lock(:key)")
_LOCK_KEY: Final = int.from_bytes(b"deepsea", "big")
"""The advisory lock that makes one writer of all on PostgreSQL."""


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
    """

    def __init__(self, target: str | os.PathLike[str], *, create: bool = False) -> None:
        self.url = _url_of(os.fspath(target))
        self.path: Path | None = None
        """The file of an SQLite database, else None."""
        if self.url.get_backend_name() == "sqlite":
            self.path = Path(self.url.database or "")
            _find(self.path, create=create)
        self.engine = _engine(self.url)

    def __str__(self) -> str:
        return str(self.path) if self.path else self.url.render_as_string(hide_password=True)

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction as the only writer; an exception rolls it back."""
        with self._translated(), self.engine.connect() as connection:
            connection.execution_options(deepsea_writer=True)
            with connection.begin():
                if self.path is None:
                    connection.execute(
                        text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY}
                    )
                yield connection

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


def now(connection: Connection) -> int:
    """The database's clock in milliseconds since 1970."""
    return int(connection.execute(select(database_now())).scalar_one())


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


def _find(path: Path, *, create: bool) -> None:
    if str(path) in ("", ".", ":memory:"):
        raise StoreError("a ladder needs a file: give its path")
    try:
        if create:
            # What is there already was perhaps left by a crash; its content is looked at later.
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        elif not path.is_file():
            raise StoreError(f"there is no ladder at {path}: make one with `ladder init`")
    except OSError as error:
        raise StoreError(f"{path} cannot be made: {error.strerror or error}") from None


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    # A writer that was stopped in mid-transaction must not hold the others up for ever.
    options = (
        f"-c lock_timeout={round(BUSY_SECONDS * 1000)} "
        f"-c idle_in_transaction_session_timeout={round(STILL_SECONDS * 1000)}"
    )
    try:
        return create_engine(url, connect_args={"options": options, "connect_timeout": 10})
    except (ModuleNotFoundError, NoSuchModuleError):
        raise StoreError(
            "PostgreSQL needs the package psycopg: pip install 'psycopg[binary]'"
        ) from None


def _prepare_sqlite(connection: sqlite3.Connection, _: object) -> None:
    connection.isolation_level = None  # transactions begin where `_begin_sqlite` says
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


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
