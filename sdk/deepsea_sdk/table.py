"""Games in this process, without referee processes and gRPC; and a game with clocks and faults.

`play` and `LocalGame` are for games in this process. `RefereedGame` has the things that a referee
adds to the rules: banks of time, faults, the record. Two drivers ask the seats and pass their
answers to it: this module for games in this process, and the referee's play_game.py over streams.

Invariants: a bot gets the same calls with the same views and events as over the wire, so that bots
that decide by these alone make the same record. For a game in progress, only `RefereedGame` draws
on banks, counts and words faults, and makes the record. Drivers measure time, and only where there
are limits; `RefereedGame` never reads a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Literal, TypeVar

from deepsea_rules.errors import RulesError
from deepsea_rules.events import Event, chip_text
from deepsea_rules.faults import Fault, FaultReport
from deepsea_rules.game import Decision, Game, GameRecord, Question, unique_names
from deepsea_rules.printable import html_table, one_line, quoted
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import DEFAULT, SEAT_LETTERS, RuleSet, preset
from deepsea_rules.time_control import Bank, TimeControl, overrun

from .bot import (
    GAME_BYTES,
    NO_CLOCK,
    AnyBot,
    Bot,
    Clock,
    FaultNotice,
    GameEnd,
    GameInfo,
    Note,
    SeatedBot,
    TimeLeft,
    now_us,
)
from .errors import LONGEST_SUMMARY, exception_type, summary, text_or_excuse

OnError = Literal["raise", "forfeit"]
_T = TypeVar("_T")


class LocalGame(Game):
    """A game that was played in this process: `play` returns it when it is over.

    `result()` has the points and placements, `decisions` the decisions, `events_for(None)` the
    events, `state` the last position.
    """

    def __init__(
        self,
        rules: RuleSet,
        seed: bytes,
        names: Sequence[str],
        clock: TimeControl | None = None,
        game_id: str = "local",
    ) -> None:
        super().__init__(rules, len(names), seed)
        self.names = tuple(names)
        self.clock = clock
        self.game_id = game_id

    def __repr__(self) -> str:
        if self.state.phase != "over":
            return f"<LocalGame, {self.rules.name} rules: {self.state}>"
        seats = zip(SEAT_LETTERS, self.names, self.state.points(), strict=False)
        points = ", ".join(f"{seat} {name} {points}" for seat, name, points in seats)
        return f"<LocalGame, {self.rules.name} rules, points: {points}>"

    def _repr_html_(self) -> str:
        """Return the result as a table, for a notebook."""
        if self.state.phase != "over":
            return html_table(repr(self), (), ())
        state = self.state
        result = self.result()
        known_values = state.revealed()
        rows = []
        for seat, name in enumerate(self.names):
            chips = ", ".join(chip_text(chip, known_values) for chip in state.bank[seat])
            drowned_in = [dive for dive, lost in enumerate(state.drowned, start=1) if lost[seat]]
            dives = ", ".join(map(str, drowned_in))
            points, placement = result.points[seat], result.placements[seat]
            rows.append((SEAT_LETTERS[seat], name, points, placement, chips, dives))
        head = ("seat", "bot", "points", "placement", "brought home", "drowned in dive")
        return html_table(f"A game by {self.rules.name} rules", head, rows)

    def record(self) -> GameRecord:
        """Return the record for `deepsea-referee show` and `verify`, without digests of bots."""
        return GameRecord.of(
            self,
            game_id=self.game_id,
            clock=self.clock.format() if self.clock else "",
            seats=[(name, "") for name in self.names],
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the record into a file; a file that exists is replaced."""
        Path(path).write_text(self.record().to_json(), encoding="utf-8", newline="\n")


def play(
    bots: Sequence[AnyBot],
    rules: RuleSet | str = DEFAULT,
    seed: bytes | str | None = None,
    *,
    clock: TimeControl | str | None = None,
    on_error: OnError = "raise",
    game_id: str = "local",
    now_us: Callable[[], int] = now_us,
) -> LocalGame:
    """Play one game in this process to its end, and return it.

    bots      one per seat, seat A first: classes, or functions that make a bot, or bot objects
    rules     a rule set or a preset's name
    seed      32 bytes, or a text as after `--seed` (of which the game itself is played, not game
              0); by default a new game each time
    clock     limits as after `--clock`, such as "100ms+2s". A bot that takes longer is not stopped:
              its answer is dropped when it comes, and counted as a timeout. Without limits no time
              is measured
    on_error  "raise" raises a bot's exceptions and illegal answers, for debugging; "forfeit" counts
              them as faults
    game_id   the game's name in its record; bots get the first digits of its commitment
    now_us    function that returns the time in microseconds, to measure limits with
    """
    if seed is None:
        from .entropy import fresh_seed  # 5 ms that bots in a match need not wait for

        seed = fresh_seed()
    game = LocalGame(
        preset(rules) if isinstance(rules, str) else rules,
        seed_from_text(seed) if isinstance(seed, str) else seed,
        unique_names([_name(bot) for bot in bots]),
        TimeControl.parse(clock) if isinstance(clock, str) else clock,
        game_id,
    )
    play_by_calls(
        RefereedGame(game, game_id, game.clock),
        bots,
        on_error=on_error,
        now_us=now_us if clock is not None else None,
    )
    return game


def _name(bot: AnyBot) -> str:
    """Return a bot's name in records: its own name, or that of its class or function."""
    kind = bot if isinstance(bot, type) else type(bot)
    if issubclass(kind, Bot):
        return (bot.name if isinstance(bot, Bot) else kind.name) or kind.__name__
    return getattr(bot, "__name__", kind.__name__)


def play_by_calls(
    refereed: RefereedGame,
    bots: Sequence[AnyBot],
    *,
    on_error: OnError = "raise",
    now_us: Callable[[], int] | None = None,
    opening: Sequence[Decision] = (),
    on_seat: Callable[[int], object] = lambda seat: None,
) -> None:
    """Play a game to its end by calling the methods of bots in this process, as `play` does.

    The referee's `play_by_requests` plays the same game with bots in processes of their own.

    opening  decisions that are repeated first: bots are asked for them, but their answers are
             dropped
    on_seat  called with a seat before the code of its bot runs
    """
    game, raises = refereed.game, on_error == "raise"
    now: Callable[[], float] = (lambda: now_us() / 1e6) if now_us else (lambda: 0.0)  # seconds
    players: list[_LocalPlayer] = []
    for seat, bot in enumerate(bots):
        on_seat(seat)
        players.append(_LocalPlayer(seat, SeatedBot(bot, raises=raises), on_seat, raises))
    for player in players:
        player.call(player.bot.start, refereed.game_info(player.seat))
    while (question := game.pending()) is not None:
        seat = question.seat
        player = players[seat]
        began_us = now_us() if now_us else 0
        events = player.events(game)
        clock = Clock.of(refereed.time_left(seat), now=now, arrived=began_us / 1e6)
        answer = player.call(player.bot.decide, game.view(seat), clock, events)
        us = now_us() - began_us if now_us else 0
        report: FaultReport | None = None
        if opening and (number := len(game.decisions)) < len(opening):
            refereed.repeat(opening[number])
        elif answer is None:  # the bot has ended its program, now or before
            report = refereed.fault(question, Fault.CRASH, player.crash or "", us)
        else:
            report = refereed.answer(question, answer.action, us, answer.error, answer.note)
        if report is not None:
            player.call(player.bot.fault, refereed.notice(report, len(game.decisions)))
    for player in players:
        if player.bot.hears_end or player.bot.hears_events:
            player.call(player.bot.end, refereed.game_end(player.seat), player.events(game))


@dataclass(slots=True)
class _LocalPlayer:
    """The player of one seat: its bot, and the number of events that the bot has got."""

    seat: int
    bot: SeatedBot
    on_seat: Callable[[int], object]
    raises: bool
    events_passed: int = 0
    """Number of the game's events that the bot has got."""
    crash: str | None = None
    """A description of how the bot ended its own program; None if it did not.

    A bot that has done so is not called again, like a process that ended.
    """

    def call(self, method: Callable[..., _T], *arguments: object) -> _T | None:
        """Call a method of the bot, and return its result.

        If the bot calls `sys.exit`, it counts as crashed: the result is None, and it is never
        called again. With `raises` its exception is raised instead.
        """
        if self.crash is not None:
            return None
        self.on_seat(self.seat)  # tells the caller of the game whose code runs now
        try:
            return method(*arguments)
        except SystemExit as error:
            if self.raises:
                raise
            # Formatting calls the author's own code; `text_or_excuse` catches what that raises.
            describe = partial("{}: {}".format, type(error).__name__, error)
            self.crash = summary(text_or_excuse(describe))
            return None

    def events(self, game: Game) -> list[Event]:
        """Return the game's events since the last call; none if the bot does not listen to them."""
        if not self.bot.hears_events:
            return []
        events = game.events_for(self.seat, self.events_passed)
        self.events_passed = len(game.events)
        return events


# ----- A game with clocks and faults

SHOWN_DIGITS = 16
"""Digits of the commitment that are a game's id for its bots."""


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """A finished game."""

    record: GameRecord
    """Seed, decisions, points, placements and forfeits."""
    faults: tuple[FaultReport, ...]
    longest_us: int = 0
    """The longest time from a request to its answer over streams.

    It includes other games' decisions.
    """
    notes: Mapping[int, Note] = field(default_factory=dict)
    """Notes of bots, by the number of the decision."""
    drowned: tuple[tuple[int, ...], ...] = ()
    """The number of units that each seat lost at the end of each dive that was played."""


class RefereedGame:
    """One game under way, with the time and the faults of its seats."""

    def __init__(
        self,
        game: Game,
        game_id: str,
        control: TimeControl | None = None,
        seats: Sequence[tuple[str, str]] = (),
        attempt: int = 0,
    ) -> None:
        """Prepare a game before its first decision.

        game_id  id in records and in messages to people; bots get `shown_id`
        control  limits of time; None for none
        seats    names and digests of the bots, for the record
        attempt  number of the attempt, for the record
        """
        self.game = game
        self.game_id = game_id
        self.shown_id = game.commitment[:SHOWN_DIGITS]
        """The id for bots. It has one form in all games, so that it gives nothing away."""
        self.faults: list[FaultReport] = []
        self.notes: dict[int, Note] = {}
        """Notes by the number of the decision."""
        self._note_bytes = [0] * game.players
        """The bytes of notes of each seat so far."""
        self._clock = control.format() if control else ""
        self._limits = [_limits(control)] * game.players
        self._banks = [Bank(*limits) for limits in self._limits]
        self._time_left = [*self._limits]
        self._seats = seats
        self.own_paths: Callable[[int, str], str] = _unchanged
        """Function that puts the paths that a seat's author knows into an error of its bot."""
        self.is_public = False
        """True if the record is read by others than the bots' authors.

        Then it has no words of bots, but the types of their exceptions and the actions that they
        answered.
        """
        self._attempt = attempt

    @property
    def names(self) -> list[str]:
        """The bots' names, seat A first."""
        return [name for name, _ in self._seats]

    def set_clock(self, seat: int, control: TimeControl | None) -> None:
        """Set the time limits of one seat, before its first decision.

        The record still names the limits with which the game was made, for all seats.

        control  the limits; None for none
        """
        limits = _limits(control)
        self._limits[seat] = limits
        self._time_left[seat] = limits
        self._banks[seat] = Bank(*limits)

    def game_info(self, seat: int) -> GameInfo:
        """Return the start of the game for the bot in a seat."""
        game = self.game
        budget_us, bank_us = self._limits[seat]
        return GameInfo(
            game_id=self.shown_id,
            seat=seat,
            players=game.players,
            rules=game.rules,
            budget_us=budget_us,
            bank_us=bank_us,
            commitment=game.commitment,
        )

    def time_left(self, seat: int) -> TimeLeft:
        """Return the time for the seat's next decision."""
        return self._time_left[seat]

    def answer(
        self,
        question: Question,
        action: str,
        us: int = 0,
        error: str | None = None,
        note: Note | None = None,
    ) -> FaultReport | None:
        """Play a bot's answer, and return a report if it is a fault.

        us     microseconds that the answer took
        error  without an action, the exception of the bot, such as a traceback; with one, the
               reason why it is not legal
        """
        is_over_budget = us > self._limits[question.seat].budget_us
        if is_over_budget and us > (limit_us := self._banks[question.seat].limit_us):
            return self.fault(question, Fault.TIMEOUT, overrun(limit_us), us)
        if note is not None:
            self._note_bytes[question.seat] += note.size
            if self._note_bytes[question.seat] <= GAME_BYTES:
                self.notes[len(self.game.decisions)] = note
        if error is not None:
            error = self.own_paths(question.seat, error)
        if error is not None and not action:
            public = exception_type(error)
            return self.fault(question, Fault.EXCEPTION, summary(error), us, error, public)
        try:
            self.game.decide(action, us)
        except RulesError:
            public = f"it answered {quoted(action)}, which is not legal"
            answer_text = one_line(error, LONGEST_SUMMARY) if error else public
            return self.fault(question, Fault.ILLEGAL_ACTION, answer_text, us, public=public)
        if is_over_budget:
            self._spend(question.seat, us)
        return None

    def fault(
        self,
        question: Question,
        fault: Fault,
        came: str,
        us: int = 0,
        error: str = "",
        public: str = "",
    ) -> FaultReport:
        """Count a fault, play the default action, and return a report.

        came    what the bot did instead of answering, in a few words
        error   the bot's text about it, such as a traceback
        public  `came` without words of the bot, for a record that others read; "" if `came` has
                none
        """
        seat = question.seat
        self._spend(seat, us)
        # The record may be read by others; the report is for the author.
        recorded = public if public and self.is_public else came
        decision = self.game.decide(None, us=us, fault=fault, came=recorded)
        report = FaultReport(
            seat=seat,
            decision=len(self.game.decisions) - 1,
            fault=fault,
            kind=question.kind,
            legal=tuple(question.legal),
            came=came,
            us=us,
            played=decision.action,
            forfeit=self.game.has_forfeited(seat),
            error=error,
        )
        self.faults.append(report)
        return report

    def repeat(self, decision: Decision) -> None:
        """Play a decision of a recorded game, with the fault and the time in its record.

        `came` is what a bot at fault did instead. Raise RulesError if the action is not legal in
        this position.
        """
        self.game.decide(decision.action, us=decision.us, fault=decision.fault, came=decision.came)
        self._spend(decision.seat, decision.us)

    def _spend(self, seat: int, us: int) -> None:
        """Take the time of a decision from the seat's bank."""
        bank = self._banks[seat]
        bank.spend(us)
        self._time_left[seat] = TimeLeft(self._limits[seat].budget_us, bank.left_us)

    def notice(self, report: FaultReport, request_id: int) -> FaultNotice:
        """Return the notice of a fault for the bot."""
        return FaultNotice(
            self.shown_id, request_id, report.fault, report.explanation(), report.forfeit
        )

    def game_end(self, seat: int) -> GameEnd:
        """Return the end of the game for the bot in a seat."""
        game = self.game
        result = game.result()
        return GameEnd(
            game_id=self.shown_id,
            seat=seat,
            points=result.points,
            placements=result.placements,
            seed=game.seed,
            values=game.state.values,
            forfeits=tuple(game.forfeits),
            is_void=False,
        )

    def played(self) -> PlayedGame:
        """Return the finished game: its record, the faults, the notes, and the units lost."""
        record = GameRecord.of(
            self.game,
            game_id=self.game_id,
            clock=self._clock,
            seats=self._seats,
            attempt=self._attempt,
        )
        drowned = self.game.state.drowned
        return PlayedGame(record, tuple(self.faults), notes=self.notes, drowned=drowned)


def _limits(control: TimeControl | None) -> TimeLeft:
    """Return a clock's budget and bank, or NO_CLOCK without one."""
    return TimeLeft(control.budget_us, control.bank_us) if control else NO_CLOCK


def _unchanged(_seat: int, text: str) -> str:
    """Return the text unchanged."""
    return text
