"""CPU time that a bot uses outside of its turns, from samples of its pauses.

Invariants: a bot that only waits has a share near 0; sampling costs little, so pauses are sampled
at most every SAMPLES_US; a bot is named only if `computes_off_turn` finds enough evidence.

A pause includes the end of the bot's last answer and what its runtime does after it (garbage
collection, compilation). So a share alone proves nothing where all bots answer at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Protocol

SAMPLES_US: Final = 100_000
"""Shortest interval between two samples of a bot's CPU time outside of its turns."""
WARM_UP_US: Final = 1_000_000
"""Pauses that begin within this time after the first one prove nothing: runtimes are warming up."""
ANSWER_END_US: Final = 5_000
"""CPU time at the start of each pause that may be the end of the last answer."""
THRESHOLD: Final = 0.5
"""The share above which a bot is said to compute outside of its turns."""
LEAST_PAUSES: Final = 20
LEAST_CPU_US: Final = 1_000_000
STANDARD_ERRORS: Final = 3.0
"""Distance from the measured share to the lower end of its interval."""


class CpuGauge(Protocol):
    """Reads CPU times."""

    def cpu_us(self) -> int:
        """CPU time of the bot's whole process tree."""


@dataclass(slots=True)
class Evidence:
    """Sums over sampled pauses, without warm-up and without the end of the last answer."""

    pauses: int = 0
    cpu_us: int = 0
    wall_us: int = 0
    cpu_squares: int = 0
    wall_squares: int = 0
    products: int = 0

    def add_pause(self, cpu_us: int, wall_us: int) -> None:
        cpu_us = max(0, cpu_us - ANSWER_END_US)
        self.add(Evidence(1, cpu_us, wall_us, cpu_us**2, wall_us**2, cpu_us * wall_us))

    def add(self, other: Evidence) -> None:
        """Add the pauses of another process of the same bot."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def computes_off_turn(found: Evidence) -> bool:
    """Whether a bot certainly uses more than THRESHOLD of its pauses.

    True only with LEAST_PAUSES pauses and LEAST_CPU_US of CPU time, and if the lower end of the
    share's interval (a ratio of sums, STANDARD_ERRORS standard errors wide) exceeds THRESHOLD.
    """
    if found.pauses < LEAST_PAUSES or found.cpu_us < LEAST_CPU_US:
        return False
    share = found.cpu_us / found.wall_us
    squares = found.cpu_squares - 2 * share * found.products + share**2 * found.wall_squares
    deviation = math.sqrt(max(0.0, squares) / (found.pauses - 1))
    error = deviation * math.sqrt(found.pauses) / found.wall_us
    return share - STANDARD_ERRORS * error > THRESHOLD


class OffTurn:
    """CPU time of a bot outside of its turns, as a share of sampled pauses."""

    def __init__(self) -> None:
        self.cpu_us = 0
        self.wall_us = 0
        self.evidence = Evidence()
        self._warm_us: int | None = None
        self._next_us = 0
        self._since: tuple[int, int] | None = None

    @property
    def share(self) -> float | None:
        """CPU time for each second of the sampled pauses; None if there were none."""
        return self.cpu_us / self.wall_us if self.wall_us else None

    def add(self, other: OffTurn) -> None:
        """Add the samples of another process of the same bot."""
        self.cpu_us += other.cpu_us
        self.wall_us += other.wall_us
        self.evidence.add(other.evidence)

    def begin(self, now_us: int, gauge: CpuGauge) -> None:
        """Start a pause: the bot has answered all requests."""
        if self._warm_us is None:
            self._warm_us = now_us + WARM_UP_US
        if now_us >= self._next_us:
            self._next_us = now_us + SAMPLES_US
            self._since = (now_us, gauge.cpu_us())

    def end(self, now_us: int, gauge: CpuGauge) -> None:
        """End the pause: the bot gets a new request."""
        if self._since is None:
            return
        (since_us, cpu_us), self._since = self._since, None
        wall_us, used_us = now_us - since_us, gauge.cpu_us() - cpu_us
        self.wall_us += wall_us
        self.cpu_us += used_us
        assert self._warm_us is not None
        if since_us >= self._warm_us:
            self.evidence.add_pause(used_us, wall_us)
