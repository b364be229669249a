"""Sessions of the pages, which a token opens.

Invariants: a session has the scopes of its token and does not outlive it; it is found by the
SHA-256 of a random id, which is not stored.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, and_, insert, select

from deepsea_ladder.accounts import Actor
from deepsea_ladder.errors import NotOnLadder
from deepsea_ladder.model.people import AuditKind, Credential, SessionLine
from deepsea_ladder.store.account_rows import (
    DAY_MS,
    by_session,
    by_token,
    clear,
    credential,
    end,
    sessions,
    tokens,
    valid,
)
from deepsea_ladder.store.audit import note
from deepsea_ladder.store.authors import added
from deepsea_ladder.store.database import Database, now
from deepsea_ladder.values import Int64, utc_time


class Sessions:
    """The sessions of a ladder's pages."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
            clear(connection, at)
            if (token := _token(connection, token_digest)) is None:
                return None
            ours = and_(sessions.c.author_id == token.author_id, valid(sessions, at))
            newest = select(sessions.c.id).where(ours).order_by(sessions.c.id.desc())
            for old in connection.execute(newest).scalars().all()[most - 1 :]:
                end(connection, sessions, old, at)
            session_id = added(
                connection,
                insert(sessions).values(
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
            row = connection.execute(by_session(at).where(sessions.c.id == session_id)).one()
            return credential(row)

    def find(self, digest: str) -> Credential | None:
        """What a valid session proves."""
        with self._database.read() as connection:
            query = by_session(now(connection)).where(sessions.c.digest == digest)
            row = connection.execute(query).first()
        return None if row is None else credential(row)

    def of(self, author_id: int) -> list[SessionLine]:
        """An author's valid sessions, the oldest first."""
        table = sessions.c
        columns = (table.id, table.address, table.created_at, table.expires_at)
        with self._database.read() as connection:
            ours = and_(table.author_id == author_id, valid(sessions, now(connection)))
            rows = connection.execute(select(*columns).where(ours).order_by(table.id))
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
            ours = and_(sessions.c.author_id == author_id, sessions.c.id == session_id)
            query = select(sessions.c.id).where(ours, valid(sessions, at))
            if connection.execute(query).first() is None:
                raise NotOnLadder("there is no such session")
            end(connection, sessions, session_id, at)
            note(connection, at, AuditKind.SESSION, "", "ended", author_id=author_id, by=by)


def _token(connection: Connection, digest: str) -> Row[Any] | None:
    query = by_token(now(connection)).where(tokens.c.digest == digest)
    return connection.execute(query).first()
