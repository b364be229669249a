"""Sessions that are disturbed on purpose, to test how a bot goes on."""

from __future__ import annotations

from typing import Final

from deepsea_referee.errors import BotFault, RefereeError
from deepsea_referee.transport.answers import OnAnswer, TimedAnswer
from deepsea_referee.transport.session import Session
from deepsea_rules.faults import Fault
from deepsea_sdk.clock import TimeLeft

NO_TIME: Final = TimeLeft(0, 0)


class Disturbed:
    """A wrapper of a session that disturbs the third request."""

    SAID = ""
    QUESTION = 3

    def __init__(self, session: Session) -> None:
        self._session = session
        self._asked = 0

    @property
    def features(self) -> frozenset[str]:
        return self._session.features

    def send(self, message: bytes) -> None:
        self._session.send(message)

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        self._asked += 1
        if self._asked == self.QUESTION:
            return self.do(request, time_left, on_answer)
        return self._session.ask(request, time_left, on_answer)

    def do(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Send the third request, disturbed."""
        raise NotImplementedError


class TooLate(Disturbed):
    """Leaves no time for the answer: whenever it comes, it is reported as a timeout."""

    SAID = "a timeout on purpose"

    def do(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        timeout = BotFault(Fault.TIMEOUT, self.SAID, sum(time_left))

        def report(outcome: TimedAnswer | BotFault | RefereeError) -> None:
            crashed = isinstance(outcome, BotFault) and outcome.fault is not Fault.TIMEOUT
            on_answer(outcome if crashed else timeout)

        # The session's own timer runs from the write on: no notice is sent before the request.
        return self._session.ask(request, NO_TIME, report)


class Dropped(Disturbed):
    """Ends the stream."""

    SAID = "the connection was dropped on purpose"

    def do(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        self._session.fail(Fault.CRASH, self.SAID)
        return self._session.ask(request, time_left, on_answer)
