"""Plays one game between bots, from its line-up to its record.

Used by matches, rated games and checks. The loop over the bots' streams only moves data: each
answer is followed at once by the next request, RefereedGame judges the answers. An error of the
referee voids the game, and every seat is notified.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Protocol

from deepsea_referee.bots.output import bot_error
from deepsea_referee.bots.pool import Slot
from deepsea_referee.bots.process import BotProcess
from deepsea_referee.errors import BotFault, HostTooBusy, RefereeError
from deepsea_referee.transport.session import OnAnswer, Session, TimedAnswer
from deepsea_rules.faults import Fault, FaultReport
from deepsea_rules.game import Question
from deepsea_rules.time_control import duration_text
from deepsea_sdk import wire
from deepsea_sdk.clock import TimeLeft
from deepsea_sdk.refereed_game import PlayedGame, RefereedGame


class AskedSeat(Protocol):
    """The interface of a seat that a game needs; a Session has it."""

    @property
    def features(self) -> AbstractSet[str]:
        """The features of the bot's Hello."""

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Ask for a decision; `on_answer` is called once, later. Returns the request's id."""

    def send(self, message: bytes) -> None:
        """Send a message that needs no answer."""


class Processes(Protocol):
    """The bots of a game; a BotPool has this."""

    def running(self, number: Slot) -> BotProcess | None:
        """The slot's process for a new game if it is there already, which it nearly always is."""

    def ready(self, number: Slot, *, suspect: bool = False) -> Awaitable[BotProcess]:
        """The slot's process for a new game, restarted if it has exited."""

    def given_up(self, number: Slot) -> str:
        """Why the slot's process is not started any more; "" if it is."""

    def finished_game(self, number: Slot) -> None:
        """Note that a game with the slot's process is over."""


async def play_game(
    refereed: RefereedGame,
    pool: Processes,
    line_up: Sequence[Slot],
    between: Mapping[int, Callable[[Session], AskedSeat]] | None = None,
    suspects: Container[int] = frozenset(),
    blamed: Container[int] = frozenset(),
) -> PlayedGame:
    """Play a game; raises RefereeError if it is void because the referee failed.

    Raises HostTooBusy, with the seat, if a bot could not be timed because of the host's load.

    line_up  for each seat its slot in the pool; all but one seat of a slot have another player
             in `between`
    between  for some seats, what is asked in place of the session: a wrapper that disturbs the
             game on purpose, or another player; faults that follow are not blamed on the
             bot's process
    suspects seats that have made a game void so before: now it is their timeout
    blamed   seats of `between` that pass all on, so that their faults are the bot's
    """
    between = between or {}
    running = [pool.running(slot) for slot in line_up]
    processes = [process for process in running if process is not None]
    if len(processes) < len(line_up):
        processes = await _ready(pool, line_up, between, suspects)
    missing = {
        seat: pool.given_up(line_up[seat])
        for seat, process in enumerate(processes)
        if not process.session.usable
    }
    refereed.own_paths = lambda seat, text: processes[seat].bot.own_paths(text)
    seats: list[AskedSeat] = [process.session for process in processes]
    for seat, disturb in between.items():
        seats[seat] = disturb(processes[seat].session)
    longest_us = await play_to_end(refereed, seats, suspects)
    for slot in line_up:
        pool.finished_game(slot)
    played = refereed.played()
    for report in played.faults:
        if shortage := processes[report.seat].shortage():
            raise shortage  # a helper of the bot, perhaps, whose end came as another fault
    faults = [
        _trimmed(report, processes[report.seat])
        if report.seat in between and report.seat not in blamed
        else await _explained(report, processes[report.seat], missing.get(report.seat))
        for report in played.faults
    ]
    return replace(played, faults=tuple(faults), longest_us=longest_us)


async def _ready(
    pool: Processes,
    line_up: Sequence[Slot],
    between: Container[int],
    suspects: Container[int],
) -> list[BotProcess]:
    """The bots' processes; one that did not start fails each request.

    between  seats that have another player: a start is none of theirs
    """
    seats = {slot: seat for seat, slot in enumerate(line_up) if seat not in between}
    seats = {slot: seats.get(slot, seat) for seat, slot in enumerate(line_up)}
    starts = [pool.ready(slot, suspect=seat in suspects) for slot, seat in seats.items()]
    # All at once, and wait for all: none may still be starting when the pool is left.
    started = await asyncio.gather(*starts, return_exceptions=True)
    processes = {}
    for (slot, seat), one in zip(seats.items(), started, strict=True):
        if isinstance(one, HostTooBusy):
            raise HostTooBusy(str(one), one.us, seat)
        if isinstance(one, BaseException):
            raise one
        processes[slot] = one
    return [processes[slot] for slot in line_up]


async def _explained(report: FaultReport, process: BotProcess, missing: str | None) -> FaultReport:
    """The report, for a crash with the exit status and error of the process.

    missing  None if it ran when the game began; else why it was not started, or ""
    """
    if missing:
        return replace(report, came=missing, when="absent")
    process.troubled = True
    if missing == "":  # the report of its start has the exit status already
        return replace(report, when="start", error=process.error_text())
    if report.error:
        return _trimmed(report, process)
    if report.fault is not Fault.CRASH:
        return report
    came = f"{report.came}: {await process.exit_text()}"
    return replace(report, came=came, error=process.error_text())


def _trimmed(report: FaultReport, process: BotProcess) -> FaultReport:
    """The report with the author's part of the error that the bot sent."""
    return replace(report, error=bot_error(report.error, process.bot))


# The loop of one game


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
        self._writer = wire.RequestWriter(refereed.shown_id, self._game.events)
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
        detail, public = came.detail, came.public
        return self._refereed.fault(question, came.fault, detail, came.us, public=public)

    def _end(self) -> None:
        messages: dict[int | None, bytes] = {}
        for number, (seat, mark) in enumerate(zip(self._seats, self._marks, strict=True)):
            if mark not in messages:  # what a seat gets depends on nothing else
                engine_events = () if mark is None else self._game.events[mark:]
                messages[mark] = wire.result_message(self._refereed.end(number), engine_events)
            seat.send(messages[mark])
        self.over.set_result(None)

    def _void(self, error: Exception) -> None:
        for seat in self._seats:
            seat.send(wire.void_message(self._refereed.shown_id))
        if not isinstance(error, RefereeError):
            cause, error = error, RefereeError(f"{type(error).__name__}: {error}")
            error.__cause__ = cause
        self.over.set_exception(error)
