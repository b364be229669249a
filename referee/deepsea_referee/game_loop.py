"""The loop of one game over streams: each answer is followed at once by the next request.

The loop only moves data: RefereedGame judges the answers. An error of the referee voids the game,
and every seat is notified.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from deepsea_referee.errors import BotFault, HostTooBusy, RefereeError
from deepsea_referee.transport.session import OnAnswer, TimedAnswer
from deepsea_rules.faults import Fault, FaultReport
from deepsea_rules.game import Question
from deepsea_rules.time_control import duration_text
from deepsea_sdk import wire
from deepsea_sdk.clock import TimeLeft
from deepsea_sdk.refereed_game import RefereedGame


class AskedSeat(Protocol):
    """The interface of a seat that a game needs; a Session has it."""

    @property
    def features(self) -> AbstractSet[str]:
        """The features of the bot's Hello."""

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Ask for a decision; `on_answer` is called once, later. Returns the request's id."""

    def send(self, message: bytes) -> None:
        """Send a message that needs no answer."""


async def play_to_end(
    refereed: RefereedGame, seats: Sequence[AskedSeat], suspects: Container[int] = ()
) -> int:
    """Play a game to its end; returns the longest time from a request to its answer.

    Raises RefereeError if the referee fails; the game is void then.

    suspects  seats for which a decision that the host delayed is a timeout; for others it voids
              the game with HostTooBusy
    """
    loop = _GameLoop(refereed, seats, suspects)
    loop.begin()
    await loop.over
    return loop.longest_us


class _GameLoop:
    """One game under way."""

    def __init__(
        self, refereed: RefereedGame, seats: Sequence[AskedSeat], suspects: Container[int]
    ) -> None:
        self._refereed = refereed
        self._game = refereed.game
        self._seats = seats
        self._suspects = suspects
        self._writer = wire.RequestWriter(refereed.game_id, self._game.events)
        self._marks = [None if wire.NO_EVENTS in seat.features else 0 for seat in seats]
        """The number of the game's events that each seat has received; None if it reads none."""
        if all(mark is None for mark in self._marks):
            self._game.keep_no_events()
        self._question: Question | None = None
        self._request_id = 0
        self.longest_us = 0
        """The longest time from a request to its answer, decisions of other games in it."""
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done at the end of the game; a void game sets a RefereeError."""

    def begin(self) -> None:
        """Send the start to every seat, and the first request."""
        try:
            for number, seat in enumerate(self._seats):
                seat.send(wire.start_message(self._refereed.info(number)))
            self._ask_next()
        except Exception as error:  # noqa: BLE001  (no exception here is a bot's fault)
            self._void(error)

    def _ask_next(self) -> None:
        """Send the next request, or end the game."""
        game = self._game
        self._question = question = game.pending()
        if question is None:
            self._end()
            return
        seat = question.seat
        time_left = self._refereed.time_left(seat)
        mark = self._marks[seat]
        request = self._writer.write(game.view(seat), mark, time_left)
        if mark is not None:
            self._marks[seat] = len(game.events)
        self._request_id = self._seats[seat].ask(request, time_left, self._on_answer)

    def _on_answer(self, came: TimedAnswer | BotFault | RefereeError) -> None:
        if self.over.done():  # the game was interrupted
            return
        question = self._question
        assert question is not None
        report: FaultReport | None
        try:
            if isinstance(came, TimedAnswer):
                action, us, error, wall_us, note = came
                if wall_us > self.longest_us:
                    self.longest_us = wall_us
                report = self._refereed.answer(question, action, us, error, note)
            else:
                report = self._fault(question, came)
            if report is not None:
                notice = self._refereed.notice(report, self._request_id)
                self._seats[question.seat].send(wire.fault_message(notice))
            self._ask_next()
        except Exception as error:  # noqa: BLE001  (no exception here is a bot's fault)
            self._void(error)

    def _fault(self, question: Question, came: BotFault | RefereeError) -> FaultReport:
        """Count a fault; raises for an error of the referee's own."""
        if isinstance(came, HostTooBusy):
            if question.seat not in self._suspects:
                raise HostTooBusy(str(came), came.us, question.seat)
            spent = f"no answer for {duration_text(came.us)}, and it made a game void before"
            came = BotFault(Fault.TIMEOUT, spent, came.us)
        if isinstance(came, RefereeError):
            raise came
        return self._refereed.fault(question, came.fault, came.detail, came.us)

    def _end(self) -> None:
        messages: dict[int | None, bytes] = {}
        for number, (seat, mark) in enumerate(zip(self._seats, self._marks, strict=True)):
            if mark not in messages:  # what a seat gets depends on nothing else
                happenings = () if mark is None else self._game.events[mark:]
                messages[mark] = wire.result_message(self._refereed.end(number), happenings)
            seat.send(messages[mark])
        self.over.set_result(None)

    def _void(self, error: Exception) -> None:
        for seat in self._seats:
            seat.send(wire.void_message(self._refereed.game_id))
        if isinstance(error, HostTooBusy):
            self.over.set_exception(error)
            return
        void = RefereeError(f"{type(error).__name__}: {error}")
        void.__cause__ = error
        self.over.set_exception(void)
