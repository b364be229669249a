"""A disturbance reports to the game what a session could report, and when it could."""

from __future__ import annotations

from typing import cast

import pytest

from deepsea_referee.errors import BotFault, HostTooBusy, RefereeError
from deepsea_referee.transport.answers import OnAnswer, TimedAnswer
from deepsea_referee.transport.session import Session
from deepsea_referee.workbench.disturbed import TooLate
from deepsea_rules.faults import Fault
from deepsea_sdk.clock import TimeLeft

TIME_LEFT = TimeLeft(1_000, 20_000)


class Recorder:
    """A session that writes nothing until the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[TimeLeft, OnAnswer]] = []

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        self.asked.append((time_left, on_answer))
        return len(self.asked)


@pytest.mark.parametrize(
    ("outcome", "fault"),
    [
        (TimedAnswer("down", 7), Fault.TIMEOUT),
        (BotFault(Fault.TIMEOUT, "by the clock", 1), Fault.TIMEOUT),
        (HostTooBusy("nobody can tell", 1), Fault.TIMEOUT),
        (BotFault(Fault.CRASH, "it ended", 0), Fault.CRASH),
    ],
)
def test_a_late_answer_is_reported_once_the_session_has_its_outcome(
    outcome: TimedAnswer | BotFault | RefereeError, fault: Fault
) -> None:
    session = Recorder()
    heard: list[TimedAnswer | BotFault | RefereeError] = []
    disturbed = TooLate(cast(Session, session))
    for _ in range(TooLate.QUESTION):
        disturbed.ask(b"", TIME_LEFT, heard.append)
    # A notice of a fault before its request was written would name a request nobody knows.
    assert heard == []
    assert [left for left, _ in session.asked] == [TIME_LEFT, TIME_LEFT, (0, 0)]
    session.asked[-1][1](outcome)
    (reported,) = heard
    assert isinstance(reported, BotFault)
    assert reported.fault is fault
    assert (reported.detail == TooLate.SAID) == (fault is Fault.TIMEOUT)
