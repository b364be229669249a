"""Recorded games again: every decision as one seat saw it, or another end from one decision on.

`Replay` has a seat's decisions with their views, events and times. `branch` continues a game from
one of its decisions with other bots or actions, in this process; `futures` does so many times.

Invariants: views and events are those that the seat received during the game, made by the same code
from the re-run; the record is not trusted: an impossible game raises InvalidRecord. In a continued
game everything before the decision is unchanged, with its times and faults; the new bots get all
earlier requests too, as if they had played from the beginning; with the dice of the record the
result is a game like any other, and its record can be verified.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, TypeAlias

from deepsea_referee.bots.loading import load
from deepsea_referee.bots.resolve import (
    BotSpec,
    copies,
    resolve,
    sample,
    sample_bots,
    with_unique_names,
)
from deepsea_referee.errors import UserError
from deepsea_rules.errors import InvalidRecord, InvalidTimeControl, RulesError
from deepsea_rules.events import Event
from deepsea_rules.faults import Fault
from deepsea_rules.game import Decision, Game, GameRecord, RecordSeat, verify
from deepsea_rules.randomness import game_seed, source
from deepsea_rules.ruleset import RuleSet
from deepsea_rules.scoring import placement_scores
from deepsea_rules.time_control import TimeControl
from deepsea_rules.view import View
from deepsea_sdk.bot import Bot, Clock, NewBot, Note, TimeLeft, monotonic, take_note
from deepsea_sdk.errors import IllegalAnswer
from deepsea_sdk.table import RefereedGame, play_by_calls

TraceFunction: TypeAlias = Callable[[FrameType, str, Any], Any]


@dataclass(frozen=True, slots=True)
class ReplayedDecision:
    """One decision of a seat, with all that the seat's bot knew."""

    number: int
    """The index of the decision in the game."""
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
        self._finished = RefereedGame(self.game, record.game_id, self._control)
        self._last_events: list[Event] = []
        """The events after the seat's last decision, once `moments` has yielded that decision."""

    def moments(self) -> Iterator[ReplayedDecision]:
        """Yield the decisions of the seat, in order, with what its bot knew at each of them.

        The game is played again, with the recorded decisions of all seats.
        """
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
            view = game.view(self.seat)
            events = game.events_for(self.seat, seen_events)
            seen_events = len(game.events)
            time_left = refereed.time_left(self.seat)
            refereed.repeat(decision)
            bank_after_us = refereed.time_left(self.seat).bank_us
            yield ReplayedDecision(number, view, events, time_left, decision, bank_after_us)
        self._last_events = self.game.events_for(self.seat, seen_events)

    def feed(
        self, bot: Bot, own_code: Path | None = None
    ) -> Iterator[tuple[ReplayedDecision, str, Note | None, BotLine | None]]:
        """Let a bot decide again in all positions of the seat, and yield what it does in each.

        Yields the recorded decision, the bot's action now, its note, and the line of its own code
        that decided (None if that is not known). The bot's methods are called as in the game, and
        its clock runs in real time, but the recorded actions are played. An illegal action is
        yielded like any other; other exceptions of the bot are not caught.

        own_code  the file or folder with the bot's own code; None if the line is not wanted
        """
        bot.on_game_start(self._finished.game_info(self.seat))
        for moment in self.moments():
            bot.clock = Clock.of(moment.time_left, now=monotonic, arrived=monotonic())
            for event in moment.events:
                bot.on_event(event)
            with _last_line(own_code) as lines:
                try:
                    action = bot.decide(moment.view)
                except IllegalAnswer as error:
                    action = error.action
            line = lines[0] if lines else None
            yield moment, action, take_note(bot), line
        for event in self._last_events:
            bot.on_event(event)
        bot.on_game_end(self._finished.game_end(self.seat))


class BotLine(NamedTuple):
    """A line of a bot's program."""

    file: str
    line: int
    function: str
    """The name of the function with its class, such as `Mine.search`."""

    def in_words(self) -> str:
        """Return the file, the line number, the function, and the text of the line for a person.

        The path of a file below the current folder begins there. The text is left out if the file
        cannot be read.
        """
        path, current_folder = Path(self.file), Path.cwd()
        if path.is_relative_to(current_folder):
            path = path.relative_to(current_folder)
        place = f"{path}:{self.line}, in {self.function}"
        text = linecache.getline(self.file, self.line).strip()
        return f"{place}: {text}" if text else place


def deciding_line(
    record: GameRecord, number: int, bot: NewBot, own_code: Path | None
) -> BotLine | None:
    """Find the line of a bot's program that made a decision of a recorded game.

    The bot plays its seat of the game again. Return None if the line is not known: the bot decides
    otherwise now, or it raises an exception.

    number    the number of the decision, from 0
    bot       makes the bot that played, which runs in this thread
    own_code  the file or folder with the bot's own code; None if it is not known
    """
    decision = record.decisions[number]
    with suppress(Exception, SystemExit):  # the bot may raise anything
        for moment, action, _note, line in Replay(record, decision.seat).feed(bot(), own_code):
            if moment.number == number and action == decision.action:
                return line
    return None


@contextmanager
def _last_line(own_code: Path | None) -> Iterator[list[BotLine]]:
    """Trace the code in the `with` block, to learn which line of the bot's own files decided.

    Yields a list that contains at most one line, at the end of the block: the one from which a
    function of these files has returned last. The method that decides is that function, since it
    returns after all functions that it calls. The list stays empty if `own_code` is None, or if a
    debugger traces this thread, which is not disturbed.

    own_code  the file or folder with the bot's own code
    """
    lines: list[BotLine] = []
    if own_code is None or sys.gettrace() is not None:
        yield lines
        return
    own_path, prefix_of_own_files = str(own_code), f"{own_code}{os.sep}"

    # Python calls the first function at each call, and the function that it returns at all that
    # happens within that call, see sys.settrace.
    def trace_call(frame: FrameType, _event: str, _value: object) -> TraceFunction | None:
        file = frame.f_code.co_filename
        is_own_code = file == own_path or file.startswith(prefix_of_own_files)
        return trace_return if is_own_code else None

    def trace_return(frame: FrameType, event: str, _value: object) -> TraceFunction:
        if event == "return":
            code = frame.f_code
            lines[:] = [BotLine(code.co_filename, frame.f_lineno, code.co_qualname)]
        return trace_return

    sys.settrace(trace_call)
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
    """Return a recorded game as it was when decision `number` was requested, from 0."""
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


# ----- Other ends of a recorded game


@dataclass(frozen=True, slots=True)
class Variation:
    """A recorded game that was continued from one of its decisions."""

    record: GameRecord
    """The record of the continued game."""
    game: Game
    first_other: int | None
    """The index of the first decision that differs from the original; None if all are the same."""


def branch(
    original: GameRecord, number: int, bots: Sequence[BotSpec], action: str | None = None
) -> Variation:
    """Play a recorded game up to decision `number`, and let bots play it to another end.

    The dice are those of the record, so that the record of the new game can be verified, too.

    number  the number of the decision, from 0
    bots    the bot in each seat
    action  the action of that decision; None to ask the bot in the seat

    Raises UserError for a decision that does not exist, or an action that is not legal there.
    """
    opening = _opening(original, number, action)
    game = Game(original.rules, len(original.seats), original.seed)
    with copies(bots) as bot_copies:
        refereed = _play_on(original, game, bot_copies, opening)
    new_id = f"{original.game_id}-at-{number}"
    record = replace(refereed.played().record, game_id=new_id, clock=original.clock)
    verify(GameRecord.from_json(record.to_json()))  # a record that cannot be proved is a bug
    return Variation(record, game, _first_other_decision(original, record))


def _first_other_decision(original: GameRecord, other: GameRecord) -> int | None:
    """Return the number of the first decision with another action; None if there is none."""
    pairs = zip(original.decisions, other.decisions, strict=False)
    for number, (old, new) in enumerate(pairs):
        if old.action != new.action:
            return number
    return None


def futures(
    original: GameRecord,
    number: int,
    bots: Sequence[BotSpec],
    action: str | None,
    games: int,
    on_game: Callable[[], object] = lambda: None,
) -> list[list[float]]:
    """Continue a recorded game many times from decision `number`, with other dice.

    Returns a list for each seat with its placement score in each continued game. The n-th game has
    the same dice whatever the action is, so that two actions can be compared.

    bots     the bot in each seat
    action   the action of that decision; None to ask the bot in the seat
    games    how often the game is continued
    on_game  called after each continued game

    Raises UserError for a decision that does not exist, or an action that is not legal there.
    """
    opening = _opening(original, number, action)
    scores = []
    with copies(bots) as bot_copies:
        for index in range(games):
            dice_seed = game_seed(original.seed, index)
            game = _OtherDice(original.rules, len(original.seats), original.seed, number, dice_seed)
            _play_on(original, game, bot_copies, opening)
            scores.append(placement_scores(game.result().placements))
            on_game()
    return [list(scores_of_seat) for scores_of_seat in zip(*scores, strict=True)]


class _OtherDice(Game):
    """A game that takes its dice from another seed from decision `change` on.

    Its result cannot be verified from a record, since a record has one seed.
    """

    def __init__(
        self, rules: RuleSet, players: int, seed: bytes, change: int, dice_seed: bytes
    ) -> None:
        super().__init__(rules, players, seed)
        self._change = change
        self._dice_seed = dice_seed

    def decide(
        self,
        action: str | None,
        us: int = 0,
        fault: Fault | None = None,
        came: str | None = None,
    ) -> Decision:
        """Play a decision as `Game` does.

        Dice that are rolled after decision number `_change` was made are those of another seed.
        """
        if len(self.decisions) == self._change:
            self._source = source(self._dice_seed)
        return super().decide(action, us, fault, came)


def _opening(original: GameRecord, number: int, action: str | None) -> list[Decision]:
    """Return the decisions of a continued game that are given, before its bots decide.

    They are the recorded decisions before decision `number`, and then `action` unless that is None.
    Raises UserError for a decision that does not exist, or an action that is not legal.
    """
    refuse_decision(original, number)
    opening = list(original.decisions[:number])
    if action is not None:
        decision = Decision(original.decisions[number].seat, action, us=0, fault=None)
        _check_action(original, number, decision)
        opening.append(decision)
    return opening


def _play_on(
    original: GameRecord, game: Game, bots: Sequence[BotSpec], opening: Sequence[Decision]
) -> RefereedGame:
    """Play the opening of a game, and let bots in this process play it to its end.

    Returns the game with its faults. Bots print to stderr meanwhile, since the result is printed to
    stdout.

    game     the game before its first decision
    opening  the decisions that are given; the bots are asked for all others
    """

    def paths_of_author(seat: int, text: str) -> str:
        """Replace paths of the copied files in an error by those that the author knows."""
        return bots[seat].own_paths(text)

    def no_time_passes() -> int:
        return 0

    seats = [(bot.name, bot.digest) for bot in with_unique_names(bots)]
    # Bots see the id of the original game, as they did at its start; a record gets a new id later.
    refereed = RefereedGame(game, original.game_id, control_of(original), seats, original.attempt)
    refereed.own_paths = paths_of_author
    with redirect_stdout(sys.stderr):
        players = [load(bot) for bot in bots]
        play_by_calls(refereed, players, on_error="forfeit", now_us=no_time_passes, opening=opening)
    return refereed


def original_bots(record: GameRecord, arguments: Mapping[str, str]) -> list[BotSpec]:
    """Find the programs of all bots of a recorded game, as their files are now.

    arguments  the arguments BOT of known programs, by the digests of the programs at that time

    Raises UserError for a program that is neither known nor a sample bot.
    """
    return [original_bot(seat, arguments) for seat in record.seats]


def original_bot(seat: RecordSeat, arguments: Mapping[str, str]) -> BotSpec:
    """Find the program of the bot in a seat of a recorded game, as its files are now.

    It is known if its digest (that of its files when it played) is in `arguments`, or is that of a
    sample bot. Raises UserError for any other program.

    arguments  the arguments BOT of programs, by their digests
    """
    if seat.digest in arguments:
        return resolve(arguments[seat.digest])
    for spec in map(sample, sample_bots()):
        if spec.digest == seat.digest:
            return spec
    raise UserError(
        f"where the program of {seat.name} is cannot be known from the record: name a bot for "
        "each seat, or one for all"
    )


def _check_action(original: GameRecord, number: int, decision: Decision) -> None:
    """Raise UserError if the action of a decision is not legal as decision `number`."""
    try:
        game_at(original, number).decide(decision.action)
    except RulesError as error:
        raise UserError(f"--action at decision {number}: {error}") from None
