"""Attributes elapsed time to the bot or to the host.

Wall time is the quick test. On a busy machine it is wrong: a bot that is ready to run but gets no
CPU has not used its time, and neither has a bot whose answer is unread because the referee gets no
CPU (this counts only from the referee's last check without an answer, or sleeping would be free).
So when a part of a decision's budget has passed, two readings are compared, and the time that the
host took is not charged. Two limits on that credit: CPU time of the bot's whole process tree is
always charged, so a bot earns no credit by threads that wait for each other's CPU; and when the
host takes too much, the time cannot be attributed and the game is void.

The kernel adds a wait to its statistics when the wait is over. So there is no timeout while a
thread of the bot or the referee is ready but perhaps without a CPU, up to LONGEST_READY_US.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

LOOKS: Final = 4
"""The first reading is taken when this part (one fourth) of the budget has passed."""
GRACE_US: Final = 250_000
"""On a busy host, the time for an answer that has just arrived to pass through the referee."""
BUSY_US: Final = 5_000
"""The host is busy if the referee waited for a CPU this long since the last check."""
AGAIN_US: Final = 20_000
"""Delay until the next check if a thread is ready but perhaps without a CPU."""
LONGEST_READY_US: Final = 2_000_000
"""The longest time by which ready threads postpone a timeout."""
PATIENCE: Final = 20
"""Wall time, as a multiple of the decision's limit, after which the game is void."""
PATIENCE_US: Final = 10_000_000
"""Wall time beyond the limit that must pass at least before the game is void."""


class Reading(NamedTuple):
    """CPU and waiting times up to one moment, in microseconds."""

    cpu_us: int
    """CPU time of the bot's whole process tree."""
    bot_waited_us: int
    """Time that the bot's threads were ready but had no CPU."""
    referee_waited_us: int
    """Time that the referee's threads were ready but had no CPU."""


class Gauge(Protocol):
    """Reads CPU and waiting times. Reading takes time too: use it sparingly."""

    def cpu_us(self) -> int:
        """CPU time of the bot's whole process tree."""

    def read(self) -> Reading:
        """All times."""

    def bot_is_ready(self) -> bool:
        """Whether a thread of the bot is running or waits for a CPU at this moment."""

    def referee_is_ready(self) -> bool:
        """Whether a thread of the referee, but not the caller, runs or waits for a CPU."""


def charged_us(wall_us: int, before: Reading, after: Reading, unread_us: int = 0) -> int:
    """The part of the wall time between two readings that is charged to the bot.

    unread_us  how long its answer may have been unread because the referee had no CPU
    """
    waited_us = after.bot_waited_us - before.bot_waited_us + unread_us
    worked_us = after.cpu_us - before.cpu_us
    return min(wall_us, max(wall_us - waited_us, worked_us))


def host_is_hopeless(wall_us: int, limit_us: int) -> bool:
    """Whether the host delayed a decision for so long that its time cannot be attributed."""
    return wall_us > max(PATIENCE * limit_us, limit_us + PATIENCE_US)
