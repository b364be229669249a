"""Logs that are only added to: the audit log, and the chain of each season.

Invariants: an entry says what was refused, taken out or enabled, or who got or lost which
right, and is written in the transaction of its change, so that neither is stored without the other;
entries stay, but for names and addresses that must be forgotten; an author is named by reference,
so that a name that changes or goes does so here as well; no entry has a secret; a new link of a
chain follows on the season's last one, in the writer's transaction.
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
"""The number of newest entries of the audit log in which the last one of a kind is looked for."""
RENAMED = "was called "
"""The beginning of a note on a rename, before the former name."""
_concerned = schema.authors.alias("concerned")
_acting = schema.authors.alias("acting")


class Audit(StorePart):
    def latest(self, limit: int = 100, author_id: int | None = None) -> list[AuditEntry]:
        """The newest entries, newest first; of an author, what it did and what is about it."""
        table = schema.audit
        about = case((table.c.subject == "", _concerned.c.name), else_=table.c.subject)
        query = (
            select(
                table.c.id,
                table.c.at,
                table.c.kind,
                func.coalesce(about, "").label("subject"),
                table.c.note,
                func.coalesce(_acting.c.name, table.c.actor).label("actor"),
                table.c.address,
            )
            .outerjoin(_concerned, _concerned.c.id == table.c.author_id)
            .outerjoin(_acting, _acting.c.id == table.c.actor_id)
            .order_by(desc(table.c.id))
            .limit(limit)
        )
        if author_id is not None:
            query = query.where(or_(table.c.author_id == author_id, table.c.actor_id == author_id))
        with self._database.read() as connection:
            return [
                AuditEntry(Int64(number), utc_time(at), kind, *texts)
                for number, at, kind, *texts in connection.execute(query)
            ]

    def first_tokens(self) -> dict[str, datetime]:
        """The time at which each author got the first token, by the author's name."""
        table = schema.audit
        query = (
            select(_concerned.c.name, func.min(table.c.at))
            .join(_concerned, _concerned.c.id == table.c.author_id)
            .where(table.c.kind == AuditKind.TOKEN)
            .group_by(_concerned.c.name)
        )
        with self._database.read() as connection:
            return {name: utc_time(at) for name, at in connection.execute(query)}

    def runner(self) -> str | None:
        """The control groups that the newest run has, in its words; None if no run has said it."""
        with self._database.read() as connection:
            return _runner(connection)

    def note_runner(self, words: str) -> None:
        """Note which control groups a run has that begins, unless the one before had the same."""
        with self._database.write() as connection:
            if _runner(connection) != words:
                note(connection, now(connection), AuditKind.RUNNER, "run", words)

    def note_shortage(self, kind: AuditKind, subject: str, words: str) -> None:
        """Note that a machine that plays had no memory left, or no CPU, for a task."""
        with self._database.write() as connection:
            note(connection, now(connection), kind, subject, words)


def _runner(connection: Connection) -> str | None:
    columns = schema.audit.c
    entries = select(columns.id, columns.kind, columns.note).order_by(desc(columns.id))
    newest = entries.limit(LATEST_ENTRIES).subquery().c
    query = select(newest.note).where(newest.kind == AuditKind.RUNNER).order_by(desc(newest.id))
    return connection.execute(query.limit(1)).scalar()


def note(
    connection: Connection,
    now_ms: int,
    kind: AuditKind,
    subject: str,
    words: str,
    *,
    author_id: int | None = None,
    actor: Actor = NOBODY,
) -> None:
    """Add an entry to the running transaction.

    subject    to what it was done; "" is the author
    author_id  the author whom it is about
    """
    values = {
        "at": now_ms,
        "kind": kind,
        "subject": subject,
        "note": printable(words, schema.LONGEST_NOTE),
        "author_id": author_id,
        "actor_id": actor.author_id,
        "actor": actor.name,
        "address": actor.address,
    }
    connection.execute(insert(schema.audit), values)


def forget(connection: Connection, author_id: int) -> None:
    """Remove former names of an author, and where the author's calls came from."""
    table = schema.audit
    connection.execute(
        update(table)
        .where(
            table.c.author_id == author_id,
            table.c.kind == AuditKind.AUTHOR,
            table.c.note.like(f"{RENAMED}%"),
        )
        .values(note="had another name")
    )
    connection.execute(
        update(table)
        .where(or_(table.c.actor_id == author_id, table.c.author_id == author_id))
        .values(address="")
    )


_seasons = schema.seasons
_LAST = select(_seasons.c.name, _seasons.c.place, _seasons.c.head).where(
    _seasons.c.id == bindparam("season")
)
_ADD = (
    update(_seasons)
    .where(_seasons.c.id == bindparam("season"))
    .values(
        place=bindparam("at"),
        head=bindparam("its_head"),
        games=_seasons.c.games + bindparam("more"),
    )
)


class LastLink(NamedTuple):
    """The end of a season's chain."""

    season: str
    place: int
    head: str


def last_link(connection: Connection, season_id: int) -> LastLink:
    """The last place of a season and its head; place 0 has the season's commitment."""
    row = connection.execute(_LAST, {"season": season_id}).one()
    return LastLink(row.name, row.place, row.head)


def add_link(connection: Connection, season_id: int, last: LastLink, line: Line) -> str:
    """Let a line follow on the last one; returns the new head."""
    head = next_head(last.head, line)
    is_game = int(line["ended"] == "done")
    connection.execute(
        _ADD, {"season": season_id, "at": last.place + 1, "its_head": head, "more": is_game}
    )
    return head
