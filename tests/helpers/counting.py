"""Counts of what a store sends to its database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import event

from deepsea_ladder.store import Store


@dataclass
class Sent:
    """What was sent to the database."""

    statements: list[str] = field(default_factory=list)
    transactions: int = 0


@contextmanager
def counted(*stores: Store) -> Iterator[Sent]:
    """Count the statements and transactions of these stores meanwhile."""
    sent = Sent()

    def statement(_connection: object, _cursor: object, text: str, *_: object) -> None:
        # SQLite's transactions are begun by a statement, too.
        if not text.startswith("BEGIN"):
            sent.statements.append(text)

    def begin(_connection: object) -> None:
        sent.transactions += 1

    engines = {store.database.engine for store in stores}
    for engine in engines:
        event.listen(engine, "before_cursor_execute", statement)
        event.listen(engine, "begin", begin)
    try:
        yield sent
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", statement)
            event.remove(engine, "begin", begin)
