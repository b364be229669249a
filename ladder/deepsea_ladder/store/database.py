"""The database: SQLite in one file, or PostgreSQL by URL; and a look for damage in it.

Invariants: a write is one transaction under the one writer's lock, so that the order of commits is
the order of sequence numbers; a write for a caller begins with a check of the caller's rights; a
read is one snapshot; time is the database's, so that the clocks of workers do not matter; drivers'
exceptions leave this module as a `StoreError`.

No ladder is made beside the log of another one, which SQLite would take for its own; a connection
never makes a file; what is written to a file that has lost its name counts as lost. The look for
damage raises nothing for what it finds, a line each that names the place; it unpacks every record,
whose checksum finds a flipped bit, but re-runs none, and reads no files of bots.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from itertools import chain, zip_longest
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
from deepsea_ladder.season import Season
from deepsea_ladder.store import schema
from deepsea_ladder.store.columns import IS_UTF_8, is_wrong, unpacked
from deepsea_rules.printable import printable, quoted

T = TypeVar("T")
_BUSY_SECONDS = 30.0
SYNCHRONOUS = "FULL"
"""The mode in which SQLite waits at a commit until the disk has it. Tests do without."""
LEAST_FREE = 16 << 20
"""Bytes of free space without which no change is expected to be stored."""
_STILL_SECONDS = 30.0
"""Timeout of an idle transaction on PostgreSQL before the server rolls it back."""
_LOCK = text("SELECT pg_advisory_xact_lock(:key)")
_LOCK_KEY = int.from_bytes(b"deepsea", "big")
"""The advisory lock that makes one writer of all on PostgreSQL."""
_check: ContextVar[Callable[[Connection], object] | None] = ContextVar("check", default=None)


class _Snapshot:
    """The connections on which reads see one state of each database, opened by the first read."""

    def __init__(self) -> None:
        self.connections: dict[Database, Connection] = {}
        self.kept: dict[tuple[Database, str], Any] = {}
        self.opened = ExitStack()


_snapshot: ContextVar[_Snapshot | None] = ContextVar("snapshot", default=None)


@contextmanager
def snapshot() -> Iterator[None]:
    """Have all reads of this thread meanwhile see the same state of a database, in one transaction.

    It is that of the first read. Changes are made in transactions of their own, and these reads do
    not see them. Within another snapshot it is that one.
    """
    if _snapshot.get() is not None:
        yield
        return
    shared = _Snapshot()
    before = _snapshot.set(shared)
    try:
        with shared.opened:
            yield
    finally:
        _snapshot.reset(before)


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
    `busy_seconds` is the timeout of a write that waits for another writer.
    """

    def __init__(
        self,
        target: str | os.PathLike[str],
        *,
        create: bool = False,
        busy_seconds: float = _BUSY_SECONDS,
    ) -> None:
        self.url = _url_of(os.fspath(target))
        self.path: Path | None = None
        """The file of an SQLite database, else None."""
        if self.url.get_backend_name() == "sqlite":
            self.path = Path(self.url.database or "")
            _find(self.path, create=create)
            self._file = self.path.absolute()
            self._identity = _identity(self._file)
            self._shown = str(self.path)
        else:
            self._shown = _address(_connection_options(self.url))
        self._written = False
        self.engine = _engine(self.url, busy_seconds)

    def __str__(self) -> str:
        return self._shown

    def close(self) -> None:
        """Close every connection; an SQLite file then has everything that was written."""
        if self.path is not None and self._written:
            # The last connection does it by itself; another process may hold the file open.
            quietly = suppress(StoreError, sqlite3.Error)
            with quietly, self.translated(), self.engine.connect() as connection:
                self.check_place(log=connection.info["log"])
                driver = connection.connection.driver_connection
                assert isinstance(driver, sqlite3.Connection)
                driver.execute("PRAGMA busy_timeout = 0")
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")
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
        with self.translated(), self.engine.connect() as connection:
            connection.execution_options(deepsea_writer=True)
            with connection.begin():
                if self.path is None:
                    connection.execute(_LOCK, {"key": _LOCK_KEY})
                self.check_place(log=connection.info.get("log", False))
                if (check := _check.get()) is not None:
                    check(connection)
                yield connection
                self.check_place(log=connection.info.get("log", False))
            self._written = True

    def check_writable(self) -> None:
        """Raise `StoreError` if a change could not be stored now."""
        with self.write():
            pass
        free = self.free_bytes()
        if free is not None and free < LEAST_FREE:
            message = f"the ladder at {self}: the disk is full; free some space"
            raise StoreUnavailable(message, DISK_FULL)

    def free_bytes(self) -> int | None:
        """Free space on the disk of an SQLite ladder, else None."""
        return None if self.path is None else shutil.disk_usage(self._file.parent).free

    def check_place(self, *, log: bool = False) -> None:
        """Raise `StoreGone` if the file was removed or replaced since it was opened; with `log`
        also if its write-ahead log is gone."""
        if self.path is None:
            return
        gone, written = None, Path(f"{self._file}-wal")
        if _identity(self._file) != self._identity:
            gone = self._file
        elif log and _identity(written) is None:
            gone = written
        if gone is not None:
            raise StoreGone(
                f"{gone} was removed or replaced while the ladder was open, and nothing is stored "
                "any more: put the ladder's files back or restore a backup, then start again"
            )

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A snapshot of the database, or the shared one; keeps no writer waiting."""
        shared = _snapshot.get()
        with self.translated():
            if shared is None:
                with self._begin_read() as connection:
                    yield connection
                return
            if self not in shared.connections:
                opened = shared.opened.enter_context(self._begin_read())
                shared.connections[self] = opened
            yield shared.connections[self]

    def once(self, name: str, read: Callable[[], T]) -> T:
        """The value that `read` returns; a shared snapshot calls it once for each name."""
        shared, key = _snapshot.get(), (self, name)
        if shared is None:
            return read()
        if key not in shared.kept:
            shared.kept[key] = read()
        found: T = shared.kept[key]
        return found

    def readable(
        self,
        query: Select[Any],
        key: ColumnElement[int],
        read: Callable[[Connection, Sequence[Row[Any]]], list[T]],
        parameters: Mapping[str, Any] = {},
        transaction: Connection | None = None,
    ) -> tuple[list[T], list[str]]:
        """The values of a list that can be read, and a line of damage for each row that cannot.

        query        selects rows, in each of which `key` has another value
        read         makes the values of some rows; called row by row if it raises `StoreDamaged`
                     for all
        transaction  where to read; by default in snapshots of its own
        """

        try:
            with self._reading(transaction) as connection:
                return read(connection, connection.execute(query, parameters).all()), []
        except StoreDamaged:
            pass  # row by row, then
        values: list[T] = []
        damage: list[str] = []
        with self._reading(transaction) as connection:
            keys = connection.execute(query.with_only_columns(key), parameters).scalars().all()
        for number in keys:
            try:
                with self._reading(transaction) as connection:
                    row = connection.execute(query.where(key == number), parameters).all()
                    values += read(connection, row)
            except StoreDamaged as error:
                damage.append(str(error))
        return values, damage

    @contextmanager
    def _reading(self, transaction: Connection | None) -> Iterator[Connection]:
        if transaction is None:
            with self.read() as connection:
                yield connection
        else:
            with self.translated():
                yield transaction

    @contextmanager
    def _begin_read(self) -> Iterator[Connection]:
        with self.engine.connect() as connection:
            if self.path is None:
                connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
            with connection.begin():
                yield connection

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise the `StoreError` that an error of the database's driver stands for."""
        try:
            yield
        except DBAPIError as error:
            refusal = _refusal(str(self), error)
            if refusal is None:
                raise
            raise refusal from error
        except StoreDamaged as error:
            if not error.column:
                raise
            raise self._named(error) from None

    def _named(self, error: StoreDamaged) -> StoreDamaged:
        """The same damage with its row, if it is found again."""
        found: list[str] = []
        if self.path is not None:
            table = schema.metadata.tables[error.table]
            with suppress(DBAPIError), self.engine.connect() as connection:
                found += _wrong_values(connection, table, table.columns[error.column])
        # An expression has the type of one of its columns; it may be another one.
        first = [*(found or damages(self)), str(error)][0]
        return StoreDamaged(first, ladder=str(self))


class StorePart:
    """Some queries and changes of a ladder."""

    def __init__(self, database: Database, policy: RetryPolicy) -> None:
        self._database = database
        self._policy = policy


_NOW = select(database_now())


def now(connection: Connection) -> int:
    """The database's clock in milliseconds since 1970."""
    return int(connection.execute(_NOW).scalar_one())


def added(connection: Connection, row: Insert) -> int:
    """Insert a row; the id that the database gave it."""
    key = connection.execute(row).inserted_primary_key
    assert key is not None, "the statement inserts one row into a table with an id"
    return int(key[0])


_NO_URL = (
    "the database's URL cannot be read, and it is not shown, since it may hold a password: write "
    "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, and in a name or password %40 for @, %2F for / "
    "and so on"
)
_NO_DRIVER = "PostgreSQL needs the package psycopg: pip install 'psycopg[binary]'"
_NO_OPTIONS = (
    "the database's URL has an option that PostgreSQL's clients do not know: behind the ? stand "
    "host, port, dbname, user, password, sslmode and the like"
)
_MEANT_AS_URL = re.compile(r":.*@|password *=", re.IGNORECASE)
"""The form of a path that has a password in it, so that a URL is meant."""
_SEPARATORS = re.compile("[;=&?]")
"""Characters by which another option, such as a password, was meant to begin."""
_SECRET = frozenset({"password", "sslpassword", "options"})
"""Options whose values no message of PostgreSQL's has."""


def _url_of(target: str) -> URL:
    """The URL of a file's path, or the one given. No message has a part of one that is refused,
    which may be a password."""
    if "://" not in target:
        if _MEANT_AS_URL.search(target) and not Path(target).exists():
            raise StoreError(_NO_URL)
        return URL.create("sqlite", database=target)
    try:
        url = make_url(target)
        backend = url.get_backend_name()
    except (ArgumentError, ValueError):
        raise StoreError(_NO_URL) from None
    if backend in ("postgres", "postgresql"):
        # An @ or / in a password that is not escaped makes its end a part of another word.
        if target.count("@") != (url.username is not None):
            raise StoreError(_NO_URL)
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise StoreError("a ladder is kept in SQLite or PostgreSQL, and the URL names another")
    if url.query:
        raise StoreError("the URL of an SQLite file has no options: name the file alone")
    return url


def _connection_options(url: URL) -> dict[str, str]:
    """The options of a PostgreSQL URL as its driver gets them, wherever they stand in it."""
    try:
        from psycopg.pq import Conninfo

        _, given = url.get_dialect()().create_connect_args(url)
    except (ModuleNotFoundError, NoSuchModuleError):
        raise StoreError(_NO_DRIVER) from None
    except (ArgumentError, ValueError):
        raise StoreError(_NO_URL) from None
    options = {name: str(value) for name, value in given.items() if isinstance(value, str | int)}
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    if len(options) < len(given) or not options.keys() <= known:
        raise StoreError(_NO_OPTIONS)
    shown = (value for name, value in options.items() if name not in _SECRET)
    if any(map(_SEPARATORS.search, shown)):
        raise StoreError(_NO_URL)
    return options


def _address(options: Mapping[str, str]) -> str:
    """All that is shown of a PostgreSQL URL: scheme, hosts, ports and database."""
    names = options.get("host", "").split(",")
    hosts = [f"[{name}]" if ":" in name else quote(name, safe="") for name in names]
    ports = [f":{port}" if port else "" for port in options.get("port", "").split(",")]
    places = ",".join(f"{host}{port}" for host, port in zip_longest(hosts, ports, fillvalue=""))
    return f"postgresql://{places}/{quote(options.get('dbname', ''))}"


def _engine(url: URL, busy_seconds: float) -> Engine:
    if url.get_backend_name() == "sqlite":
        path = Path(url.database or "").absolute()
        engine = create_engine(url, creator=partial(_connect_sqlite, path, busy_seconds))
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        event.listen(engine, "after_cursor_execute", _note_cursor)
        event.listen(engine, "reset", _close_cursors)
        return engine
    # A writer that was stopped in mid-transaction must not hold the others up for ever.
    options = (
        f"-c lock_timeout={round(busy_seconds * 1000)} "
        f"-c idle_in_transaction_session_timeout={round(_STILL_SECONDS * 1000)}"
    )
    return create_engine(url, connect_args={"options": options, "connect_timeout": 10})


_BESIDE = ("-wal", "-shm", "-journal")
"""The endings of what SQLite keeps beside its file."""


def _find(path: Path, *, create: bool) -> None:
    """Make sure that there is a file; `create` makes it, for its owner alone."""
    if str(path) in ("", ".", ":memory:"):
        raise StoreError("a ladder needs a file: give its path")
    try:
        if create:
            if not path.exists():
                refuse_leftovers(path)
            # What is there already was perhaps left by a crash; its content is looked at later.
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        elif not path.is_file():
            raise StoreError(f"there is no ladder at {path}: make one with `ladder init`")
    except OSError as error:
        raise StoreError(f"{path} cannot be made: {error.strerror or error}") from None


def refuse_leftovers(path: Path) -> None:
    """Raise `StoreError` if SQLite would take another ladder's files for those of a new `path`."""
    for leftover in (Path(f"{path}{ending}") for ending in _BESIDE):
        if leftover.exists():
            raise StoreError(
                f"{leftover} is there, left of another ladder, and may hold its last games: move "
                "it to that ladder's file, under the same name with this ending, then try again"
            )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino


def _connect_sqlite(path: Path, seconds: float) -> sqlite3.Connection:
    """Connect to the file at an absolute path; a write waits so many seconds for another one."""
    # Without `mode`, SQLite would make an empty file where a ladder was.
    where = f"{path.as_uri()}?mode=rw" if _may_write(path) else read_only_uri(path)
    return sqlite3.connect(where, uri=True, timeout=seconds, check_same_thread=False)


def _may_write(path: Path) -> bool:
    """True if this user may write the file, and the files that SQLite needs beside it."""
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def read_only_uri(path: Path) -> str:
    """The address by which SQLite reads a file at an absolute path and never writes."""
    where = f"{path.as_uri()}?mode=ro"
    # SQLite reads no ladder without a file for its locks, unless it hears that nothing changes.
    is_frozen = False
    with suppress(OSError):  # SQLite says it when the file is not there
        is_frozen = sys.platform != "win32" and bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    if is_frozen and not Path(f"{path}-wal").exists():
        where += "&immutable=1"
    return where


def _prepare_sqlite(connection: sqlite3.Connection, record: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # transactions begin where the engine's events say
    for pragma in (f"synchronous = {SYNCHRONOUS}", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    connection.text_factory = _decoded
    connection.create_function(IS_UTF_8, 1, _is_utf_8, deterministic=True)
    try:
        ((mode,),) = connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        if not error.sqlite_errorname.startswith("SQLITE_READONLY"):
            raise
        mode = "none, since nothing is written"
    record.info["log"] = mode == "wal"  # which some disks do not allow


def _note_cursor(connection: Connection, cursor: sqlite3.Cursor, *_: object) -> None:
    connection.info.setdefault("cursors", WeakSet()).add(cursor)


def _close_cursors(_connection: object, record: ConnectionPoolEntry, _state: object) -> None:
    """Close what a transaction has not read to its end, before its connection is used again.

    An error amid a result, such as a damaged value, may be kept for long, and its traceback keeps
    the cursor. SQLite would go on to show that connection the state of that moment.
    """
    for cursor in record.info.pop("cursors", ()):
        cursor.close()


def _decoded(content: bytes) -> str | bytes:
    """The text in a file; its bytes if it is damaged, which the types of columns refuse."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def _is_utf_8(content: bytes | None) -> bool:
    return isinstance(_decoded(content or b""), str)


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads before it writes could not be made a writer later on.
    writer = connection.get_execution_options().get("deepsea_writer", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writer else "BEGIN")


_LACKING = "a table or a column of it is missing; restore a backup"
_NOT_THERE = ("no such table: ", "no such column: ")
_NOT_OPENED = (
    "it cannot be opened; look at the file and its folder, in which SQLite has to write, unless it "
    "is a `ladder backup` or the disk is read-only and it has no -wal file"
)
_SQLITE: dict[str, tuple[type[StoreError], str]] = {
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
_POSTGRESQL: dict[str, tuple[type[StoreError], str]] = {
    "08": (StoreUnavailable, "the connection broke"),
    "40": (StoreUnavailable, "another transaction was in the way"),
    "53": (StoreUnavailable, "the server is short of disk, memory or connections"),
    "57P": (StoreUnavailable, "the server is stopping or starting"),
    "55P03": (StoreUnavailable, "another writer keeps it busy; try again"),
    "25P0": (StoreUnavailable, "the transaction stood still for too long"),
    "28": (StoreError, "the server does not let this user in"),
    "3D": (StoreError, "there is no such database; create it first"),
    "42501": (StoreError, "this user may not do that"),
    "42P01": (StoreDamaged, _LACKING),
    "42703": (StoreDamaged, _LACKING),
    "XX": (StoreDamaged, "the server reports damaged data; restore a backup"),
}


_AWAY = (
    "the database of the ladder is away, and its operator has to bring it back; nothing was changed"
)
_LASTING = {
    "SQLITE_FULL": DISK_FULL,
    "SQLITE_IOERR": "the disk of the ladder cannot be read or written; nothing was changed",
    "08": _AWAY,
    "53": "the database of the ladder is short of disk, memory or connections; nothing was changed",
    "57P": _AWAY,
}
"""What callers from afar read of troubles that are not over in a second, by the same keys."""


def _refusal(where: str, error: DBAPIError) -> StoreError | None:
    """The refusal that a driver's error stands for; None for a mistake of this program's own."""
    cause = error.orig
    if isinstance(cause, sqlite3.Error):
        name = str(getattr(cause, "sqlite_errorname", ""))
        if str(cause).startswith(_NOT_THERE):
            return StoreDamaged(f"the ladder at {where}: {_LACKING}")
        for start, (kind, words) in _SQLITE.items():
            if name.startswith(start):
                return _store_error(kind, f"the ladder at {where}: {words}", start)
        return None
    state = getattr(cause, "sqlstate", None)
    if state is None:
        if not isinstance(error, (OperationalError, InterfaceError)):
            return None
        # Without a code the server never spoke: it is away, or the connection is.
        line = str(cause).strip().splitlines()[0] if str(cause).strip() else "no connection"
        return StoreUnavailable(f"the ladder at {where}: {line}", _AWAY)
    for start, (kind, words) in _POSTGRESQL.items():
        if state.startswith(start):
            return _store_error(kind, f"the ladder at {where}: {words}", start)
    return None


def _store_error(kind: type[StoreError], message: str, start: str) -> StoreError:
    if kind is StoreUnavailable:
        return StoreUnavailable(message, _LASTING.get(start, ""))
    return kind(message)


UNREADABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    StatementError,
    TypeError,
    ValueError,
)
"""Errors that reading senseless values ends in; a mistake of this program's own does too."""
_FEW = 3
_SHOWN = 40
_ROWID: ColumnElement[int] = literal_column("rowid")
_SMALL = (
    schema.authors,
    schema.seasons,
    schema.bots,
    schema.bot_versions,
    schema.ratings,
    schema.rests,
    schema.settings,
)
_OF_COLUMNS = ("CHECK constraint failed in ", "NULL value in ", "non-")
"""The beginnings of what SQLite says of a value that its column forbids, without its row."""


def damages(database: Database) -> list[str]:
    """The damage of a database, a line each; empty if nothing was found."""
    found: list[str] = []
    try:
        with database.read() as connection, _as_lines(found):
            for look in (_stored, _references, _records, _meanings)[0 if database.path else 2 :]:
                found += look(connection)
                if found:
                    break  # what lies deeper follows from it
    except LadderError as error:
        found.append(str(error))
    return found


@contextmanager
def _as_lines(found: list[str]) -> Iterator[None]:
    """Take what reading senseless values ends in as one more line of damage."""
    try:
        yield
    except UNREADABLE as error:
        found.append(f"it cannot be read: {error}")


def _stored(connection: Connection) -> list[str]:
    """Damage in the pages of an SQLite file, else values that their columns forbid."""
    lines = connection.execute(text(f"PRAGMA integrity_check({_FEW})")).scalars().all()
    damage = [f"damaged: {line}" for line in lines if line != "ok"]
    if all(line.startswith(("ok", *_OF_COLUMNS)) for line in lines):
        tables = schema.metadata.sorted_tables
        wrong = [_wrong_values(connection, table, *table.columns) for table in tables]
        return list(chain.from_iterable(wrong)) or damage
    return damage


def _wrong_values(connection: Connection, table: Table, *columns: Column[Any]) -> Iterator[str]:
    """Values that some columns of a table forbid, each with its row."""
    # A text: to put together an expression for each column takes longer than to look.
    tests = [is_wrong(column) for column in columns]
    where = f"FROM {table.name} WHERE {' OR '.join(tests)} LIMIT {_FEW}"
    for rowid, *wrong in connection.execute(text(f"SELECT rowid, {', '.join(tests)} {where}")):
        for column, is_bad in zip(columns, wrong, strict=True):
            if is_bad:
                value = _shown(connection, column, rowid)
                yield f"table {table.name}, row {rowid}: {column.name} is {value}"


def damage_at_a_glance(connection: Connection) -> list[str]:
    """Values that their columns forbid in tables that are small and that everything needs.

    One statement, and no value, which may be a secret; other tables are looked at by `damages`.
    """
    if connection.dialect.name != "sqlite":
        return []
    parts = []
    for table in _SMALL:
        tests = {column.name: is_wrong(column) for column in table.columns}
        cases = " ".join(f"WHEN {test} THEN '{name}'" for name, test in tests.items())
        where = " OR ".join(tests.values())
        parts.append(
            f"SELECT '{table.name}', rowid, CASE {cases} END FROM {table.name} WHERE {where}"
        )
    rows = connection.execute(text(" UNION ALL ".join(parts)))
    return [f"table {table}, row {row}: {name} is damaged" for table, row, name in rows]


def _shown(connection: Connection, column: Column[Any], rowid: int) -> str:
    """A value of any type, as a message shows it."""
    start = func.substr(func.quote(column), 1, _SHOWN)
    query = select(start).select_from(column.table).where(literal(rowid) == _ROWID)
    shown = connection.execute(query).scalar()
    if isinstance(shown, bytes):  # a text that is not UTF-8
        shown = shown.decode(errors="backslashreplace")
    return printable(str(shown))


def _references(connection: Connection) -> Iterator[str]:
    for row in connection.execute(text("PRAGMA foreign_key_check")).fetchmany(_FEW):
        yield f"table {row[0]}, row {row[1]}: what it refers to is gone"


def _records(connection: Connection) -> Iterator[str]:
    """Records that cannot be unpacked, each with its game."""
    games = schema.games.c
    query = select(games.seq, games.game_id, type_coerce(games.record, LargeBinary))
    rows = connection.execute(query.execution_options(yield_per=500))
    for seq, game_id, content in rows:
        try:
            unpacked(content)
        except StoreDamaged as error:
            yield f"table games, row {seq}: the record of {game_id} is damaged: {error}"


def _meanings(connection: Connection) -> Iterator[str]:
    """Values that contradict each other."""
    yield from _seasons(connection)
    yield from _bots(connection)
    yield from _games(connection)


def _seasons(connection: Connection) -> Iterator[str]:
    table = schema.seasons
    for row in connection.execute(select(table)):
        try:
            name = Season.from_json(row.settings).name
            digests = [bytes.fromhex(row.seed), bytes.fromhex(row.head)]
        except (LadderError, ValueError) as error:
            yield f"season {quoted(row.name, _SHOWN)}: {error}"
            continue
        if name != row.name or any(len(one) != 32 for one in digests):
            yield f"season {quoted(row.name, _SHOWN)}: its name, seed or head is another one"


def _bots(connection: Connection) -> Iterator[str]:
    bots, versions = schema.bots, schema.bot_versions
    current = and_(versions.c.bot_id == bots.c.id, versions.c.number == bots.c.version)
    query = select(bots.c.name, bots.c.version).outerjoin(versions, current)
    for row in connection.execute(query.where(versions.c.id.is_(None)).limit(_FEW)):
        yield f"bot {quoted(row.name, _SHOWN)}: its version {row.version} is not there"


def _games(connection: Connection) -> Iterator[str]:
    games, sat, meant = schema.games, schema.game_seats, schema.job_seats
    query = select(func.count(), func.coalesce(func.max(games.c.seq), 0)).select_from(games)
    count, last = connection.execute(query).one()
    if count != last:
        yield f"there are {count} games, but the last has the number {last}"
    same = and_(sat.c.seq == games.c.seq, sat.c.seat == meant.c.seat)
    others = (
        select(games.c.game_id, meant.c.seat)
        .join(meant, meant.c.job_id == games.c.job_id)
        .outerjoin(sat, same)
        .where(or_(sat.c.version_id.is_(None), sat.c.version_id != meant.c.version_id))
    )
    for row in connection.execute(others.limit(_FEW)):
        yield f"game {row.game_id}, seat {row.seat}: another version sat there than was to play"
    alone = (
        select(games.c.game_id, sat.c.seat)
        .join(sat, sat.c.seq == games.c.seq)
        .outerjoin(meant, and_(meant.c.job_id == games.c.job_id, meant.c.seat == sat.c.seat))
        .where(meant.c.version_id.is_(None))
    )
    for row in connection.execute(alone.limit(_FEW)):
        yield f"game {row.game_id}, seat {row.seat}: nobody was to play there"
