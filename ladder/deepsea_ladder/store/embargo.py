"""Which seasons strangers may see: those without an embargo, and those whose embargo is over.

Invariants: an embargo is set when a season opens and never changed, so a season that was shown once
stays visible; whether it is over is decided by the database's clock, in the query that reads; a
store that was opened as public reads seasons, games, records and logs through this condition alone.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, or_, true

from deepsea_ladder.store import schema
from deepsea_ladder.store.database import database_now

_until = schema.seasons.c.embargo_until


def visible(*, public: bool) -> ColumnElement[bool]:
    """The condition on a season; the operator sees all of them."""
    return or_(_until.is_(None), _until <= database_now()) if public else true()


def embargoed() -> ColumnElement[bool]:
    """The condition of a season whose embargo is not over."""
    return _until > database_now()
