"""Codes and tokens: what proves who somebody is.

Invariants: each is found by the SHA-256 of its secret, which is not stored; a code is redeemed at
most once; whatever ends a token ends its sessions in the same transaction; nobody but the ladder's
machine can take the last admin's last token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

from sqlalchemy import Connection, Row, and_, func, select, update

from deepsea_bundle import names
from deepsea_ladder.accounts import FIRST_ADMIN, MACHINE, Actor, AuthorState, Role
from deepsea_ladder.errors import AccountError, CodeRefused, NotOnLadder, StoreUnavailable
from deepsea_ladder.model.people import AuditKind, CodeLine, Credential, TokenLine
from deepsea_ladder.store.account_rows import (
    DAY_MS,
    NewToken,
    add_code,
    add_token,
    authors,
    by_token,
    clear,
    codes,
    credential,
    end,
    keep_an_admin_token,
    note_code,
    proven,
    select_codes,
    sessions,
    stored_code,
    stored_token,
    tokens,
    valid,
)
from deepsea_ladder.store.audit import note
from deepsea_ladder.store.authors import (
    active_author,
    add_author,
    author_named,
    chosen_name,
    end_rights,
    ensure_author,
    make_admin,
)
from deepsea_ladder.store.database import Database, now


class Accounts:
    """The codes and tokens of a ladder."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def make_codes(self, wanted: Sequence[tuple[str, str]], days: int, by: Actor) -> list[CodeLine]:
        """Store codes, each as its digest and the author whom it is for, "" for anybody.

        An author who is not there yet is added. Raises `BundleError` for a bad name, `AccountError`
        for an author who may do nothing; then there is no code.
        """
        with self._database.write() as connection:
            at = now(connection)
            clear(connection, at)
            return [add_code(connection, *one, at, days, by) for one in wanted]

    def codes(self) -> list[CodeLine]:
        """Codes that may be redeemed, the oldest first."""
        with self._database.read() as connection:
            query = select_codes().where(valid(codes, now(connection))).order_by(codes.c.id)
            return [stored_code(row) for row in connection.execute(query)]

    def revoke_code(self, code_id: int, by: Actor) -> None:
        """End a code; `NotOnLadder` if there is none that is valid."""
        with self._database.write() as connection:
            at = now(connection)
            query = select(codes).where(codes.c.id == code_id, valid(codes, at))
            row = connection.execute(query).first()
            if row is None:
                raise NotOnLadder("there is no such code")
            end(connection, codes, code_id, at)
            note_code(connection, at, row.author_id, code_id, "revoked", by)

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
                raise AccountError("this code is for a new author: choose a name")
            if code.author_id is None:
                author_id = add_author(connection, chosen_name(author), at)
            else:
                author_id = active_author(connection, code.author).id
                if author and names.key(author) != names.key(code.author):
                    raise AccountError(f"this code is for the author {code.author!r}")
            end(connection, codes, code.id, at)
            by = Actor(author_id, address=address)
            note_code(connection, at, author_id, code.id, "redeemed", by)
            token_id = add_token(connection, author_id, token, at, by)
            row = connection.execute(by_token(at).where(tokens.c.id == token_id)).one()
            return credential(row)

    def create_token(self, author_id: int, token: NewToken, most: int, by: Actor) -> TokenLine:
        """Store a token of an author, who may have `most` of them."""
        with self._database.write() as connection:
            at = now(connection)
            clear(connection, at)
            active = select(authors.c.state).where(authors.c.id == author_id)
            if connection.execute(active).scalar_one_or_none() != AuthorState.ACTIVE:
                raise AccountError("this author may not have a token")
            ours = and_(tokens.c.author_id == author_id, valid(tokens, at))
            held = select(func.count()).select_from(tokens).where(ours)
            if connection.execute(held).scalar_one() >= most:
                raise AccountError(f"an author has at most {most} tokens; revoke one first")
            token_id = add_token(connection, author_id, token, at, by)
            return stored_token(
                connection.execute(select(tokens).where(tokens.c.id == token_id)).one()
            )

    def admin_token(self, author: str, token: NewToken, by: Actor) -> Credential:
        """Make an author an admin, who is added if there is none, and store a token.

        Without a name it is `admin`; `AccountError` if that is somebody without this role.
        """
        with self._database.write() as connection:
            at = now(connection)
            if not author:
                _check_first_admin(connection)
            author_id = ensure_author(connection, author or FIRST_ADMIN, at)
            make_admin(connection, author_id, at, by)
            token_id = add_token(connection, author_id, token, at, by)
            found = connection.execute(by_token(at).where(tokens.c.id == token_id)).one()
            return credential(found)

    def tokens(self, author_id: int) -> list[TokenLine]:
        """An author's valid tokens, the oldest first."""
        with self._database.read() as connection:
            ours = and_(tokens.c.author_id == author_id, valid(tokens, now(connection)))
            rows = connection.execute(select(tokens).where(ours).order_by(tokens.c.id))
            return [stored_token(row) for row in rows]

    def revoke_token(self, author_id: int, token_id: int, by: Actor) -> None:
        """End a token of an author, and the sessions that it opened.

        Raises `NotOnLadder` if the author has no such token, and `AccountError` if it is the last
        one that an admin can use; the machine may end that, too.
        """
        with self._database.write() as connection:
            at = now(connection)
            ours = and_(tokens.c.id == token_id, tokens.c.author_id == author_id)
            row = connection.execute(select(tokens).where(ours, valid(tokens, at))).first()
            if row is None:
                raise NotOnLadder("there is no such token")
            if by != MACHINE:
                this = tokens.c.id == token_id
                keep_an_admin_token(connection, at, gone=this, others=~this)
            end(connection, tokens, token_id, at)
            connection.execute(
                update(sessions)
                .where(sessions.c.token_id == token_id, sessions.c.ended_at.is_(None))
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
            if by != MACHINE:
                this = tokens.c.author_id == row.id
                keep_an_admin_token(connection, at, gone=this, others=~this)
            end_rights(connection, row.id, at)
            note(connection, at, AuditKind.AUTHOR, "", "reset", author_id=row.id, by=by)
            return add_code(connection, digest, row.name, at, days, by)

    def by_token(self, digest: str) -> Credential | None:
        """What a valid token proves; its day of use is kept."""
        with self._database.read() as connection:
            at = now(connection)
            row = connection.execute(by_token(at).where(tokens.c.digest == digest)).first()
        if row is None:
            return None
        day = at - at % DAY_MS
        if row.last_used is None or row.last_used < day:
            used = update(tokens).where(tokens.c.id == row.token_id).values(last_used=day)
            # Who calls is known, even if the disk is full.
            with suppress(StoreUnavailable), self._database.write() as connection:
                connection.execute(used)
        return credential(row)

    def still(self, token_id: int = 0, session_id: int = 0) -> Credential | None:
        """What the token or the session with this id proves now; None if it is no longer valid."""
        with self._database.read() as connection:
            return proven(connection, token_id, session_id)

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
            lambda connection: check(proven(connection, token_id, session_id))
        )

    def end_everything(self) -> int:
        """End every code, token and session, of a ladder that comes from a backup; how many."""
        ended = 0
        with self._database.write() as connection:
            at = now(connection)
            for table in (codes, tokens, sessions):
                change = update(table).where(table.c.ended_at.is_(None)).values(ended_at=at)
                ended += connection.execute(change).rowcount
            if ended:
                words = "codes, tokens and sessions have ended"
                note(connection, at, AuditKind.RESTORED, "ladder", words)
        return ended


def _valid_code(connection: Connection, digest: str) -> Row[Any]:
    query = select_codes().where(codes.c.digest == digest, valid(codes, now(connection)))
    code = connection.execute(query).first()
    if code is None:
        raise CodeRefused("this code is not valid: it was mistyped, used, or has ended")
    return code


def _check_first_admin(connection: Connection) -> None:
    """Refuse to make somebody an admin who only happens to have the name `admin`."""
    row = author_named(connection, FIRST_ADMIN)
    if row is not None and row.role != Role.ADMIN.word:
        raise AccountError(f"{row.name!r} is no admin; say who shall be: --author NAME")
