"""Rows of codes, tokens and sessions, in a running transaction.

Invariants: a row is valid until it ends or expires, and as long as its author is active; it is
deleted some time after that, so that no id comes again while somebody may remember it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    and_,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from deepsea_ladder.accounts import Actor, AuthorState, Role, Scope, scopes_of, scopes_text
from deepsea_ladder.errors import AccountError
from deepsea_ladder.model.people import AuditKind, CodeLine, Credential, TokenLine
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import note
from deepsea_ladder.store.authors import added, ensure_author, role_of
from deepsea_ladder.store.database import now
from deepsea_ladder.values import Int64, utc_time

DAY_MS: Final = 86_400_000
KEPT_MS: Final = 30 * DAY_MS
"""How long rows are kept after they have ended."""

codes, tokens, sessions, authors = (
    schema.codes,
    schema.tokens,
    schema.sessions,
    schema.authors,
)


class NewToken(NamedTuple):
    """A token to be stored."""

    digest: str
    start: str
    label: str
    days: int
    scopes: tuple[Scope, ...]


def valid(table: Table, at: int) -> ColumnElement[bool]:
    """The condition on a row of that table that has not ended."""
    return and_(table.c.ended_at.is_(None), table.c.expires_at > at)


def end(connection: Connection, table: Table, row_id: int, at: int) -> None:
    """End a row."""
    connection.execute(update(table).where(table.c.id == row_id).values(ended_at=at))


def clear(connection: Connection, at: int) -> None:
    """Delete what ended long ago."""
    for table in (sessions, tokens, codes):
        over = or_(table.c.ended_at < at - KEPT_MS, table.c.expires_at < at - KEPT_MS)
        connection.execute(delete(table).where(over))


def add_code(
    connection: Connection, digest: str, author: str, at: int, days: int, by: Actor
) -> CodeLine:
    """Store a code for an active author, who is added if there is none; "" for anybody."""
    author_id = ensure_author(connection, author, at) if author else None
    code_id = added(
        connection,
        insert(codes).values(
            digest=digest, author_id=author_id, created_at=at, expires_at=at + days * DAY_MS
        ),
    )
    note_code(connection, at, author_id, code_id, "made", by)
    row = connection.execute(select_codes().where(codes.c.id == code_id)).one()
    return stored_code(row)


def note_code(
    connection: Connection, at: int, author_id: int | None, code_id: int, what: str, by: Actor
) -> None:
    """Tell the audit log what happened to a code."""
    subject = "anybody" if author_id is None else ""
    words = f"code {code_id} {what}"
    note(connection, at, AuditKind.CODE, subject, words, author_id=author_id, by=by)


def select_codes() -> Select[Any]:
    """Selects every code with its author; the caller narrows it down."""
    return select(codes, authors.c.name.label("author")).outerjoin(
        authors, authors.c.id == codes.c.author_id
    )


def stored_code(row: Row[Any]) -> CodeLine:
    """The code in a row of `select_codes`."""
    return CodeLine(Int64(row.id), "", row.author or "", utc_time(row.expires_at))


def add_token(connection: Connection, author_id: int, token: NewToken, at: int, by: Actor) -> int:
    """Store a token; its id."""
    scopes = scopes_text(token.scopes)
    token_id = added(
        connection,
        insert(tokens).values(
            author_id=author_id,
            digest=token.digest,
            label=token.label,
            start=token.start,
            scopes=scopes,
            created_at=at,
            expires_at=at + token.days * DAY_MS,
        ),
    )
    words = f"{token.start}... made: {scopes}"
    note(connection, at, AuditKind.TOKEN, "", words, author_id=author_id, by=by)
    return token_id


def stored_token(row: Row[Any]) -> TokenLine:
    """The token in a row of its table."""
    return TokenLine(
        id=Int64(row.id),
        label=row.label,
        start=row.start,
        scopes=scopes_of(row.scopes),
        created_at=utc_time(row.created_at),
        expires_at=utc_time(row.expires_at),
        last_used="" if row.last_used is None else f"{utc_time(row.last_used):%Y-%m-%d}",
    )


def keep_an_admin_token(
    connection: Connection, at: int, gone: ColumnElement[bool], others: ColumnElement[bool]
) -> None:
    """Raise `AccountError` if no admin can use a token any more once some of them are gone.

    gone, others  which tokens shall end, and which shall not
    """
    usable = (
        select(func.count())
        .select_from(tokens)
        .join(authors, authors.c.id == tokens.c.author_id)
        .where(
            valid(tokens, at),
            authors.c.state == AuthorState.ACTIVE,
            authors.c.role == Role.ADMIN.word,
            (literal(" ") + tokens.c.scopes + " ").contains(f" {Scope.ADMIN} "),
        )
    )
    lost = connection.execute(usable.where(gone)).scalar_one()
    if lost and not connection.execute(usable.where(others)).scalar_one():
        raise AccountError(
            "this is the last token with which an admin can work; make another first"
        )


def by_token(at: int) -> Select[Any]:
    """Selects what valid tokens prove."""
    columns = (*_proven(), tokens.c.id.label("token_id"), literal(0).label("session_id"))
    return (
        select(*columns, tokens.c.expires_at, tokens.c.last_used)
        .join(authors, authors.c.id == tokens.c.author_id)
        .where(valid(tokens, at), authors.c.state == AuthorState.ACTIVE)
    )


def by_session(at: int) -> Select[Any]:
    """Selects what valid sessions prove."""
    columns = (*_proven(), literal(0).label("token_id"), sessions.c.id.label("session_id"))
    return (
        select(*columns, sessions.c.expires_at)
        .select_from(sessions)
        .join(tokens, tokens.c.id == sessions.c.token_id)
        .join(authors, authors.c.id == sessions.c.author_id)
        .where(valid(sessions, at), valid(tokens, at), authors.c.state == AuthorState.ACTIVE)
    )


def proven(connection: Connection, token_id: int, session_id: int) -> Credential | None:
    """What a session or else a token proves now; None if it is no longer valid."""
    at = now(connection)
    if session_id:
        query = by_session(at).where(sessions.c.id == session_id)
    else:
        query = by_token(at).where(tokens.c.id == token_id)
    row = connection.execute(query).first()
    return None if row is None else credential(row)


def _proven() -> tuple[ColumnElement[Any], ...]:
    return (
        authors.c.id.label("author_id"),
        authors.c.name.label("author"),
        authors.c.role,
        tokens.c.scopes,
    )


def credential(row: Row[Any]) -> Credential:
    """What a row of `by_token` or `by_session` proves."""
    return Credential(
        author_id=row.author_id,
        author=row.author,
        role=role_of(row.role),
        scopes=scopes_of(row.scopes),
        token_id=row.token_id,
        session_id=row.session_id,
        expires_at=row.expires_at,
    )
