"""One open question: what a bot is charged for it, and when its time is up.

host_load.py says what of a stretch of time the host took; here that is put together with the
question's limit and with the times at which the host was looked at. A question knows no stream: the
session tells it when it was written, when to look, and when an answer came.
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
    """What a bot decided, and how long it took."""

    action: str
    us: int


Heard = Callable[[TimedAnswer | BotFault | RefereeError], object]
"""Gets what came of a question: an answer, the bot's fault, or our own."""


class OpenQuestion:
    """A question that waits for its answer. Its clock starts when it is written.

    limit_us  the longest that its answer may take
    look_us   what it is charged when the host is looked at first; None if it never is
    """

    began_us: int | None = None
    share_us = 0.0
    """The session's shared time when it began."""
    credit_us = 0
    """What is not charged because the event loop was held up."""
    _looked: tuple[int, float, Reading] | None = None
    """When the host was first looked at: the time, the shared time, what had been used."""
    _looks: tuple[int, int] = (0, 0)
    """How long the referee had waited for a CPU at the last look but one, and at the last."""
    _over_us: int | None = None
    """When it was first found to have taken too long."""

    def __init__(
        self, request_id: int, game_id: str, limit_us: int, look_us: int | None, heard: Heard
    ) -> None:
        self.request_id = request_id
        self.game_id = game_id
        self.limit_us = limit_us
        self.look_us = look_us
        self.heard = heard

    @property
    def was_looked_at(self) -> bool:
        """Whether an answer needs a reading to be charged."""
        return self._looked is not None

    def early_us(self, share_us: float) -> int:
        """How much too early a first look would be; `share_us` is the session's shared time."""
        if self._looked is not None:
            return 0
        return max(0, (self.look_us or 0) - round(share_us - self.share_us))

    def answered(
        self, action: str, now_us: int, share_us: float, reading: Reading | None
    ) -> TimedAnswer | BotFault:
        """What an answer is worth that came now."""
        us = self._charged_us(now_us, share_us, reading, answered=True)
        return self._timeout(us) if us > self.limit_us else TimedAnswer(action, us)

    def look(
        self, now_us: int, share_us: float, reading: Reading | None, gauge: Gauge | None
    ) -> BotFault | RefereeError | int:
        """What came of it, if its time is up; else how soon to look again."""
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
        """What it is charged up to now."""
        wall_us = round(share_us - self.share_us)
        if self.look_us is None:
            return max(0, wall_us - self.credit_us)
        # The first look is due at once when its time has come: more than that before it is a
        # delay of the referee's own.
        if self._looked is None or reading is None:
            return min(wall_us, self.look_us)
        looked_us, looked_share_us, before = self._looked
        if now_us == looked_us:
            return self.look_us
        # An answer that is there may have come when the last look was due, or since.
        unread_us = reading.referee_waited_us - self._looks[0] if answered else 0
        since_us = charged_us(now_us - looked_us, before, reading, unread_us)
        part = (share_us - looked_share_us) / (now_us - looked_us)
        return min(wall_us, self.look_us + round(since_us * part))

    def _undecided_us(self, now_us: int, reading: Reading, gauge: Gauge) -> int:
        """How soon to look again before a timeout is called; 0 if it is one.

        While these looks go on, the referee's waiting counts from before them.
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
