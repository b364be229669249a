"""A bot that does not take its messages: the session and the freezer, in every order of events.

The stream is one in memory whose window is shut at every point; the clock is moved by hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import cycle, islice, permutations

import pytest

from deepsea_referee.errors import BotFault, RefereeError
from deepsea_referee.pauses import LAZY_US, Freezer, Pauses
from deepsea_referee.server import answers_of
from deepsea_referee.session import (
    HELD_BYTES,
    MESSAGE_BYTES,
    WRITE_LIMIT_US,
    Session,
    TimedAnswer,
)
from deepsea_rules.faults import Fault
from deepsea_sdk import wire
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.bot import TimeLeft
from helpers.manual_clock import ManualClock
from helpers.peers import one_pass
from helpers.tiers import daily

S = 1_000_000
LIMIT_US = 100_000
SHORT = TimeLeft(LIMIT_US, 0)
LONG = TimeLeft(60 * S, 0)
PASSES = 4
"""What has happened is dealt with after so many passes of the event loop."""


class Bot:
    """A bot behind a stream whose window it shuts and opens: what it is sent, what it is asked.

    It is the process that is frozen, too. One that is frozen opens no window.
    """

    def __init__(self) -> None:
        self.frozen = False
        self.taken: list[pb.PlayResponse] = []
        self.requests: list[int] = []
        """What it has been asked and has not answered."""
        self._open = asyncio.Event()
        self._open.set()
        self._opens = False
        self._sent: asyncio.Queue[bytes] = asyncio.Queue()

    def freeze(self) -> None:
        self.frozen = True

    def thaw(self) -> None:
        self.frozen = False
        if self._opens:
            self.open()

    def shut(self) -> None:
        """Take no more messages."""
        self._opens = False
        self._open.clear()

    def open(self) -> None:
        """Take messages again, once it is not frozen."""
        self._opens = self.frozen
        if not self.frozen:
            self._open.set()

    def answer(self, *request_ids: int) -> None:
        """Send a message with answers."""
        decisions = [pb.Decision(request_id=number, action="down") for number in request_ids]
        self._sent.put_nowait(pb.PlayRequest(decisions=decisions).SerializeToString())

    def answer_all(self) -> None:
        """Answer what it has been asked, unless it is frozen."""
        if self.requests and not self.frozen:
            self.answer(*self.requests)
            self.requests.clear()

    async def write(self, data: bytes) -> None:
        await self._open.wait()
        message = pb.PlayResponse.FromString(data)
        self.taken.append(message)
        self.requests += [request.request_id for request in message.requests]

    async def read(self) -> list[wire.RequestAnswer]:
        return answers_of(await self._sent.get())

    async def abort(self, fault: BotFault | None) -> None:
        pass


class Seat:
    """The session of such a bot, which is frozen when it rests."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.bot = Bot()
        self.session = Session(self.clock)
        self.turns = Freezer(self.clock).join(self.bot)
        self.session.pauses = Pauses(turns=self.turns)
        self.asked = 0
        """The number of requests that wait for an outcome."""
        self.outcomes: list[TimedAnswer | BotFault] = []
        self.asked_us = 0
        """The time in which there was one at least."""

    def ask(self, time_left: TimeLeft = LONG) -> int:
        """Ask for a decision."""
        self.asked += 1
        return self.session.ask(pb.DecisionRequest().SerializeToString(), time_left, self._heard)

    def _heard(self, came: TimedAnswer | BotFault | RefereeError) -> None:
        assert not isinstance(came, RefereeError)
        self.asked -= 1
        self.outcomes.append(came)

    def send(self, size: int = 1) -> None:
        """Send a message without a request."""
        self.session.send(wire.void_message("x" * size))

    async def jump(self, us: int) -> None:
        """Let the session deal with what has happened, then let time pass, from alarm to alarm."""
        await self.settled()
        while us:
            step_us = min(us, *self._until_alarm())
            self.asked_us += step_us * bool(self.asked)
            self.clock.jump(step_us)
            await self.settled()
            us -= step_us

    def _until_alarm(self) -> Iterable[int]:
        due = [alarm.when_us for alarm in self.clock._alarms if not alarm.cancelled]
        return [max(1, min(due) - self.clock.now_us())] if due else [S]

    async def settled(self) -> None:
        """Let the session deal with what has happened, and look whether its laws hold."""
        for _ in range(PASSES):
            await one_pass()
        assert not (self.asked and self.bot.frozen), "who is asked is frozen"

    @property
    def charged_us(self) -> int:
        return sum(outcome.us for outcome in self.outcomes)

    @property
    def faults(self) -> list[Fault]:
        return [one.fault for one in self.outcomes if isinstance(one, BotFault)]


@asynccontextmanager
async def served() -> AsyncIterator[Seat]:
    seat = Seat()
    serving = asyncio.create_task(seat.session.serve(seat.bot))
    await seat.settled()
    try:
        yield seat
    finally:
        seat.turns.leave()
        seat.bot.open()
        seat.session.fail(BotFault(Fault.CRASH, "the test is over"))
        await asyncio.gather(serving, return_exceptions=True)


EVENTS: dict[str, Callable[[Seat], object]] = {
    "shut": lambda seat: seat.bot.shut(),
    "open": lambda seat: seat.bot.open(),
    "send": Seat.send,
    "ask": Seat.ask,
    "answer": lambda seat: seat.bot.answer_all(),
    # Time in which it is frozen if it may be.
    "rest": lambda seat: seat.jump(LAZY_US),
}


async def happens(seat: Seat, event: str) -> None:
    """Let an event happen, and a little time pass after it."""
    done = EVENTS[event](seat)
    if asyncio.iscoroutine(done):
        await done
    await seat.jump(10)


EVERY = pytest.mark.parametrize("every", daily([1, 3], [3]))
"""Every third order in every run, all before a release."""


@EVERY
async def test_in_every_order_who_is_asked_is_not_frozen_and_is_charged_all_that_time(
    every: int,
) -> None:
    for order in islice(permutations(EVENTS), 0, None, every):
        async with served() as seat:
            for event in [*order, "ask", *("rest", "open", "answer") * 2]:
                await happens(seat, event)
            assert seat.faults == [], order
            assert [seat.asked, len(seat.outcomes)] == [0, 2], order
            assert abs(seat.charged_us - seat.asked_us) <= 1, order


@EVERY
async def test_in_every_order_nobody_waits_longer_than_a_write_may_take(every: int) -> None:
    kinds = cycle([(SHORT, Fault.TIMEOUT), (LONG, Fault.CRASH)])
    orders = islice(permutations(EVENTS), 0, None, every)
    for order, (left, fault) in zip(orders, kinds, strict=False):
        async with served() as seat:
            for event in [*order, "rest", "open", "answer", "shut", "send", "rest"]:
                await happens(seat, event)
            asked_us = seat.asked_us
            seat.ask(left)
            await seat.jump(WRITE_LIMIT_US + S)
            assert seat.faults == [fault], order
            assert seat.outcomes[-1].us == seat.asked_us - asked_us, order


async def test_a_message_that_is_not_taken_is_on_the_clock_of_the_next_request() -> None:
    async with served() as seat:
        seat.bot.shut()
        seat.send()
        await seat.jump(S)
        seat.ask()
        await seat.jump(4 * S)
        seat.bot.open()
        await seat.settled()
        await seat.jump(100)
        seat.bot.answer_all()
        await seat.settled()
        assert seat.outcomes == [TimedAnswer("down", 4 * S + 100, None, 4 * S + 100)]


async def test_a_request_that_waits_for_the_answer_to_another_is_not_charged() -> None:
    async with served() as seat:
        seat.bot.shut()
        seat.ask(SHORT)  # stuck itself
        await seat.settled()
        seat.ask(SHORT)
        await seat.jump(LIMIT_US - 1)
        seat.bot.open()
        await seat.settled()
        assert seat.bot.requests == [1]
        seat.bot.answer_all()
        await seat.settled()
        await seat.jump(LIMIT_US - 1)
        seat.bot.answer_all()
        await seat.settled()
        assert [outcome.us for outcome in seat.outcomes] == [LIMIT_US - 1] * 2
        assert seat.faults == []


@pytest.mark.parametrize("guesses", [True, False], ids=["answered unread", "timed out"])
async def test_its_clock_starts_when_the_other_is_answered_or_has_timed_out(guesses: bool) -> None:
    async with served() as seat:
        seat.bot.shut()
        first = seat.ask(SHORT)
        await seat.settled()
        seat.ask(SHORT)
        if guesses:
            seat.bot.answer(first)
        else:
            await seat.jump(LIMIT_US + 1)
        await seat.settled()
        assert len(seat.outcomes) == 1
        await seat.jump(LIMIT_US)
        assert len(seat.outcomes) == 1
        await seat.jump(1)
        assert len(seat.outcomes) == 2
        assert seat.faults[-1] is Fault.TIMEOUT


async def test_a_request_that_timed_out_unsent_comes_before_the_notice_of_its_fault() -> None:
    async with served() as seat:
        seat.bot.shut()
        seat.send()
        await seat.settled()
        for number in range(1, 4):
            seat.ask(SHORT)
            await seat.jump(LIMIT_US + 1)
            assert seat.faults == [Fault.TIMEOUT] * number
            notice = pb.PlayResponse(faults=[pb.FaultNotice(request_id=number)])
            seat.session.send(notice.SerializeToString())
        seat.ask()
        await seat.settled()
        seat.bot.open()
        await seat.jump(1)
        heard: list[int] = []
        for message in seat.bot.taken:  # within a message, fields in the order of their numbers
            heard += [-fault.request_id for fault in message.faults]
            heard += [request.request_id for request in message.requests]
        assert heard == [1, -1, 2, -2, 3, -3, 4]
        seat.bot.answer(1, 2, 3, 4)  # three of them late
        await seat.settled()
        assert isinstance(seat.outcomes[-1], TimedAnswer)
        before = len(seat.bot.taken)
        for _ in range(2):
            seat.send()
        await seat.settled()
        assert len(seat.bot.taken) == before + 1


async def test_requests_behind_a_stuck_message_time_out_one_by_one() -> None:
    async with served() as seat:
        seat.bot.shut()
        seat.send()
        await seat.settled()
        for _ in range(3):
            seat.ask(SHORT)
        for number in range(1, 4):
            await seat.jump(LIMIT_US)
            assert len(seat.outcomes) == number - 1
            await seat.jump(1)
            assert seat.faults == [Fault.TIMEOUT] * number
        # Those that are in time come in one message, and share what follows.
        for _ in range(3):
            seat.ask(SHORT)
        await seat.jump(30)
        seat.bot.open()
        await seat.jump(30)
        assert [request.request_id for request in seat.bot.taken[-1].requests] == [4, 5, 6]
        seat.bot.answer(4, 5, 6)
        await seat.settled()
        assert seat.outcomes[3:] == [TimedAnswer("down", us, wall_us=60) for us in (40, 10, 10)]


async def test_a_request_that_was_not_sent_yet_cannot_be_answered() -> None:
    async with served() as seat:
        seat.bot.shut()
        seat.send()
        await seat.settled()
        number = seat.ask()
        seat.bot.answer(number)
        await seat.settled()
        assert seat.faults == [Fault.PROTOCOL_ERROR]


async def test_a_request_behind_more_than_one_message_is_on_the_clock_from_the_first() -> None:
    async with served() as seat:
        seat.bot.shut()
        seat.send()
        await seat.settled()
        for _ in range(5):
            seat.send(MESSAGE_BYTES // 2 - 100)
        seat.ask(SHORT)
        await seat.jump(LIMIT_US + 1)
        assert seat.faults == [Fault.TIMEOUT]
        seat.bot.open()
        await seat.settled()
        assert [len(message.results) for message in seat.bot.taken] == [1, 2, 2, 1]
        # The same where no write is under way when it is asked.
        for _ in range(3):
            seat.send(MESSAGE_BYTES // 2 - 100)
        seat.ask(SHORT)
        seat.bot.shut()
        await seat.jump(LIMIT_US + 1)
        assert seat.faults == [Fault.TIMEOUT] * 2


async def test_who_is_woken_to_read_and_does_not_is_frozen_again() -> None:
    async with served() as seat:
        await seat.jump(LAZY_US)
        seat.bot.shut()
        for _ in range(3):
            seat.send(HELD_BYTES)
        await seat.settled()
        states = [seat.bot.frozen]
        await seat.jump(LAZY_US)
        assert [*states, seat.bot.frozen] == [False, True]
        # However long it is frozen, it has the whole time for reading when it is asked.
        await seat.jump(3 * WRITE_LIMIT_US - 1)
        seat.ask()
        await seat.jump(WRITE_LIMIT_US)
        assert seat.faults == []
        await seat.jump(1)
        assert seat.faults == [Fault.CRASH]
