"""The audit log: what was refused, withdrawn, disabled or enabled, and why.

Invariant: an entry is written in the transaction of its change, so that neither is stored without
the other; entries are only added.
"""

from __future__ import annotations

from sqlalchemy import Connection, desc, insert, select

from deepsea_ladder.model import AuditEntry, AuditKind
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import Database
from deepsea_rules.printable import printable


def note(connection: Connection, at: int, kind: AuditKind, subject: str, words: str) -> None:
    """Add an entry to the running transaction."""
    note = printable(words, schema.LONGEST_NOTE)
    values = {"at": at, "kind": kind, "subject": subject, "note": note}
    connection.execute(insert(schema.audit), values)


class Audit:
    """Reading the log."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def latest(self, limit: int = 100, kind: AuditKind | None = None) -> list[AuditEntry]:
        """The newest entries, newest first."""
        query = select(schema.audit).order_by(desc(schema.audit.c.id)).limit(limit)
        if kind is not None:
            query = query.where(schema.audit.c.kind == kind)
        with self._database.read() as connection:
            return [
                AuditEntry(row.id, row.at, AuditKind(row.kind), row.subject, row.note)
                for row in connection.execute(query)
            ]
