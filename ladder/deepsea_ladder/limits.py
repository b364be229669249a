"""How many analyses an author may ask for.

Invariants: pure; a refusal that waiting helps against says for how many seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from deepsea_ladder.errors import LimitReached
from deepsea_ladder.remote_limits import RemoteLimits
from deepsea_ladder.submission_limits import DAY_MS, SOON_S


def check_author(limits: RemoteLimits, times: Sequence[int], at: int) -> None:
    """Raise `LimitReached` if an author may not ask now, in milliseconds since 1970.

    times  when the author asked within the last day, in order
    """
    lately = [time for time in times if time > at - DAY_MS]
    most = limits.analyses_per_day
    if len(lately) >= most:
        wait = None if most == 0 else max(1, -(-(lately[-most] + DAY_MS - at) // 1000))
        raise LimitReached(
            f"you have asked for the analysis of {len(lately)} games within a day; at most {most} "
            "are taken",
            wait,
        )


def check_queue(limits: RemoteLimits, waiting: int) -> None:
    """Raise `LimitReached` if so many analyses wait that no more are taken."""
    if waiting >= limits.analysis_queue:
        raise LimitReached(f"{waiting} analyses wait already; no more are taken", SOON_S)
