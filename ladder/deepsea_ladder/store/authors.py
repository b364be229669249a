"""Authors: who is there, with which name, role and state, and how much each may submit.

Invariants: an author is a row for ever, since bots and games refer to it: what changes is the name;
an author who is not active has no valid code, token or session; there is an active admin as soon as
there was one; the deadline of each open season holds for what is submitted, and that of an author
with an extension is later; a tournament's season takes in no bots; once there were seasons, and all
are closed, none are taken in.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    case,
    func,
    insert,
    select,
    update,
)

from deepsea_bundle import names
from deepsea_bundle.errors import BundleError
from deepsea_ladder.accounts import (
    ANONYMOUS,
    MACHINE,
    RESERVED,
    Actor,
    AuditKind,
    AuthorLine,
    AuthorState,
    Role,
    SecretKind,
)
from deepsea_ladder.errors import AccountError, NotOnLadder, SubmissionError
from deepsea_ladder.model import SubmissionWindow, utc_time
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import RENAMED, forget, note
from deepsea_ladder.store.database import StorePart, insert_row, now

_authors, _secrets = schema.authors, schema.secrets


class Authors(StorePart):
    def all(self) -> list[AuthorLine]:
        """Every author, by name."""
        with self._database.read() as connection:
            rows = connection.execute(_select(now(connection)).order_by(_authors.c.name_key))
            return [_author_line(row) for row in rows]

    def id_of(self, name: str) -> int:
        """The id of the author of that name; `NotOnLadder` if there is none."""
        with self._database.read() as connection:
            return int(find_author(connection, name).id)

    def ensure(self, name: str) -> None:
        """Add an author of that name, unless there is one.

        Raises `BundleError` for a bad name, and `AccountError` for an author who may do nothing.
        """
        with self._database.write() as connection:
            ensure_author(connection, name, now(connection))

    def rename(self, name: str, to: str, actor: Actor) -> AuthorLine:
        """Give an author another name. Raises `BundleError` for a bad one, `AccountError` for one
        that somebody else has."""
        to = author_name(to)
        with self._database.write() as connection:
            row = find_author(connection, name)
            if row.state == AuthorState.ANONYMISED:
                raise AccountError("an author who was anonymised gets no other name")
            holder = author_named(connection, to)
            if holder is not None and holder.id != row.id:
                raise AccountError(f"the name {to!r} is taken; choose another one")
            now_ms = now(connection)
            _change(connection, row.id, name=to, name_key=names.key(to))
            words = f"{RENAMED}{row.name}"
            note(connection, now_ms, AuditKind.AUTHOR, "", words, author_id=row.id, actor=actor)
            return _get(connection, row.id, now_ms)

    def set_blocked(self, name: str, actor: Actor, *, blocked: bool) -> AuthorLine:
        """End all rights of an author, but let bots stay; or lift that: a new code gives rights."""
        state = AuthorState.BLOCKED if blocked else AuthorState.ACTIVE
        with self._database.write() as connection:
            row = find_author(connection, name)
            now_ms = now(connection)
            if row.state == AuthorState.ANONYMISED:
                raise AccountError("an author who was anonymised gets no rights again")
            if row.state != state:
                if blocked:
                    _keep_an_admin(connection, row)
                    end_secrets(connection, now_ms, _secrets.c.author_id == row.id)
                _change(connection, row.id, state=state)
                words = "blocked" if blocked else "no longer blocked"
                note(connection, now_ms, AuditKind.AUTHOR, "", words, author_id=row.id, actor=actor)
            return _get(connection, row.id, now_ms)

    def anonymise(self, name: str, actor: Actor) -> AuthorLine:
        """Replace an author's name by one that tells nothing, and end all rights, for good."""
        with self._database.write() as connection:
            row = find_author(connection, name)
            now_ms = now(connection)
            if row.state == AuthorState.ANONYMISED:
                return _get(connection, row.id, now_ms)
            _keep_an_admin(connection, row)
            end_secrets(connection, now_ms, _secrets.c.author_id == row.id)
            free = f"{ANONYMOUS}{row.id}"
            _change(
                connection,
                row.id,
                name=free,
                name_key=names.key(free),
                role=Role.AUTHOR,
                state=AuthorState.ANONYMISED,
            )
            for table, personal in (
                (_secrets, {"label": "", "address": ""}),
                (schema.person_games, {"address": ""}),
            ):
                connection.execute(
                    update(table).where(table.c.author_id == row.id).values(personal)
                )
            forget(connection, row.id)
            note(
                connection,
                now_ms,
                AuditKind.AUTHOR,
                "",
                "anonymised",
                author_id=row.id,
                actor=actor,
            )
            return _get(connection, row.id, now_ms)


def _select(now_ms: int) -> Select[Any]:
    bots = schema.bots
    owned = select(func.count()).where(bots.c.author_id == _authors.c.id).scalar_subquery()
    is_token = and_(_secrets.c.kind == SecretKind.TOKEN, is_valid(now_ms))
    tokens = select(func.count()).where(_secrets.c.author_id == _authors.c.id, is_token)
    held = tokens.scalar_subquery()
    return select(_authors, owned.label("bots"), held.label("tokens"))


def _get(connection: Connection, author_id: int, now_ms: int) -> AuthorLine:
    return _author_line(connection.execute(_select(now_ms).where(_authors.c.id == author_id)).one())


def _author_line(row: Row[Any]) -> AuthorLine:
    return AuthorLine(
        author=row.name,
        role=row.role.word,
        state=row.state,
        bots=row.bots,
        tokens=row.tokens,
        created_at=utc_time(row.created_at),
    )


def _change(connection: Connection, author_id: int, **values: object) -> None:
    connection.execute(update(_authors).where(_authors.c.id == author_id).values(values))


def _keep_an_admin(connection: Connection, row: Row[Any]) -> None:
    """Raise `AccountError` if the author is the only admin."""
    others = select(func.count()).where(
        _authors.c.role == Role.ADMIN,
        _authors.c.state == AuthorState.ACTIVE,
        _authors.c.id != row.id,
    )
    if row.role == Role.ADMIN and not connection.execute(others).scalar_one():
        raise AccountError(
            f"{row.name!r} is the last admin; make another one first, on the ladder's machine: "
            "deepsea-referee ladder author admin --author NAME"
        )


def author_named(connection: Connection, name: str) -> Row[Any] | None:
    """The row of the author of that name, if there is one."""
    if not name.isprintable():  # what PostgreSQL cannot even be asked
        return None
    return connection.execute(
        select(_authors).where(_authors.c.name_key == names.key(name))
    ).first()


def find_author(connection: Connection, name: str) -> Row[Any]:
    """The row of the author of that name; `NotOnLadder` if there is none."""
    row = author_named(connection, name)
    if row is None:
        raise NotOnLadder(f"there is no author {name!r} on this ladder")
    return row


def active_author(connection: Connection, name: str) -> Row[Any]:
    """The same; `AccountError` for one who may do nothing."""
    row = find_author(connection, name)
    if row.state != AuthorState.ACTIVE:
        raise AccountError(f"the author {row.name!r} is {row.state}")
    return row


def ensure_author(connection: Connection, name: str, now_ms: int) -> int:
    """The id of the active author of that name, who is added if there is none.

    Raises `BundleError` for a bad name, and `AccountError` for an author who may do nothing.
    """
    if author_named(connection, name) is not None:
        return int(active_author(connection, name).id)
    return add_author(connection, name, now_ms)


def check_spelling(connection: Connection, name: str) -> None:
    """Raise `AccountError` if an author is spelled otherwise: somebody else may be meant."""
    row = author_named(connection, name)
    if row is not None and row.name != author_name(name):
        raise AccountError(
            f"{name} and {row.name}, who is there, would be one author: write {row.name}, or "
            "choose another name"
        )


def add_author(connection: Connection, name: str, now_ms: int) -> int:
    """Add an author; the id. `AccountError` if the name is taken."""
    name = author_name(name)
    if author_named(connection, name) is not None:
        raise AccountError(f"the name {name!r} is taken; choose another one")
    return insert_row(
        connection,
        insert(_authors).values(
            name=name,
            name_key=names.key(name),
            role=Role.AUTHOR,
            state=AuthorState.ACTIVE,
            created_at=now_ms,
        ),
    )


def chosen_name(name: str) -> str:
    """The same, for a name that somebody chooses. Raises `BundleError`."""
    name = author_name(name)
    if names.key(name) in RESERVED:
        raise BundleError(f"the author's name {name!a} is not allowed: choose another one")
    return name


def author_name(name: str) -> str:
    """The name as it is stored, if an author may have it. Raises `BundleError`."""
    name = names.person(name)
    if names.key(name) == MACHINE.name or names.key(name).startswith(ANONYMOUS):
        raise BundleError(f"the author's name {name!a} is not allowed: choose another one")
    return name


def make_admin(connection: Connection, author_id: int, now_ms: int, actor: Actor) -> None:
    role = select(_authors.c.role).where(_authors.c.id == author_id)
    if connection.execute(role).scalar_one() != Role.ADMIN:
        _change(connection, author_id, role=Role.ADMIN)
        note(
            connection,
            now_ms,
            AuditKind.AUTHOR,
            "",
            "is admin now",
            author_id=author_id,
            actor=actor,
        )


def is_valid(now_ms: int) -> ColumnElement[bool]:
    """The condition of secrets that have neither ended nor expired."""
    return and_(_secrets.c.ended_at.is_(None), _secrets.c.expires_at > now_ms)


def end_secrets(connection: Connection, now_ms: int, *conditions: ColumnElement[bool]) -> int:
    """End the codes, tokens and sessions that meet the conditions; their number."""
    change = update(_secrets).where(_secrets.c.ended_at.is_(None), *conditions)
    return connection.execute(change.values(ended_at=now_ms)).rowcount


def deadlines_of(author_id: int) -> Select[Any]:
    """Selects the seasons of rated games, each with the time until which an author may submit.

    author_id  0: somebody who is no author yet, and has no extension
    """
    seasons, more = schema.seasons, schema.extensions
    is_own = and_(more.c.season_id == seasons.c.id, more.c.author_id == author_id)
    later = more.c.until > seasons.c.submissions_until
    until = case((later, more.c.until), else_=seasons.c.submissions_until)
    columns = (seasons.c.name, seasons.c.closed_at, until.label("until"))
    query = select(*columns).select_from(seasons.outerjoin(more, is_own))
    return query.where(seasons.c.tournament.is_(None)).order_by(seasons.c.id)


def submission_window(connection: Connection, now_ms: int, author_id: int) -> SubmissionWindow:
    """Say whether an author may submit at a moment, and until when; `deadlines_of` has the id.

    Nothing else decides about that. It is asked when an upload is there as a whole; what was taken
    in then is checked and plays, whatever is changed later.
    """
    rows = connection.execute(deadlines_of(author_id)).all()
    opened = [row for row in rows if row.closed_at is None]
    ends = [(row.until, row.name) for row in opened if row.until is not None]
    until, name = min(ends, default=(None, ""))
    refusal = ""
    if rows and not opened:
        refusal = "every season is closed, so no bots are taken in until another one is opened"
    elif until is not None and until <= now_ms:
        refusal = (
            f"season {name} has taken in bots until {utc_time(until):%Y-%m-%d %H:%M} UTC, and that "
            "time is over"
        )
    return SubmissionWindow(until, refusal)


def check_window(connection: Connection, now_ms: int, author_id: int) -> None:
    """Raise `SubmissionError` if an author may not submit at this moment."""
    if refusal := submission_window(connection, now_ms, author_id).refusal:
        raise SubmissionError(refusal)


def archive_bytes(connection: Connection, author_id: int) -> int:
    """The bytes of the files of an author's versions as stored: packed, equal ones once."""
    versions, bots, archives = schema.bot_versions, schema.bots, schema.archives
    ours = (
        select(versions.c.digest)
        .join(bots, bots.c.id == versions.c.bot_id)
        .where(bots.c.author_id == author_id)
    )
    size = select(func.coalesce(func.sum(func.length(archives.c.content)), 0))
    return int(connection.execute(size.where(archives.c.digest.in_(ours))).scalar_one())
