"""Times the open decisions of one bot: start, look, stop -> charged | timed out | undecided.

Invariants: a timer has no stream, no event loop and no clock: each call gets the time, and only the
Gauge reads the host. Elapsed time is shared by the decisions that are open at once; a decision may
take its budget and the remaining bank; time that the host took is not charged (pauses.py).

A look is a check of the open decisions. At the first look at a decision, after a fraction of its
time, the host is read, because an answer before it is charged the wall time anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from deepsea_referee import pauses
from deepsea_referee.pauses import Gauge, Reading, Usage
from deepsea_rules.events import new_tuple
from deepsea_sdk.bot import TimeLeft

STALL_US = 2_000
"""The lateness of a look from which on the event loop was certainly blocked."""


class Charged(NamedTuple):
    """A decision that came in time."""

    us: int


class TimedOut(NamedTuple):
    """A decision that took more than its budget and the bank."""

    us: int
    limit_us: int


class Starved(NamedTuple):
    """A decision that the host delayed for so long that its time cannot be attributed."""

    wall_us: int


Ended: TypeAlias = TimedOut | Starved


class DecisionTimer:
    """The clocks of one bot's open decisions.

    Call `look` when `due_us` has come; a decision that has ended by then is not open any more.
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
        """The time of the next look; the decision that it is for may have been stopped."""
        self._open: dict[int, _OpenDecision] = {}
        """The open decisions, by the ids of their requests."""
        self._shared = SharedTime()

    @property
    def idle(self) -> bool:
        """Return True if no decision is open."""
        return not self._open

    def start(self, requests: Sequence[tuple[int, TimeLeft]], now_us: int) -> None:
        """Start the clocks of requests that are written now as one message.

        requests  the id, and the budget and bank, of each request
        """
        if not requests:
            return
        share_us = self._shared.open(len(requests), now_us)
        usage = self.gauge.glance(now_us) if self.gauge else None
        earliest_us: int | None = None
        for request_id, (budget_us, bank_us) in requests:
            limit_us = first_us = budget_us + bank_us
            if self.gauge is not None:
                first_us = (budget_us or limit_us) // pauses.LOOKS
                if usage is None:
                    first_us = min(first_us, pauses.EARLY_US)
            self._open[request_id] = _OpenDecision(limit_us, first_us, now_us, share_us, usage)
            if earliest_us is None or first_us < earliest_us:
                earliest_us = first_us
        if earliest_us is not None:
            self._look_by(now_us + earliest_us)

    def stop(self, request_id: int, now_us: int) -> Charged | TimedOut | None:
        """Stop the clock of a request that is answered now; return None if it is not open.

        An answer before the first look is charged its wall time, without reading the host.
        """
        decision = self._open.pop(request_id, None)
        if decision is None:
            return None
        share_us = self._shared.close(now_us)
        us = share_us - decision.share_us
        if us <= decision.first_us:
            return new_tuple(Charged, (round(us),))
        return decision.stop(now_us, share_us, self.gauge)

    def look(self, now_us: int) -> list[tuple[int, Ended]]:
        """Check the open decisions; remove and return those that end now without an answer.

        `due_us` is set for the others.
        """
        self.due_us = None
        share_us = self._shared.at(now_us)
        reading: Reading | None = None
        ended: list[tuple[int, Ended]] = []
        for request_id, decision in self._open.items():
            if early_us := decision.early_us(share_us):
                # Shared time is never faster than the clock, so the look cannot be due earlier.
                self._look_by(now_us + early_us)
                continue
            if reading is None and self.gauge is not None:
                reading = self.gauge.read()
            result = decision.look(now_us, share_us, reading, self.gauge, self._patience)
            if isinstance(result, int):
                self._look_by(now_us + result)
            else:
                ended.append((request_id, result))
        for request_id, _ in ended:
            self._close(request_id, now_us)
        return ended

    def break_off(self, now_us: int) -> dict[int, int]:
        """Stop all clocks, since the stream has ended; return the time of each open request."""
        share_us = self._shared.at(now_us)
        taken_us = {
            request_id: round(share_us - decision.share_us)
            for request_id, decision in self._open.items()
        }
        for request_id in taken_us:
            self._close(request_id, now_us)
        return taken_us

    def _close(self, request_id: int, now_us: int) -> None:
        """Remove an open decision."""
        del self._open[request_id]
        self._shared.close(now_us)

    def _look_by(self, when_us: int) -> None:
        """Set the next look to the first moment after this time, unless an earlier one is due."""
        when_us += 1  # an answer after exactly the limit is in time
        if self.due_us is None or when_us < self.due_us:
            self.due_us = when_us


class _OpenDecision:
    """The clock of one request.

    limit_us  the timeout
    first_us  the time until the first look; an answer before it is charged its wall time
    usage     the usage of the CPUs when the request was written; None if it is not known
    """

    _base_us = 0
    """The charge up to the moment `_base`."""
    _free_us = 0
    """The lateness of the first look, which is the referee's time and not charged."""
    _first: tuple[int, Reading] | None = None
    """The time and the reading of the first look."""
    _looks: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))
    """For the last look but one and for the last look: the time, and for how long the referee had
    waited for a CPU until then."""
    _referee_us = 0
    """For how long the referee had waited for a CPU at the last look after the limit."""
    _over_us: int | None = None
    """The time of the first look after the limit."""

    def __init__(
        self, limit_us: int, first_us: int, began_us: int, share_us: float, usage: Usage | None
    ) -> None:
        self.limit_us = limit_us
        self.first_us = first_us
        self.began_us = began_us
        self.share_us = share_us
        """The shared time when it began."""
        self._base = None if usage is None else (began_us, share_us, usage)
        """The moment from which on time is attributed: the time, the shared time, the usage."""

    def early_us(self, share_us: float) -> int:
        """Return the time until the first look is due; 0 if it is due, or has been."""
        if self._first is not None:
            return 0
        return max(0, self.first_us - round(share_us - self.share_us))

    def stop(self, now_us: int, share_us: float, gauge: Gauge | None) -> Charged | TimedOut:
        """Return the outcome of an answer that has arrived now.

        An answer may have arrived earlier and waited for the referee, at most since the last look
        but one. For that time, the referee's waiting for a CPU is not charged.
        """
        if gauge is None:
            us = self._wall_us(share_us) - self._free_us
        else:
            reading = gauge.read()
            if self._first is None:
                unread_us = self._late_us(now_us, share_us)
            else:
                look_us, waited_us = self._looks[0]
                unread_us = min(now_us - look_us, reading.referee_waited_us - waited_us)
            us, _ = self._attributed_us(now_us, share_us, reading, gauge.cpus, unread_us)
        return TimedOut(us, self.limit_us) if us > self.limit_us else Charged(max(0, us))

    def look(
        self,
        now_us: int,
        share_us: float,
        reading: Reading | None,
        gauge: Gauge | None,
        patience: int,
    ) -> Ended | int:
        """Return how a decision without an answer ends now, or the time until the next look.

        It ends with a timeout if the charged time is above the limit, or as starved if the wall
        time is very long but the host took it.

        reading   the host's reading of now; None without a gauge
        patience  how many times its limit a decision may take on a busy host
        """
        wall_us = self._wall_us(share_us)
        is_hopeless = wall_us > pauses.longest_wait_us(self.limit_us, patience)
        if gauge is None or reading is None:
            if not self._free_us and (late_us := self._late_us(now_us, share_us)):
                # An answer that arrived while the loop was blocked is read before the next look.
                self._free_us = late_us + STALL_US
            us = max(0, wall_us - self._free_us)
        else:
            if self._first is None:
                self._look_first(now_us, share_us, reading)
            us, least_us = self._attributed_us(now_us, share_us, reading, gauge.cpus)
            if us > self.limit_us >= least_us and (
                again_us := self._undecided_us(now_us, reading, gauge)
            ):
                return again_us
            self._looks = (self._looks[1], (now_us, reading.referee_waited_us))
            if is_hopeless and not self._may_be_starved(now_us, reading, gauge.cpus):
                us = wall_us
        if us > self.limit_us:
            return TimedOut(us, self.limit_us)
        if is_hopeless:
            return Starved(wall_us)
        # Not later than GRACE_US: `stop` forgives waits of the referee since the last look but one.
        return min(self.limit_us - us, pauses.GRACE_US)

    def _wall_us(self, share_us: float) -> int:
        """Return the decision's share of the wall time since its request."""
        return round(share_us - self.share_us)

    def _late_us(self, now_us: int, share_us: float) -> int:
        """Return by how much the first look is late; 0 if that may be chance.

        It is late because the event loop was blocked, or had no CPU.
        """
        wall_us = share_us - self.share_us
        # `first_us` is in shared time: the quotient converts the lateness into wall time.
        late_us = round((now_us - self.began_us) * (1 - self.first_us / (wall_us or 1)))
        return late_us if late_us > STALL_US else 0

    def _look_first(self, now_us: int, share_us: float, reading: Reading) -> None:
        """Remember the first look. If no usage was known before, attribution begins here."""
        self._first = (now_us, reading)
        self._looks = ((now_us, reading.referee_waited_us),) * 2
        if self._base is None:
            self._base = (now_us, share_us, reading.usage)
            self._base_us = min(self._wall_us(share_us), self.first_us)
        else:
            self._free_us = self._late_us(now_us, share_us)

    def _attributed_us(
        self, now_us: int, share_us: float, reading: Reading, cpus: int, unread_us: int = 0
    ) -> tuple[int, int]:
        """Return the charge up to now, and the part of it that the bot certainly used.

        The charge is the wall time minus a credit for the time that the host took, but not less
        than the bot certainly computed. Time before the first look and time since then are
        attributed apart, because threads are only known since then.

        unread_us  the time for which the answer may have waited for the referee
        """
        wall_us = self._wall_us(share_us)
        if self._base is None:
            return min(wall_us, self.first_us), 0
        at_us, base_share_us, before = self._base
        if now_us == at_us:
            return self._base_us, 0
        first_us, first = self._first or (now_us, reading)
        # One thread may have used all the CPU time before the first look.
        busiest_us = min(first_us - at_us, first.usage.cpu_us - before.cpu_us)
        busiest_us += pauses.busiest_us(first.threads_us, reading.threads_us)
        least_us = pauses.least_us(before, reading.usage, busiest_us, cpus)
        used_us = first.usage.cpu_us - before.cpu_us
        denied_us = pauses.denied_us(
            first.usage.denied_us - before.denied_us,
            None,
            max(0, first_us - at_us - used_us),
            used_us,
            cpus,
        )
        used_us = reading.usage.cpu_us - first.usage.cpu_us
        denied_us += pauses.denied_us(
            reading.usage.denied_us - first.usage.denied_us,
            reading.waited_us - first.waited_us,
            now_us - first_us - used_us,
            used_us,
            cpus,
        )
        after = reading.usage._replace(denied_us=before.denied_us + denied_us)
        credit_us = pauses.credit_us(now_us - at_us, before, after)
        credit_us += self._free_us + unread_us
        # The decision's share of the time, as other decisions may have been open as well.
        share = (share_us - base_share_us) / (now_us - at_us)
        charged_us = max(now_us - at_us - credit_us, least_us)
        us = min(wall_us, self._base_us + round(charged_us * share))
        return us, round(least_us * share)

    def _may_be_starved(self, now_us: int, reading: Reading, cpus: int) -> bool:
        """Return True if other programs used so much of the CPUs that the bot may be starved."""
        assert self._base is not None
        at_us, _, before = self._base
        return pauses.may_be_starved(now_us - at_us, before, reading.usage, cpus)

    def _undecided_us(self, now_us: int, reading: Reading, gauge: Gauge) -> int:
        """Return the delay until the next look if a timeout is not final yet; 0 if it is final.

        It is not final while an answer may be on its way, or a thread may wait for a CPU without
        being counted yet. This postpones it by LONGEST_READY_US at most.
        """
        waited_us = reading.referee_waited_us - self._referee_us
        self._referee_us = reading.referee_waited_us
        if self._over_us is None:
            self._over_us = now_us
            if reading.referee_waited_us - self._looks[0][1] > pauses.BUSY_US:
                return pauses.GRACE_US
        if now_us - self._over_us > pauses.LONGEST_READY_US:
            return 0
        # An answer passes through several threads and several passes of the event loop.
        if waited_us > pauses.BUSY_US or gauge.referee_is_ready() or gauge.bot_is_ready():
            return pauses.AGAIN_US
        return 0


class SharedTime:
    """Divides a bot's time among its open decisions.

    While n decisions are open each is charged one nth of the time that passes: a message with n
    requests has n times the budget, and the charges add up to the time that has passed.
    """

    __slots__ = ("_at_us", "_open", "_share_us")

    def __init__(self) -> None:
        self._open = 0
        self._share_us = 0.0
        self._at_us = 0

    def at(self, now_us: int) -> float:
        """Return the charge of an imaginary decision that was open from the beginning until now.

        The difference of the values at two moments is the charge of a decision that was open
        between them.
        """
        if self._open:
            self._share_us += (now_us - self._at_us) / self._open
        self._at_us = now_us
        return self._share_us

    def open(self, count: int, now_us: int) -> float:
        """Add open decisions from now on; return `at(now_us)`."""
        share_us = self.at(now_us)
        self._open += count
        return share_us

    def close(self, now_us: int) -> float:
        """Remove one open decision; return `at(now_us)`."""
        if now_us != self._at_us:  # all answers of one message have the same time
            self.at(now_us)
        self._open -= 1
        return self._share_us
