"""Texts of bots in their games: errors, output and notes.

Invariants: a log never costs a game its result, which is stored before and without it; of each bot
the newest games with faults have logs, and the newest others what it noted in them.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, Row, delete, exists, insert, select

from deepsea_ladder.errors import StoreDamaged
from deepsea_ladder.model import GameNote, SeatLog
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import StorePart
from deepsea_ladder.store.history import no_such_game

_logs, _games, _seats = schema.game_logs, schema.games, schema.game_seats
_bots, _versions = schema.bots, schema.bot_versions
_WITH_BOT = (
    select(_games.c.seq, _logs.c.seat, _bots.c.name, _versions.c.number, _logs.c.content)
    .select_from(_games)
    .outerjoin(_logs, _logs.c.seq == _games.c.seq)
    .outerjoin(_seats, (_seats.c.seq == _logs.c.seq) & (_seats.c.seat == _logs.c.seat))
    .outerjoin(_versions, _versions.c.id == _seats.c.version_id)
    .outerjoin(_bots, _bots.c.id == _versions.c.bot_id)
)
"""Each log with its bot and version; a game without logs has a row without one."""
KEPT = 20
"""For each bot: so many of its newest games with faults keep their logs,"""
KEPT_NOTES = 100
"""and so many of its newest other games their notes."""
LONGEST_OUTPUT = 64 * 1024


class Logs(StorePart):
    def add(self, seq: int, logs: Sequence[SeatLog]) -> None:
        """Keep the logs of a game that is stored; may be repeated.

        Of a seat without a fault, only its notes are kept.
        """
        with self._database.write() as connection:
            query = (
                select(_seats.c.seat, _versions.c.bot_id, _seats.c.faults)
                .join(_versions, _versions.c.id == _seats.c.version_id)
                .where(_seats.c.seq == seq)
            )
            seats = {row.seat: row for row in connection.execute(query)}
            there = set(
                connection.execute(select(_logs.c.seat).where(_logs.c.seq == seq)).scalars()
            )
            for log in logs:
                if log.seat not in seats or log.seat in there:
                    continue
                _, bot_id, faults = seats[log.seat]
                if not faults and not log.notes:
                    continue
                there.add(log.seat)
                kept = log if faults else replace(log, error="", output="")
                connection.execute(
                    insert(_logs).values(
                        seq=seq, seat=log.seat, bot_id=bot_id, content=_packed(kept)
                    )
                )
                _forget_old(connection, bot_id, faulty=bool(faults))

    def of_game(self, game_id: str) -> tuple[SeatLog, ...]:
        """The logs of a game, by seat; StoreError if there is no such game."""
        query = _WITH_BOT.where(_games.c.game_id == game_id).order_by(_logs.c.seat)
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        if not rows:
            raise no_such_game(game_id)
        return tuple(_seat_log(row) for row in rows if row.seat is not None)

    def of_bot(self, bot: str) -> dict[tuple[int, int], SeatLog]:
        """The logs of a bot's games, by the game's number in the order of rating and the seat."""
        of_bot = select(_bots.c.id).where(_bots.c.name == bot).scalar_subquery()
        with self._database.read() as connection:
            rows = connection.execute(_WITH_BOT.where(_logs.c.bot_id == of_bot)).all()
        return {(row.seq, row.seat): _seat_log(row) for row in rows}


def _forget_old(connection: Connection, bot_id: int, *, faulty: bool) -> None:
    """Delete what a bot left of all but its newest games with faults, or without."""
    same = (_seats.c.seq == _logs.c.seq) & (_seats.c.seat == _logs.c.seat)
    kind = exists().where(same, _seats.c.faults > 0 if faulty else _seats.c.faults == 0)
    own = select(_logs.c.seq).where(_logs.c.bot_id == bot_id, kind).distinct()
    oldest = own.order_by(_logs.c.seq.desc()).limit(1).offset(KEPT if faulty else KEPT_NOTES)
    if (last := connection.execute(oldest).scalar()) is not None:
        connection.execute(delete(_logs).where(_logs.c.bot_id == bot_id, _logs.c.seq <= last, kind))


def _packed(log: SeatLog) -> bytes:
    error, output = _end(log.error, schema.LONGEST_ERROR), _end(log.output, LONGEST_OUTPUT)
    return zlib.compress(msgspec.json.encode((error, output, log.notes)))


_unpacked = msgspec.json.Decoder(tuple[str, str, tuple[GameNote, ...]]).decode


def _seat_log(row: Row[*tuple[Any, ...]]) -> SeatLog:
    """The log in a row of `_WITH_BOT`."""
    try:
        error, output, notes = _unpacked(zlib.decompress(row.content))
    except (ValueError, RecursionError, zlib.error) as damage:
        raise StoreDamaged(f"the log of seat {row.seat} is damaged: {damage}") from None
    return SeatLog(row.seat, f"{row.name} v{row.number}", error, output, notes)


def _end(text: str, most: int) -> str:
    data = text.encode("utf-8", "backslashreplace")
    return data[-most:].decode("utf-8", "ignore")
