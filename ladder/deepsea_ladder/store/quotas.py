"""How much an author has submitted, and whether there may be more.

Invariants: each open season's limits hold, counted from its opening; without an open season the
usual limits hold for everything; a tournament's season has no deadline of its own.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import Connection, func, select

from deepsea_ladder.errors import SubmissionError
from deepsea_ladder.season import Season
from deepsea_ladder.store import schema
from deepsea_ladder.upload_limits import UploadLimits

_MIB: Final = 1 << 20
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def check_deadline(connection: Connection, at: int) -> None:
    """Raise `SubmissionError` if an open season took in bots until a time before `at`."""
    table = schema.seasons
    over = table.c.submissions_until <= at
    query = select(table).where(table.c.closed_at.is_(None), over).order_by(table.c.id).limit(1)
    if (row := connection.execute(query).first()) is not None:
        until = _EPOCH + timedelta(milliseconds=row.submissions_until)
        raise SubmissionError(
            f"season {row.name} has taken in bots until {until:%Y-%m-%d %H:%M} UTC, and that time "
            "is over"
        )


def check_quota(connection: Connection, author_id: int, author: str, more_bytes: int = 0) -> None:
    """Raise `SubmissionError` if the author may not submit a version of so many packed bytes."""
    table = schema.seasons
    opened = select(table).where(table.c.closed_at.is_(None)).order_by(table.c.id)
    seasons = [
        (f"season {row.name}", Season.from_json(row.settings).uploads, row.created_at)
        for row in connection.execute(opened)
    ]
    for where, limits, since in seasons or [("a ladder without a season", UploadLimits(), 0)]:
        versions, size = submitted(connection, author_id, since)
        if versions >= limits.versions:
            raise SubmissionError(
                f"{author} has submitted {versions} versions since the opening; {where} takes at "
                f"most {limits.versions} of an author"
            )
        if size + more_bytes > limits.mib * _MIB:
            raise SubmissionError(
                f"with these files {author}'s versions take {(size + more_bytes) / _MIB:.1f} MiB; "
                f"{where} takes at most {limits.mib} MiB of an author"
            )


def submitted(connection: Connection, author_id: int, since: int) -> tuple[int, int]:
    """An author's versions since a time: how many, and the bytes of their files as stored."""
    versions, bots, archives = schema.bot_versions, schema.bots, schema.archives
    ours = (
        select(versions.c.digest)
        .join(bots, bots.c.id == versions.c.bot_id)
        .where(bots.c.author_id == author_id, versions.c.created_at >= since)
    )
    count = select(func.count()).select_from(ours.subquery())
    size = select(func.coalesce(func.sum(func.length(archives.c.content)), 0)).where(
        archives.c.digest.in_(ours)
    )
    return connection.execute(count).scalar_one(), int(connection.execute(size).scalar_one())
