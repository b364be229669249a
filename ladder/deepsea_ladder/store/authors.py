"""The authors of a ladder: their names, roles and states, and until when they may submit bots.

Invariants: the row of an author is never deleted, since bots and games refer to it; only its name
changes; an author who is not active has no valid code, token or session; once there is an active
admin, there always is one; a submission has to meet the deadline of each open season, which is
later for an author with an extension; the season of a tournament takes in no bots; when all seasons
are closed, no bots are taken in.
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
from deepsea_ladder.store.audit import RENAMED, erase_personal_data, note
from deepsea_ladder.store.database import StorePart, insert_row, now

_authors, _secrets = schema.authors, schema.secrets


class Authors(StorePart):
    """The authors of a ladder."""

    def all(self) -> list[AuthorLine]:
        """Return every author, by name."""
        with self._database.read() as connection:
            query = _authors_with_counts(now(connection)).order_by(_authors.c.name_key)
            return [_author_line(row) for row in connection.execute(query)]

    def id_of(self, name: str) -> int:
        """Return the id of the author with this name. Raises `NotOnLadder`."""
        with self._database.read() as connection:
            return int(find_author(connection, name).id)

    def ensure(self, name: str) -> None:
        """Add an author with this name, unless there is one.

        Raises `BundleError` for a name that is not allowed, and `AccountError` for an author who is
        blocked or anonymised.
        """
        with self._database.write() as connection:
            ensure_author(connection, name, now(connection))

    def rename(self, name: str, new_name: str, actor: Actor) -> AuthorLine:
        """Give an author another name, and return the author's description.

        Raises `NotOnLadder` for an unknown author, `BundleError` for a name that is not allowed,
        and `AccountError` for a name that another author has, and for an anonymised author.
        """
        new_name = author_name(new_name)
        with self._database.write() as connection:
            row = find_author(connection, name)
            if row.state == AuthorState.ANONYMISED:
                raise AccountError("an author who was anonymised gets no other name")
            holder = author_named(connection, new_name)
            if holder is not None and holder.id != row.id:
                raise AccountError(f"the name {new_name!r} is taken; choose another one")
            now_ms = now(connection)
            _update_author(connection, row.id, name=new_name, name_key=names.key(new_name))
            note_author(connection, now_ms, row.id, f"{RENAMED}{row.name}", actor)
            return _line_by_id(connection, row.id, now_ms)

    def set_blocked(self, name: str, actor: Actor, *, blocked: bool) -> AuthorLine:
        """Block an author, or end the block; return the author's description.

        A block ends all codes, tokens and sessions of the author, whose bots go on playing. When it
        is over, the author needs a new code. Raises `NotOnLadder` for an unknown author, and
        `AccountError` for an anonymised one and for the last admin.
        """
        new_state = AuthorState.BLOCKED if blocked else AuthorState.ACTIVE
        with self._database.write() as connection:
            row = find_author(connection, name)
            now_ms = now(connection)
            if row.state == AuthorState.ANONYMISED:
                raise AccountError("an author who was anonymised gets no rights again")
            if row.state != new_state:
                if blocked:
                    _check_not_last_admin(connection, row)
                    end_secrets(connection, now_ms, _secrets.c.author_id == row.id)
                _update_author(connection, row.id, state=new_state)
                message = "blocked" if blocked else "no longer blocked"
                note_author(connection, now_ms, row.id, message, actor)
            return _line_by_id(connection, row.id, now_ms)

    def anonymise(self, name: str, actor: Actor) -> AuthorLine:
        """Replace the name of an author by a number and end all rights, for good.

        No code, token or session stays valid, and there will be no new ones. Texts and addresses
        that may tell the identity of the author are removed as well. Raises `NotOnLadder` for an
        unknown author, and `AccountError` for the last admin.
        """
        with self._database.write() as connection:
            row = find_author(connection, name)
            now_ms = now(connection)
            if row.state == AuthorState.ANONYMISED:
                return _line_by_id(connection, row.id, now_ms)
            _check_not_last_admin(connection, row)
            end_secrets(connection, now_ms, _secrets.c.author_id == row.id)
            anonymous_name = f"{ANONYMOUS}{row.id}"
            _update_author(
                connection,
                row.id,
                name=anonymous_name,
                name_key=names.key(anonymous_name),
                role=Role.AUTHOR,
                state=AuthorState.ANONYMISED,
            )
            for table, empty_values in (
                (_secrets, {"label": "", "address": ""}),
                (schema.person_games, {"address": ""}),
            ):
                statement = update(table).where(table.c.author_id == row.id)
                connection.execute(statement.values(empty_values))
            erase_personal_data(connection, row.id)
            note_author(connection, now_ms, row.id, "anonymised", actor)
            return _line_by_id(connection, row.id, now_ms)


def _authors_with_counts(now_ms: int) -> Select[Any]:
    """Return a query for all authors, each with the numbers of its bots and of its valid tokens."""
    bots = schema.bots
    bot_count = select(func.count()).where(bots.c.author_id == _authors.c.id)
    token_count = select(func.count()).where(
        _secrets.c.author_id == _authors.c.id,
        _secrets.c.kind == SecretKind.TOKEN,
        is_valid(now_ms),
    )
    return select(
        _authors,
        bot_count.scalar_subquery().label("bots"),
        token_count.scalar_subquery().label("tokens"),
    )


def _line_by_id(connection: Connection, author_id: int, now_ms: int) -> AuthorLine:
    """Return the description of an author with this id."""
    return _author_line(
        connection.execute(_authors_with_counts(now_ms).where(_authors.c.id == author_id)).one()
    )


def _author_line(row: Row[Any]) -> AuthorLine:
    """Return the description of the author in a row of `_authors_with_counts`."""
    return AuthorLine(
        author=row.name,
        role=row.role.word,
        state=row.state,
        bots=row.bots,
        tokens=row.tokens,
        created_at=utc_time(row.created_at),
    )


def _update_author(connection: Connection, author_id: int, **values: object) -> None:
    """Change columns of an author, by name."""
    connection.execute(update(_authors).where(_authors.c.id == author_id).values(values))


def _check_not_last_admin(connection: Connection, row: Row[Any]) -> None:
    """Raise `AccountError` if the author in this row is the only active admin."""
    if row.role != Role.ADMIN:
        return
    query = select(func.count()).where(
        _authors.c.role == Role.ADMIN,
        _authors.c.state == AuthorState.ACTIVE,
        _authors.c.id != row.id,
    )
    other_admins = connection.execute(query).scalar_one()
    if other_admins == 0:
        raise AccountError(
            f"{row.name!r} is the last admin; make another one first, on the ladder's machine: "
            "deepsea-referee ladder author admin --author NAME"
        )


def author_named(connection: Connection, name: str) -> Row[Any] | None:
    """Return the row of the author with this name; None if there is none."""
    # No author's name has unprintable characters, and PostgreSQL refuses queries with some of them.
    if not name.isprintable():
        return None
    query = select(_authors).where(_authors.c.name_key == names.key(name))
    return connection.execute(query).first()


def find_author(connection: Connection, name: str) -> Row[Any]:
    """Return the row of the author with this name. Raises `NotOnLadder` if there is none."""
    row = author_named(connection, name)
    if row is None:
        raise NotOnLadder(f"there is no author {name!r} on this ladder")
    return row


def active_author(connection: Connection, name: str) -> Row[Any]:
    """Return the row of the active author with this name.

    Raises `NotOnLadder` if there is no author of this name, and `AccountError` for one who is
    blocked or anonymised.
    """
    row = find_author(connection, name)
    if row.state != AuthorState.ACTIVE:
        raise AccountError(f"the author {row.name!r} is {row.state}")
    return row


def ensure_author(connection: Connection, name: str, now_ms: int) -> int:
    """Return the id of the active author with this name, who is added if there is none.

    Raises `BundleError` for a name that is not allowed, and `AccountError` for an author who is
    blocked or anonymised.
    """
    if author_named(connection, name) is not None:
        return int(active_author(connection, name).id)
    return add_author(connection, name, now_ms)


def check_same_spelling(connection: Connection, name: str) -> None:
    """Raise `AccountError` if the author with this name spells it in another way, like "ann"/"Ann".

    The ladder takes both for one name, but the caller may mean somebody else.
    """
    author = author_named(connection, name)
    if author is not None and author.name != author_name(name):
        raise AccountError(
            f"{name} and {author.name}, who is there, would be one author: write {author.name}, or "
            "choose another name"
        )


def add_author(connection: Connection, name: str, now_ms: int) -> int:
    """Add an author and return the id.

    Raises `BundleError` for a name that is not allowed, and `AccountError` for one that is taken.
    """
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
    """Return the name that a person chooses as an author, as it is stored.

    Raises `BundleError` if it is not allowed, or reserved for operators.
    """
    name = author_name(name)
    if names.key(name) in RESERVED:
        raise BundleError(f"the author's name {name!a} is not allowed: choose another one")
    return name


def author_name(name: str) -> str:
    """Return the name of an author as it is stored. Raises `BundleError` if it is not allowed."""
    name = names.valid_author_name(name)
    if names.key(name) == MACHINE.name or names.key(name).startswith(ANONYMOUS):
        raise BundleError(f"the author's name {name!a} is not allowed: choose another one")
    return name


def make_admin(connection: Connection, author_id: int, now_ms: int, actor: Actor) -> None:
    """Make an author an admin, unless the author is one already."""
    role = select(_authors.c.role).where(_authors.c.id == author_id)
    if connection.execute(role).scalar_one() != Role.ADMIN:
        _update_author(connection, author_id, role=Role.ADMIN)
        note_author(connection, now_ms, author_id, "is admin now", actor)


def note_author(
    connection: Connection, now_ms: int, author_id: int, message: str, actor: Actor
) -> None:
    """Add a change of an author to the audit log.

    The entry refers to the author by id, since the name may change later.
    """
    note(
        connection,
        now_ms,
        AuditKind.AUTHOR,
        subject="",
        message=message,
        author_id=author_id,
        actor=actor,
    )


def is_valid(now_ms: int) -> ColumnElement[bool]:
    """Return the condition of codes, tokens and sessions that have neither ended nor expired."""
    return and_(_secrets.c.ended_at.is_(None), _secrets.c.expires_at > now_ms)


def end_secrets(connection: Connection, now_ms: int, *conditions: ColumnElement[bool]) -> int:
    """End the codes, tokens and sessions that meet the conditions, and return their number."""
    statement = update(_secrets).where(_secrets.c.ended_at.is_(None), *conditions)
    return connection.execute(statement.values(ended_at=now_ms)).rowcount


def deadlines_of(author_id: int) -> Select[Any]:
    """Return a query for all seasons but tournaments', each with an author's deadline for bots.

    The column "until" has that deadline: the season's, or a later extension for the author. It is
    NULL if the season has no deadline.

    author_id  0 for a caller who is no author yet
    """
    seasons, extensions = schema.seasons, schema.extensions
    is_own = and_(extensions.c.season_id == seasons.c.id, extensions.c.author_id == author_id)
    is_later = extensions.c.until > seasons.c.submissions_until
    deadline = case((is_later, extensions.c.until), else_=seasons.c.submissions_until)
    return (
        select(seasons.c.name, seasons.c.closed_at, deadline.label("until"))
        .select_from(seasons.outerjoin(extensions, is_own))
        .where(seasons.c.tournament.is_(None))
        .order_by(seasons.c.id)
    )


def submission_window(connection: Connection, now_ms: int, author_id: int) -> SubmissionWindow:
    """Return an author's deadline for bots, and the reason if the author may not submit any now.

    A bot plays in all open seasons, so the first of their deadlines counts. It holds for uploads: a
    bot that was taken in before is checked and plays, even if deadlines change later.

    author_id  0 for a caller who is no author yet
    """
    seasons = connection.execute(deadlines_of(author_id)).all()
    open_seasons = [season for season in seasons if season.closed_at is None]
    if seasons and not open_seasons:
        refusal = "every season is closed, so no bots are taken in until another one is opened"
        return SubmissionWindow(None, refusal)
    deadlines = [(season.until, season.name) for season in open_seasons if season.until is not None]
    if not deadlines:
        return SubmissionWindow(None, refusal="")
    deadline_ms, season_name = min(deadlines)
    refusal = ""
    if deadline_ms <= now_ms:
        refusal = (
            f"season {season_name} has taken in bots until "
            f"{utc_time(deadline_ms):%Y-%m-%d %H:%M} UTC, and that time is over"
        )
    return SubmissionWindow(deadline_ms, refusal)


def check_window(connection: Connection, now_ms: int, author_id: int) -> None:
    """Raise `SubmissionError` if an author may not submit a bot now."""
    if refusal := submission_window(connection, now_ms, author_id).refusal:
        raise SubmissionError(refusal)


def archive_bytes(connection: Connection, author_id: int) -> int:
    """Return the bytes that the packed files of an author's versions take in the store.

    Files that several of these versions have are stored once, and counted once.
    """
    versions, bots, archives = schema.bot_versions, schema.bots, schema.archives
    digests = (
        select(versions.c.digest)
        .join(bots, bots.c.id == versions.c.bot_id)
        .where(bots.c.author_id == author_id)
    )
    size = select(func.coalesce(func.sum(func.length(archives.c.content)), 0))
    return int(connection.execute(size.where(archives.c.digest.in_(digests))).scalar_one())
