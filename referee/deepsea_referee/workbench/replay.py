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
from deepsea_sdk.table import RefereedGame, play_to_end

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
        bot.on_game_start(self._whole.game_info(self.seat))
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
        bot.on_game_end(self._whole.game_end(self.seat))


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
    original: GameRecord, at: int, bots: Sequence[BotSpec], action: str | None = None
) -> Variation:
    """Continue a recorded game from the decision with number `at`, with the dice of the record.

    bots    the bot in each seat
    action  the action of that decision; None to ask the bot in the seat

    Raises UserError for a decision that does not exist, or an action that is not legal there.
    """
    opening = _opening(original, at, action)
    game = Game(original.rules, len(original.seats), original.seed)
    with copies(bots) as bot_copies:
        refereed = _play_on(original, game, bot_copies, opening)
    record = replace(
        refereed.played().record, game_id=f"{original.game_id}-at-{at}", clock=original.clock
    )
    verify(GameRecord.from_json(record.to_json()))
    pairs = zip(original.decisions, record.decisions, strict=False)
    differences = (index for index, (old, new) in enumerate(pairs) if old.action != new.action)
    return Variation(record, game, next(differences, None))


def futures(
    original: GameRecord,
    at: int,
    bots: Sequence[BotSpec],
    action: str | None,
    games: int,
    on_game: Callable[[], object] = lambda: None,
) -> list[list[float]]:
    """Continue a recorded game many times from the decision with number `at`, with other dice.

    Returns a list for each seat with its placement score in each continued game. The n-th game has
    the same dice whatever the action is, so that two actions can be compared.

    bots     the bot in each seat
    action   the action of that decision; None to ask the bot in the seat
    games    how often the game is continued
    on_game  called after each continued game

    Raises UserError for a decision that does not exist, or an action that is not legal there.
    """
    opening = _opening(original, at, action)
    scores = []
    with copies(bots) as copied:
        for number in range(games):
            dice = game_seed(original.seed, number)
            game = _OtherDice(original.rules, len(original.seats), original.seed, at, dice)
            _play_on(original, game, copied, opening)
            scores.append(placement_scores(game.result().placements))
            on_game()
    return [list(scores_of_seat) for scores_of_seat in zip(*scores, strict=True)]


class _OtherDice(Game):
    """A game that takes its dice from another seed from decision `at` on.

    Its result cannot be verified from a record, since a record has one seed.
    """

    def __init__(self, rules: RuleSet, players: int, seed: bytes, at: int, dice: bytes) -> None:
        super().__init__(rules, players, seed)
        self._at = at
        self._dice = dice

    def decide(
        self,
        action: str | None,
        us: int = 0,
        fault: Fault | None = None,
        came: str | None = None,
    ) -> Decision:
        """Apply a decision as any game does; decision `at` changes the dice first."""
        if len(self.decisions) == self._at:
            self._source = source(self._dice)
        return super().decide(action, us, fault, came)


def _opening(original: GameRecord, at: int, action: str | None) -> list[Decision]:
    """Return the decisions of a continued game that are not asked for.

    Those are the recorded decisions before number `at`, and `action` as the next one if it is
    given. Raises UserError for a decision that does not exist, or an action that is not legal.
    """
    refuse_decision(original, at)
    opening = list(original.decisions[:at])
    if action is not None:
        decision = Decision(original.decisions[at].seat, action, 0, None)
        _check_action(original, at, decision)
        opening.append(decision)
    return opening


def _play_on(
    original: GameRecord, game: Game, bots: Sequence[BotSpec], opening: Sequence[Decision]
) -> RefereedGame:
    """Play the opening and then the rest of a game with bots in this process; return the game.

    Bots print to stderr meanwhile, since the result is printed to stdout.
    """
    seats = [(bot.name, bot.digest) for bot in with_unique_names(bots)]
    # Bots see the id of the original game, as they did at its start; a record gets a new id later.
    control, attempt = control_of(original), original.attempt
    refereed = RefereedGame(game, original.game_id, control, seats, attempt)
    refereed.own_paths = lambda seat, text: bots[seat].own_paths(text)
    with redirect_stdout(sys.stderr):
        players = [load(bot) for bot in bots]
        play_to_end(refereed, players, on_error="forfeit", now_us=lambda: 0, opening=opening)
    return refereed


def original_bots(record: GameRecord, arguments: Mapping[str, str]) -> list[BotSpec]:
    """Find the programs of all bots of a recorded game, as their files are now.

    arguments  the arguments BOT of known programs, by the digests of the programs at that time

    Raises UserError for a program that is neither known nor a sample bot.
    """
    return [original_bot(seat, arguments) for seat in record.seats]


def original_bot(seat: RecordSeat, arguments: Mapping[str, str]) -> BotSpec:
    """Find the program of the bot in a seat of a recorded game, as its files are now.

    arguments  the arguments BOT of known programs, by the digests of the programs at that time

    Raises UserError for a program that is neither known nor a sample bot.
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


def _check_action(original: GameRecord, at: int, decision: Decision) -> None:
    """Raise UserError if the action is not legal in the position of decision number `at`."""
    try:
        game_at(original, at).decide(decision.action)
    except RulesError as error:
        raise UserError(f"--action at decision {at}: {error}") from None
