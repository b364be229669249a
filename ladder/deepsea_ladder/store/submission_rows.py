"""Reads submissions: rows as people look at them, the order of checks, what an author has used.

Invariant: only reads; everything is of the running transaction.
"""

from __future__ import annotations

import json
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, func, select

from deepsea_bundle import names
from deepsea_ladder.errors import KeyReused, NotOnLadder, StoreDamaged, SubmissionError
from deepsea_ladder.model.bots import BotState, LadderBot
from deepsea_ladder.model.submissions import NewSubmission, Submission, SubmissionState
from deepsea_ladder.remote_limits import RemoteLimits
from deepsea_ladder.season import Season
from deepsea_ladder.store import schema
from deepsea_ladder.store.bots import own_bot
from deepsea_ladder.store.leases import Waiting
from deepsea_ladder.store.quotas import check_deadline, submitted
from deepsea_ladder.submission_limits import (
    DAY_MS,
    HOUR_MS,
    Usage,
    check_bots,
    check_limits,
)
from deepsea_ladder.values import Int64, utc_time

_rows, _bots = schema.submissions, schema.bots
LINE: Final = Waiting(_rows, SubmissionState.QUEUED, SubmissionState.CHECKING)
OPEN: Final = (SubmissionState.QUEUED, SubmissionState.CHECKING)
SELECT: Final[Select[Any]] = select(_rows, schema.authors.c.name.label("author")).join(
    schema.authors, schema.authors.c.id == _rows.c.author_id
)


def check_new(connection: Connection, new: NewSubmission, limits: RemoteLimits, at: int) -> None:
    """Refuse what may not be added now."""
    check_deadline(connection, at)
    check_isolation(connection, needs_sandbox=new.needs_sandbox)
    check_limits(limits, _usage(connection, new.author_id, at), new.size, at)
    if new.bot:
        names.checked("the bot's name", new.bot)
        bot = own_bot(connection, new.author_id, new.bot)
        check_another_bot(connection, limits, new.author_id, bot)


def _usage(connection: Connection, author_id: int, at: int) -> Usage:
    ours = _rows.c.author_id == author_id
    is_open = _rows.c.state.in_(OPEN)
    number, size = connection.execute(
        select(func.count(), func.coalesce(func.sum(_rows.c.size), 0)).where(ours, is_open)
    ).one()
    times = select(_rows.c.created_at).where(ours, _rows.c.created_at > at - DAY_MS)
    checks = select(_rows.c.changed_at, _rows.c.took_ms).where(
        ours, _rows.c.changed_at > at - HOUR_MS, _rows.c.took_ms > 0
    )
    waits = select(func.count()).where(_rows.c.state == SubmissionState.QUEUED)
    _, stored = submitted(connection, author_id, 0)
    return Usage(
        open=number,
        times=connection.execute(times.order_by(_rows.c.created_at)).scalars().all(),
        archives=stored + int(size),
        waiting=connection.execute(waits).scalar_one(),
        checks=[
            (row.changed_at, row.took_ms)
            for row in connection.execute(checks.order_by(_rows.c.changed_at))
        ],
    )


def bots_from_afar(connection: Connection) -> list[str]:
    """The names of active bots of which a version came from where strangers can submit."""
    theirs = (
        select(_bots.c.name)
        .join(_rows, _rows.c.bot == _bots.c.name)
        .where(
            _rows.c.state == SubmissionState.ACCEPTED,
            _rows.c.needs_sandbox,
            _bots.c.state == BotState.ACTIVE,
        )
    )
    return list(connection.execute(theirs.distinct().order_by(_bots.c.name)).scalars())


def check_isolation(connection: Connection, *, needs_sandbox: bool) -> None:
    """Refuse a stranger's bot while an open season would run it without a sandbox."""
    if not needs_sandbox:
        return
    table = schema.seasons
    opened = select(table.c.settings).where(table.c.closed_at.is_(None)).order_by(table.c.id)
    for settings in connection.execute(opened).scalars():
        if (season := Season.from_json(settings)).isolation == "process":
            raise SubmissionError(
                f"season {season.name} plays bots without a sandbox, so none are taken from afar"
            )


def check_another_bot(
    connection: Connection, limits: RemoteLimits, author_id: int, bot: LadderBot | None
) -> None:
    """Raise `LimitReached` if the author may not have this bot, too: a new or a withdrawn one."""
    if bot is None or bot.state is BotState.WITHDRAWN:
        there = (_bots.c.author_id == author_id, _bots.c.state != BotState.WITHDRAWN)
        count = connection.execute(select(func.count()).where(*there)).scalar_one()
        check_bots(limits, int(count))


def with_key(connection: Connection, new: NewSubmission) -> Submission | None:
    """The author's submission that has this key. `KeyReused` if it is of other bytes."""
    ours = (_rows.c.author_id == new.author_id, _rows.c.key == new.key)
    row = connection.execute(SELECT.where(*ours)).first()
    if row is None:
        return None
    if (row.sha256, row.size) != (new.sha256, new.size):
        raise KeyReused(f"the key {new.key!r} is that of another upload; choose a new one")
    return submission_of(row, LINE.places(connection))


def unknown(number: int) -> NotOnLadder:
    """The refusal of a submission that is not there, or not the asker's."""
    return NotOnLadder(f"there is no submission {number} of yours")


def get(connection: Connection, number: int, author_id: int | None = None) -> Submission:
    """A submission by its id, of that author if one is named; raises `unknown`."""
    row = connection.execute(SELECT.where(_rows.c.id == number)).first()
    if row is None or author_id not in (None, row.author_id):
        raise unknown(number)
    order = LINE.places(connection) if row.state == SubmissionState.QUEUED else {}
    return submission_of(row, order)


def submission_of(row: Row[Any], order: dict[int, int]) -> Submission:
    """A row of `SELECT`; `Waiting.places` has those that wait."""
    try:
        log = tuple(str(line) for line in json.loads(row.log or "[]"))
        state = SubmissionState(row.state)
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreDamaged(f"submission {row.id} is damaged: {error}") from None
    return Submission(
        id=Int64(row.id),
        bot=row.bot,
        author=row.author,
        state=state,
        ahead=order.get(row.id, 0),
        games=row.games,
        of_games=row.of_games,
        version=row.version,
        digest=row.digest or "",
        found=row.found or "",
        remedy=row.remedy or "",
        error=row.error or "",
        log=log,
        created_at=utc_time(row.created_at),
        changed_at=utc_time(row.changed_at),
    )
