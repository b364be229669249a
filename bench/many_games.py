"""Throughput: many games at once between the same processes, and on several workers.

Invariants: real processes that answer at once; decisions a second from the time when all tables are
taken until the first ones stay empty; the bare ping-pong is measured before and after each number
of tables, with messages as long as those of one game at a time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import NamedTuple

from deepsea_referee.match import play_match
from deepsea_referee.shared_match import run_match_with_workers
from figures import Row, Scale, at_least, beside, median, rate
from real import Pace, as_the_command_line, ping_pong_like_a_match, settings

WANTED = 16_000
RATIO = 3.0
PINGS = 200


class Sitting(NamedTuple):
    """A match to measure."""

    tables: int
    bots: int
    games: int


SITTINGS: dict[Scale, list[Sitting]] = {
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


WORKERS: dict[Scale, tuple[int, ...]] = {"tiny": (1, 2), "full": (1, 2, 4)}
GAMES: dict[Scale, int] = {"tiny": 12, "full": 6000}
REAL_GAMES: dict[Scale, int] = {"tiny": 12, "full": 1500}
TABLES = 16
SHARE = 0.8
"""Of the rate of one job this much is to be had from each core."""


def measure_workers(scale: Scale) -> Iterator[Row]:
    """The rows of `match --workers N`: does the throughput grow with the cores?

    Trusted bots are in the workers' own processes, so that a job keeps one core busy; the rate is
    that of games as they reach the process that counts them. With bots as processes one job keeps
    two cores busy and more: those rates are only there to be seen.
    """
    games, real = GAMES[scale], REAL_GAMES[scale]
    cores = len(os.sched_getaffinity(0))
    rates = {workers: _per_second(workers, games, in_process=True) for workers in WORKERS[scale]}
    for workers in WORKERS[scale][1:]:
        yield at_least(
            f"match --in-process --workers {workers}: decisions for each core, against one worker",
            f"{rates[workers]:,.0f}/s, {rates[1]:,.0f}/s",
            rates[workers] / rates[1] / min(workers, cores),
            SHARE,
            per_second=rates[workers],
        )
    for workers in WORKERS[scale]:
        per_second = _per_second(workers, real, in_process=False)
        yield beside(
            f"match --workers {workers} --tables {TABLES}",
            f"{per_second:,.0f} decisions/s",
            per_second=per_second,
        )


def _per_second(workers: int, games: int, *, in_process: bool) -> float:
    pace = Pace()
    run_match_with_workers(settings(games, TABLES), workers, pace.note, in_process=in_process)
    return pace.per_second()
