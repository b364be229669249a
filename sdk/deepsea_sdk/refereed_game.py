"""A game with the things that a referee adds to the rules: banks of time, faults, the record.

Two drivers ask the seats and hand their answers in here: table.py in this process, and the
referee's play_game.py over streams.

Invariants: for a game under way, only this module draws on banks, counts and words faults, and
makes the record. Drivers measure time; this module never reads a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from deepsea_rules.errors import RulesError
from deepsea_rules.faults import Fault, FaultReport
from deepsea_rules.game import Decision, Game, Question
from deepsea_rules.printable import one_line, quoted
from deepsea_rules.record import GameRecord
from deepsea_rules.time_control import Bank, TimeControl, overrun

from .bot import FaultNotice, GameEnd, GameInfo
from .clock import NO_CLOCK, TimeLeft
from .errors import LONGEST_SUMMARY, exception_type, summary
from .notes import GAME_BYTES, Note

SHOWN_DIGITS = 16
"""Digits of the commitment that are a game's id for its bots."""


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """A finished game."""

    record: GameRecord
    """Seed, decisions, points, placements and forfeits."""
    faults: tuple[FaultReport, ...]
    longest_us: int = 0
    """Over streams, the longest time from a request to its answer, which includes other games'
    decisions."""
    notes: Mapping[int, Note] = field(default_factory=dict)
    """Notes of bots, by the number of the decision."""
    drowned: tuple[tuple[int, ...], ...] = ()
    """For each dive that was played, how many units each seat lost at its end."""


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
        """True if the record is read by others than the bots' authors. Then it has no words of
        bots, but the types of their exceptions and the actions that they answered."""
        self._attempt = attempt

    @property
    def names(self) -> list[str]:
        """The bots' names, seat A first."""
        return [name for name, _ in self._seats]

    def set_clock(self, seat: int, control: TimeControl | None) -> None:
        """Give a seat other limits, before its first decision. The record shows the others' limits.

        control  None for no limits
        """
        self._limits[seat] = self._time_left[seat] = limits = _limits(control)
        self._banks[seat] = Bank(*limits)

    def info(self, seat: int) -> GameInfo:
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
        """Play a decision of an earlier game again, with the time that it took.

        Raise RulesError if the position does not allow it.
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

    def end(self, seat: int) -> GameEnd:
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
        """Return the finished game with its record, faults and notes."""
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
