"""Attributes elapsed time to the bot or to the host.

Wall time is the quick test. On a busy machine it is wrong: a bot that is ready to run but gets no
CPU has not used its time, and neither has a bot whose answer is unread because the referee gets no
CPU (this counts only from the referee's last look without an answer, or sleeping would be free).

Invariants: the credit is what the bot as a whole was denied, and never more than others used of
the CPUs meanwhile. No bot is charged less than its busiest thread computed, nor less than its
tree's CPU time divided by the CPUs: a busy host gives nobody more CPU time for its clock than a
quiet one, and threads that wait for each other earn nothing. A game is void only if others used at
least half of the CPUs for all that time, and pressure says that the bot was denied them.

The kernel counts pressure for each CPU and gives a mean of them, so it misses a part of a wait that
began on one CPU and ended on another. So the sum of the threads' waits counts if there was room for
it beside the bot's CPU time and the mean can have missed the rest, as with one thread at a time:
many threads that ask for a CPU at once make any sum, but little pressure. Else it counts up to the
number of CPUs times the pressure. Where the kernel has no cpu.pressure for the bot, what it was
denied is bounded by that sum alone. The kernel adds a wait to it when the wait is over: so there is
no timeout while a thread of the bot, or of the referee, is ready but perhaps without a CPU, up to
LONGEST_READY_US.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

LOOKS = 4
"""The first look is taken when this part (one fourth) of the budget has passed."""
EARLY_US = 5_000
"""The same where nothing is known of the moment when the request was written."""
GRACE_US = 250_000
"""On a busy host, the time for an answer that has just arrived to pass through the referee."""
BUSY_US = 5_000
"""The host is busy if the referee waited for a CPU this long since the last look."""
AGAIN_US = 20_000
"""Delay until the next look if a thread is ready but perhaps without a CPU."""
LONGEST_READY_US = 2_000_000
"""The longest time by which ready threads postpone a timeout."""
PATIENCE = 20
"""Wall time, as a multiple of the decision's limit, after which it is given up."""
PATIENCE_US = 10_000_000
"""Wall time beyond the limit that must pass at least before that."""
STARVED = 4
"""A bot may be starved if pressure is at least this part (one fourth) of such a time."""
UNCOUNTED = 8
"""The kernel takes it for running when a CPU serves interrupts or another virtual machine: where a
bot was denied CPUs, up to one eighth more of the time in which it had none is not charged."""
TICK_US = 10_000
"""The kernel counts the CPU time of the whole machine in such steps."""
UNFAIR_SHARE = 0.02
"""Where the wall clock counts and the referee was late for more of the time, a match is unfair."""


class Usage(NamedTuple):
    """Times up to one moment, in microseconds."""

    cpu_us: int
    """CPU time of the bot's whole process tree."""
    denied_us: int
    """Time in which the bot was ready and nothing of it had a CPU, or an upper bound of it."""
    outside_us: int
    """CPU time that was used outside of the tree."""


class Reading(NamedTuple):
    """What is known of one moment when the host is looked at closely."""

    usage: Usage
    threads_us: Mapping[int, int]
    """CPU time of each thread of the bot."""
    referee_waited_us: int
    """Time that the referee's threads were ready but had no CPU."""
    waited_us: int = 0
    """The same of the bot's threads, in sum; without waits that are not over."""


class Gauge(Protocol):
    """Reads what a bot and its host did."""

    @property
    def cpus(self) -> int:
        """The number of CPUs that a bot can use."""

    def cpu_us(self) -> int:
        """CPU time of the bot's whole process tree."""

    def glance(self, now_us: int) -> Usage | None:
        """The times, if they can be read in some microseconds; `outside_us` is as of a tick ago."""

    def read(self) -> Reading:
        """Everything; may take a millisecond."""

    def bot_is_ready(self) -> bool:
        """Whether a thread of the bot may wait for a CPU, and the accounts lack that wait."""

    def referee_is_ready(self) -> bool:
        """Whether a thread of the referee, but not the caller, runs or waits for a CPU."""


def least_us(before: Usage, after: Usage, busiest_us: int, cpus: int) -> int:
    """The least that a bot is charged between two moments: on a quiet host it had needed as much.

    busiest_us  CPU time of the thread that used most
    """
    return max(busiest_us, (after.cpu_us - before.cpu_us) // cpus)


def denied_us(
    pressure_us: int, waited_us: int | None, idle_us: int, used_us: int, cpus: int
) -> int:
    """Time in which a bot was denied a CPU between two moments, by its pressure and its waits.

    pressure_us  the waits' sum where the kernel has no pressure
    waited_us    of its threads in sum; None if it is not known
    idle_us      time in which the bot used no CPU, had it used one at a time
    used_us      CPU time of the bot
    """
    bound_us = pressure_us * cpus
    most_us = idle_us if waited_us is None else waited_us
    if (
        waited_us is not None
        and waited_us <= idle_us
        # The kernel weighs each CPU by the time in which the bot ran or waited there. However one
        # thread moves, the mean of its wait is at least wait x wait / (wait + run) / CPUs.
        and waited_us * waited_us <= bound_us * (waited_us + used_us)
    ):
        return max(pressure_us, waited_us)
    return max(pressure_us, min(bound_us, most_us))


def credit_us(wall_us: int, before: Usage, after: Usage) -> int:
    """The part of the time between two moments that the host took from the bot."""
    outside_us = max(0, after.outside_us - before.outside_us) + TICK_US
    denied_us = after.denied_us - before.denied_us
    idle_us = wall_us - (after.cpu_us - before.cpu_us)
    uncounted_us = max(0, min(denied_us // UNCOUNTED, idle_us - denied_us))
    return min(denied_us + uncounted_us, outside_us)


def busiest_us(before: Mapping[int, int], after: Mapping[int, int]) -> int:
    """CPU time, between two moments, of the thread that used most."""
    # Less than before: a new thread with a reused number.
    used = (
        us - before.get(thread, 0) if us >= before.get(thread, 0) else us
        for thread, us in after.items()
    )
    return max(used, default=0)


def longest_wait_us(limit_us: int, patience: int = PATIENCE) -> int:
    """The wall time after which a decision is given up."""
    return max(patience * limit_us, limit_us + PATIENCE_US)


def may_be_starved(wall_us: int, before: Usage, after: Usage, cpus: int) -> bool:
    """Whether others used at least half of the CPUs between two moments, and the bot wanted some.

    What it was denied is that by pressure alone, where there is pressure.
    """
    was_busy = 2 * (after.outside_us - before.outside_us) >= wall_us * cpus
    return was_busy and STARVED * (after.denied_us - before.denied_us) >= wall_us
