"""The timer of one decision request: what a bot is charged for it, and when it times out.

host_load.py attributes time to the bot or to the host; this module combines that with the
request's limit and the times of the readings. A timer knows no stream: the session calls it when
the request is written, when a check is due, and when an answer arrives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from deepsea_referee.errors import BotFault, RefereeError
from deepsea_referee.timing.host_load import (
    AGAIN_US,
    BUSY_US,
    GRACE_US,
    LONGEST_READY_US,
    Gauge,
    Reading,
    charged_us,
    host_is_hopeless,
)
from deepsea_rules.faults import Fault
from deepsea_rules.time_control import overrun


class TimedAnswer(NamedTuple):
    """A bot's decision and the time that it is charged."""

    action: str
    us: int
    error: str | None = None
    """What the bot raised instead of deciding."""


OnAnswer = Callable[[TimedAnswer | BotFault | RefereeError], object]
"""Receives a request's outcome: an answer, the bot's fault, or the referee's error."""


class OpenQuestion:
    """A decision request that waits for its answer. Its clock starts when it is written.

    limit_us  the timeout
    look_us   the charge at which the first reading is taken; None if there are no readings
    """

    began_us: int | None = None
    share_us = 0.0
    """The session's shared time when it began."""
    credit_us = 0
    """Time that is not charged because the event loop was blocked."""
    _looked: tuple[int, float, Reading] | None = None
    """The first reading: the time, the shared time, the reading."""
    _looks: tuple[int, int] = (0, 0)
    """The referee's waiting time for a CPU at the last check but one, and at the last."""
    _over_us: int | None = None
    """The time of the first check at which the limit had passed."""

    def __init__(
        self, request_id: int, limit_us: int, look_us: int | None, on_answer: OnAnswer
    ) -> None:
        self.request_id = request_id
        self.limit_us = limit_us
        self.look_us = look_us
        self.on_answer = on_answer

    @property
    def was_looked_at(self) -> bool:
        """Whether an answer needs a reading to be charged."""
        return self._looked is not None

    def early_us(self, share_us: float) -> int:
        """The time until the first reading is due; `share_us` is the session's shared time."""
        if self._looked is not None:
            return 0
        return max(0, (self.look_us or 0) - round(share_us - self.share_us))

    def answered(
        self,
        action: str,
        error: str | None,
        now_us: int,
        share_us: float,
        reading: Reading | None,
    ) -> TimedAnswer | BotFault:
        """The outcome of an answer that has arrived now: the answer or a timeout."""
        us = self._charged_us(now_us, share_us, reading, answered=True)
        return self._timeout(us) if us > self.limit_us else TimedAnswer(action, us, error)

    def look(
        self, now_us: int, share_us: float, reading: Reading | None, gauge: Gauge | None
    ) -> BotFault | RefereeError | int:
        """The outcome if the request has timed out; else the delay until the next check."""
        if self._looked is None and reading is not None:
            self._looked = (now_us, share_us, reading)
            self._looks = (reading.referee_waited_us, reading.referee_waited_us)
        us = self._charged_us(now_us, share_us, reading, answered=False)
        if reading is not None and gauge is not None:
            if us > self.limit_us and (again_us := self._undecided_us(now_us, reading, gauge)):
                return again_us
            self._looks = (self._looks[1], reading.referee_waited_us)
        if us > self.limit_us:
            return self._timeout(us)
        wall_us = round(share_us - self.share_us)
        if host_is_hopeless(wall_us, self.limit_us):
            return RefereeError(f"the host was too busy for {wall_us} us to time a decision")
        return self.limit_us - us

    def _charged_us(
        self, now_us: int, share_us: float, reading: Reading | None, *, answered: bool
    ) -> int:
        """The charge up to now."""
        wall_us = round(share_us - self.share_us)
        if self.look_us is None:
            return max(0, wall_us - self.credit_us)
        # The first reading is due exactly at look_us: a longer time before it is a delay of the
        # referee.
        if self._looked is None or reading is None:
            return min(wall_us, self.look_us)
        looked_us, looked_share_us, before = self._looked
        if now_us == looked_us:
            return self.look_us
        # An answer that is read now may have arrived when the last check was due, or since.
        unread_us = reading.referee_waited_us - self._looks[0] if answered else 0
        since_us = charged_us(now_us - looked_us, before, reading, unread_us)
        part = (share_us - looked_share_us) / (now_us - looked_us)
        return min(wall_us, self.look_us + round(since_us * part))

    def _undecided_us(self, now_us: int, reading: Reading, gauge: Gauge) -> int:
        """The delay until the next check before the timeout is final; 0 if it is final.

        During these checks, the referee's waiting time counts from before the first of them.
        """
        if self._over_us is None:
            self._over_us = now_us
            if reading.referee_waited_us - self._looks[0] > BUSY_US:
                return GRACE_US
        assert self._looked is not None
        worked_us = reading.cpu_us - self._looked[2].cpu_us
        if worked_us > self.limit_us or now_us - self._over_us > LONGEST_READY_US:
            return 0
        if gauge.referee_is_ready() or gauge.bot_is_ready():
            return AGAIN_US
        return 0

    def _timeout(self, us: int) -> BotFault:
        return BotFault(Fault.TIMEOUT, overrun(self.limit_us), us)
