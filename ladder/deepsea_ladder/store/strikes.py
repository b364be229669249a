"""Disables bots by their strikes, in the transaction of the result or void game that was one.

Invariant: what counts is read from games and attempts, so there are no counters that could differ
from them; games of former versions, or from before the bot was submitted or enabled, do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, or_, select

from deepsea_ladder.model.bots import BotConduct, BotState
from deepsea_ladder.model.jobs import AttemptEnd
from deepsea_ladder.model.seasons import StoredSeason
from deepsea_ladder.rating.totals import SeatResult
from deepsea_ladder.store import schema
from deepsea_ladder.store.bots import take_out
from deepsea_ladder.store.database import Database
from deepsea_ladder.strikes import Appearance, Conduct, StrikeRules, conduct

_bots, _versions = schema.bots, schema.bot_versions


class Strikes:
    """The strikes of a ladder's bots."""

    def __init__(self, database: Database, rules: StrikeRules) -> None:
        self._database = database
        self._rules = rules

    def standing(self, season: StoredSeason) -> list[BotConduct]:
        """What counts against active bots in the season, by their names."""
        with self._database.read() as connection:
            query = _playing().order_by(_bots.c.name_key)
            found = [
                (bot.name, _conduct(connection, season.id, bot, self._rules))
                for bot in connection.execute(query).all()
            ]
        return [
            BotConduct(bot=bot, absences=one.absences, spoiled=one.spoiled, voids=one.voids)
            for bot, one in found
            if one.spoiled or one.voids
        ]


def disable_strikers(
    connection: Connection,
    rules: StrikeRules,
    season_id: int,
    version_ids: Sequence[int],
    cause: str,
    at: int,
) -> tuple[str, ...]:
    """Disable those of the versions' bots that have too many strikes; returns their names.

    cause  the game that was the last one, for the reason
    """
    playing = connection.execute(
        _playing().where(_versions.c.id.in_(version_ids)).order_by(_bots.c.id)
    ).all()
    disabled = []
    for bot in playing:
        reason = _conduct(connection, season_id, bot, rules).verdict(rules)
        if reason is not None:
            words = f"{reason}, the last {cause}; fix it and submit it again, or enable it"
            take_out(connection, bot.id, bot.name, BotState.DISABLED, words, at)
            disabled.append(str(bot.name))
    return tuple(disabled)


def _playing() -> Any:
    """Active bots with their present versions."""
    return (
        select(_bots.c.id, _bots.c.name, _bots.c.changed_at, _versions.c.id.label("version_id"))
        .join(_versions, _versions.c.bot_id == _bots.c.id)
        .where(_versions.c.number == _bots.c.version, _bots.c.state == BotState.ACTIVE)
    )


def _conduct(connection: Connection, season_id: int, bot: Row[Any], rules: StrikeRules) -> Conduct:
    seats, attempts = schema.job_seats, schema.attempts
    games, results = schema.games, schema.game_seats
    rows = connection.execute(
        select(
            results,
            games.c.seq.label("game"),
            attempts.c.seat.label("void"),
            seats.c.seat.label("own_seat"),
        )
        .select_from(seats)
        .join(attempts, attempts.c.job_id == seats.c.job_id)
        .outerjoin(
            games,
            (games.c.job_id == attempts.c.job_id) & (games.c.attempt == attempts.c.attempt),
        )
        .outerjoin(results, (results.c.seq == games.c.seq) & (results.c.seat == seats.c.seat))
        .where(
            seats.c.version_id == bot.version_id,
            seats.c.season_id == season_id,
            or_(
                games.c.seq.is_not(None),
                (attempts.c.ended == AttemptEnd.VOID) & attempts.c.seat.is_not(None),
            ),
            func.coalesce(games.c.played_at, attempts.c.ended_at) >= bot.changed_at,
        )
        .order_by(seats.c.job_id.desc(), attempts.c.attempt.desc())
        .limit(rules.attempts + rules.games)  # void games come between those that count
    )
    return conduct([_appearance(row) for row in rows], rules)


def _appearance(row: Row[Any]) -> Appearance:
    if row.game is None:
        return Appearance(None, asked=row.void == row.own_seat)
    return Appearance(
        SeatResult(
            row.version_id, row.points, row.placement, row.decisions, row.faults, row.forfeit
        )
    )
