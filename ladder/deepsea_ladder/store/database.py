"""A ladder's database: SQLite in one file, or PostgreSQL by URL; and a search for damage in it.

Start reading at `Database`; `find_damage` is the entry of the search.

Invariants: a write is one transaction under the lock of the only writer, so that the order of
commits is the order of sequence numbers; a write for a caller begins with a check of the caller's
rights; a read sees one snapshot; the time is that of the database, so that the clocks of workers do
not matter; exceptions of drivers leave this module as a `StoreError`. No ladder is created beside
the write-ahead log of another one, which SQLite would take for its own; connecting never creates a
file; a write to a file that was removed or replaced counts as lost. The search for damage returns
one line for each damaged place and raises nothing; it unpacks every record, whose checksum reveals
a flipped bit, but replays no game and reads no files of bots.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote
from weakref import WeakSet

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Insert,
    LargeBinary,
    Row,
    Select,
    Table,
    and_,
    create_engine,
    event,
    func,
    literal,
    literal_column,
    make_url,
    or_,
    select,
    text,
    type_coerce,
)
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
    StatementError,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.functions import FunctionElement

from deepsea_ladder.bot_states import RetryPolicy
from deepsea_ladder.errors import (
    DISK_FULL,
    LadderError,
    StoreDamaged,
    StoreError,
    StoreGone,
    StoreUnavailable,
)
from deepsea_ladder.season import SeasonSettings
from deepsea_ladder.store import schema
from deepsea_ladder.store.columns import IS_UTF_8, forbidden_value_sql, unpacked
from deepsea_rules.printable import printable, quoted

T = TypeVar("T")
_BUSY_SECONDS = 30.0
"""The default timeout of a write that waits for another writer."""
SYNCHRONOUS = "FULL"
"""The mode of SQLite in which a commit waits until it is on the disk. Tests switch it off."""
LEAST_FREE = 16 << 20
"""Bytes of free space below which the disk counts as full."""
_IDLE_SECONDS = 30.0
"""Timeout of an idle transaction on PostgreSQL before the server rolls it back."""
_TAKE_LOCK = text("SELECT pg_advisory_xact_lock(:key)")
_LOCK_KEY = int.from_bytes(b"deepsea", "big")
"""The key of the advisory lock that lets only one writer at a time change a PostgreSQL ladder."""
_write_check: ContextVar[Callable[[Connection], object] | None] = ContextVar("check", default=None)
"""The check that begins each write of this thread (see `Database.checked_writes`), if any."""


class _Snapshot:
    """Connections and values that the reads of a thread share within `snapshot()`.

    The first read of a database opens its connection; `exit_stack` closes all of them.
    """

    def __init__(self) -> None:
        self.connections: dict[Database, Connection] = {}
        self.values: dict[tuple[Database, str], Any] = {}
        self.exit_stack = ExitStack()


_snapshot: ContextVar[_Snapshot | None] = ContextVar("snapshot", default=None)


@contextmanager
def snapshot() -> Iterator[None]:
    """Let all reads of this thread see the same state of a database while the context is open.

    The first read fixes that state. Writes still have transactions of their own, and the reads of
    the snapshot do not see them. A nested call joins the outer snapshot.
    """
    is_nested = _snapshot.get() is not None
    if is_nested:
        yield
        return
    new_snapshot = _Snapshot()
    token = _snapshot.set(new_snapshot)
    try:
        with new_snapshot.exit_stack:
            yield
    finally:
        _snapshot.reset(token)


class database_now(FunctionElement[int]):  # noqa: N801  (reads like a function in SQL)
    """The database's clock in milliseconds since 1970."""

    type = BigInteger()
    inherit_cache = True


@compiles(database_now, "sqlite")
def _now_in_sqlite(*_: Any, **__: Any) -> str:
    # 2440587.5 is the Julian day of 1970-01-01, and a day has 86,400,000 milliseconds.
    return "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"


@compiles(database_now, "postgresql")
def _now_in_postgresql(*_: Any, **__: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"


class Database:
    """A database of a ladder, which may still be empty.

    target        the path of an SQLite file, or a URL
    create        create a missing SQLite file, readable by its owner alone, since it will hold the
                  seeds of future games
    busy_seconds  the timeout of a write that waits for another writer
    """

    def __init__(
        self,
        target: str | os.PathLike[str],
        *,
        create: bool = False,
        busy_seconds: float = _BUSY_SECONDS,
    ) -> None:
        self.url = _database_url(os.fspath(target))
        self.path: Path | None = None
        """The file of an SQLite database; None for PostgreSQL."""
        if self.url.get_backend_name() == "sqlite":
            self.path = Path(self.url.database or "")
            _require_file(self.path, create=create)
            self._file = self.path.absolute()
            self._opened_identity = _file_identity(self._file)
            self._display_name = str(self.path)
        else:
            self._display_name = _url_without_secrets(_connection_options(self.url))
        self._has_written = False
        self.engine = _make_engine(self.url, busy_seconds)

    def __str__(self) -> str:
        return self._display_name

    def close(self) -> None:
        """Close every connection.

        After changes to an SQLite ladder, the write-ahead log is first moved into the file, so
        that the file alone is complete.
        """
        if self.path is not None and self._has_written:
            # SQLite itself empties the log only when the last connection of all processes closes.
            # If another process makes this impossible now, the log just stays: that is no error.
            ignored_errors = suppress(StoreError, sqlite3.Error)
            with ignored_errors, self.translating_errors(), self.engine.connect() as connection:
                self.check_place(log=connection.info["log"])
                sqlite_connection = connection.connection.driver_connection
                assert isinstance(sqlite_connection, sqlite3.Connection)
                sqlite_connection.execute("PRAGMA busy_timeout = 0")  # wait for nobody
                sqlite_connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._has_written = False
        self.engine.dispose()

    @contextmanager
    def checked_writes(self, check: Callable[[Connection], object]) -> Iterator[None]:
        """While the context is open, call `check` before each write of this thread.

        It gets the connection of the write, in whose transaction it runs. If it raises, the write
        fails before it has changed anything.
        """
        token = _write_check.set(check)
        try:
            yield
        finally:
            _write_check.reset(token)

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a transaction as the only writer; an exception rolls it back.

        Raises `StoreGone` if the SQLite file was removed or replaced since it was opened. This is
        checked again before the commit, since a change of a removed file would be lost.
        """
        is_postgresql = self.path is None
        with self.translating_errors(), self.engine.connect() as connection:
            connection.execution_options(deepsea_writer=True)  # `_begin_sqlite` takes the lock then
            with connection.begin():
                if is_postgresql:
                    connection.execute(_TAKE_LOCK, {"key": _LOCK_KEY})
                has_log = connection.info.get("log", False)
                self.check_place(log=has_log)
                check = _write_check.get()
                if check is not None:
                    check(connection)
                yield connection
                self.check_place(log=has_log)
            self._has_written = True

    def check_writable(self) -> None:
        """Raise `StoreError` if a change could not be stored now."""
        with self.write():
            pass  # only to see whether a write can begin
        free_bytes = self.free_bytes()
        if free_bytes is not None and free_bytes < LEAST_FREE:
            message = f"the ladder at {self}: the disk is full; free some space"
            raise StoreUnavailable(message, DISK_FULL)

    def free_bytes(self) -> int | None:
        """Return the free space on the disk of an SQLite ladder; None for PostgreSQL."""
        return None if self.path is None else shutil.disk_usage(self._file.parent).free

    def check_place(self, *, log: bool = False) -> None:
        """Raise `StoreGone` if the SQLite file was removed or replaced since it was opened.

        log  True if there has to be a write-ahead log beside the file, too
        """
        is_postgresql = self.path is None
        if is_postgresql:
            return
        log_path = Path(f"{self._file}-wal")
        missing_file = None
        if _file_identity(self._file) != self._opened_identity:
            missing_file = self._file
        elif log and _file_identity(log_path) is None:
            missing_file = log_path
        if missing_file is not None:
            raise StoreGone(
                f"{missing_file} was removed or replaced while the ladder was open, and nothing is "
                "stored any more: put the ladder's files back or restore a backup, then start again"
            )

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a connection that sees one state of the database and keeps no writer waiting.

        Within `snapshot()` it is the connection that all reads of this thread share. The snapshot
        closes it, not this context.
        """
        open_snapshot = _snapshot.get()
        with self.translating_errors():
            if open_snapshot is None:
                with self._begin_read() as connection:
                    yield connection
                return
            if self not in open_snapshot.connections:
                connection = open_snapshot.exit_stack.enter_context(self._begin_read())
                open_snapshot.connections[self] = connection
            yield open_snapshot.connections[self]

    def once_per_snapshot(self, name: str, read: Callable[[], T]) -> T:
        """Call `read` and return its value; within `snapshot()`, call it only the first time.

        name  the name under which the snapshot remembers the value
        """
        open_snapshot = _snapshot.get()
        if open_snapshot is None:
            return read()
        key = (self, name)
        if key not in open_snapshot.values:
            open_snapshot.values[key] = read()
        value: T = open_snapshot.values[key]
        return value

    def read_undamaged(
        self,
        query: Select[Any],
        key: ColumnElement[int],
        read: Callable[[Connection, Sequence[Row[Any]]], list[T]],
        parameters: Mapping[str, Any] = {},
        transaction: Connection | None = None,
    ) -> tuple[list[T], list[str]]:
        """Return the values of all readable rows, and one line of damage for each other row.

        query        selects the rows
        key          a column of the query with another value in each row
        read         turns rows into values; if it raises `StoreDamaged` for all rows at once, it
                     is called for each row by itself
        transaction  a running transaction to read in; by default each read has its own snapshot
        """
        try:
            with self._read_connection(transaction) as connection:
                return read(connection, connection.execute(query, parameters).all()), []
        except StoreDamaged:
            pass  # Some row is damaged: read them one by one.
        values: list[T] = []
        damage: list[str] = []
        with self._read_connection(transaction) as connection:
            keys = connection.execute(query.with_only_columns(key), parameters).scalars().all()
        for number in keys:
            try:
                with self._read_connection(transaction) as connection:
                    row = connection.execute(query.where(key == number), parameters).all()
                    values += read(connection, row)
            except StoreDamaged as error:
                damage.append(str(error))
        return values, damage

    @contextmanager
    def _read_connection(self, transaction: Connection | None) -> Iterator[Connection]:
        """Provide the connection of a running transaction, or open a new one if it is None."""
        if transaction is None:
            with self.read() as connection:
                yield connection
        else:
            with self.translating_errors():
                yield transaction

    @contextmanager
    def _begin_read(self) -> Iterator[Connection]:
        """Open a connection with a transaction that sees one state of the database."""
        with self.engine.connect() as connection:
            if self.path is None:
                connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
            with connection.begin():
                yield connection

    @contextmanager
    def translating_errors(self) -> Iterator[None]:
        """Turn errors of the database's driver into the `StoreError` that they stand for.

        Other errors pass. A `StoreDamaged` that names a column is replaced by one that also names
        the row.
        """
        try:
            yield
        except DBAPIError as error:
            store_error = _store_error(str(self), error)
            if store_error is None:
                raise
            raise store_error from error
        except StoreDamaged as error:
            if not error.column:
                raise
            raise self._with_row(error) from None

    def _with_row(self, error: StoreDamaged) -> StoreDamaged:
        """Return an error that names the damaged row, if it is found, besides its column."""
        damage_lines: list[str] = []
        if self.path is not None:
            table = schema.metadata.tables[error.table]
            with suppress(DBAPIError), self.engine.connect() as connection:
                damage_lines += _forbidden_values(connection, table, table.columns[error.column])
        # If nothing was found in this column, the value came from an expression, in which another
        # column is damaged: search the whole database.
        if not damage_lines:
            damage_lines = find_damage(self)
        message = damage_lines[0] if damage_lines else str(error)
        return StoreDamaged(message, ladder=str(self))


class StorePart:
    """Base class of the parts of a `Store`, each with the queries and changes of one subject."""

    def __init__(self, database: Database, policy: RetryPolicy) -> None:
        self._database = database
        self._policy = policy


_NOW = select(database_now())


def now(connection: Connection) -> int:
    """Return the time of the database's clock in milliseconds since 1970."""
    return int(connection.execute(_NOW).scalar_one())


def insert_row(connection: Connection, statement: Insert) -> int:
    """Insert one row and return the id that the database gave it."""
    key = connection.execute(statement).inserted_primary_key
    assert key is not None, "the statement inserts one row into a table with an id"
    return int(key[0])


_UNREADABLE_URL = (
    "the database's URL cannot be read, and it is not shown, since it may hold a password: write "
    "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, and in a name or password %40 for @, %2F for / "
    "and so on"
)
_NO_DRIVER = "PostgreSQL needs the package psycopg: pip install 'psycopg[binary]'"
_UNKNOWN_OPTION = (
    "the database's URL has an option that PostgreSQL's clients do not know: behind the ? stand "
    "host, port, dbname, user, password, sslmode and the like"
)
_LOOKS_LIKE_URL = re.compile(r":.*@|password *=", re.IGNORECASE)
"""Text in a path that looks like a password, so that a URL without its scheme was meant."""
_SEPARATORS = re.compile("[;=&?]")
"""Characters that separate options in a URL.

In the value of an option they mean that another option, such as a password, is a part of it.
"""
_SECRET_OPTIONS = frozenset({"password", "sslpassword", "options"})
"""Options whose values PostgreSQL never repeats in a message."""


def _database_url(target: str) -> URL:
    """Return the URL of SQLAlchemy for a file's path or a URL.

    Raises `StoreError` if it is refused. No message repeats a part of the URL, since that may be a
    password.
    """
    if "://" not in target:
        if _LOOKS_LIKE_URL.search(target) and not Path(target).exists():
            raise StoreError(_UNREADABLE_URL)
        return URL.create("sqlite", database=target)
    try:
        url = make_url(target)
        backend = url.get_backend_name()
    except (ArgumentError, ValueError):
        raise StoreError(_UNREADABLE_URL) from None
    if backend in ("postgres", "postgresql"):
        # With an unescaped @ or / in the password, the end of the password would be taken for the
        # host or the database, and be shown. A sound URL has one @ behind the user, or none.
        expected_ats = 0 if url.username is None else 1
        if target.count("@") != expected_ats:
            raise StoreError(_UNREADABLE_URL)
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise StoreError("a ladder is kept in SQLite or PostgreSQL, and the URL names another")
    if url.query:
        raise StoreError("the URL of an SQLite file has no options: name the file alone")
    return url


def _connection_options(url: URL) -> dict[str, str]:
    """Return the options that the driver gets for a PostgreSQL URL, such as user and host.

    Raises `StoreError` if psycopg is missing, or if an option is unknown or cannot be read.
    """
    try:
        from psycopg.pq import Conninfo

        _, arguments = url.get_dialect()().create_connect_args(url)
    except (ModuleNotFoundError, NoSuchModuleError):
        raise StoreError(_NO_DRIVER) from None
    except (ArgumentError, ValueError):
        raise StoreError(_UNREADABLE_URL) from None
    options = {
        name: str(value) for name, value in arguments.items() if isinstance(value, str | int)
    }
    known_names = {option.keyword.decode() for option in Conninfo.get_defaults()}
    has_values_of_other_types = len(options) < len(arguments)
    has_unknown_names = not known_names.issuperset(options)
    if has_values_of_other_types or has_unknown_names:
        raise StoreError(_UNKNOWN_OPTION)
    public_values = [value for name, value in options.items() if name not in _SECRET_OPTIONS]
    if any(map(_SEPARATORS.search, public_values)):
        raise StoreError(_UNREADABLE_URL)
    return options


def _url_without_secrets(options: Mapping[str, str]) -> str:
    """Return a PostgreSQL URL with scheme, hosts, ports and database, and nothing else.

    PostgreSQL takes lists of hosts and of ports, separated by commas.
    """
    names = options.get("host", "").split(",")
    hosts = [f"[{name}]" if ":" in name else quote(name, safe="") for name in names]
    ports = [f":{port}" if port else "" for port in options.get("port", "").split(",")]
    addresses = [f"{host}{port}" for host, port in zip_longest(hosts, ports, fillvalue="")]
    return f"postgresql://{','.join(addresses)}/{quote(options.get('dbname', ''))}"


def _make_engine(url: URL, busy_seconds: float) -> Engine:
    """Return a new engine for the database at this URL.

    busy_seconds  the timeout of a write that waits for another writer
    """
    if url.get_backend_name() == "sqlite":
        path = Path(url.database or "").absolute()
        engine = create_engine(url, creator=partial(_connect_sqlite, path, busy_seconds))
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        event.listen(engine, "after_cursor_execute", _remember_cursor)
        event.listen(engine, "reset", _close_cursors)
        return engine
    # A writer that was stopped in the middle of a transaction must not block others for ever.
    options = (
        f"-c lock_timeout={round(busy_seconds * 1000)} "
        f"-c idle_in_transaction_session_timeout={round(_IDLE_SECONDS * 1000)}"
    )
    return create_engine(url, connect_args={"options": options, "connect_timeout": 10})


_SIDE_FILE_ENDINGS = ("-wal", "-shm", "-journal")
"""The endings of the files that SQLite keeps beside a database."""


def _require_file(path: Path, *, create: bool) -> None:
    """Raise `StoreError` if there is no file at a path.

    create  create a missing file, which only its owner can read, instead of raising
    """
    if str(path) in ("", ".", ":memory:"):
        raise StoreError("a ladder needs a file: give its path")
    try:
        if create:
            if not path.exists():
                refuse_leftovers(path)
            # An existing file may be the empty one of a crash. Its tables are checked later.
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        elif not path.is_file():
            raise StoreError(f"there is no ladder at {path}: make one with `ladder init`")
    except OSError as error:
        raise StoreError(f"{path} cannot be made: {error.strerror or error}") from None


def refuse_leftovers(path: Path) -> None:
    """Raise `StoreError` if files of a former ladder stand beside the path of a new one.

    SQLite would take them for those of the new ladder.
    """
    for ending in _SIDE_FILE_ENDINGS:
        leftover = Path(f"{path}{ending}")
        if leftover.exists():
            raise StoreError(
                f"{leftover} is there, left of another ladder, and may hold its last games: move "
                "it to that ladder's file, under the same name with this ending, then try again"
            )


def _file_identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file, by which a replaced file is known; None if absent."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _connect_sqlite(path: Path, seconds: float) -> sqlite3.Connection:
    """Connect to the file at an absolute path; `seconds` is how long a write waits for another."""
    # Without a mode, SQLite would create an empty file if the ladder was removed.
    uri = f"{path.as_uri()}?mode=rw" if _is_writable(path) else read_only_uri(path)
    return sqlite3.connect(uri, uri=True, timeout=seconds, check_same_thread=False)


def _is_writable(path: Path) -> bool:
    """Return True if this user may write the file and, for SQLite's log, its folder."""
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def read_only_uri(path: Path) -> str:
    """Return the URI by which SQLite reads a file at an absolute path and never writes it."""
    uri = f"{path.as_uri()}?mode=ro"
    # SQLite keeps its locks in a file beside the database, which it cannot make on a read-only
    # disk. It needs no locks if the caller says that nobody changes the database.
    if _is_on_read_only_disk(path) and not Path(f"{path}-wal").exists():
        uri += "&immutable=1"
    return uri


def _is_on_read_only_disk(path: Path) -> bool:
    """Return True if the disk of a file is mounted read-only; False if that is not known."""
    if sys.platform != "win32":
        with suppress(OSError):  # a missing file: SQLite reports it on connecting
            return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    return False


def _prepare_sqlite(connection: sqlite3.Connection, record: ConnectionPoolEntry) -> None:
    """Set up a new connection to SQLite.

    `record.info["log"]` tells from then on whether it uses a write-ahead log, as it should: some
    disks allow none.
    """
    connection.isolation_level = None  # transactions begin in `_begin_sqlite`, not in the driver
    connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.text_factory = _text_or_bytes
    connection.create_function(IS_UTF_8, 1, _is_utf_8, deterministic=True)
    try:
        ((mode,),) = connection.execute("PRAGMA journal_mode = WAL")  # the mode that it got
        record.info["log"] = mode == "wal"
    except sqlite3.OperationalError as error:
        if not error.sqlite_errorname.startswith("SQLITE_READONLY"):
            raise
        record.info["log"] = False


def _remember_cursor(connection: Connection, cursor: sqlite3.Cursor, *_: object) -> None:
    """Remember a cursor of a connection, without keeping it alive, for `_close_cursors`."""
    connection.info.setdefault("cursors", WeakSet()).add(cursor)


def _close_cursors(_connection: object, record: ConnectionPoolEntry, _state: object) -> None:
    """Close the cursors of a transaction before its connection returns to the pool.

    As long as one is open, SQLite shows an old state of the database on this connection. A cursor
    whose result was not read to the end, because of an error, is kept open by the error's
    traceback, perhaps for long.
    """
    for cursor in record.info.pop("cursors", ()):
        cursor.close()


def _text_or_bytes(content: bytes) -> str | bytes:
    """Decode a text of SQLite; if it is not UTF-8, return its bytes, which column types refuse."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def _is_utf_8(content: bytes | None) -> bool:
    return isinstance(_text_or_bytes(content or b""), str)


def _begin_sqlite(connection: Connection) -> None:
    """Begin a transaction on SQLite; one that is going to write takes the writer's lock at once.

    A transaction that reads first and takes the lock later may be refused the lock.
    """
    is_writer = connection.get_execution_options().get("deepsea_writer", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writer else "BEGIN")


_INCOMPLETE_SCHEMA = "a table or a column of it is missing; restore a backup"
_MISSING_FROM_SCHEMA = ("no such table: ", "no such column: ")
_NOT_OPENED = (
    "it cannot be opened; look at the file and its folder, in which SQLite has to write, unless it "
    "is a `ladder backup` or the disk is read-only and it has no -wal file"
)
_SQLITE_REFUSALS: dict[str, tuple[type[StoreError], str]] = {
    "SQLITE_FULL": (StoreUnavailable, "the disk is full; nothing was changed, free some space"),
    "SQLITE_BUSY": (StoreUnavailable, "another process keeps it busy; try again"),
    "SQLITE_LOCKED": (StoreUnavailable, "another connection keeps it busy; try again"),
    "SQLITE_IOERR": (StoreUnavailable, "the disk cannot be read or written; nothing was changed"),
    "SQLITE_CANTOPEN": (StoreError, _NOT_OPENED),
    "SQLITE_READONLY": (StoreError, "it may only be read; look at the permissions of its folder"),
    "SQLITE_PERM": (StoreError, "it may not be opened; look at its permissions"),
    "SQLITE_CORRUPT": (StoreDamaged, "the file is damaged; restore a backup"),
    "SQLITE_NOTADB": (StoreError, "the file is no SQLite database"),
}
_POSTGRESQL_REFUSALS: dict[str, tuple[type[StoreError], str]] = {
    "08": (StoreUnavailable, "the connection broke"),
    "40": (StoreUnavailable, "another transaction was in the way"),
    "53": (StoreUnavailable, "the server is short of disk, memory or connections"),
    "57P": (StoreUnavailable, "the server is stopping or starting"),
    "55P03": (StoreUnavailable, "another writer keeps it busy; try again"),
    "25P0": (StoreUnavailable, "the transaction stood still for too long"),
    "28": (StoreError, "the server does not let this user in"),
    "3D": (StoreError, "there is no such database; create it first"),
    "42501": (StoreError, "this user may not do that"),
    "42P01": (StoreDamaged, _INCOMPLETE_SCHEMA),
    "42703": (StoreDamaged, _INCOMPLETE_SCHEMA),
    "XX": (StoreDamaged, "the server reports damaged data; restore a backup"),
}


_DATABASE_AWAY = (
    "the database of the ladder is away, and its operator has to bring it back; nothing was changed"
)
_PUBLIC_MESSAGES = {
    "SQLITE_FULL": DISK_FULL,
    "SQLITE_IOERR": "the disk of the ladder cannot be read or written; nothing was changed",
    "08": _DATABASE_AWAY,
    "53": "the database of the ladder is short of disk, memory or connections; nothing was changed",
    "57P": _DATABASE_AWAY,
}
"""Messages to remote callers for faults that last, by the keys of the tables above."""


def _store_error(ladder: str, error: DBAPIError) -> StoreError | None:
    """Return the `StoreError` that an error of a driver stands for.

    None if it stands for a mistake of this program.

    ladder  the name of the ladder for the message
    """
    cause = error.orig
    if isinstance(cause, sqlite3.Error):
        if str(cause).startswith(_MISSING_FROM_SCHEMA):
            return StoreDamaged(f"the ladder at {ladder}: {_INCOMPLETE_SCHEMA}")
        error_name = str(getattr(cause, "sqlite_errorname", ""))
        return _store_error_by_code(ladder, error_name, _SQLITE_REFUSALS)
    sqlstate: str | None = getattr(cause, "sqlstate", None)
    if sqlstate is not None:
        return _store_error_by_code(ladder, sqlstate, _POSTGRESQL_REFUSALS)
    if isinstance(error, (OperationalError, InterfaceError)):
        # An error without a code does not come from the server: it could not be reached.
        lines = str(cause).strip().splitlines() or ["no connection"]
        return StoreUnavailable(f"the ladder at {ladder}: {lines[0]}", _DATABASE_AWAY)
    return None


def _store_error_by_code(
    ladder: str, code: str, refusals: Mapping[str, tuple[type[StoreError], str]]
) -> StoreError | None:
    """Return the `StoreError` for an error code of a database; None if the code has none.

    refusals  the class and the message of the error, by the beginning of the code
    """
    for prefix, (error_class, explanation) in refusals.items():
        if code.startswith(prefix):
            message = f"the ladder at {ladder}: {explanation}"
            if error_class is StoreUnavailable:
                return StoreUnavailable(message, _PUBLIC_MESSAGES.get(prefix, ""))
            return error_class(message)
    return None


UNREADABLE_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    StatementError,
    TypeError,
    ValueError,
)
"""Errors that a damaged value may cause in code that works with it."""
_ROWS_PER_CHECK = 3
"""Lines of damage that one check reports."""
_SHOWN_CHARACTERS = 40
"""Characters of a damaged value that a line shows."""
_ROWID: ColumnElement[int] = literal_column("rowid")
_SMALL_TABLES = (
    schema.authors,
    schema.seasons,
    schema.bots,
    schema.bot_versions,
    schema.ratings,
    schema.rests,
    schema.settings,
)
_COLUMN_COMPLAINTS = ("CHECK constraint failed in ", "NULL value in ", "non-")
"""Beginnings of the messages of SQLite on a value that its column forbids. They name no row."""


def find_damage(database: Database) -> list[str]:
    """Return one line for each damaged place of a database; an empty list if it is sound."""
    checks: list[Callable[[Connection], Iterable[str]]] = [_damaged_records, _contradictions]
    if database.path is not None:  # PostgreSQL itself keeps these rules
        checks = [_damaged_pages_or_values, _dangling_references, *checks]
    lines: list[str] = []
    try:
        with database.read() as connection, _errors_as_lines(lines):
            for check in checks:
                lines += check(connection)
                if lines:
                    break  # the next checks would report consequences of this damage
    except LadderError as error:
        lines.append(str(error))
    return lines


@contextmanager
def _errors_as_lines(lines: list[str]) -> Iterator[None]:
    """Add an error that a damaged value causes as one more line, instead of raising it."""
    try:
        yield
    except UNREADABLE_ERRORS as error:
        lines.append(f"it cannot be read: {error}")


def _damaged_pages_or_values(connection: Connection) -> list[str]:
    """Return a line for each damaged page of an SQLite file, or for each forbidden value in it.

    Values are searched only if all pages are sound.
    """
    check = text(f"PRAGMA integrity_check({_ROWS_PER_CHECK})")
    complaints = [line for line in connection.execute(check).scalars() if line != "ok"]
    damage_by_sqlite = [f"damaged: {complaint}" for complaint in complaints]
    if not all(complaint.startswith(_COLUMN_COMPLAINTS) for complaint in complaints):
        return damage_by_sqlite
    # All complaints are about values, and SQLite does not say in which rows these are.
    forbidden_values: list[str] = []
    for table in schema.metadata.sorted_tables:
        forbidden_values += _forbidden_values(connection, table, *table.columns)
    return forbidden_values or damage_by_sqlite


def _forbidden_values(connection: Connection, table: Table, *columns: Column[Any]) -> Iterator[str]:
    """Yield a line for each value that these columns of an SQLite table forbid, with its row."""
    # As text, since making an expression of SQLAlchemy for each column takes longer than the query.
    tests = [forbidden_value_sql(column) for column in columns]
    query = (
        f"SELECT rowid, {', '.join(tests)} FROM {table.name} "
        f"WHERE {' OR '.join(tests)} LIMIT {_ROWS_PER_CHECK}"
    )
    for rowid, *test_results in connection.execute(text(query)):
        for column, is_forbidden in zip(columns, test_results, strict=True):
            if is_forbidden:
                value = _value_text(connection, column, rowid)
                yield f"table {table.name}, row {rowid}: {column.name} is {value}"


def damage_in_small_tables(connection: Connection) -> list[str]:
    """Return a line for each forbidden value in the small tables that every command reads.

    This takes one statement, so that a monitor can ask often; `find_damage` checks all tables. The
    lines show no value, since it may be a secret.
    """
    if connection.dialect.name != "sqlite":
        return []  # PostgreSQL stores no such values
    selects = []
    for table in _SMALL_TABLES:
        tests = {column.name: forbidden_value_sql(column) for column in table.columns}
        name_cases = " ".join(f"WHEN {test} THEN '{name}'" for name, test in tests.items())
        selects.append(
            f"SELECT '{table.name}', rowid, CASE {name_cases} END FROM {table.name} "
            f"WHERE {' OR '.join(tests.values())}"
        )
    rows = connection.execute(text(" UNION ALL ".join(selects)))
    return [f"table {table}, row {rowid}: {column} is damaged" for table, rowid, column in rows]


def _value_text(connection: Connection, column: Column[Any], rowid: int) -> str:
    """Return the beginning of a value in a row of SQLite, of any type, for a message."""
    beginning = func.substr(func.quote(column), 1, _SHOWN_CHARACTERS)
    query = select(beginning).select_from(column.table).where(literal(rowid) == _ROWID)
    value = connection.execute(query).scalar()
    if isinstance(value, bytes):  # a text that is not UTF-8
        value = value.decode(errors="backslashreplace")
    return printable(str(value))


def _dangling_references(connection: Connection) -> Iterator[str]:
    """Report rows of SQLite that refer to a row that does not exist."""
    violations = connection.execute(text("PRAGMA foreign_key_check"))
    for table, rowid, *_ in violations.fetchmany(_ROWS_PER_CHECK):
        yield f"table {table}, row {rowid}: what it refers to is gone"


def _damaged_records(connection: Connection) -> Iterator[str]:
    """Yield a line for each record that cannot be unpacked, with its game."""
    games = schema.games.c
    query = select(games.seq, games.game_id, type_coerce(games.record, LargeBinary))
    rows = connection.execute(query.execution_options(yield_per=500))
    for seq, game_id, content in rows:
        try:
            unpacked(content)
        except StoreDamaged as error:
            yield f"table games, row {seq}: the record of {game_id} is damaged: {error}"


def _contradictions(connection: Connection) -> Iterator[str]:
    """Report values that contradict each other, in seasons, bots and games."""
    yield from _contradictory_seasons(connection)
    yield from islice(bots_without_version(connection), _ROWS_PER_CHECK)
    yield from _contradictory_games(connection)


def _contradictory_seasons(connection: Connection) -> Iterator[str]:
    """Yield a line for each season whose settings, seed or head are unreadable or wrong.

    The settings repeat the season's name; seed and head have the length of a SHA-256 digest.
    """
    for row in connection.execute(select(schema.seasons)):
        season = quoted(row.name, _SHOWN_CHARACTERS)
        try:
            name_in_settings = SeasonSettings.from_json(row.settings).name
            lengths = {len(bytes.fromhex(row.seed)), len(bytes.fromhex(row.head))}
        except (LadderError, ValueError) as error:
            yield f"season {season}: {error}"
            continue
        if name_in_settings != row.name or lengths != {32}:
            yield f"season {season}: its name, seed or head is another one"


def bots_without_version(connection: Connection, *conditions: ColumnElement[bool]) -> Iterator[str]:
    """Yield a line for each bot whose current version does not exist.

    conditions  only bots that meet these are checked
    """
    bots, versions = schema.bots, schema.bot_versions
    is_current = and_(versions.c.bot_id == bots.c.id, versions.c.number == bots.c.version)
    query = select(bots.c.id, bots.c.name, bots.c.version).outerjoin(versions, is_current)
    has_no_version = versions.c.id.is_(None)
    for row in connection.execute(query.where(has_no_version, *conditions)):
        bot = quoted(row.name, _SHOWN_CHARACTERS)
        yield f"table bots, row {row.id}: version is {row.version}, which {bot} does not have"


def _contradictory_games(connection: Connection) -> Iterator[str]:
    """Yield lines on a gap in the numbers of games, and on seats that were not played as planned.

    The sequence numbers of games begin with 1 and have no gaps.
    """
    games, seats, planned = schema.games, schema.game_seats, schema.job_seats
    query = select(func.count(), func.coalesce(func.max(games.c.seq), 0)).select_from(games)
    count, last_seq = connection.execute(query).one()
    if count != last_seq:
        yield f"there are {count} games, but the last has the number {last_seq}"
    # Planned seats of which the game has no row, or one with another version.
    is_same_seat = and_(seats.c.seq == games.c.seq, seats.c.seat == planned.c.seat)
    wrong_versions = (
        select(games.c.game_id, planned.c.seat)
        .join(planned, planned.c.job_id == games.c.job_id)
        .outerjoin(seats, is_same_seat)
        .where(or_(seats.c.version_id.is_(None), seats.c.version_id != planned.c.version_id))
    )
    for row in connection.execute(wrong_versions.limit(_ROWS_PER_CHECK)):
        yield f"game {row.game_id}, seat {row.seat}: another version sat there than was to play"
    # Seats of games that were not planned.
    is_planned_seat = and_(planned.c.job_id == games.c.job_id, planned.c.seat == seats.c.seat)
    unplanned_seats = (
        select(games.c.game_id, seats.c.seat)
        .join(seats, seats.c.seq == games.c.seq)
        .outerjoin(planned, is_planned_seat)
        .where(planned.c.version_id.is_(None))
    )
    for row in connection.execute(unplanned_seats.limit(_ROWS_PER_CHECK)):
        yield f"game {row.game_id}, seat {row.seat}: nobody was to play there"
