"""The host's part in a bot's time: pauses between its turns, and time that the host took from it.

`Freezer` and `BotTurns` freeze a bot between its turns, `OffTurn` measures its CPU time there. The
rest attributes elapsed time to the bot or to the host, from two readings of a `Gauge`;
decision_timer.py adds up the parts.

Invariants of pauses: a bot with an open request is never frozen; a bot that rests (it has sent
Hello and has no open request) is frozen once the decision or start of another bot has lasted
LAZY_US, or when no bot was asked for that long. So bots that answer at once are never frozen, which
would cost 0.2 to 0.4 ms for each decision, and a bot that computes while others are asked has the
CPU for LAZY_US at most.

A bot that only waits uses almost no CPU time in its pauses. Pauses are sampled at most every
SAMPLES_US, since reading takes time. A pause includes the end of the bot's last answer and the work
of its runtime after it (garbage collection, compilation). So a small share means nothing if all
bots answer at once.

Invariants of attribution: the credit is the time for which the bot as a whole was denied a CPU, and
never more than the CPU time of other programs meanwhile. No bot is charged less than the CPU time
of its busiest thread, nor less than its tree's CPU time divided by the CPUs: so a busy host gives
no bot more CPU time for its clock than a quiet one, and threads that wait for each other gain
nothing. A game is void only if other programs used at least half of the CPUs for all that time, and
pressure shows that the bot was denied them.

Wall time is the quick test. On a busy machine it is wrong: a bot that is ready to run but gets no
CPU has not used its time, and neither has a bot whose answer is unread because the referee gets no
CPU (this counts only from the referee's last check without an answer, or sleeping would be free).

The kernel counts pressure for each CPU and reports a mean of them, so it misses a part of a wait
that began on one CPU and ended on another. So the sum of the threads' waits counts if it fits
beside the bot's CPU time and the mean can have missed the difference, as with one thread at a time:
many threads that request a CPU at once make any sum, but little pressure. Otherwise the sum counts
up to the number of CPUs times the pressure. If the kernel has no cpu.pressure for the bot, the
denied time is bounded by that sum alone. The kernel adds a wait to it when the wait is over: so
there is no timeout while a thread of the bot, or of the referee, is ready but perhaps without a
CPU, up to LONGEST_READY_US.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from deepsea_referee.clock import Alarm, Clock

LAZY_US = 2_000
"""The time that a bot's decision must last before the other bots are frozen."""
SAMPLES_US = 100_000
"""The shortest interval between two samples of a bot's CPU time outside of its turns."""


class Pauses:
    """The pauses of one bot between its requests, as its session reports them.

    read_us  reads the bot's CPU time; None if that is not measured
    turns    freezes the bot; None if it is never frozen
    """

    def __init__(
        self, read_us: Callable[[], int] | None = None, turns: BotTurns | None = None
    ) -> None:
        self._read_us = read_us
        self._turns = turns
        self.off_turn = OffTurn()
        """The CPU time in the pauses."""

    @property
    def frozen(self) -> bool:
        """Return True if the bot is frozen now, so that it cannot read messages."""
        return self._turns is not None and self._turns.frozen

    def pause(self, now_us: int) -> None:
        """Begin a measured pause: the bot has answered all requests."""
        self.rest(now_us)
        if self._read_us is not None:
            self.off_turn.begin(now_us, self._read_us)

    def rest(self, now_us: int) -> None:
        """Allow the bot to be frozen, without measuring: after Hello, and after timeouts."""
        if self._turns is not None:
            self._turns.rest(now_us)

    def resume(self, now_us: int) -> None:
        """End the pause, and thaw the bot: it gets a message with requests, or Goodbye."""
        if self._read_us is not None:
            self.off_turn.end(now_us, self._read_us)
        if self._turns is not None:
            self._turns.ask(now_us)


# Freezing


class Freezable(Protocol):
    """A process tree that can be stopped."""

    def freeze(self) -> None:
        """Stop every process of the tree."""

    def thaw(self) -> None:
        """Resume a frozen tree."""


class Freezer:
    """Freezes resting bots while others are asked; shared by the bots of a match or of a worker."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._busy: dict[BotTurns, int] = {}
        """The bots that have an open request or start, with the time since when."""
        self._resting: set[BotTurns] = set()
        """The bots that have no open request and are not yet frozen."""
        self._last_rest_us = 0
        """The time at which a bot has last begun to rest."""
        self._alarm: Alarm | None = None

    def join(self, process: Freezable) -> BotTurns:
        """Add a bot that starts now; until it rests, resting bots may be frozen."""
        bot = BotTurns(self, process)
        bot.ask(self._clock.now_us())
        return bot

    def freeze_all(self) -> None:
        """Freeze all bots without an open request now.

        A caller does so if no event loop will run for a while. The next request to a bot thaws it,
        so there is nothing to undo.
        """
        for bot in [*self._resting]:  # a copy: `freeze` removes the bot from the set
            bot.freeze()

    def note_request(self, bot: BotTurns, now_us: int) -> None:
        """Record that a bot has an open request, or starts."""
        self._resting.discard(bot)
        self._busy[bot] = now_us
        self._ring_by(now_us + LAZY_US)

    def note_rest(self, bot: BotTurns, now_us: int) -> None:
        """Record that a bot rests: it has no open request any more.

        It will be frozen when another bot has been busy for LAZY_US, or no bot for that long.
        """
        self._busy.pop(bot, None)
        if not bot.frozen:
            self._resting.add(bot)
            self._last_rest_us = now_us
            self._ring_by(now_us + LAZY_US)

    def remove(self, bot: BotTurns) -> None:
        """Note that a bot ends, or is not to be frozen any more."""
        self._busy.pop(bot, None)
        self._resting.discard(bot)

    def claim(self, bot: BotTurns) -> bool:
        """Claim a bot in order to freeze it; return False if it does not rest."""
        is_resting = bot in self._resting
        self._resting.discard(bot)
        return is_resting

    def _ring_by(self, when_us: int) -> None:
        """Set the alarm to this time if it is not set and a bot rests."""
        # An alarm that is set is not moved: one check in LAZY_US costs less than another alarm for
        # each decision.
        if self._alarm is None and self._resting:
            self._alarm = self._clock.at(when_us, self._ring)

    def _ring(self) -> None:
        """Freeze all resting bots if the oldest open request has lasted LAZY_US, else wait again.

        If no request is open, they are frozen when no bot was busy for LAZY_US.
        """
        self._alarm = None
        start_us = min(self._busy.values(), default=self._last_rest_us)
        freeze_at_us = start_us + LAZY_US
        if self._clock.now_us() < freeze_at_us:
            self._ring_by(freeze_at_us)
        else:
            self.freeze_all()


class BotTurns:
    """The turns of one bot process, as its session reports them."""

    def __init__(self, freezer: Freezer, process: Freezable) -> None:
        self._freezer = freezer
        self.process = process
        self.frozen = False

    def ask(self, now_us: int) -> None:
        """Thaw the bot, which is about to get a request."""
        self._freezer.note_request(self, now_us)
        self._thaw()

    def rest(self, now_us: int) -> None:
        """Allow the bot to be frozen: it has no open request any more."""
        self._freezer.note_rest(self, now_us)

    def freeze(self) -> None:
        """Freeze the bot now, unless it has an open request; the next request thaws it."""
        if self._freezer.claim(self):
            self.frozen = True
            self.process.freeze()

    def leave(self) -> None:
        """Thaw the bot so that it can exit, and freeze it no more."""
        self._freezer.remove(self)
        self._thaw()

    def _thaw(self) -> None:
        if self.frozen:
            self.frozen = False
            self.process.thaw()


# CPU time in pauses


class OffTurn:
    """The CPU time of a bot outside of its turns, as a share of sampled pauses."""

    def __init__(self) -> None:
        self.cpu_us = 0
        self.wall_us = 0
        self._next_us = 0
        self._sample_start: tuple[int, int] | None = None

    @property
    def share(self) -> float | None:
        """The CPU seconds per second of the sampled pauses; None if there were none."""
        return self.cpu_us / self.wall_us if self.wall_us else None

    def add(self, other: OffTurn) -> None:
        """Add the samples of another process of the same bot."""
        self.cpu_us += other.cpu_us
        self.wall_us += other.wall_us

    def begin(self, now_us: int, read_us: Callable[[], int]) -> None:
        """Begin to sample a pause, unless the last sample is too recent."""
        if now_us >= self._next_us:
            self._next_us = now_us + SAMPLES_US
            self._sample_start = (now_us, read_us())

    def end(self, now_us: int, read_us: Callable[[], int]) -> None:
        """End the sample of a pause, if one was begun: the bot gets a new request.

        Adds the length of the pause, and the CPU time that the bot has used in it, to the sums.

        read_us  reads the bot's total CPU time
        """
        if self._sample_start is None:
            return
        start_us, start_cpu_us = self._sample_start
        self._sample_start = None
        self.wall_us += now_us - start_us
        self.cpu_us += read_us() - start_cpu_us


# ----- Attribution of time to the bot or to the host

FIRST_CHECK = 4
"""The first check of a decision comes after this fraction (one fourth) of its budget."""
EARLY_US = 5_000
"""The time of the first check if the usage of the CPUs was not known at the request."""
GRACE_US = 250_000
"""On a busy host, the time for an answer that has just arrived to pass through the referee."""
BUSY_US = 5_000
"""The host is busy if the referee waited for a CPU this long since the last check."""
AGAIN_US = 20_000
"""The delay until the next check if a thread is ready but perhaps without a CPU."""
LONGEST_READY_US = 2_000_000
"""The longest time by which ready threads postpone a timeout."""
PATIENCE = 20
"""The wall time, as a multiple of the decision's limit, after which a decision is not awaited."""
PATIENCE_US = 10_000_000
"""The wall time beyond the limit for which a decision is always awaited on a busy host."""
STARVED = 4
"""A bot may be starved if pressure is at least this fraction (one fourth) of its wall time."""
UNCOUNTED = 8
"""The kernel counts a thread as running while its CPU serves interrupts or another virtual machine.

So if a bot was denied CPUs, up to this fraction (one eighth) more of its idle time is credited.
"""
TICK_US = 10_000
"""The step in which the kernel counts the CPU time of the whole machine."""
UNFAIR_SHARE = 0.02
"""The share of lateness of the referee from which on a match is reported as unfair.

This is for matches by the wall clock.
"""


class Usage(NamedTuple):
    """Counters of a bot and its host at one moment, in microseconds."""

    cpu_us: int
    """The CPU time of the bot's whole process tree."""
    denied_us: int
    """The time in which the bot was ready and none of its threads had a CPU, or an upper bound."""
    outside_us: int
    """The CPU time that was used outside of the bot's tree."""


class Reading(NamedTuple):
    """All counters of a bot and its host at one moment."""

    usage: Usage
    threads_us: Mapping[int, int]
    """The CPU time of each thread of the bot."""
    referee_waited_us: int
    """The sum of the times in which threads of the referee were ready but had no CPU."""
    waited_us: int = 0
    """The same sum for the bot's threads; waits count when they are over."""


class Gauge(Protocol):
    """Reads the counters of a bot and its host."""

    @property
    def cpus(self) -> int:
        """The number of CPUs that a bot can use."""

    def cpu_us(self) -> int:
        """Return the CPU time of the bot's whole process tree."""

    def glance(self, now_us: int) -> Usage | None:
        """Read the usage quickly; `outside_us` may be a tick old.

        Return None if reading takes more than some microseconds here.
        """

    def read(self) -> Reading:
        """Read all counters, which may take a millisecond."""

    def bot_is_ready(self) -> bool:
        """Return True if a thread of the bot may wait for a CPU without being counted yet."""

    def referee_is_ready(self) -> bool:
        """Return True if a thread of the referee, except the caller, runs or waits for a CPU."""


def least_us(before: Usage, after: Usage, busiest_us: int, cpus: int) -> int:
    """Return the least charge between two moments: the time that a quiet host would have needed.

    busiest_us  the CPU time of the busiest thread between the two moments
    """
    return max(busiest_us, (after.cpu_us - before.cpu_us) // cpus)


def denied_us(
    pressure_us: int, waited_us: int | None, idle_us: int, used_us: int, cpus: int
) -> int:
    """Return for how long a bot was ready to run but had no CPU, between two moments.

    The kernel's measure of this, the pressure, is a mean over the CPUs and so often too small. The
    waits of the bot's threads count instead. Since threads that wait at the same time make any sum,
    it is limited by the pressure, unless one thread at a time may have waited.

    pressure_us  the pressure; the sum of the waits if the kernel has no pressure
    waited_us    the sum of the waits of the bot's threads; None if it is not known
    idle_us      the time between the two moments, minus `used_us`
    used_us      the CPU time of the bot between the two moments
    """
    # Since the pressure is a mean over the CPUs, the waits on all of them are at most this.
    upper_bound_us = pressure_us * cpus
    if waited_us is None:
        return max(pressure_us, min(upper_bound_us, idle_us))
    fits_beside_cpu_time = waited_us <= idle_us  # as it must if there is one thread at a time
    # The kernel weighs each CPU by the time in which the bot ran or waited there. However one
    # thread moves, the mean of its wait is at least wait x wait / (wait + run) / CPUs.
    may_be_one_thread = waited_us * waited_us <= upper_bound_us * (waited_us + used_us)
    if not (fits_beside_cpu_time and may_be_one_thread):
        waited_us = min(waited_us, upper_bound_us)
    return max(pressure_us, waited_us)


def credit_us(wall_us: int, before: Usage, after: Usage) -> int:
    """Return the part of the wall time between two moments that the host took from the bot.

    It is the denied time, in which the bot was ready but had no CPU, and some more: while a CPU
    serves interrupts, the kernel counts the thread there as running. It is not more than the CPU
    time of other programs.

    before, after  the counters of the bot and its host at the two moments
    """
    # The kernel counts in ticks, so the true time may be up to a tick longer.
    outside_us = max(0, after.outside_us - before.outside_us) + TICK_US
    denied_us = after.denied_us - before.denied_us
    idle_us = wall_us - (after.cpu_us - before.cpu_us)
    # For the interrupts a fraction of the denied time, if the bot had so much other idle time.
    uncounted_us = max(0, min(denied_us // UNCOUNTED, idle_us - denied_us))
    return min(denied_us + uncounted_us, outside_us)


def busiest_us(before: Mapping[int, int], after: Mapping[int, int]) -> int:
    """Return the CPU time of the busiest thread between two moments.

    before, after  the CPU time of each thread at the two moments
    """
    longest_us = 0
    for thread, thread_us in after.items():
        before_us = before.get(thread, 0)
        # Less time than before means a new thread with a reused number.
        used_us = thread_us - before_us if thread_us >= before_us else thread_us
        longest_us = max(longest_us, used_us)
    return longest_us


def longest_wait_us(limit_us: int, patience: int = PATIENCE) -> int:
    """Return the wall time after which a decision is not awaited any longer."""
    return max(patience * limit_us, limit_us + PATIENCE_US)


def may_be_starved(wall_us: int, before: Usage, after: Usage, cpus: int) -> bool:
    """Return True if the host may have kept a bot from deciding between two moments.

    That is so if other programs used at least half of the CPUs' time, and the bot was ready but had
    no CPU for at least a fourth of the time.

    wall_us        the time between the two moments
    before, after  the counters of the bot and its host at the two moments
    cpus           the number of CPUs that the bot can use
    """
    outside_us = after.outside_us - before.outside_us
    denied_us = after.denied_us - before.denied_us
    host_was_busy = 2 * outside_us >= wall_us * cpus
    bot_was_denied = STARVED * denied_us >= wall_us
    return host_was_busy and bot_was_denied
