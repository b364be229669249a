"""Whose time it was: the bot's, or the host's.

Wall time is the quick test. On a busy machine it lies: a bot that is ready to work but gets no CPU
has not used its time, and neither has one whose answer lies unread because the referee gets none
(only since the referee last looked and found no answer, or a sleeper would sleep for free).
So past a part of a decision's budget two readings are compared, and what the host took is not
charged. That credit is bounded twice: CPU time of the bot's whole process tree is always charged,
so no bot earns credit by making threads that wait for each other's CPU; and when the host takes
too much, nothing can be told any more and the game is void.

The system adds a wait to its accounts when it is over. So no timeout is called while a thread of
the bot's or of the referee's is ready but perhaps without a CPU, for some time at least.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

LOOKS: Final = 4
"""The first reading is taken when this part (one fourth) of the budget has passed."""
GRACE_US: Final = 250_000
"""On a busy host an answer that has just come gets this long to pass through the referee."""
BUSY_US: Final = 5_000
"""The host is busy if the referee waited for a CPU this long since it last looked."""
AGAIN_US: Final = 20_000
"""How soon to look again where somebody is ready but perhaps without a CPU."""
LONGEST_READY_US: Final = 2_000_000
"""For how long that puts a timeout off."""
PATIENCE: Final = 20
"""How many times a decision's limit may pass on the wall before the host is given up on."""
PATIENCE_US: Final = 10_000_000
"""And how long it lasts at least."""
SAMPLES_US: Final = 100_000
"""How often, at most, a pause between a bot's turns is measured for what it does meanwhile."""


class Reading(NamedTuple):
    """What was used up to one moment, in microseconds."""

    cpu_us: int
    """CPU time of the bot's whole process tree."""
    bot_waited_us: int
    """How long the bot's threads were ready but had no CPU."""
    referee_waited_us: int
    """The same of the referee."""


class Gauge(Protocol):
    """Reads what is used; the less of it the better, for reading takes time too."""

    def cpu_us(self) -> int:
        """CPU time of the bot's whole process tree."""

    def read(self) -> Reading:
        """Everything."""

    def bot_is_ready(self) -> bool:
        """Whether a thread of the bot's is running or waits for a CPU at this moment."""

    def referee_is_ready(self) -> bool:
        """The same of the referee, but for the thread that asks."""


def charged_us(wall_us: int, before: Reading, after: Reading, unread_us: int = 0) -> int:
    """How much of a stretch of wall time between two readings the bot has to pay for.

    unread_us  how long its answer may have lain unread, because the referee had no CPU
    """
    waited_us = after.bot_waited_us - before.bot_waited_us + unread_us
    worked_us = after.cpu_us - before.cpu_us
    return min(wall_us, max(wall_us - waited_us, worked_us))


def host_is_hopeless(wall_us: int, limit_us: int) -> bool:
    """Whether a decision has hung on the host for so long that nothing can be told."""
    return wall_us > max(PATIENCE * limit_us, limit_us + PATIENCE_US)


class OffTurn:
    """What a bot does while it is not asked: CPU time as a share of some pauses between turns.

    A bot that only waits has a share near 0; the end of its last answer is in it, so that where
    everybody answers at once some hundredths are nothing to worry about.
    """

    def __init__(self) -> None:
        self.cpu_us = 0
        self.wall_us = 0
        self._next_us = 0
        self._since: tuple[int, int] | None = None

    @property
    def share(self) -> float | None:
        """CPU time for each second of the pauses that were measured; None if there were none."""
        return self.cpu_us / self.wall_us if self.wall_us else None

    def add(self, other: OffTurn) -> None:
        """Take in what another process of the same bot did."""
        self.cpu_us += other.cpu_us
        self.wall_us += other.wall_us

    def begin(self, now_us: int, gauge: Gauge) -> None:
        """The bot has answered all that it was asked."""
        if now_us >= self._next_us:
            self._next_us = now_us + SAMPLES_US
            self._since = (now_us, gauge.cpu_us())

    def end(self, now_us: int, gauge: Gauge) -> None:
        """The bot is asked again."""
        if self._since is not None:
            since_us, cpu_us = self._since
            self.wall_us += now_us - since_us
            self.cpu_us += gauge.cpu_us() - cpu_us
            self._since = None
