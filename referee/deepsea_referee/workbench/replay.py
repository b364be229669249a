"""Replays a recorded game for one seat: every decision with its view, events and time.

Invariants: views and events are those that the seat received during the game, made by the same
code from the re-run; the record is not trusted: an impossible game raises InvalidRecord.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, TypeAlias

from deepsea_referee.errors import UserError
from deepsea_rules.errors import InvalidRecord, InvalidTimeControl
from deepsea_rules.events import Event
from deepsea_rules.game import Decision, Game
from deepsea_rules.record import GameRecord, verify
from deepsea_rules.time_control import TimeControl
from deepsea_rules.view import View
from deepsea_sdk.bot import Bot, NewBot, take_note
from deepsea_sdk.clock import Clock, TimeLeft, monotonic
from deepsea_sdk.errors import IllegalAnswer
from deepsea_sdk.notes import Note
from deepsea_sdk.refereed_game import RefereedGame

TraceFunction: TypeAlias = Callable[[FrameType, str, Any], Any]


@dataclass(frozen=True, slots=True)
class ReplayedDecision:
    """One decision of a seat, with all that the seat's bot knew."""

    number: int
    """Its index among the game's decisions."""
    view: View
    events: list[Event]
    """The events since the seat's last decision, as the seat saw them."""
    time_left: TimeLeft
    """The budget and the bank at the request."""
    decision: Decision
    bank_us: int
    """The seat's bank after the decision."""


class Replay:
    """A verified record, seen from one seat."""

    def __init__(self, record: GameRecord, seat: int) -> None:
        """Verify the record by playing its game again.

        Raises InvalidRecord if the game differs, UserError if it has no such seat.
        """
        if not 0 <= seat < len(record.seats):
            raise UserError(f"the game has seats A to {'ABCDEF'[len(record.seats) - 1]}")
        self.record = record
        self.seat = seat
        self.game = verify(record)
        """The finished game."""
        self._control = control_of(record)
        self._whole = RefereedGame(self.game, record.game_id, self._control)
        self._last_events: list[Event] = []

    def moments(self) -> Iterator[ReplayedDecision]:
        """Yield the seat's decisions, in order."""
        game = Game(self.record.rules, len(self.record.seats), self.record.seed)
        refereed = RefereedGame(game, self.record.game_id, self._control)
        seen_events = 0
        for number, decision in enumerate(self.record.decisions):
            question = game.pending()
            if question is None:  # impossible, since the record was verified
                raise InvalidRecord(f"the game is over before decision {number}")
            if question.seat != self.seat:
                refereed.repeat(decision)
                continue
            view, events = game.view(self.seat), game.events_for(self.seat, seen_events)
            seen_events = len(game.events)
            time_left = refereed.time_left(self.seat)
            refereed.repeat(decision)
            bank_us = refereed.time_left(self.seat).bank_us
            yield ReplayedDecision(number, view, events, time_left, decision, bank_us)
        self._last_events = self.game.events_for(self.seat, seen_events)

    def feed(
        self, bot: Bot, home: Path | None = None
    ) -> Iterator[tuple[ReplayedDecision, str, Note | None, BotLine | None]]:
        """Replay the seat to a bot, and yield what the bot does now at each decision.

        Yields the recorded decision, the bot's action, its note, and the line of its own code that
        decided (None if that is not known). The bot's methods are called as in the game, and its
        clock runs in real time, but its actions change nothing. An illegal action is yielded like
        any other; other exceptions of the bot are not caught.

        home  the folder of the bot's own files; None if the line is not wanted
        """
        bot.on_game_start(self._whole.info(self.seat))
        for moment in self.moments():
            bot.clock = Clock.of(moment.time_left, now=monotonic, arrived=monotonic())
            for event in moment.events:
                bot.on_event(event)
            with _last_line(home) as lines:
                try:
                    action = bot.decide(moment.view)
                except IllegalAnswer as error:
                    action = error.action
            yield moment, action, take_note(bot), lines[-1] if lines else None
        for event in self._last_events:
            bot.on_event(event)
        bot.on_game_end(self._whole.end(self.seat))


class BotLine(NamedTuple):
    """A line of a bot's program."""

    file: str
    line: int
    function: str
    """The name of the function with its class, such as `Mine.search`."""

    def in_words(self) -> str:
        """Return the file, the line number and the function, followed by the text of the line.

        A file below the current folder is named from there.
        """
        text = linecache.getline(self.file, self.line).strip()
        path, here = Path(self.file), Path.cwd()
        place = path.relative_to(here) if path.is_relative_to(here) else path
        return f"{place}:{self.line}, in {self.function}{': ' if text else ''}{text}"


def deciding_line(
    record: GameRecord, number: int, bot: NewBot, home: Path | None
) -> BotLine | None:
    """Return the line of a bot's program that made a decision of a recorded game.

    None if that is not known: the bot decides otherwise now, or it raises an exception.

    bot   the program that played, which runs in this thread
    home  the folder of its own files
    """
    decision = record.decisions[number]
    with suppress(Exception, SystemExit):  # of the bot
        for moment, action, _note, line in Replay(record, decision.seat).feed(bot(), home):
            if moment.number == number and action == decision.action:
                return line
    return None


@contextmanager
def _last_line(home: Path | None) -> Iterator[list[BotLine]]:
    """Trace the code in the `with` block, to learn which line of the bot's own files decided.

    Yields a list that has the line from which a function of these files has returned last: that of
    the method that decided, since it returns after all functions that it calls. The list stays
    empty if `home` is None, or while a debugger traces this thread, which is not disturbed.

    home  the folder of the bot's own files
    """
    lines: list[BotLine] = []
    if home is None or sys.gettrace() is not None:
        yield lines
        return
    own = f"{home}{os.sep}"

    def on_call(frame: FrameType, _event: str, _value: object) -> TraceFunction | None:
        return on_return if frame.f_code.co_filename.startswith(own) else None

    def on_return(frame: FrameType, event: str, _value: object) -> TraceFunction:
        if event == "return":
            code = frame.f_code
            lines[:] = [BotLine(code.co_filename, frame.f_lineno, code.co_qualname)]
        return on_return

    sys.settrace(on_call)
    try:
        yield lines
    finally:
        sys.settrace(None)


def refuse_decision(record: GameRecord, number: int) -> None:
    """Raise UserError if the game has no decision with this number, which counts from 0."""
    last = len(record.decisions) - 1
    if not 0 <= number <= last:
        raise UserError(f"the game has decisions 0 to {last}; there is no {number}")


def game_at(record: GameRecord, number: int) -> Game:
    """Return the recorded game as it was when this decision was requested."""
    game = Game(record.rules, len(record.seats), record.seed)
    for decision in record.decisions[:number]:
        game.decide(decision.action, us=decision.us, fault=decision.fault, came=decision.came)
    game.pending()  # rolls the dice if that is due
    return game


def control_of(record: GameRecord) -> TimeControl | None:
    """Return the clock of a recorded game, or None if the record has no valid clock."""
    try:
        return TimeControl.parse(record.clock)
    except InvalidTimeControl:
        return None
