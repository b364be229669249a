"""Codes, tokens and sessions: the secrets that prove who somebody is.

Invariants: a secret is found by its kind and its SHA-256, which alone is stored, so that none is
taken for another kind; it is valid until it ends or expires, and as long as its author is active; a
code is redeemed at most once; a session has the scopes of its token and does not outlive it, and
whatever ends a token ends its sessions in the same transaction; nobody but the ladder's machine can
take the last admin's last token; a row is deleted some time after it has ended, so that no id comes
again while somebody may remember it.
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
    Caller,
    CodeLine,
    NewToken,
    Role,
    Scope,
    SecretKind,
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
from deepsea_ladder.model import Int64, utc_time
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import note
from deepsea_ladder.store.authors import (
    active_author,
    add_author,
    author_named,
    check_spelling,
    chosen_name,
    end_secrets,
    ensure_author,
    is_valid,
    make_admin,
)
from deepsea_ladder.store.database import StorePart, insert_row, now

KEPT_MS = 30 * DAY_MS
"""The time for which rows are kept after they have ended."""
_authors, _secrets = schema.authors, schema.secrets
_WITH_AUTHORS = select(_secrets, _authors.c.name.label("author"), _authors.c.role).outerjoin(
    _authors, _authors.c.id == _secrets.c.author_id
)
"""Selects every secret with its author, whom a code for anybody has not."""


class Accounts(StorePart):
    """The codes, tokens and sessions of a ladder."""

    def make_codes(
        self, wanted: Sequence[tuple[str, str]], days: int, actor: Actor
    ) -> list[CodeLine]:
        """Store codes, each as its digest and its author, "" for anybody.

        An author who is not there yet is added. Raises `BundleError` for a bad name, `AccountError`
        for an author who may do nothing; then there is no code.
        """
        with self._database.write() as connection:
            now_ms = now(connection)
            _delete_old(connection, now_ms)
            return [
                _add_code(connection, digest, author, now_ms, days, actor)
                for digest, author in wanted
            ]

    def redeem(self, digest: str, author: str, token: NewToken, address: str) -> Caller:
        """Turn a code into a token, for the code's author or for a new one of that name.

        Raises `CodeRefused` if it is not valid; `BundleError` or `AccountError` for a name that is
        not allowed, is taken, or is not the code's: then the code stays valid.
        """
        with self._database.read() as connection:  # so that guesses keep no writer waiting
            _valid_code(connection, digest)
        with self._database.write() as connection:
            now_ms = now(connection)
            code = _valid_code(connection, digest)
            if code.author_id is None and not author:
                raise NameNeeded("this code is for a new author: choose a name")
            if code.author_id is None:
                author_id = add_author(connection, chosen_name(author), now_ms)
            else:
                author_id = active_author(connection, code.author).id
                if author and not names.same(author, code.author):
                    raise AccountError(f"this code is for the author {code.author!r}")
            end_secrets(connection, now_ms, _secrets.c.id == code.id)
            actor = Actor(author_id, address=address)
            words = f"code {code.id} redeemed"
            note(connection, now_ms, AuditKind.CODE, "", words, author_id=author_id, actor=actor)
            return _caller(_add_token(connection, author_id, token, now_ms, actor))

    def create_token(self, author_id: int, token: NewToken, most: int, actor: Actor) -> TokenLine:
        """Store a token of an author, who may have `most` of them."""
        with self._database.write() as connection:
            now_ms = now(connection)
            _delete_old(connection, now_ms)
            state = select(_authors.c.state).where(_authors.c.id == author_id)
            if connection.execute(state).scalar_one_or_none() != AuthorState.ACTIVE:
                raise AccountError("this author may not have a token")
            if len(_valid(connection, SecretKind.TOKEN, author_id)) >= most:
                raise AccountError(f"an author has at most {most} tokens; revoke one first")
            return _token_line(_add_token(connection, author_id, token, now_ms, actor))

    def admin_token(self, author: str, token: NewToken, actor: Actor) -> Caller:
        """Make an author an admin, who is added if there is none, and store a token.

        Without a name it is `admin`; `AccountError` if that is somebody without this role.
        """
        with self._database.write() as connection:
            now_ms = now(connection)
            row = author_named(connection, FIRST_ADMIN)  # perhaps somebody who only has this name
            if not author and row is not None and row.role != Role.ADMIN:
                raise AccountError(f"{row.name!r} is no admin; say who shall be: --author NAME")
            author_id = ensure_author(connection, author or FIRST_ADMIN, now_ms)
            make_admin(connection, author_id, now_ms, actor)
            return _caller(_add_token(connection, author_id, token, now_ms, actor))

    def open_session(
        self, token_digest: str, digest: str, days: int, most: int, address: str
    ) -> Caller | None:
        """Store a session of a token; None if that is not valid.

        An author has `most` sessions at once: the oldest ones end.
        """
        is_token = (_secrets.c.kind == SecretKind.TOKEN, _secrets.c.digest == token_digest)
        with self._database.read() as connection:  # so that guesses keep no writer waiting
            if _proof(connection, now(connection), *is_token) is None:
                return None
        with self._database.write() as connection:
            now_ms = now(connection)
            _delete_old(connection, now_ms)
            token = _proof(connection, now_ms, *is_token)
            if token is None:
                return None
            former = _valid(connection, SecretKind.SESSION, token.author_id)
            surplus = [session.id for session in former[: max(0, len(former) + 1 - most)]]
            end_secrets(connection, now_ms, _secrets.c.id.in_(surplus))
            row = _add(
                connection,
                SecretKind.SESSION,
                now_ms,
                digest=digest,
                author_id=token.author_id,
                token_id=token.id,
                scopes=token.scopes,
                address=address,
                expires_at=min(now_ms + days * DAY_MS, token.expires_at),
            )
            _note(connection, now_ms, row, "opened", Actor(token.author_id, address=address))
            return _caller(row)

    def codes(self) -> list[CodeLine]:
        """Codes that may be redeemed, the oldest first."""
        with self._database.read() as connection:
            return [_code_line(row) for row in _valid(connection, SecretKind.CODE)]

    def tokens(self, author_id: int) -> list[TokenLine]:
        """An author's valid tokens, the oldest first."""
        with self._database.read() as connection:
            return [_token_line(row) for row in _valid(connection, SecretKind.TOKEN, author_id)]

    def sessions(self, author_id: int) -> list[SessionLine]:
        """An author's valid sessions, the oldest first."""
        with self._database.read() as connection:
            return [
                SessionLine(
                    Int64(row.id), row.address, utc_time(row.created_at), utc_time(row.expires_at)
                )
                for row in _valid(connection, SecretKind.SESSION, author_id)
            ]

    def revoke(
        self, kind: SecretKind, secret_id: int, actor: Actor, author_id: int | None = None
    ) -> None:
        """End a code, a token with the sessions that it opened, or a session.

        Raises `NotOnLadder` if there is none that is valid, or none of that author, and
        `AccountError` for the last token that an admin can use; the machine may end that, too.
        """
        with self._database.write() as connection:
            now_ms = now(connection)
            is_meant = _secrets.c.id == secret_id
            rows = connection.execute(_select_valid(kind, now_ms, author_id).where(is_meant))
            if (row := rows.first()) is None:
                raise NotOnLadder(f"there is no such {kind}")
            if kind is SecretKind.TOKEN:
                _keep_an_admin_token(connection, now_ms, actor, gone=is_meant)
            end_secrets(connection, now_ms, or_(is_meant, _secrets.c.token_id == secret_id))
            _note(
                connection, now_ms, row, "ended" if kind is SecretKind.SESSION else "revoked", actor
            )

    def reset(self, author: str, digest: str, days: int, actor: Actor) -> CodeLine:
        """End every code, token and session of an author, and store a code for new ones.

        Raises `AccountError` for an author who may do nothing, and for the one admin who can work;
        the machine may reset that one, too.
        """
        with self._database.write() as connection:
            now_ms = now(connection)
            row = active_author(connection, author)
            is_theirs = _secrets.c.author_id == row.id
            _keep_an_admin_token(connection, now_ms, actor, gone=is_theirs)
            end_secrets(connection, now_ms, is_theirs)
            note(connection, now_ms, AuditKind.AUTHOR, "", "reset", author_id=row.id, actor=actor)
            return _add_code(connection, digest, row.name, now_ms, days, actor)

    def proven(self, kind: SecretKind, digest: str) -> Caller | None:
        """The holder of a valid token or session; the day of a token's use is kept."""
        with self._database.read() as connection:
            now_ms = now(connection)
            row = _proof(connection, now_ms, _secrets.c.kind == kind, _secrets.c.digest == digest)
        if row is None:
            return None
        day = now_ms - now_ms % DAY_MS
        if kind is SecretKind.TOKEN and (row.last_used is None or row.last_used < day):
            used = update(_secrets).where(_secrets.c.id == row.id).values(last_used=day)
            # Who calls is known, even if the disk is full.
            with suppress(StoreUnavailable), self._database.write() as connection:
                connection.execute(used)
        return _caller(row)

    def still(self, secret_id: int) -> Caller | None:
        """The holder of the token or session with this id; None if it has ended."""
        with self._database.read() as connection:
            return _still(connection, secret_id)

    def checked_writes(
        self, check: Callable[[Caller | None], object], secret_id: int
    ) -> AbstractContextManager[None]:
        """Begin each write of this thread meanwhile with a check of what `still` returns then.

        What the check raises ends the write, and nothing has changed.
        """
        return self._database.checked_writes(
            lambda connection: check(_still(connection, secret_id))
        )

    def end_everything(self) -> int:
        """End every code, token and session, of a ladder that comes from a backup; how many."""
        with self._database.write() as connection:
            now_ms = now(connection)
            ended = end_secrets(connection, now_ms)
            if ended:
                words = "codes, tokens and sessions have ended"
                note(connection, now_ms, AuditKind.RESTORED, "ladder", words)
        return ended


def _select_valid(kind: SecretKind, now_ms: int, author_id: int | None = None) -> Select[Any]:
    """Select the valid secrets of a kind, of one author or of all, the oldest first."""
    query = _WITH_AUTHORS.where(_secrets.c.kind == kind, is_valid(now_ms)).order_by(_secrets.c.id)
    return query if author_id is None else query.where(_secrets.c.author_id == author_id)


def _valid(
    connection: Connection, kind: SecretKind, author_id: int | None = None
) -> Sequence[Row[Any]]:
    return connection.execute(_select_valid(kind, now(connection), author_id)).all()


def _valid_code(connection: Connection, digest: str) -> Row[Any]:
    query = _select_valid(SecretKind.CODE, now(connection)).where(_secrets.c.digest == digest)
    code = connection.execute(query).first()
    if code is None:
        raise CodeRefused("this code is not valid: it was mistyped, used, or has ended")
    return code


def _proof(
    connection: Connection, now_ms: int, *conditions: ColumnElement[bool]
) -> Row[Any] | None:
    """The valid token or session of an active author that meets the conditions."""
    return connection.execute(
        _WITH_AUTHORS.where(
            *conditions,
            _secrets.c.kind != SecretKind.CODE,
            is_valid(now_ms),
            _authors.c.state == AuthorState.ACTIVE,
        )
    ).first()


def _still(connection: Connection, secret_id: int) -> Caller | None:
    row = _proof(connection, now(connection), _secrets.c.id == secret_id)
    return None if row is None else _caller(row)


def _caller(row: Row[Any]) -> Caller:
    """The holder of a token or session."""
    return Caller(
        author_id=row.author_id,
        author=row.author,
        role=row.role,
        scopes=frozenset(scopes_of(row.scopes)),
        secret_id=row.id,
        secret_kind=row.kind,
        expires_at=row.expires_at,
    )


def _delete_old(connection: Connection, now_ms: int) -> None:
    over = or_(_secrets.c.ended_at < now_ms - KEPT_MS, _secrets.c.expires_at < now_ms - KEPT_MS)
    connection.execute(delete(_secrets).where(over))


def _add(connection: Connection, kind: SecretKind, now_ms: int, **values: object) -> Row[Any]:
    """Store a secret; columns without a value are empty."""
    empty = {"scopes": "", "label": "", "start": "", "address": ""}
    row = insert(_secrets).values({**empty, **values, "kind": kind, "created_at": now_ms})
    secret_id = insert_row(connection, row)
    return connection.execute(_WITH_AUTHORS.where(_secrets.c.id == secret_id)).one()


def _add_code(
    connection: Connection, digest: str, author: str, now_ms: int, days: int, actor: Actor
) -> CodeLine:
    """Store a code for an active author, who is added if there is none; "" for anybody."""
    if author:
        check_spelling(connection, author)
    author_id = ensure_author(connection, author, now_ms) if author else None
    expires_at = now_ms + days * DAY_MS
    row = _add(
        connection,
        SecretKind.CODE,
        now_ms,
        digest=digest,
        author_id=author_id,
        expires_at=expires_at,
    )
    _note(connection, now_ms, row, "made", actor)
    return _code_line(row)


def _add_token(
    connection: Connection, author_id: int, token: NewToken, now_ms: int, actor: Actor
) -> Row[Any]:
    row = _add(
        connection,
        SecretKind.TOKEN,
        now_ms,
        digest=token.digest,
        author_id=author_id,
        scopes=scopes_text(token.scopes),
        label=token.label,
        start=token.start,
        expires_at=now_ms + token.days * DAY_MS,
    )
    _note(connection, now_ms, row, f"made: {row.scopes}", actor)
    return row


def _note(connection: Connection, now_ms: int, row: Row[Any], change: str, actor: Actor) -> None:
    """Add a change of a secret to the audit log, in which the secret itself is not."""
    subject = "anybody" if row.author_id is None else ""
    name = {SecretKind.CODE: f"code {row.id} ", SecretKind.TOKEN: f"{row.start}... "}
    words = name.get(row.kind, "") + change
    note(
        connection,
        now_ms,
        AuditKind(row.kind),
        subject,
        words,
        author_id=row.author_id,
        actor=actor,
    )


def _code_line(row: Row[Any]) -> CodeLine:
    return CodeLine(Int64(row.id), "", row.author or "", utc_time(row.expires_at))


def _token_line(row: Row[Any]) -> TokenLine:
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
    connection: Connection, now_ms: int, actor: Actor, gone: ColumnElement[bool]
) -> None:
    """Raise `AccountError` if no admin can use a token any more once some of them are gone; the
    machine may end the last one, too."""
    if actor == MACHINE:
        return
    usable = (
        select(func.count())
        .select_from(_secrets)
        .join(_authors, _authors.c.id == _secrets.c.author_id)
        .where(
            _secrets.c.kind == SecretKind.TOKEN,
            is_valid(now_ms),
            _authors.c.state == AuthorState.ACTIVE,
            _authors.c.role == Role.ADMIN,
            (literal(" ") + _secrets.c.scopes + " ").contains(f" {Scope.ADMIN} "),
        )
    )
    lost = connection.execute(usable.where(gone)).scalar_one()
    if lost and not connection.execute(usable.where(~gone)).scalar_one():
        raise AccountError(
            "this is the last token with which an admin can work; make another first"
        )
