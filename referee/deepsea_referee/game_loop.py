"""The loop of one game over streams: each answer is followed at once by the next request.

The loop only moves data: RefereedGame judges the answers. An error of the referee voids the game,
and every seat is notified.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from deepsea_referee.errors import BotFault, RefereeError
from deepsea_referee.timing.decision_timer import OnAnswer, TimedAnswer
from deepsea_rules.faults import FaultReport
from deepsea_rules.game import Question
from deepsea_sdk import wire
from deepsea_sdk.clock import TimeLeft
from deepsea_sdk.refereed_game import RefereedGame


class AskedSeat(Protocol):
    """The interface of a seat that a game needs; a Session has it."""

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Ask for a decision; `on_answer` is called once, later. Returns the request's id."""

    def send(self, message: bytes) -> None:
        """Send a message that needs no answer."""


async def play_to_end(refereed: RefereedGame, seats: Sequence[AskedSeat]) -> None:
    """Play a game to its end. Raises RefereeError if the referee fails; the game is void then."""
    loop = _GameLoop(refereed, seats)
    loop.begin()
    await loop.over


class _GameLoop:
    """One game under way."""

    def __init__(self, refereed: RefereedGame, seats: Sequence[AskedSeat]) -> None:
        self._refereed = refereed
        self._game = refereed.game
        self._seats = seats
        self._writer = wire.RequestWriter(refereed.game_id, self._game.events)
        self._marks = [0] * len(seats)
        """The number of the game's events that each seat has received."""
        self._question: Question | None = None
        self._request_id = 0
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
        request = self._writer.write(game.view(seat), self._marks[seat], time_left)
        self._marks[seat] = len(game.events)
        self._request_id = self._seats[seat].ask(request, time_left, self._on_answer)

    def _on_answer(self, came: TimedAnswer | BotFault | RefereeError) -> None:
        if self.over.done():  # the game was interrupted
            return
        question = self._question
        assert question is not None
        report: FaultReport | None
        try:
            if isinstance(came, RefereeError):
                raise came
            if isinstance(came, BotFault):
                report = self._refereed.fault(question, came.fault, came.detail, came.us)
            else:
                report = self._refereed.answer(question, *came)
            if report is not None:
                notice = self._refereed.notice(report, self._request_id)
                self._seats[question.seat].send(wire.fault_message(notice))
            self._ask_next()
        except Exception as error:  # noqa: BLE001  (no exception here is a bot's fault)
            self._void(error)

    def _end(self) -> None:
        for number, seat in enumerate(self._seats):
            happenings = self._game.events[self._marks[number] :]
            seat.send(wire.result_message(self._refereed.end(number), happenings))
        self.over.set_result(None)

    def _void(self, error: Exception) -> None:
        for seat in self._seats:
            seat.send(wire.void_message(self._refereed.game_id))
        void = RefereeError(f"{type(error).__name__}: {error}")
        void.__cause__ = error
        self.over.set_exception(void)
