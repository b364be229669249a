"""Games as tasks: how attempts at them end, and when they wait again.

Invariants: every attempt at a game that ends without a result has a place in its season's chain; a
game that is cancelled because a bot was taken out says so.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, select, update

from deepsea_ladder.chain import lost_line
from deepsea_ladder.model import AttemptEnd, BotState, LostAttempt, TaskKind, TaskState
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import add_link, last_link
from deepsea_ladder.store.history import versions_of
from deepsea_ladder.store.tasks import Tasks
from deepsea_rules.printable import printable

GAMES = Tasks(TaskKind.GAME)
_OUT = [state for state in BotState if state is not BotState.ACTIVE]
"""States of bots that were taken out. A bot whose state is damaged is in none of them."""
_attempts, _tasks = schema.attempts, schema.tasks
_OPEN = (
    _attempts.c.job_id == bindparam("of_job"),
    _attempts.c.attempt == bindparam("of_attempt"),
    _attempts.c.ended.is_(None),
)
_IS_OPEN = select(_attempts.c.owner).where(*_OPEN)
_END = update(_attempts).where(*_OPEN)
_GAME_ID = select(schema.jobs.c.game_id).where(schema.jobs.c.id == bindparam("job"))
_LOST = (
    select(_attempts.c.season_id, _attempts.c.ended, func.count())
    .where(_attempts.c.season_id.in_(select(schema.seasons.c.id)), _attempts.c.place > 0)
    .group_by(_attempts.c.season_id, _attempts.c.ended)
)


def game_id_of(connection: Connection, task: Row[Any]) -> str:
    """The id of a task's game."""
    return str(connection.execute(_GAME_ID, {"job": task.subject}).scalar_one())


def end_attempt(
    connection: Connection,
    task: Row[Any],
    attempt: int,
    ended: AttemptEnd,
    words: str | None,
    at: int,
    seat: int | None = None,
) -> None:
    """Note how an attempt at a game ended, unless that is known."""
    which = {"of_job": task.subject, "of_attempt": attempt}
    reason = words and printable(words, schema.LONGEST_NOTE)
    values = {"ended": ended, "ended_at": at, "seat": seat, "note": reason}
    if ended is not AttemptEnd.DONE:  # a result has its place with its game
        if connection.execute(_IS_OPEN, which).first() is None:
            return
        link = last_link(connection, task.season_id)
        lost = LostAttempt(
            place=link.place + 1,
            game_id=game_id_of(connection, task),
            attempt=attempt - 1,
            ended=ended,
            ended_at=at,
            reason=reason,
            seat=seat,
            lineup=versions_of(connection, task.subject),
        )
        head = add_link(connection, task.season_id, link, lost_line(link.season, lost))
        values |= {"place": lost.place, "head": head}
    connection.execute(_END, which | values)


def lost_counts(connection: Connection) -> dict[int, Counter[AttemptEnd]]:
    """The number of attempts without a result of each season, by its id and by how they ended."""
    found: dict[int, Counter[AttemptEnd]] = defaultdict(Counter)
    for season, ended, count in connection.execute(_LOST):
        found[season][ended] = count
    return found


def give_back(connection: Connection, task: Row[Any], at: int, **values: object) -> TaskState:
    """Let a game wait again, unless a bot of its line-up was taken out or the season closed."""
    seats, versions, bots = schema.job_seats, schema.bot_versions, schema.bots
    out = connection.execute(
        select(bots.c.name, bots.c.state)
        .join(versions, versions.c.bot_id == bots.c.id)
        .join(seats, seats.c.version_id == versions.c.id)
        .where(seats.c.job_id == task.subject, bots.c.state.in_(_OUT))
        .order_by(seats.c.seat)
    ).first()
    seasons = schema.seasons
    closed_at = select(seasons.c.closed_at).where(seasons.c.id == task.season_id)
    state = TaskState.QUEUED
    if out:
        state, values["words"] = TaskState.CANCELLED, f"{out.name} is {out.state}"
    elif connection.execute(closed_at).scalar_one() is not None:
        state, values["words"] = TaskState.CANCELLED, "the season was closed"
    GAMES.end(connection, task.subject, at, state, **values)
    return state


def cancel_games_of(connection: Connection, bot_id: int, reason: str, at: int) -> None:
    """Cancel waiting games with any version of a bot; those that are being played are finished."""
    versions, seats = schema.bot_versions, schema.job_seats
    ours = connection.execute(select(versions.c.id).where(versions.c.bot_id == bot_id))
    sits = (
        select(seats.c.job_id)
        .where(
            seats.c.version_id.in_(ours.scalars().all()),
            seats.c.season_id == _tasks.c.season_id,
            seats.c.job_id == _tasks.c.subject,
        )
        .correlate(_tasks)
        .exists()
    )
    GAMES.cancel_waiting(connection, at, reason, sits)
