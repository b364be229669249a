"""The two logs to which entries are only added: the audit log, and the chain of each season.

Invariants: an entry of the audit log is written in the transaction of the change that it tells, so
that neither is stored without the other; entries are never changed, except for names and addresses
that must be forgotten; they refer to authors by id, so that a renamed or anonymised author is so in
old entries as well; no entry has a secret; a new link of a chain follows the last link of its
season, in the writer's transaction.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, case, desc, func, insert, or_, select, update

from deepsea_ladder.accounts import NOBODY, Actor, AuditEntry, AuditKind
from deepsea_ladder.chain import Line, next_head
from deepsea_ladder.model import Int64, utc_time
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import StorePart, now
from deepsea_rules.printable import printable

LATEST_ENTRIES = 10_000
"""Searches for the last entry of a kind read at most this many of the newest entries."""
RENAMED = "was called "
"""The beginning of a note on a rename, before the former name."""
_subject_authors = schema.authors.alias("concerned")
_actor_authors = schema.authors.alias("acting")


class Audit(StorePart):
    """The audit log of a ladder."""

    def latest(self, limit: int = 100, author_id: int | None = None) -> list[AuditEntry]:
        """Return the newest entries of the log, newest first.

        author_id  return only entries on this author, and on what this author did
        """
        table = schema.audit
        # An entry without a subject is about an author, whose present name it shows.
        subject = case((table.c.subject == "", _subject_authors.c.name), else_=table.c.subject)
        query = (
            select(
                table.c.id,
                table.c.at,
                table.c.kind,
                func.coalesce(subject, "").label("subject"),
                table.c.note,
                func.coalesce(_actor_authors.c.name, table.c.actor).label("actor"),
                table.c.address,
            )
            .outerjoin(_subject_authors, _subject_authors.c.id == table.c.author_id)
            .outerjoin(_actor_authors, _actor_authors.c.id == table.c.actor_id)
            .order_by(desc(table.c.id))
            .limit(limit)
        )
        if author_id is not None:
            is_of_author = or_(table.c.author_id == author_id, table.c.actor_id == author_id)
            query = query.where(is_of_author)
        with self._database.read() as connection:
            return [
                AuditEntry(
                    Int64(row.id),
                    utc_time(row.at),
                    row.kind,
                    row.subject,
                    row.note,
                    row.actor,
                    row.address,
                )
                for row in connection.execute(query)
            ]

    def first_tokens(self) -> dict[str, datetime]:
        """Return the time at which each author got a first token, by the author's name.

        Authors who never had a token are missing.
        """
        entries, authors = schema.audit, _subject_authors
        query = (
            select(authors.c.name, func.min(entries.c.at))
            .join(authors, authors.c.id == entries.c.author_id)
            .where(entries.c.kind == AuditKind.TOKEN)
            .group_by(authors.c.name)
        )
        with self._database.read() as connection:
            return {name: utc_time(first_ms) for name, first_ms in connection.execute(query)}

    def control_groups(self) -> str | None:
        """Return the description of the control groups of the newest run; None if there is none."""
        with self._database.read() as connection:
            return _control_groups(connection)

    def note_control_groups(self, message: str) -> None:
        """Note the control groups of a run that begins, unless the last entry says the same."""
        with self._database.write() as connection:
            if _control_groups(connection) != message:
                note(connection, now(connection), AuditKind.RUNNER, "run", message)

    def note_shortage(self, kind: AuditKind, subject: str, message: str) -> None:
        """Note that a machine on which games are played was short of memory or of a CPU.

        kind     says which of both was short
        subject  the name of the task that failed or had to wait
        """
        with self._database.write() as connection:
            note(connection, now(connection), kind, subject, message)


def _control_groups(connection: Connection) -> str | None:
    """Return what a runner has last reported about its control groups; None if no runner has.

    That is the text of the newest entry of this kind in the audit log, of which only the newest
    `LATEST_ENTRIES` entries are searched.
    """
    columns = schema.audit.c
    newest_first = select(columns.id, columns.kind, columns.note).order_by(desc(columns.id))
    searched = newest_first.limit(LATEST_ENTRIES).subquery().c
    reports = select(searched.note).where(searched.kind == AuditKind.RUNNER)
    newest_report = reports.order_by(desc(searched.id)).limit(1)
    return connection.execute(newest_report).scalar()


def note(
    connection: Connection,
    now_ms: int,
    kind: AuditKind,
    subject: str,
    message: str,
    *,
    author_id: int | None = None,
    actor: Actor = NOBODY,
) -> None:
    """Add an entry to the audit log, in the running transaction.

    subject    the name of the bot, season, game or other thing that was changed; "" if the entry is
               about an author, whose present name is shown then
    message    the change in words, without any secret
    author_id  the author whom the entry is about
    actor      the author or machine that made the change
    """
    values = {
        "at": now_ms,
        "kind": kind,
        "subject": subject,
        "note": printable(message, schema.LONGEST_NOTE),
        "author_id": author_id,
        "actor_id": actor.author_id,
        "actor": actor.name,
        "address": actor.address,
    }
    connection.execute(insert(schema.audit), values)


def erase_personal_data(connection: Connection, author_id: int) -> None:
    """Erase an author's former names, and the addresses of the author's calls, from the audit log.

    The entries themselves stay.
    """
    table = schema.audit
    is_rename = (table.c.kind == AuditKind.AUTHOR) & table.c.note.like(f"{RENAMED}%")
    connection.execute(
        update(table)
        .where(table.c.author_id == author_id, is_rename)
        .values(note="had another name")
    )
    is_of_author = or_(table.c.actor_id == author_id, table.c.author_id == author_id)
    connection.execute(update(table).where(is_of_author).values(address=""))


_seasons = schema.seasons
_LAST_LINK = select(_seasons.c.name, _seasons.c.place, _seasons.c.head).where(
    _seasons.c.id == bindparam("season")
)
_ADD_LINK = (
    update(_seasons)
    .where(_seasons.c.id == bindparam("season"))
    .values(
        # Names of columns cannot be used for the parameters of an UPDATE.
        place=bindparam("new_place"),
        head=bindparam("new_head"),
        games=_seasons.c.games + bindparam("new_games"),
    )
)


class LastLink(NamedTuple):
    """The last link of a season's chain: the name of the season, the place from 1, and the head."""

    season: str
    place: int
    head: str


def last_link(connection: Connection, season_id: int) -> LastLink:
    """Return the last link of a season's hash chain, which has a link for each attempt at a game.

    It has its place in the chain, from 1, and the digest over all links so far. A chain without
    links has place 0, and the commitment to the season's seed as its digest.
    """
    row = connection.execute(_LAST_LINK, {"season": season_id}).one()
    return LastLink(row.name, row.place, row.head)


def add_link(connection: Connection, season_id: int, last: LastLink, line: Line) -> str:
    """Append an attempt at a game to the hash chain of its season, and return the chain's new head.

    A head is a digest over an attempt's line and the head before, so that no earlier line can be
    changed unnoticed. If the attempt had a result, the season has one more played game.

    last  the last link of the chain so far
    line  the facts of the attempt
    """
    head = next_head(last.head, line)
    has_result = line["ended"] == "done"
    # They are stored in the season's row; the number of games is added to the stored one.
    values = {
        "season": season_id,
        "new_place": last.place + 1,
        "new_head": head,
        "new_games": 1 if has_result else 0,
    }
    connection.execute(_ADD_LINK, values)
    return head
