"""Times the open decisions of one bot: start, check, stop -> charge | timeout | host delay.

The charge of a decision is

    charge = share x max(wall - credit - late - unread, least), but not more than share x wall
    credit = min(denied + uncounted, outside)
    least  = max(busiest, cpu / CPUs)

    share      the decision's part of the bot's time: 1 / n while n decisions are open
    wall       the wall time since the request was written
    credit     the time that the host took from the bot
    late       the lateness of the first check, because the referee was blocked
    unread     the time for which the answer may have waited for the referee
    least      the time that the decision would have needed on a quiet host
    denied     the time in which the bot was ready and had no CPU
    uncounted  a fraction of it, for times that the kernel does not count as denied
    outside    the CPU time of other programs
    busiest    the CPU time of the bot's busiest thread
    cpu        the CPU time of all processes of the bot

pauses.py computes `credit` and `least`. Time is only attributed in this way from the moment on at
which the host's counters are known; the time before is charged as wall time.

Open decisions are checked from time to time. At the first check of a decision, after a fraction of
its time, the host's counters are read. An answer before it is charged the wall time, without
reading them.

Invariants: a timer has no stream, no event loop and no clock: each call gets the time, and only the
Gauge reads the host. A decision may take its budget and the remaining bank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from deepsea_referee import pauses
from deepsea_referee.pauses import Gauge, Reading, Usage
from deepsea_rules.events import new_tuple
from deepsea_sdk.bot import TimeLeft

STALL_US = 2_000
"""The lateness of a first check from which on the event loop was certainly blocked."""


class Charge(NamedTuple):
    """The time that a decision is charged that came in time."""

    us: int


class Timeout(NamedTuple):
    """The end of a decision that took more than its budget and the bank."""

    us: int
    limit_us: int


class HostDelay(NamedTuple):
    """The end of a decision that the host delayed too long: its time cannot be attributed."""

    wall_us: int


RequestEnd: TypeAlias = Timeout | HostDelay
"""The end of a request without an answer."""


class DecisionTimer:
    """The clocks of one bot's open decisions.

    Call `check` when `due_us` has come; a decision that has ended by then is not open any more.
    """

    __slots__ = ("_open", "_patience", "_shared", "due_us", "gauge")

    def __init__(self, gauge: Gauge | None = None, patience: int = pauses.PATIENCE) -> None:
        """Begin without open decisions.

        gauge     reads CPU and waiting times; None if only wall time counts
        patience  how many times its limit a decision may take on a busy host
        """
        self.gauge = gauge
        """Reads CPU and waiting times; None if only wall time counts."""
        self._patience = patience
        self.due_us: int | None = None
        """The time of the next check; the decision that it is for may have been stopped."""
        self._open: dict[int, _OpenDecision] = {}
        """The open decisions, by the ids of their requests."""
        self._shared = SharedTime()

    @property
    def is_idle(self) -> bool:
        """Return True if no decision is open."""
        return not self._open

    def start(self, requests: Sequence[tuple[int, TimeLeft]], now_us: int) -> None:
        """Start the clocks of requests that are written now as one message.

        A decision is first checked after a fraction of its budget, or of its whole limit if the
        budget is 0. Without a gauge, which reads the host's counters, it is first checked at the
        limit.

        requests  for each request its id, and its budget and bank
        """
        if not requests:
            return
        shared_us = self._shared.open(len(requests), now_us)
        usage = self.gauge.glance(now_us) if self.gauge else None
        earliest_us: int | None = None
        for request_id, (budget_us, bank_us) in requests:
            limit_us = budget_us + bank_us
            first_check_us = limit_us
            if self.gauge is not None:
                first_check_us = (budget_us or limit_us) // pauses.FIRST_CHECK
                if usage is None:  # the counters are first read at the check, so it must come early
                    first_check_us = min(first_check_us, pauses.EARLY_US)
            self._open[request_id] = _OpenDecision(
                limit_us, first_check_us, now_us, shared_us, usage
            )
            if earliest_us is None or first_check_us < earliest_us:
                earliest_us = first_check_us
        if earliest_us is not None:
            self._check_by(now_us + earliest_us)

    def stop(self, request_id: int, now_us: int) -> Charge | Timeout | None:
        """Stop the clock of a request that is answered now, and return its charge or a timeout.

        Return None if the request is not open. An answer before the first check is charged its
        share of the wall time. For a later one the host's counters are read, to find out how much
        of the time the host took from the bot.
        """
        decision = self._open.pop(request_id, None)
        if decision is None:
            return None
        shared_us = self._shared.close(now_us)
        wall_us = shared_us - decision.start_shared_us
        if wall_us <= decision.first_check_us:
            return new_tuple(Charge, (round(wall_us),))  # faster than a call of the class
        return decision.stop(now_us, shared_us, self.gauge)

    def check(self, now_us: int) -> list[tuple[int, RequestEnd]]:
        """Check the open decisions; remove and return those that end now without an answer.

        Each is returned as the id of its request and its end: a timeout, or a delay by the host
        that was too long. `due_us` is set to the time of the next check of the others.
        """
        self.due_us = None
        shared_us = self._shared.total_us(now_us)
        reading: Reading | None = None
        ends: list[tuple[int, RequestEnd]] = []
        for request_id, decision in self._open.items():
            remaining_us = decision.until_first_check_us(shared_us)
            if remaining_us:
                # Shared time is never faster than the clock, so the check cannot be due earlier.
                self._check_by(now_us + remaining_us)
                continue
            if reading is None and self.gauge is not None:
                reading = self.gauge.read()  # once for all decisions, since it is slow
            end_or_delay_us = decision.check(now_us, shared_us, reading, self.gauge, self._patience)
            if isinstance(end_or_delay_us, int):
                self._check_by(now_us + end_or_delay_us)
            else:
                ends.append((request_id, end_or_delay_us))
        for request_id, _ in ends:
            self._close(request_id, now_us)
        return ends

    def stop_all(self, now_us: int) -> dict[int, int]:
        """Stop all clocks, since the stream has ended.

        Return by its id the time that each open request has taken: its share of the wall time.
        """
        shared_us = self._shared.total_us(now_us)
        times_us = {
            request_id: round(shared_us - decision.start_shared_us)
            for request_id, decision in self._open.items()
        }
        for request_id in times_us:
            self._close(request_id, now_us)
        return times_us

    def _close(self, request_id: int, now_us: int) -> None:
        """Remove an open decision."""
        del self._open[request_id]
        self._shared.close(now_us)

    def _check_by(self, when_us: int) -> None:
        """Set the next check to the first moment after this time, unless an earlier one is due."""
        when_us += 1  # an answer after exactly the limit is in time
        if self.due_us is None or when_us < self.due_us:
            self.due_us = when_us


class _Origin(NamedTuple):
    """The moment from which on the time of a decision is attributed to the bot or the host."""

    now_us: int
    shared_us: float
    usage: Usage


class _Check(NamedTuple):
    """A check of a decision: its time, and for how long the referee had waited for a CPU then."""

    now_us: int
    referee_waited_us: int


class _OpenDecision:
    """The clock of one request; the module's header has the formula of its charge.

    limit_us         the timeout
    first_check_us   the time until the first check; an answer before it is charged its wall time
    start_us         the time of the request
    start_shared_us  the shared time (see SharedTime) at that moment
    usage            the host's counters at that moment; None if they are not known
    """

    _origin_charge_us = 0
    """The charge for the time up to `_origin`."""
    _late_us = 0
    """The lateness of the first check, which is the referee's time and not charged."""
    _first_reading: tuple[int, Reading] | None = None
    """The time and the reading of the first check."""
    _check_before_last = _last_check = _Check(0, 0)
    """The last check but one, and the last check."""
    _referee_waited_after_limit_us = 0
    """The time that the referee had waited for a CPU at the last check after the limit."""
    _over_limit_us: int | None = None
    """The time of the first check after the limit."""

    def __init__(
        self,
        limit_us: int,
        first_check_us: int,
        start_us: int,
        start_shared_us: float,
        usage: Usage | None,
    ) -> None:
        self.limit_us = limit_us
        self.first_check_us = first_check_us
        self.start_us = start_us
        self.start_shared_us = start_shared_us
        self._origin = None if usage is None else _Origin(start_us, start_shared_us, usage)
        """The request if the host's counters were known then; else the first check."""

    def until_first_check_us(self, shared_us: float) -> int:
        """Return the time until the first check is due; 0 if it is due, or has been."""
        if self._first_reading is not None:
            return 0
        return max(0, self.first_check_us - self._wall_us(shared_us))

    def stop(self, now_us: int, shared_us: float, gauge: Gauge | None) -> Charge | Timeout:
        """Return the charge for an answer that is read now, or a timeout if it is above the limit.

        The answer may have arrived earlier, and been unread because the referee waited for a CPU.
        That wait is not charged, as far as it came after the last check but one.

        gauge  reads the host's counters; None to charge the wall time
        """
        if gauge is None:
            us = self._wall_us(shared_us) - self._late_us
        else:
            reading = gauge.read()
            if self._first_reading is None:  # there was no check before the answer
                unread_us = self._lateness_us(now_us, shared_us)
            else:
                earlier = self._check_before_last
                passed_us = now_us - earlier.now_us
                referee_waited_us = reading.referee_waited_us - earlier.referee_waited_us
                unread_us = min(passed_us, referee_waited_us)
            us, _ = self._attributed_us(now_us, shared_us, reading, gauge.cpus, unread_us)
        return Timeout(us, self.limit_us) if us > self.limit_us else Charge(max(0, us))

    def check(
        self,
        now_us: int,
        shared_us: float,
        reading: Reading | None,
        gauge: Gauge | None,
        patience: int,
    ) -> RequestEnd | int:
        """Return how a decision without an answer ends now, or the time until the next check.

        It ends with a timeout if the charged time is above the limit, or with a host delay if the
        wall time is very long but the host took it.

        reading   the host's reading of now; None without a gauge
        patience  how many times its limit a decision may take on a busy host
        """
        wall_us = self._wall_us(shared_us)
        is_hopeless = wall_us > pauses.longest_wait_us(self.limit_us, patience)
        if gauge is None or reading is None:
            if not self._late_us and (late_us := self._lateness_us(now_us, shared_us)):
                # An answer that arrived while the loop was blocked is read before the next check.
                self._late_us = late_us + STALL_US
            us = max(0, wall_us - self._late_us)
        else:
            if self._first_reading is None:
                self._record_first_check(now_us, shared_us, reading)
            us, least_us = self._attributed_us(now_us, shared_us, reading, gauge.cpus)
            if us > self.limit_us >= least_us:
                delay_us = self._postponement_us(now_us, reading, gauge)
                if delay_us:
                    return delay_us
            self._check_before_last = self._last_check
            self._last_check = _Check(now_us, reading.referee_waited_us)
            if is_hopeless and not self._may_be_starved(now_us, reading, gauge.cpus):
                us = wall_us
        if us > self.limit_us:
            return Timeout(us, self.limit_us)
        if is_hopeless:
            return HostDelay(wall_us)
        # Not later than GRACE_US, since `stop` forgives the referee's waits of two such intervals.
        return min(self.limit_us - us, pauses.GRACE_US)

    def _wall_us(self, shared_us: float) -> int:
        """Return the decision's share of the wall time since its request; see SharedTime."""
        return round(shared_us - self.start_shared_us)

    def _lateness_us(self, now_us: int, shared_us: float) -> int:
        """Return how late the first check of this decision is, if it is made now.

        It is late if the referee's event loop was blocked, or had no CPU. Return 0 if it is up to
        STALL_US late, which may be chance.
        """
        # The check was due when this decision's share of the time was `first_check_us`. Other open
        # decisions have shares, too, so the lateness in real time follows from the proportion.
        share_us = shared_us - self.start_shared_us
        late_fraction = 1 - self.first_check_us / (share_us or 1)
        late_us = round((now_us - self.start_us) * late_fraction)
        return late_us if late_us > STALL_US else 0

    def _record_first_check(self, now_us: int, shared_us: float, reading: Reading) -> None:
        """Store the host's counters at the first check of this decision.

        If they were not known at the request, it is only known from now on what the host takes. The
        time up to now is charged to the bot, except for the lateness of this check.
        """
        self._first_reading = (now_us, reading)
        self._check_before_last = self._last_check = _Check(now_us, reading.referee_waited_us)
        if self._origin is None:
            self._origin = _Origin(now_us, shared_us, reading.usage)
            self._origin_charge_us = min(self._wall_us(shared_us), self.first_check_us)
        else:
            self._late_us = self._lateness_us(now_us, shared_us)

    def _attributed_us(
        self, now_us: int, shared_us: float, reading: Reading, cpus: int, unread_us: int = 0
    ) -> tuple[int, int]:
        """Return the charge until now, and its lower bound: the time that the bot certainly used.

        The charge is the wall time minus a credit for the time that the host took, but at least
        the lower bound. A fixed charge is added for the time before the origin, the first moment at
        which the host's counters were known.

        reading    the host's counters now
        cpus       the number of CPUs that the bot can use
        unread_us  the time for which the answer may have waited for the referee to read it
        """
        wall_us = self._wall_us(shared_us)
        origin = self._origin
        if origin is None:  # the host's counters were never known
            return min(wall_us, self.first_check_us), 0
        passed_us = now_us - origin.now_us
        if passed_us == 0:
            return self._origin_charge_us, 0
        denied_us, busiest_us = self._denied_and_busiest_us(origin, now_us, reading, cpus)
        # The counters of now, with a more exact time without a CPU: it considers threads, too.
        after = reading.usage._replace(denied_us=origin.usage.denied_us + denied_us)
        credit_us = pauses.credit_us(passed_us, origin.usage, after)
        least_us = pauses.least_us(origin.usage, reading.usage, busiest_us, cpus)
        charged_us = max(passed_us - credit_us - self._late_us - unread_us, least_us)
        # All of this is the time of the bot, of which this decision has a share: others may have
        # been open as well.
        share = (shared_us - origin.shared_us) / passed_us
        us = min(wall_us, self._origin_charge_us + round(charged_us * share))
        return us, round(least_us * share)

    def _denied_and_busiest_us(
        self, origin: _Origin, now_us: int, reading: Reading, cpus: int
    ) -> tuple[int, int]:
        """Return the time without a CPU, and the CPU time of the busiest thread, since the origin.

        Both are sums of a part before the first check and a part since then, because the times of
        single threads are only known since then.
        """
        first_at_us, first = self._first_reading or (now_us, reading)
        used_us = first.usage.cpu_us - origin.usage.cpu_us
        passed_us = first_at_us - origin.now_us
        denied_us = pauses.denied_us(
            pressure_us=first.usage.denied_us - origin.usage.denied_us,
            waited_us=None,
            idle_us=max(0, passed_us - used_us),
            used_us=used_us,
            cpus=cpus,
        )
        # One thread may have used all the CPU time before the first check.
        busiest_us = min(passed_us, used_us)

        used_us = reading.usage.cpu_us - first.usage.cpu_us
        denied_us += pauses.denied_us(
            pressure_us=reading.usage.denied_us - first.usage.denied_us,
            waited_us=reading.waited_us - first.waited_us,
            idle_us=now_us - first_at_us - used_us,
            used_us=used_us,
            cpus=cpus,
        )
        busiest_us += pauses.busiest_us(first.threads_us, reading.threads_us)
        return denied_us, busiest_us

    def _may_be_starved(self, now_us: int, reading: Reading, cpus: int) -> bool:
        """Return True if other programs used so much of the CPUs that the bot may be starved."""
        assert self._origin is not None
        passed_us = now_us - self._origin.now_us
        return pauses.may_be_starved(passed_us, self._origin.usage, reading.usage, cpus)

    def _postponement_us(self, now_us: int, reading: Reading, gauge: Gauge) -> int:
        """Return how long a timeout waits for another check; 0 if the decision times out now.

        It waits while an answer may be on its way through the busy referee. It also waits while a
        thread may be without a CPU, since the kernel counts such a time only when it is over. All
        this takes LONGEST_READY_US at most.
        """
        referee_waited_us = reading.referee_waited_us
        waited_since_check_us = referee_waited_us - self._referee_waited_after_limit_us
        self._referee_waited_after_limit_us = referee_waited_us
        if self._over_limit_us is None:  # this is the first check after the limit
            self._over_limit_us = now_us
            before_last_us = self._check_before_last.referee_waited_us
            if referee_waited_us - before_last_us > pauses.BUSY_US:
                return pauses.GRACE_US
        if now_us - self._over_limit_us > pauses.LONGEST_READY_US:
            return 0
        # An answer passes through several threads of the referee: so another check follows if they
        # had to wait. At the first check after the limit, all their earlier waits count.
        was_busy = waited_since_check_us > pauses.BUSY_US
        if was_busy or gauge.referee_is_ready() or gauge.bot_is_ready():
            return pauses.AGAIN_US
        return 0


class SharedTime:
    """The time of a bot, divided among its open decisions.

    While n decisions are open each is charged one nth of the time that passes: a message with n
    requests has n times the budget, and the charges add up to the time that has passed.
    """

    __slots__ = ("_open", "_total_us", "_updated_us")

    def __init__(self) -> None:
        self._open = 0
        """The number of open decisions."""
        self._total_us = 0.0
        """The value of `total_us` at the time `_updated_us`."""
        self._updated_us = 0

    def total_us(self, now_us: int) -> float:
        """Return the shared time: it grows by 1/n of real time while n decisions are open.

        It stands still while none is open. What it grows between a decision's start and its end is
        that decision's share of the real time.
        """
        if self._open:
            self._total_us += (now_us - self._updated_us) / self._open
        self._updated_us = now_us
        return self._total_us

    def open(self, count: int, now_us: int) -> float:
        """Add open decisions from now on; return `total_us(now_us)`."""
        total_us = self.total_us(now_us)
        self._open += count
        return total_us

    def close(self, now_us: int) -> float:
        """Remove one open decision; return `total_us(now_us)`."""
        if now_us != self._updated_us:  # all answers of one message have the same time
            self.total_us(now_us)
        self._open -= 1
        return self._total_us
