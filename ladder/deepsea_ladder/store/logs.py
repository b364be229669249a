"""Logs of games with faults: what a bot left for its author.

Invariants: a log never costs a game its result, which is stored before and without it; of each bot
the newest KEPT games with faults have logs, and a log has at most LONGEST_OUTPUT bytes of output; a
seat without a fault in the game has none.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Final

from sqlalchemy import delete, insert, select

from deepsea_ladder.errors import StoreDamaged
from deepsea_ladder.model.games import SeatLog
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import Database
from deepsea_ladder.store.embargo import visible
from deepsea_ladder.store.history import no_such_game

KEPT: Final = 20
"""For each bot: so many of its newest games with faults keep their logs."""
LONGEST_OUTPUT: Final = 64 * 1024
LONGEST_ERROR: Final = 16 * 1024
_logs, _games, _seats = schema.game_logs, schema.games, schema.game_seats


class Logs:
    """The logs of a ladder's games."""

    def __init__(self, database: Database, *, public: bool = False) -> None:
        self._database = database
        self._public = public

    def add(self, seq: int, logs: Sequence[SeatLog]) -> None:
        """Keep the logs of a game that is stored; may be repeated."""
        versions = schema.bot_versions
        with self._database.write() as connection:
            query = (
                select(_seats.c.seat, versions.c.bot_id)
                .join(versions, versions.c.id == _seats.c.version_id)
                .where(_seats.c.seq == seq, _seats.c.faults > 0)
            )
            bots = {row.seat: row.bot_id for row in connection.execute(query)}
            there = set(
                connection.execute(select(_logs.c.seat).where(_logs.c.seq == seq)).scalars()
            )
            for log in logs:
                if log.seat not in bots or log.seat in there:
                    continue
                there.add(log.seat)
                bot_id = bots[log.seat]
                connection.execute(
                    insert(_logs).values(
                        seq=seq, seat=log.seat, bot_id=bot_id, content=_packed(log)
                    )
                )
                own = select(_logs.c.seq).where(_logs.c.bot_id == bot_id).distinct()
                oldest = own.order_by(_logs.c.seq.desc()).limit(1).offset(KEPT)
                if (last := connection.execute(oldest).scalar()) is not None:
                    connection.execute(
                        delete(_logs).where(_logs.c.bot_id == bot_id, _logs.c.seq <= last)
                    )

    def of_game(self, game_id: str) -> tuple[SeatLog, ...]:
        """The logs of a game, by seat; StoreError if there is no such game."""
        with self._database.read() as connection:
            query = (
                select(_games.c.seq)
                .join(schema.seasons, schema.seasons.c.id == _games.c.season_id)
                .where(_games.c.game_id == game_id, visible(public=self._public))
            )
            seq = connection.execute(query).scalar()
            if seq is None:
                raise no_such_game(game_id)
            rows = connection.execute(
                select(_logs.c.seat, _logs.c.content)
                .where(_logs.c.seq == seq)
                .order_by(_logs.c.seat)
            ).all()
        return tuple(_unpacked(row.seat, row.content) for row in rows)

    def of_bot(self, bot: str) -> dict[tuple[int, int], SeatLog]:
        """The logs of a bot's games, by the game's number in the order of rating and the seat."""
        bots = schema.bots
        with self._database.read() as connection:
            rows = connection.execute(
                select(_logs.c.seq, _logs.c.seat, _logs.c.content)
                .join(bots, bots.c.id == _logs.c.bot_id)
                .join(_games, _games.c.seq == _logs.c.seq)
                .join(schema.seasons, schema.seasons.c.id == _games.c.season_id)
                .where(bots.c.name == bot, visible(public=self._public))
            ).all()
        return {(row.seq, row.seat): _unpacked(row.seat, row.content) for row in rows}


def _packed(log: SeatLog) -> bytes:
    texts = (_end(log.error, LONGEST_ERROR), _end(log.output, LONGEST_OUTPUT))
    return zlib.compress(json.dumps(texts).encode())


def _unpacked(seat: int, content: bytes) -> SeatLog:
    try:
        error, output = json.loads(zlib.decompress(content))
    except (ValueError, RecursionError, zlib.error) as damage:
        raise StoreDamaged(f"the log of seat {seat} is damaged: {damage}") from None
    return SeatLog(seat, error, output)


def _end(text: str, most: int) -> str:
    data = text.encode("utf-8", "backslashreplace")
    return data[-most:].decode("utf-8", "ignore")
