"""`match --workers N`: does the throughput grow with the cores?

Invariants: trusted bots in the workers' own processes, so that a job keeps one core busy; the rate
is that of games as they reach the process that counts them. With bots as processes one job keeps
two cores busy and more: those rates are only there to be seen.
"""

from __future__ import annotations

import os
from typing import Final

from deepsea_referee.shared_match import run_match
from figures import Row, Scale, at_least, beside
from real import Pace, settings

WORKERS: Final[dict[Scale, tuple[int, ...]]] = {"tiny": (1, 2), "full": (1, 2, 4)}
GAMES: Final[dict[Scale, int]] = {"tiny": 12, "full": 6000}
REAL_GAMES: Final[dict[Scale, int]] = {"tiny": 12, "full": 1500}
TABLES: Final = 16
SHARE: Final = 0.8
"""Of the rate of one job this much is to be had from each core."""


def measure(scale: Scale) -> list[Row]:
    """The rows of this goal."""
    games, real = GAMES[scale], REAL_GAMES[scale]
    cores = len(os.sched_getaffinity(0))
    rates = {workers: _per_second(workers, games, in_process=True) for workers in WORKERS[scale]}
    rows = [
        at_least(
            f"match --in-process --workers {workers}: decisions for each core, against one worker",
            f"{rates[workers]:,.0f}/s, {rates[1]:,.0f}/s",
            rates[workers] / rates[1] / min(workers, cores),
            SHARE,
            per_second=rates[workers],
        )
        for workers in WORKERS[scale][1:]
    ]
    for workers in WORKERS[scale]:
        per_second = _per_second(workers, real, in_process=False)
        rows.append(
            beside(
                f"match --workers {workers} --tables {TABLES}",
                f"{per_second:,.0f} decisions/s",
                per_second=per_second,
            )
        )
    return rows


def _per_second(workers: int, games: int, *, in_process: bool) -> float:
    pace = Pace()
    run_match(settings(games, TABLES), workers, pace.note, in_process=in_process)
    return pace.per_second()
