"""One game between bots, or bots and a person, from its line-up to its record.

Used by matches, rated games and checks. Start reading at `play_game`. The loop over the bots'
streams only moves data: each answer is followed at once by the next request, and RefereedGame
judges the answers.

Invariant: an error of the referee voids the game, and every seat is notified.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    Awaitable,
    Callable,
    Container,
    Mapping,
    Sequence,
)
from collections.abc import (
    Set as AbstractSet,
)
from dataclasses import replace
from typing import Protocol

from deepsea_referee.bots.output import bot_error
from deepsea_referee.bots.pool import Slot
from deepsea_referee.bots.process import BotProcess
from deepsea_referee.errors import BotFault, HostTooBusy, RefereeError
from deepsea_referee.session import OnAnswer, Session, TimedAnswer
from deepsea_rules.faults import Fault, FaultReport
from deepsea_rules.game import Question
from deepsea_rules.time_control import duration_text
from deepsea_sdk import wire
from deepsea_sdk.bot import TimeLeft
from deepsea_sdk.table import PlayedGame, RefereedGame


class AskedSeat(Protocol):
    """A seat that can be asked for decisions: the session of a bot, or another player."""

    @property
    def features(self) -> AbstractSet[str]:
        """The features that the bot has declared in its first message."""

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Request a decision, and return the request's id. `on_answer` is called once, later."""

    def send(self, message: bytes) -> None:
        """Send a message that needs no answer."""


class Processes(Protocol):
    """The part of a BotPool that a game uses: the processes of bots, by their slots."""

    def running(self, number: Slot) -> BotProcess | None:
        """Return the slot's process if it is running, as it nearly always is, else None."""

    def ready(self, number: Slot, *, suspect: bool = False) -> Awaitable[BotProcess]:
        """Return the slot's process for a new game, restarted if it has exited."""

    def given_up(self, number: Slot) -> str:
        """Return why the slot's process is never started again; "" if it still is."""

    def finished_game(self, number: Slot) -> None:
        """Count a finished game of the slot's process."""


async def play_game(
    refereed: RefereedGame,
    pool: Processes,
    line_up: Sequence[Slot],
    substitutes: Mapping[int, Callable[[Session], AskedSeat]] | None = None,
    suspects: Container[int] = frozenset(),
    blamed: Container[int] = frozenset(),
) -> PlayedGame:
    """Play a game between the processes of a pool, and return it with its faults explained.

    line_up      the slot of each seat in the pool; several seats may have the same slot if all but
                 one of them have a substitute
    substitutes  for some seats, a function from the session to the player that is asked instead:
                 a wrapper of the session, or another player; its faults are not blamed on the
                 bot's process
    suspects     seats whose bot the host has delayed in an earlier game, so that it was void: this
                 time such a delay counts as a timeout
    blamed       seats with a substitute that forwards all requests, so that its faults are
                 blamed on the bot's process nevertheless

    Raises RefereeError if the game is void because the referee failed; in particular HostTooBusy,
    with the seat, if a bot could not be timed because of the host's load.
    """
    substitutes = substitutes or {}
    running = [pool.running(slot) for slot in line_up]
    processes = [process for process in running if process is not None]
    if len(processes) < len(line_up):
        processes = await _ready(pool, line_up, substitutes, suspects)
    # Bots that cannot play from the beginning, with the reason why they are not started, or "".
    missing = {
        seat: pool.given_up(line_up[seat])
        for seat, process in enumerate(processes)
        if not process.session.usable
    }
    refereed.own_paths = lambda seat, text: processes[seat].bot.own_paths(text)
    seats: list[AskedSeat] = [process.session for process in processes]
    for seat, substitute in substitutes.items():
        seats[seat] = substitute(processes[seat].session)
    longest_us = await play_by_requests(refereed, seats, suspects)
    for slot in line_up:
        pool.finished_game(slot)
    played = refereed.played()
    for report in played.faults:
        if shortage := processes[report.seat].shortage():
            raise shortage  # the kernel may have killed a child of the bot: the fault follows
    faults = [
        _with_author_error(report, processes[report.seat])
        if report.seat in substitutes and report.seat not in blamed
        else await _with_process_details(report, processes[report.seat], missing.get(report.seat))
        for report in played.faults
    ]
    return replace(played, faults=tuple(faults), longest_us=longest_us)


async def _ready(
    pool: Processes,
    line_up: Sequence[Slot],
    substitutes: Container[int],
    suspects: Container[int],
) -> list[BotProcess]:
    """Start the bots' processes where necessary, and return the process of each seat.

    A process that did not start is returned, too: it fails each request. Several seats may share
    the process of a slot, if all but one of them have a substitute that plays instead of it.

    line_up  the slot of each seat in the pool

    Raises HostTooBusy if the host was too busy for a start, with the seat that the process plays.
    """
    seat_of_slot: dict[Slot, int] = {}
    for seat, slot in enumerate(line_up):
        # The seat that the process plays itself, or one with a substitute if there is no other.
        if slot not in seat_of_slot or seat not in substitutes:
            seat_of_slot[slot] = seat
    starts = [pool.ready(slot, suspect=seat in suspects) for slot, seat in seat_of_slot.items()]
    # All at once, and wait for all: no process may still be starting when the pool is closed.
    outcomes = await asyncio.gather(*starts, return_exceptions=True)
    processes = {}
    for (slot, seat), outcome in zip(seat_of_slot.items(), outcomes, strict=True):
        if isinstance(outcome, HostTooBusy):
            raise HostTooBusy(str(outcome), outcome.us, seat)
        if isinstance(outcome, BaseException):
            raise outcome
        processes[slot] = outcome
    return [processes[slot] for slot in line_up]


async def _with_process_details(
    report: FaultReport, process: BotProcess, missing: str | None
) -> FaultReport:
    """Return a fault's report with details of the bot's process, for the bot's author.

    They are the exit status and the end of the output if the process has crashed, or the traceback
    that the bot has sent.

    missing  None if the process was running when the game began; "" if its start failed then; else
             the reason why it is never started again
    """
    if missing:  # the bot was absent from the game
        return replace(report, came=missing, when="absent")
    process.troubled = True  # so that its output is in the logs of the match
    if missing == "":  # its start failed; the report has the exit status already
        return replace(report, when="start", error=process.error_text())
    if report.error:
        return _with_author_error(report, process)
    if report.fault is not Fault.CRASH:
        return report
    came = f"{report.came}: {await process.exit_text()}"
    return replace(report, came=came, error=process.error_text())


def _with_author_error(report: FaultReport, process: BotProcess) -> FaultReport:
    """Return the report with only the author's part of the traceback that the bot sent."""
    return replace(report, error=bot_error(report.error, process.bot))


# The loop of one game


async def play_by_requests(
    refereed: RefereedGame, seats: Sequence[AskedSeat], suspects: Container[int] = ()
) -> int:
    """Play a game to its end; return the longest time from a request to its answer in microseconds.

    The seats get messages, and answer later. `deepsea_sdk.table.play_by_calls` plays the same game
    with bots in this process, by calling their methods.

    suspects  seats whose decisions time out if the host delays them too long; such a delay of any
              other seat raises HostTooBusy

    Raises RefereeError, of which HostTooBusy is one kind, if the game is void.
    """
    loop = _GameLoop(refereed, seats, suspects)
    loop.begin()
    await loop.over
    return loop.longest_us


class _GameLoop:
    """A game in progress: one request is open at a time, and its answer leads to the next one."""

    def __init__(
        self, refereed: RefereedGame, seats: Sequence[AskedSeat], suspects: Container[int]
    ) -> None:
        self._refereed = refereed
        self._game = refereed.game
        self._seats = seats
        self._suspects = suspects
        self._writer = wire.RequestWriter(refereed.shown_id, self._game.events)
        self._sent_events = [None if wire.NO_EVENTS in seat.features else 0 for seat in seats]
        """The number of events that each seat has received; None for a seat that wants none."""
        if all(sent is None for sent in self._sent_events):
            self._game.keep_no_events()
        self._question: Question | None = None
        self._request_id = 0
        self.longest_us = 0
        """The longest time from a request to its answer, including time for other games."""
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done at the end of the game; its exception is a RefereeError if the game is void."""

    def begin(self) -> None:
        """Send the start to every seat, and the first request."""
        try:
            for number, seat in enumerate(self._seats):
                seat.send(wire.start_message(self._refereed.game_info(number)))
            self._ask_next()
        except Exception as error:  # noqa: BLE001  (no exception here is a bot's fault)
            self._void_game(error)

    def _ask_next(self) -> None:
        """Send the request for the next decision to its seat, or end the game if there is none."""
        game = self._game
        self._question = question = game.pending()
        if question is None:
            self._end()
            return
        seat = question.seat
        time_left = self._refereed.time_left(seat)
        sent = self._sent_events[seat]
        request = self._writer.write(game.view(seat), sent, time_left)
        if sent is not None:
            self._sent_events[seat] = len(game.events)
        self._request_id = self._seats[seat].ask(request, time_left, self._on_answer)

    def _on_answer(self, outcome: TimedAnswer | BotFault | RefereeError) -> None:
        """Play the answered action, or count the fault instead; then send the next request.

        A bot that is at fault is notified. An error of the referee voids the game.
        """
        if self.over.done():  # the game was interrupted
            return
        question = self._question
        assert question is not None
        report: FaultReport | None
        try:
            if isinstance(outcome, TimedAnswer):
                action, us, error, wall_us, note = outcome
                if wall_us > self.longest_us:
                    self.longest_us = wall_us
                report = self._refereed.answer(question, action, us, error, note)
            else:
                report = self._count_fault(question, outcome)
            if report is not None:
                notice = self._refereed.notice(report, self._request_id)
                self._seats[question.seat].send(wire.fault_message(notice))
            self._ask_next()
        except Exception as error:  # noqa: BLE001  (no exception here is a bot's fault)
            self._void_game(error)

    def _count_fault(self, question: Question, error: BotFault | RefereeError) -> FaultReport:
        """Count a fault instead of an answer, and return its report; raise an error of the referee.

        If the host delays a decision too long, that is no fault. But if it has delayed the same bot
        in an earlier game already, the bot is a suspect, and this counts as its timeout.

        question  the decision that was requested
        """
        if isinstance(error, HostTooBusy):
            if question.seat not in self._suspects:
                raise HostTooBusy(str(error), error.us, question.seat)  # with the seat
            detail = f"no answer for {duration_text(error.us)}, and it made a game void before"
            fault = BotFault(Fault.TIMEOUT, detail, error.us)
        elif isinstance(error, RefereeError):
            raise error
        else:
            fault = error
        return self._refereed.fault(
            question, fault.fault, fault.detail, fault.us, public=fault.public
        )

    def _end(self) -> None:
        """Send every seat the result, with the events that it has not received yet."""
        # Seats that have received the same number of events get the same message.
        message_after: dict[int | None, bytes] = {}
        for number, seat in enumerate(self._seats):
            sent = self._sent_events[number]
            if sent not in message_after:
                events = () if sent is None else self._game.events[sent:]
                message_after[sent] = wire.result_message(self._refereed.game_end(number), events)
            seat.send(message_after[sent])
        self.over.set_result(None)

    def _void_game(self, error: Exception) -> None:
        """Void the game because of an error: notify every seat, and set the error in `over`."""
        for seat in self._seats:
            seat.send(wire.void_message(self._refereed.shown_id))
        if isinstance(error, RefereeError):
            self.over.set_exception(error)
        else:
            referee_error = RefereeError(f"{type(error).__name__}: {error}")
            referee_error.__cause__ = error
            self.over.set_exception(referee_error)
