"""Codes, tokens and sessions: the secrets that prove the identity of a caller.

Invariants: only the SHA-256 of a secret is stored; a secret is looked up by its kind and this
digest, so that none is taken for another kind; it is valid until it ends or expires, as long as its
author is active; a code is redeemed at most once; a session has the scopes of its token and does
not outlive it, and ending a token ends its sessions in the same transaction; only the ladder's
machine can take away the last token of the last admin; a row is deleted some time after its end, so
that its id is not used again while somebody may remember it.
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
    check_same_spelling,
    chosen_name,
    end_secrets,
    ensure_author,
    is_valid,
    make_admin,
    note_author,
)
from deepsea_ladder.store.database import StorePart, insert_row, now

KEPT_MS = 30 * DAY_MS
"""Milliseconds for which the row of an ended secret stays in the store."""
_authors, _secrets = schema.authors, schema.secrets
_SECRETS_WITH_AUTHORS = select(
    _secrets, _authors.c.name.label("author"), _authors.c.role
).outerjoin(_authors, _authors.c.id == _secrets.c.author_id)
"""Selects every secret with its author; there is none for a code that anybody may redeem."""


class Accounts(StorePart):
    """The codes, tokens and sessions of a ladder."""

    def make_codes(
        self, codes: Sequence[tuple[str, str]], days: int, actor: Actor
    ) -> list[CodeLine]:
        """Store codes, and return their descriptions.

        Missing authors are added. Raises `BundleError` for a name that is not allowed, and
        `AccountError` for an author who is blocked or anonymised; then no code is stored.

        codes  for each code its digest and the name of its author; "" if anybody may redeem it
        days   the days after which the codes expire
        """
        with self._database.write() as connection:
            now_ms = now(connection)
            _delete_old_secrets(connection, now_ms)
            return [
                _add_code(connection, digest, author, now_ms, days, actor)
                for digest, author in codes
            ]

    def redeem(self, digest: str, author: str, token: NewToken, address: str) -> Caller:
        """Exchange a code for a token, of the code's author or of a new one with the chosen name.

        author   the chosen name; may be "" if the code belongs to an author
        address  the first part of the caller's address, for the audit log

        Raises `CodeRefused` if the code is not valid. Raises `BundleError` or `AccountError` for a
        name that is not allowed, is taken, or is not that of the code's author; then the code stays
        valid.
        """
        # First without the writer's lock, so that guessing codes does not keep writers waiting.
        with self._database.read() as connection:
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
            note(
                connection,
                now_ms,
                AuditKind.CODE,
                subject="",
                message=f"code {code.id} redeemed",
                author_id=author_id,
                actor=actor,
            )
            return _caller(_add_token(connection, author_id, token, now_ms, actor))

    def create_token(
        self, author_id: int, token: NewToken, max_tokens: int, actor: Actor
    ) -> TokenLine:
        """Store a new token of an author.

        Raises `AccountError` if the author is not active, or has `max_tokens` valid tokens already.
        """
        with self._database.write() as connection:
            now_ms = now(connection)
            _delete_old_secrets(connection, now_ms)
            query = select(_authors.c.state).where(_authors.c.id == author_id)
            state = connection.execute(query).scalar_one_or_none()
            if state != AuthorState.ACTIVE:
                raise AccountError("this author may not have a token")
            valid_tokens = _valid_secrets(connection, SecretKind.TOKEN, author_id)
            if len(valid_tokens) >= max_tokens:
                raise AccountError(f"an author has at most {max_tokens} tokens; revoke one first")
            return _token_line(_add_token(connection, author_id, token, now_ms, actor))

    def admin_token(self, author: str, token: NewToken, actor: Actor) -> Caller:
        """Make an author an admin, store a new token of this author, and return its holder.

        A missing author is added.

        author  the author's name; "" stands for `FIRST_ADMIN`, unless an ordinary author has taken
                that name: then `AccountError` is raised
        """
        with self._database.write() as connection:
            now_ms = now(connection)
            if not author:
                author = FIRST_ADMIN
                row = author_named(connection, FIRST_ADMIN)
                if row is not None and row.role != Role.ADMIN:
                    raise AccountError(f"{row.name!r} is no admin; say who shall be: --author NAME")
            author_id = ensure_author(connection, author, now_ms)
            make_admin(connection, author_id, now_ms, actor)
            return _caller(_add_token(connection, author_id, token, now_ms, actor))

    def open_session(
        self, token_digest: str, digest: str, days: int, max_sessions: int, address: str
    ) -> Caller | None:
        """Store a session of a token and return its holder; None if the token is not valid.

        The session expires after some days, at the latest with its token. If the author has more
        than `max_sessions` then, the oldest ones end.
        """
        is_token = (_secrets.c.kind == SecretKind.TOKEN, _secrets.c.digest == token_digest)
        # First without the writer's lock, so that guessing tokens does not keep writers waiting.
        with self._database.read() as connection:
            if _valid_credential(connection, now(connection), *is_token) is None:
                return None
        with self._database.write() as connection:
            now_ms = now(connection)
            _delete_old_secrets(connection, now_ms)
            token = _valid_credential(connection, now_ms, *is_token)
            if token is None:
                return None
            sessions = _valid_secrets(connection, SecretKind.SESSION, token.author_id)
            surplus = max(0, len(sessions) + 1 - max_sessions)
            surplus_ids = [session.id for session in sessions[:surplus]]  # the oldest come first
            end_secrets(connection, now_ms, _secrets.c.id.in_(surplus_ids))
            row = _add_secret(
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
            _note_secret(connection, now_ms, row, "opened", Actor(token.author_id, address=address))
            return _caller(row)

    def codes(self) -> list[CodeLine]:
        """Return the codes that can be redeemed, the oldest first."""
        with self._database.read() as connection:
            return [_code_line(row) for row in _valid_secrets(connection, SecretKind.CODE)]

    def tokens(self, author_id: int) -> list[TokenLine]:
        """Return the valid tokens of an author, the oldest first."""
        with self._database.read() as connection:
            return [
                _token_line(row) for row in _valid_secrets(connection, SecretKind.TOKEN, author_id)
            ]

    def sessions(self, author_id: int) -> list[SessionLine]:
        """Return the valid sessions of an author, the oldest first."""
        with self._database.read() as connection:
            return [
                SessionLine(
                    Int64(row.id), row.address, utc_time(row.created_at), utc_time(row.expires_at)
                )
                for row in _valid_secrets(connection, SecretKind.SESSION, author_id)
            ]

    def revoke(
        self, kind: SecretKind, secret_id: int, actor: Actor, author_id: int | None = None
    ) -> None:
        """End a code, a session, or a token together with its sessions.

        author_id  the secret has to belong to this author; None allows any

        Raises `NotOnLadder` if there is no such valid secret. Raises `AccountError` for the last
        token with which an admin can work, unless the ladder's machine ends it.
        """
        with self._database.write() as connection:
            now_ms = now(connection)
            is_secret = _secrets.c.id == secret_id
            query = _select_valid(kind, now_ms, author_id).where(is_secret)
            secret = connection.execute(query).first()
            if secret is None:
                raise NotOnLadder(f"there is no such {kind}")
            if kind is SecretKind.TOKEN:
                _check_admin_token_remains(connection, now_ms, actor, ending=is_secret)
            is_session_of_secret = _secrets.c.token_id == secret_id
            end_secrets(connection, now_ms, or_(is_secret, is_session_of_secret))
            change = "ended" if kind is SecretKind.SESSION else "revoked"
            _note_secret(connection, now_ms, secret, change, actor)

    def reset(self, author: str, digest: str, days: int, actor: Actor) -> CodeLine:
        """End all codes, tokens and sessions of an author, and store a code for a new token.

        Returns the description of the code. Raises `AccountError` for an author who is blocked or
        anonymised, and for the last admin with a token, unless the ladder's machine resets that
        one.

        digest  the digest of the new code
        days    the days after which it expires
        """
        with self._database.write() as connection:
            now_ms = now(connection)
            row = active_author(connection, author)
            is_of_author = _secrets.c.author_id == row.id
            _check_admin_token_remains(connection, now_ms, actor, ending=is_of_author)
            end_secrets(connection, now_ms, is_of_author)
            note_author(connection, now_ms, row.id, "reset", actor)
            return _add_code(connection, digest, row.name, now_ms, days, actor)

    def holder_by_digest(self, kind: SecretKind, digest: str) -> Caller | None:
        """Return the holder of a token or session; None if it is not valid.

        The day of the call is stored as that of the last use of a token.
        """
        with self._database.read() as connection:
            now_ms = now(connection)
            row = _valid_credential(
                connection, now_ms, _secrets.c.kind == kind, _secrets.c.digest == digest
            )
        if row is None:
            return None
        today_ms = now_ms - now_ms % DAY_MS  # midnight in UTC
        is_first_use_today = row.last_used is None or row.last_used < today_ms
        if kind is SecretKind.TOKEN and is_first_use_today:
            statement = update(_secrets).where(_secrets.c.id == row.id).values(last_used=today_ms)
            # A full disk must not keep the caller out.
            with suppress(StoreUnavailable), self._database.write() as connection:
                connection.execute(statement)
        return _caller(row)

    def holder_by_id(self, secret_id: int) -> Caller | None:
        """Return the holder of the token or session with this id; None if it is not valid now."""
        with self._database.read() as connection:
            return _holder_by_id(connection, secret_id)

    def checked_writes(
        self, check: Callable[[Caller | None], object], secret_id: int
    ) -> AbstractContextManager[None]:
        """While the context is open, check the caller before each write of this thread.

        If the check raises, the write fails before it has changed anything.

        check      called with the holder of the caller's token or session, or with None if that is
                   not valid any more
        secret_id  the id of the caller's token or session
        """

        def check_holder(connection: Connection) -> None:
            check(_holder_by_id(connection, secret_id))

        return self._database.checked_writes(check_holder)

    def end_all_secrets(self) -> int:
        """End all codes, tokens and sessions, and return their number.

        This is done after a restore from a backup, in which some may be valid that were revoked
        later.
        """
        with self._database.write() as connection:
            now_ms = now(connection)
            ended_count = end_secrets(connection, now_ms)
            if ended_count > 0:
                message = "codes, tokens and sessions have ended"
                note(connection, now_ms, AuditKind.RESTORED, "ladder", message)
        return ended_count


def _select_valid(kind: SecretKind, now_ms: int, author_id: int | None = None) -> Select[Any]:
    """Return a query for the valid secrets of a kind, the oldest first.

    author_id  only those of this author; None selects those of all
    """
    query = _SECRETS_WITH_AUTHORS.where(_secrets.c.kind == kind, is_valid(now_ms))
    if author_id is not None:
        query = query.where(_secrets.c.author_id == author_id)
    return query.order_by(_secrets.c.id)


def _valid_secrets(
    connection: Connection, kind: SecretKind, author_id: int | None = None
) -> Sequence[Row[Any]]:
    """Return the valid secrets of a kind, the oldest first.

    author_id  only those of this author; None selects those of all
    """
    return connection.execute(_select_valid(kind, now(connection), author_id)).all()


def _valid_code(connection: Connection, digest: str) -> Row[Any]:
    """Return the valid code with this digest. Raises `CodeRefused` if there is none."""
    query = _select_valid(SecretKind.CODE, now(connection)).where(_secrets.c.digest == digest)
    code = connection.execute(query).first()
    if code is None:
        raise CodeRefused("this code is not valid: it was mistyped, used, or has ended")
    return code


def _valid_credential(
    connection: Connection, now_ms: int, *conditions: ColumnElement[bool]
) -> Row[Any] | None:
    """Return the valid token or session that meets the conditions; None if there is none.

    One is valid until it is ended or expires, as long as its author is active.
    """
    is_token_or_session = _secrets.c.kind != SecretKind.CODE
    has_active_author = _authors.c.state == AuthorState.ACTIVE
    query = _SECRETS_WITH_AUTHORS.where(
        *conditions, is_token_or_session, is_valid(now_ms), has_active_author
    )
    return connection.execute(query).first()


def _holder_by_id(connection: Connection, secret_id: int) -> Caller | None:
    """Return the holder of the token or session with this id; None if it is not valid now."""
    row = _valid_credential(connection, now(connection), _secrets.c.id == secret_id)
    return None if row is None else _caller(row)


def _caller(row: Row[Any]) -> Caller:
    """Return the holder of a token or session, from its row of `_SECRETS_WITH_AUTHORS`."""
    return Caller(
        author_id=row.author_id,
        author=row.author,
        role=row.role,
        scopes=frozenset(scopes_of(row.scopes)),
        secret_id=row.id,
        secret_kind=row.kind,
        expires_at=row.expires_at,
    )


def _delete_old_secrets(connection: Connection, now_ms: int) -> None:
    """Delete the rows of secrets that have ended or expired long ago."""
    limit_ms = now_ms - KEPT_MS
    is_old = or_(_secrets.c.ended_at < limit_ms, _secrets.c.expires_at < limit_ms)
    connection.execute(delete(_secrets).where(is_old))


def _add_secret(
    connection: Connection, kind: SecretKind, now_ms: int, **values: object
) -> Row[Any]:
    """Store a secret, and return its row of `_SECRETS_WITH_AUTHORS`.

    values  the values of its columns; columns of text are "" by default
    """
    row: dict[str, object] = {"scopes": "", "label": "", "start": "", "address": ""}
    row |= {**values, "kind": kind, "created_at": now_ms}
    secret_id = insert_row(connection, insert(_secrets).values(row))
    return connection.execute(_SECRETS_WITH_AUTHORS.where(_secrets.c.id == secret_id)).one()


def _add_code(
    connection: Connection, digest: str, author: str, now_ms: int, days: int, actor: Actor
) -> CodeLine:
    """Store a code, and return its description.

    author  the name of its author, who is added if missing; "" makes a code that anybody may redeem
    days    the days after which it expires
    """
    author_id = None
    if author:
        check_same_spelling(connection, author)
        author_id = ensure_author(connection, author, now_ms)
    row = _add_secret(
        connection,
        SecretKind.CODE,
        now_ms,
        digest=digest,
        author_id=author_id,
        expires_at=now_ms + days * DAY_MS,
    )
    _note_secret(connection, now_ms, row, "made", actor)
    return _code_line(row)


def _add_token(
    connection: Connection, author_id: int, token: NewToken, now_ms: int, actor: Actor
) -> Row[Any]:
    """Store a token of an author, note it in the audit log, and return its row."""
    row = _add_secret(
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
    _note_secret(connection, now_ms, row, f"made: {row.scopes}", actor)
    return row


def _note_secret(
    connection: Connection, now_ms: int, row: Row[Any], change: str, actor: Actor
) -> None:
    """Add a change of a code, token or session to the audit log.

    The entry names a code by its id and a token by its first characters, never by the secret.
    """
    message = change
    if row.kind == SecretKind.CODE:
        message = f"code {row.id} {change}"
    elif row.kind == SecretKind.TOKEN:
        message = f"{row.start}... {change}"
    is_for_anybody = row.author_id is None
    note(
        connection,
        now_ms,
        AuditKind(row.kind),
        subject="anybody" if is_for_anybody else "",  # "": the log shows the author's name instead
        message=message,
        author_id=row.author_id,
        actor=actor,
    )


def _code_line(row: Row[Any]) -> CodeLine:
    """Return the description of the code in a row of `_SECRETS_WITH_AUTHORS`, without the code."""
    return CodeLine(
        id=Int64(row.id), code="", author=row.author or "", expires_at=utc_time(row.expires_at)
    )


def _token_line(row: Row[Any]) -> TokenLine:
    """Return the description of the token in a row of `_SECRETS_WITH_AUTHORS`."""
    return TokenLine(
        id=Int64(row.id),
        label=row.label,
        start=row.start,
        scopes=scopes_of(row.scopes),
        created_at=utc_time(row.created_at),
        expires_at=utc_time(row.expires_at),
        last_used="" if row.last_used is None else f"{utc_time(row.last_used):%Y-%m-%d}",
    )


def _check_admin_token_remains(
    connection: Connection, now_ms: int, actor: Actor, ending: ColumnElement[bool]
) -> None:
    """Raise `AccountError` if ending some tokens would leave no token with which an admin can work.

    ending  the condition of the tokens that are about to end

    The ladder's machine may end even the last one, since it can make new tokens without one.
    """
    if actor == MACHINE:
        return
    # Tokens with which an admin can work. Scopes are a text with a space between them.
    usable_count = (
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
    lost = connection.execute(usable_count.where(ending)).scalar_one()
    remaining = connection.execute(usable_count.where(~ending)).scalar_one()
    if lost and not remaining:
        raise AccountError(
            "this is the last token with which an admin can work; make another first"
        )
