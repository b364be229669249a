"""Codes, tokens and sessions: what proves who somebody is.

Invariants: each is found by the SHA-256 of its secret, which is not stored; it is valid until it
ends or expires, and as long as its author is active; a code is redeemed at most once; a session has
the scopes of its token and does not outlive it, and whatever ends a token ends its sessions in the
same transaction; nobody but the ladder's machine can take the last admin's last token; a row is
deleted some time after it has ended, so that no id comes again while somebody may remember it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

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

from deepsea_bundle import names
from deepsea_ladder.accounts import (
    FIRST_ADMIN,
    MACHINE,
    Actor,
    AuditKind,
    AuthorState,
    CodeLine,
    Credential,
    NewToken,
    Role,
    Scope,
    SessionLine,
    TokenLine,
    scopes_of,
    scopes_text,
)
from deepsea_ladder.errors import (
    AccountError,
    CodeRefused,
    NameNeeded,
    NotOnLadder,
    StoreUnavailable,
)
from deepsea_ladder.limits import DAY_MS
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import note
from deepsea_ladder.store.authors import (
    active_author,
    add_author,
    author_named,
    check_spelling,
    chosen_name,
    end_rights,
    ensure_author,
    make_admin,
)
from deepsea_ladder.store.database import StorePart, added, now
from deepsea_ladder.values import Int64, utc_time

KEPT_MS = 30 * DAY_MS
"""How long rows are kept after they have ended."""
_authors, _codes = schema.authors, schema.codes
_tokens, _sessions = schema.tokens, schema.sessions
_CODES = select(_codes, _authors.c.name.label("author")).outerjoin(
    _authors, _authors.c.id == _codes.c.author_id
)
"""Selects every code with its author."""
_PROVEN = (
    _authors.c.id.label("author_id"),
    _authors.c.name.label("author"),
    _authors.c.role,
    _tokens.c.scopes,
)


class Accounts(StorePart):
    """The codes and tokens of a ladder."""

    def make_codes(self, wanted: Sequence[tuple[str, str]], days: int, by: Actor) -> list[CodeLine]:
        """Store codes, each as its digest and the author whom it is for, "" for anybody.

        An author who is not there yet is added. Raises `BundleError` for a bad name, `AccountError`
        for an author who may do nothing; then there is no code.
        """
        with self._database.write() as connection:
            at = now(connection)
            _clear(connection, at)
            return [_add_code(connection, *one, at, days, by) for one in wanted]

    def codes(self) -> list[CodeLine]:
        """Codes that may be redeemed, the oldest first."""
        with self._database.read() as connection:
            query = _CODES.where(_valid(_codes, now(connection))).order_by(_codes.c.id)
            return [_stored_code(row) for row in connection.execute(query)]

    def revoke_code(self, code_id: int, by: Actor) -> None:
        """End a code; `NotOnLadder` if there is none that is valid."""
        with self._database.write() as connection:
            at = now(connection)
            query = select(_codes).where(_codes.c.id == code_id, _valid(_codes, at))
            row = connection.execute(query).first()
            if row is None:
                raise NotOnLadder("there is no such code")
            _end(connection, _codes, code_id, at)
            _note_code(connection, at, row.author_id, code_id, "revoked", by)

    def redeem(self, digest: str, author: str, token: NewToken, address: str) -> Credential:
        """Turn a code into a token, for the code's author or for a new one of that name.

        Raises `CodeRefused` if it is not valid; `BundleError` or `AccountError` for a name that is
        not allowed, is taken, or is not the code's: then the code stays valid.
        """
        with self._database.read() as connection:  # so that guesses keep no writer waiting
            _valid_code(connection, digest)
        with self._database.write() as connection:
            at = now(connection)
            code = _valid_code(connection, digest)
            if code.author_id is None and not author:
                raise NameNeeded("this code is for a new author: choose a name")
            if code.author_id is None:
                author_id = add_author(connection, chosen_name(author), at)
            else:
                author_id = active_author(connection, code.author).id
                if author and names.key(author) != names.key(code.author):
                    raise AccountError(f"this code is for the author {code.author!r}")
            _end(connection, _codes, code.id, at)
            by = Actor(author_id, address=address)
            _note_code(connection, at, author_id, code.id, "redeemed", by)
            token_id = _add_token(connection, author_id, token, at, by)
            row = connection.execute(_by_token(at).where(_tokens.c.id == token_id)).one()
            return _credential(row)

    def create_token(self, author_id: int, token: NewToken, most: int, by: Actor) -> TokenLine:
        """Store a token of an author, who may have `most` of them."""
        with self._database.write() as connection:
            at = now(connection)
            _clear(connection, at)
            active = select(_authors.c.state).where(_authors.c.id == author_id)
            if connection.execute(active).scalar_one_or_none() != AuthorState.ACTIVE:
                raise AccountError("this author may not have a token")
            ours = and_(_tokens.c.author_id == author_id, _valid(_tokens, at))
            held = select(func.count()).select_from(_tokens).where(ours)
            if connection.execute(held).scalar_one() >= most:
                raise AccountError(f"an author has at most {most} tokens; revoke one first")
            token_id = _add_token(connection, author_id, token, at, by)
            return _stored_token(
                connection.execute(select(_tokens).where(_tokens.c.id == token_id)).one()
            )

    def admin_token(self, author: str, token: NewToken, by: Actor) -> Credential:
        """Make an author an admin, who is added if there is none, and store a token.

        Without a name it is `admin`; `AccountError` if that is somebody without this role.
        """
        with self._database.write() as connection:
            at = now(connection)
            row = author_named(connection, FIRST_ADMIN)  # perhaps somebody who only has this name
            if not author and row is not None and row.role != Role.ADMIN:
                raise AccountError(f"{row.name!r} is no admin; say who shall be: --author NAME")
            author_id = ensure_author(connection, author or FIRST_ADMIN, at)
            make_admin(connection, author_id, at, by)
            token_id = _add_token(connection, author_id, token, at, by)
            found = connection.execute(_by_token(at).where(_tokens.c.id == token_id)).one()
            return _credential(found)

    def tokens(self, author_id: int) -> list[TokenLine]:
        """An author's valid tokens, the oldest first."""
        with self._database.read() as connection:
            ours = and_(_tokens.c.author_id == author_id, _valid(_tokens, now(connection)))
            rows = connection.execute(select(_tokens).where(ours).order_by(_tokens.c.id))
            return [_stored_token(row) for row in rows]

    def revoke_token(self, author_id: int, token_id: int, by: Actor) -> None:
        """End a token of an author, and the sessions that it opened.

        Raises `NotOnLadder` if the author has no such token, and `AccountError` if it is the last
        one that an admin can use; the machine may end that, too.
        """
        with self._database.write() as connection:
            at = now(connection)
            ours = and_(_tokens.c.id == token_id, _tokens.c.author_id == author_id)
            row = connection.execute(select(_tokens).where(ours, _valid(_tokens, at))).first()
            if row is None:
                raise NotOnLadder("there is no such token")
            _keep_an_admin_token(connection, at, by, gone=_tokens.c.id == token_id)
            _end(connection, _tokens, token_id, at)
            connection.execute(
                update(_sessions)
                .where(_sessions.c.token_id == token_id, _sessions.c.ended_at.is_(None))
                .values(ended_at=at)
            )
            words = f"{row.start}... revoked"
            note(connection, at, AuditKind.TOKEN, "", words, author_id=author_id, by=by)

    def reset(self, author: str, digest: str, days: int, by: Actor) -> CodeLine:
        """End every code, token and session of an author, and store a code for new ones.

        Raises `AccountError` for an author who may do nothing, and for the one admin who can work;
        the machine may reset that one, too.
        """
        with self._database.write() as connection:
            at = now(connection)
            row = active_author(connection, author)
            _keep_an_admin_token(connection, at, by, gone=_tokens.c.author_id == row.id)
            end_rights(connection, row.id, at)
            note(connection, at, AuditKind.AUTHOR, "", "reset", author_id=row.id, by=by)
            return _add_code(connection, digest, row.name, at, days, by)

    def by_token(self, digest: str) -> Credential | None:
        """What a valid token proves; its day of use is kept."""
        with self._database.read() as connection:
            at = now(connection)
            row = connection.execute(_by_token(at).where(_tokens.c.digest == digest)).first()
        if row is None:
            return None
        day = at - at % DAY_MS
        if row.last_used is None or row.last_used < day:
            used = update(_tokens).where(_tokens.c.id == row.token_id).values(last_used=day)
            # Who calls is known, even if the disk is full.
            with suppress(StoreUnavailable), self._database.write() as connection:
                connection.execute(used)
        return _credential(row)

    def still(self, token_id: int = 0, session_id: int = 0) -> Credential | None:
        """What the token or the session with this id proves now; None if it is no longer valid."""
        with self._database.read() as connection:
            return _proven(connection, token_id, session_id)

    def checked_writes(
        self,
        check: Callable[[Credential | None], object],
        token_id: int = 0,
        session_id: int = 0,
    ) -> AbstractContextManager[None]:
        """Begin each write of this thread meanwhile with a check of what `still` returns then.

        What the check raises ends the write, and nothing has changed.
        """
        return self._database.checked_writes(
            lambda connection: check(_proven(connection, token_id, session_id))
        )

    def end_everything(self) -> int:
        """End every code, token and session, of a ladder that comes from a backup; how many."""
        ended = 0
        with self._database.write() as connection:
            at = now(connection)
            for table in (_codes, _tokens, _sessions):
                change = update(table).where(table.c.ended_at.is_(None)).values(ended_at=at)
                ended += connection.execute(change).rowcount
            if ended:
                words = "codes, tokens and sessions have ended"
                note(connection, at, AuditKind.RESTORED, "ladder", words)
        return ended


class Sessions(StorePart):
    def open(
        self, token_digest: str, digest: str, days: int, most: int, address: str
    ) -> Credential | None:
        """Store a session of a token; None if that is not valid.

        An author has `most` sessions at once: the oldest ones end.
        """
        with self._database.read() as connection:  # so that guesses keep no writer waiting
            if _token(connection, token_digest) is None:
                return None
        with self._database.write() as connection:
            at = now(connection)
            _clear(connection, at)
            if (token := _token(connection, token_digest)) is None:
                return None
            ours = and_(_sessions.c.author_id == token.author_id, _valid(_sessions, at))
            newest = select(_sessions.c.id).where(ours).order_by(_sessions.c.id.desc())
            for old in connection.execute(newest).scalars().all()[most - 1 :]:
                _end(connection, _sessions, old, at)
            session_id = added(
                connection,
                insert(_sessions).values(
                    author_id=token.author_id,
                    token_id=token.token_id,
                    digest=digest,
                    address=address,
                    created_at=at,
                    expires_at=min(at + days * DAY_MS, token.expires_at),
                ),
            )
            by = Actor(token.author_id, address=address)
            who = token.author_id
            note(connection, at, AuditKind.SESSION, "", "opened", author_id=who, by=by)
            row = connection.execute(_by_session(at).where(_sessions.c.id == session_id)).one()
            return _credential(row)

    def find(self, digest: str) -> Credential | None:
        """What a valid session proves."""
        with self._database.read() as connection:
            query = _by_session(now(connection)).where(_sessions.c.digest == digest)
            row = connection.execute(query).first()
        return None if row is None else _credential(row)

    def of(self, author_id: int) -> list[SessionLine]:
        """An author's valid sessions, the oldest first."""
        with self._database.read() as connection:
            ours = and_(_sessions.c.author_id == author_id, _valid(_sessions, now(connection)))
            rows = connection.execute(select(_sessions).where(ours).order_by(_sessions.c.id))
            return [
                SessionLine(
                    Int64(row.id), row.address, utc_time(row.created_at), utc_time(row.expires_at)
                )
                for row in rows
            ]

    def end(self, author_id: int, session_id: int, by: Actor) -> None:
        """End a session of an author; `NotOnLadder` if there is none that is valid."""
        with self._database.write() as connection:
            at = now(connection)
            ours = and_(_sessions.c.author_id == author_id, _sessions.c.id == session_id)
            query = select(_sessions.c.id).where(ours, _valid(_sessions, at))
            if connection.execute(query).first() is None:
                raise NotOnLadder("there is no such session")
            _end(connection, _sessions, session_id, at)
            note(connection, at, AuditKind.SESSION, "", "ended", author_id=author_id, by=by)


def _valid(table: Table, at: int) -> ColumnElement[bool]:
    """The condition on a row of that table that has not ended."""
    return and_(table.c.ended_at.is_(None), table.c.expires_at > at)


def _end(connection: Connection, table: Table, row_id: int, at: int) -> None:
    connection.execute(update(table).where(table.c.id == row_id).values(ended_at=at))


def _clear(connection: Connection, at: int) -> None:
    for table in (_sessions, _tokens, _codes):
        over = or_(table.c.ended_at < at - KEPT_MS, table.c.expires_at < at - KEPT_MS)
        connection.execute(delete(table).where(over))


def _add_code(
    connection: Connection, digest: str, author: str, at: int, days: int, by: Actor
) -> CodeLine:
    """Store a code for an active author, who is added if there is none; "" for anybody."""
    if author:
        check_spelling(connection, author)
    author_id = ensure_author(connection, author, at) if author else None
    code_id = added(
        connection,
        insert(_codes).values(
            digest=digest, author_id=author_id, created_at=at, expires_at=at + days * DAY_MS
        ),
    )
    _note_code(connection, at, author_id, code_id, "made", by)
    row = connection.execute(_CODES.where(_codes.c.id == code_id)).one()
    return _stored_code(row)


def _note_code(
    connection: Connection, at: int, author_id: int | None, code_id: int, what: str, by: Actor
) -> None:
    """Tell the audit log what happened to a code."""
    subject = "anybody" if author_id is None else ""
    words = f"code {code_id} {what}"
    note(connection, at, AuditKind.CODE, subject, words, author_id=author_id, by=by)


def _stored_code(row: Row[Any]) -> CodeLine:
    """The code in a row of `_CODES`."""
    return CodeLine(Int64(row.id), "", row.author or "", utc_time(row.expires_at))


def _valid_code(connection: Connection, digest: str) -> Row[Any]:
    query = _CODES.where(_codes.c.digest == digest, _valid(_codes, now(connection)))
    code = connection.execute(query).first()
    if code is None:
        raise CodeRefused("this code is not valid: it was mistyped, used, or has ended")
    return code


def _add_token(connection: Connection, author_id: int, token: NewToken, at: int, by: Actor) -> int:
    scopes = scopes_text(token.scopes)
    token_id = added(
        connection,
        insert(_tokens).values(
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


def _stored_token(row: Row[Any]) -> TokenLine:
    return TokenLine(
        id=Int64(row.id),
        label=row.label,
        start=row.start,
        scopes=scopes_of(row.scopes),
        created_at=utc_time(row.created_at),
        expires_at=utc_time(row.expires_at),
        last_used="" if row.last_used is None else f"{utc_time(row.last_used):%Y-%m-%d}",
    )


def _keep_an_admin_token(
    connection: Connection, at: int, by: Actor, gone: ColumnElement[bool]
) -> None:
    """Raise `AccountError` if no admin can use a token any more once some of them are gone; the
    machine may end the last one, too."""
    if by == MACHINE:
        return
    usable = (
        select(func.count())
        .select_from(_tokens)
        .join(_authors, _authors.c.id == _tokens.c.author_id)
        .where(
            _valid(_tokens, at),
            _authors.c.state == AuthorState.ACTIVE,
            _authors.c.role == Role.ADMIN,
            (literal(" ") + _tokens.c.scopes + " ").contains(f" {Scope.ADMIN} "),
        )
    )
    lost = connection.execute(usable.where(gone)).scalar_one()
    if lost and not connection.execute(usable.where(~gone)).scalar_one():
        raise AccountError(
            "this is the last token with which an admin can work; make another first"
        )


def _proven(connection: Connection, token_id: int, session_id: int) -> Credential | None:
    """What a session or else a token proves now; None if it is no longer valid."""
    at = now(connection)
    if session_id:
        query = _by_session(at).where(_sessions.c.id == session_id)
    else:
        query = _by_token(at).where(_tokens.c.id == token_id)
    row = connection.execute(query).first()
    return None if row is None else _credential(row)


def _by_token(at: int) -> Select[Any]:
    """Selects what valid tokens prove."""
    columns = (*_PROVEN, _tokens.c.id.label("token_id"), literal(0).label("session_id"))
    return (
        select(*columns, _tokens.c.expires_at, _tokens.c.last_used)
        .join(_authors, _authors.c.id == _tokens.c.author_id)
        .where(_valid(_tokens, at), _authors.c.state == AuthorState.ACTIVE)
    )


def _by_session(at: int) -> Select[Any]:
    """Selects what valid sessions prove."""
    columns = (*_PROVEN, literal(0).label("token_id"), _sessions.c.id.label("session_id"))
    return (
        select(*columns, _sessions.c.expires_at)
        .select_from(_sessions)
        .join(_tokens, _tokens.c.id == _sessions.c.token_id)
        .join(_authors, _authors.c.id == _sessions.c.author_id)
        .where(_valid(_sessions, at), _valid(_tokens, at), _authors.c.state == AuthorState.ACTIVE)
    )


def _credential(row: Row[Any]) -> Credential:
    """What a row of `_by_token` or `_by_session` proves."""
    return Credential(
        author_id=row.author_id,
        author=row.author,
        role=row.role,
        scopes=scopes_of(row.scopes),
        token_id=row.token_id,
        session_id=row.session_id,
        expires_at=row.expires_at,
    )


def _token(connection: Connection, digest: str) -> Row[Any] | None:
    query = _by_token(now(connection)).where(_tokens.c.digest == digest)
    return connection.execute(query).first()
