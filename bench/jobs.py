"""`match --jobs N`: does the throughput grow with the cores?

Laws: trusted bots in the workers' own processes, so that a job keeps one core busy; the rate is
that of games as they reach the process that counts them. With bots as processes one job keeps two
cores busy and more: those rates are only there to be seen.
"""

from __future__ import annotations

import os
from typing import Final

from deepsea_referee.workers import run_match
from figures import Row, Scale, at_least, beside
from real import Pace, settings

JOBS: Final[dict[Scale, tuple[int, ...]]] = {"tiny": (1, 2), "full": (1, 2, 4)}
GAMES: Final[dict[Scale, int]] = {"tiny": 12, "full": 6000}
REAL_GAMES: Final[dict[Scale, int]] = {"tiny": 12, "full": 1500}
TABLES: Final = 16
SHARE: Final = 0.8
"""Of the rate of one job this much is to be had from each core."""


def measure(scale: Scale) -> list[Row]:
    """The rows of this goal."""
    games, real = GAMES[scale], REAL_GAMES[scale]
    cores = len(os.sched_getaffinity(0))
    rates = {jobs: _per_second(jobs, games, in_process=True) for jobs in JOBS[scale]}
    rows = [
        at_least(
            f"match --in-process --jobs {jobs}: decisions, for each core in use, against one job",
            f"{rates[jobs]:,.0f}/s, {rates[1]:,.0f}/s",
            rates[jobs] / rates[1] / min(jobs, cores),
            SHARE,
            per_second=rates[jobs],
        )
        for jobs in JOBS[scale][1:]
    ]
    for jobs in JOBS[scale]:
        per_second = _per_second(jobs, real, in_process=False)
        rows.append(
            beside(
                f"match --jobs {jobs} --tables {TABLES}",
                f"{per_second:,.0f} decisions/s",
                per_second=per_second,
            )
        )
    return rows


def _per_second(jobs: int, games: int, *, in_process: bool) -> float:
    pace = Pace()
    run_match(settings(games, TABLES), jobs, pace.note, in_process=in_process)
    return pace.per_second()
