"""Many games at once between the same processes, over the same streams.

Invariants: real processes that answer at once; decisions a second from the time when all tables are
taken until the first ones stay empty; the bare ping-pong is measured before and after each number
of tables, with messages as long as those of one game at a time.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from deepsea_referee.match import play_match
from figures import Row, Scale, at_least, beside, median, rate
from real import Pace, as_the_command_line, ping_pong_like_a_match, settings

WANTED: Final = 16_000
RATIO: Final = 3.0
PINGS: Final = 200


class Sitting(NamedTuple):
    """A match to measure."""

    tables: int
    bots: int
    games: int


SITTINGS: Final[dict[Scale, list[Sitting]]] = {
    "tiny": [Sitting(1, 2, 3), Sitting(4, 2, 12)],
    "full": [
        Sitting(1, 2, 150),
        Sitting(16, 2, 1500),
        Sitting(64, 2, 2000),
        Sitting(128, 2, 2500),
        Sitting(64, 4, 1500),
    ],
}


def measure(scale: Scale) -> list[Row]:
    """The rows of this goal."""
    with as_the_command_line():
        return asyncio.run(_measure(SITTINGS[scale]))


async def _measure(sittings: list[Sitting]) -> list[Row]:
    rates: dict[Sitting, float] = {}
    async with ping_pong_like_a_match() as (ping_pong, _):
        pings = [await ping_pong.seconds(PINGS)]
        for sitting in sittings:
            pace = Pace()
            await play_match(settings(sitting.games, sitting.tables, sitting.bots), pace.note)
            rates[sitting] = pace.per_second()
            pings.append(await ping_pong.seconds(PINGS))
    bare = 1 / median(pings)
    rows = [
        beside(
            f"{sitting.bots} bots, {sitting.tables} {'table' if sitting.tables == 1 else 'tables'}",
            f"{per_second:,.0f} decisions/s",
            per_second=per_second,
        )
        for sitting, per_second in rates.items()
    ]
    best = max(rates.values())
    rows.append(
        at_least(
            "many games at once: decisions, against bare ping-pongs",
            f"{best:,.0f}/s, {bare:,.0f}/s",
            best / bare,
            RATIO,
            decisions_per_second=best,
            pings_per_second=bare,
        )
    )
    rows.append(rate("many games at once: decisions", best, WANTED))
    return rows
