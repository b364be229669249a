"""What bots wrote in their games: errors, output and notes.

Invariants: a log never costs a game its result, which is stored before and without it; of each bot
the newest games with faults have logs, and the newest others what it noted in them.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, delete, exists, insert, select

from deepsea_ladder.errors import StoreDamaged
from deepsea_ladder.model.games import GameNote, SeatLog
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import StorePart
from deepsea_ladder.store.history import no_such_game

_logs, _games, _seats = schema.game_logs, schema.games, schema.game_seats
KEPT = 20
"""For each bot: so many of its newest games with faults keep their logs,"""
KEPT_NOTES = 100
"""and so many of its newest other games their notes."""
LONGEST_OUTPUT = 64 * 1024


class _Content(msgspec.Struct, array_like=True):
    """The text of a log."""

    error: str
    output: str
    notes: tuple[GameNote, ...]


class Logs(StorePart):
    def add(self, seq: int, logs: Sequence[SeatLog]) -> None:
        """Keep the logs of a game that is stored; may be repeated.

        Of a seat without a fault, only its notes are kept.
        """
        versions = schema.bot_versions
        with self._database.write() as connection:
            query = (
                select(_seats.c.seat, versions.c.bot_id, _seats.c.faults)
                .join(versions, versions.c.id == _seats.c.version_id)
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
                kept = log if faults else SeatLog(log.seat, "", "", log.notes)
                connection.execute(
                    insert(_logs).values(
                        seq=seq, seat=log.seat, bot_id=bot_id, content=_packed(kept)
                    )
                )
                _forget_old(connection, bot_id, faulty=bool(faults))

    def of_game(self, game_id: str) -> tuple[SeatLog, ...]:
        """The logs of a game, by seat; StoreError if there is no such game."""
        query = (
            select(_logs.c.seat, _logs.c.content)
            .select_from(_games)
            .outerjoin(_logs, _logs.c.seq == _games.c.seq)
            .where(_games.c.game_id == game_id)
            .order_by(_logs.c.seat)
        )
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        if not rows:
            raise no_such_game(game_id)
        return tuple(_unpacked(seat, content) for seat, content in rows if seat is not None)

    def of_bot(self, bot: str) -> dict[tuple[int, int], SeatLog]:
        """The logs of a bot's games, by the game's number in the order of rating and the seat."""
        bots = schema.bots
        with self._database.read() as connection:
            rows = connection.execute(
                select(_logs.c.seq, _logs.c.seat, _logs.c.content)
                .join(bots, bots.c.id == _logs.c.bot_id)
                .where(bots.c.name == bot)
            ).all()
        return {(row.seq, row.seat): _unpacked(row.seat, row.content) for row in rows}


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
    return zlib.compress(msgspec.json.encode(_Content(error, output, log.notes)))


def _unpacked(seat: int, content: bytes) -> SeatLog:
    try:
        found = msgspec.json.decode(zlib.decompress(content), type=_Content)
    except (ValueError, RecursionError, zlib.error) as damage:
        raise StoreDamaged(f"the log of seat {seat} is damaged: {damage}") from None
    return SeatLog(seat, found.error, found.output, found.notes)


def _end(text: str, most: int) -> str:
    data = text.encode("utf-8", "backslashreplace")
    return data[-most:].decode("utf-8", "ignore")
