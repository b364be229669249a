"""Looks for damage: pages, references and values that this program cannot have written.

Invariants: it raises nothing for what it finds, each finding is one line that names the place; it
reads no records and no files of bots, so that it is quick on a large ladder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Integer,
    LargeBinary,
    and_,
    func,
    literal,
    literal_column,
    or_,
    select,
    text,
)
from sqlalchemy.exc import StatementError

from deepsea_ladder.accounts import AuthorState, Role, Scope
from deepsea_ladder.errors import LadderError
from deepsea_ladder.model.analyses import AnalysisState
from deepsea_ladder.model.bots import BotState
from deepsea_ladder.model.jobs import AttemptEnd, JobStatus
from deepsea_ladder.model.people import AuditKind
from deepsea_ladder.season import Season
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import Database
from deepsea_rules.printable import printable, quoted

UNREADABLE: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    StatementError,
    TypeError,
    ValueError,
)
"""What reading senseless values ends in, somewhere; a mistake of this program's own does too."""

_LATEST: Final = 253_402_300_799_999
"""The largest number of all: the last millisecond of the year 9999."""
_FEW: Final = 3
_SHOWN: Final = 40
_ROWID: Final[ColumnElement[int]] = literal_column("rowid")
_CHOICES: Final[tuple[tuple[Column[str], Iterable[str]], ...]] = (
    (schema.bots.c.state, BotState),
    (schema.jobs.c.status, JobStatus),
    (schema.attempts.c.ended, AttemptEnd),
    (schema.analyses.c.state, AnalysisState),
    (schema.audit.c.kind, AuditKind),
    (schema.authors.c.state, AuthorState),
    (schema.authors.c.role, {role.word for role in Role}),
)
_HEX_FLOATS: Final = (
    schema.game_seats.c.mu,
    schema.game_seats.c.sigma,
    schema.ratings.c.mu,
    schema.ratings.c.sigma,
)


def damages(database: Database) -> list[str]:
    """What is damaged, a line each; empty if nothing was found."""
    found: list[str] = []
    try:
        with database.read() as connection:
            for look in (_pages, _kinds, _references, _values) if database.path else (_values,):
                found += look(connection)
                if found:
                    break  # what lies deeper follows from it
    except LadderError as error:
        found.append(str(error))
    return found


def _pages(connection: Connection) -> Iterator[str]:
    for line in connection.execute(text(f"PRAGMA integrity_check({_FEW})")).scalars():
        if line != "ok":
            yield f"damaged: {line}"


def _references(connection: Connection) -> Iterator[str]:
    for row in connection.execute(text("PRAGMA foreign_key_check")).fetchmany(_FEW):
        yield f"table {row[0]}, row {row[1]}: what it refers to is gone"


def _kinds(connection: Connection) -> Iterator[str]:
    """Values of another type than their column's, which SQLite takes."""
    for table in schema.metadata.sorted_tables:
        # A text: to put together an expression for each column takes longer than to look.
        tests = [_is_wrong(column) for column in table.columns]
        where = f"FROM {table.name} WHERE {' OR '.join(tests)} LIMIT {_FEW}"
        for rowid, *wrong in connection.execute(text(f"SELECT rowid, {', '.join(tests)} {where}")):
            for column, is_wrong in zip(table.columns, wrong, strict=True):
                if is_wrong:
                    value = _shown(connection, column, rowid)
                    yield f"table {table.name}, row {rowid}: {column.name} is {value}"


def _is_wrong(column: Column[Any]) -> str:
    name = f'"{column.name}"'
    if isinstance(column.type, Integer | Boolean):
        latest = 1 if isinstance(column.type, Boolean) else _LATEST
        wrong = f"typeof({name}) <> 'integer' OR {name} NOT BETWEEN 0 AND {latest}"
    else:
        kind = "blob" if isinstance(column.type, LargeBinary) else "text"
        wrong = f"typeof({name}) <> '{kind}'"
    return f"({name} IS NOT NULL AND ({wrong}))"


def _shown(connection: Connection, column: Column[Any], rowid: int) -> str:
    """How a value is shown that may be of any type."""
    start = func.substr(func.quote(column), 1, _SHOWN)
    query = select(start).select_from(column.table).where(literal(rowid) == _ROWID)
    return printable(str(connection.execute(query).scalar()))


def _values(connection: Connection) -> Iterator[str]:
    for column, kinds in _CHOICES:
        for value in connection.execute(select(column).distinct()).scalars():
            if value not in (None, *kinds):
                yield f"table {column.table.name}: {column.name} is {quoted(value, _SHOWN)}"
    for value in connection.execute(select(schema.tokens.c.scopes).distinct()).scalars():
        if not set(value.split()) <= set(Scope):
            yield f"table tokens: scopes is {quoted(value, _SHOWN)}"
    for column in _HEX_FLOATS:
        query = select(column).where(column.not_like("%0x%.%p%")).limit(1)
        for value in connection.execute(query).scalars():
            yield f"table {column.table.name}: {column.name} is {quoted(value, _SHOWN)}, no number"
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
