"""A game with what a referee keeps beside the rules: the banks of time, the faults, the record.

Two drivers ask the seats and hand their answers in here: table.py in this process, and the
referee's play_game.py over streams.

Invariants: of a game under way only here a bank is drawn on, a fault counted and put into words,
and a record made; whoever asks reads the clock, nothing here does.
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
"""Digits of the commitment that are the id of a game for its bots."""


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """A finished game."""

    record: GameRecord
    """The seed, the decisions, points, placements and forfeits."""
    faults: tuple[FaultReport, ...]
    longest_us: int = 0
    """Over streams: the longest time from a request to its answer, other games' decisions in it."""
    notes: Mapping[int, Note] = field(default_factory=dict)
    """What bots noted, by the number of the decision."""
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

        game_id  its id in records and messages to people; bots get `shown_id`
        control  None is without limits
        seats    names and digests, for the record, as is `attempt`
        """
        self.game = game
        self.game_id = game_id
        self.shown_id = game.commitment[:SHOWN_DIGITS]
        """The id that bots get, of one form in all games: it says nothing that they do not know."""
        self.faults: list[FaultReport] = []
        self.notes: dict[int, Note] = {}
        """By the number of the decision."""
        self._noted = [0] * game.players
        """The bytes of notes that each seat has had."""
        self._clock = control.format() if control else ""
        self._limits = [_limits(control)] * game.players
        self._banks = [Bank(*limits) for limits in self._limits]
        self._time_left = [*self._limits]
        self._seats = seats
        self.own_paths: Callable[[int, str], str] = _as_it_is
        """Puts the paths that a seat's author knows into an error of its bot."""
        self.is_public = False
        """True if others than the bots' authors read the record: it has no words of bots then, but
        the types of their exceptions and the actions that they answered."""
        self._attempt = attempt

    @property
    def names(self) -> list[str]:
        """Who sits where, seat A first."""
        return [name for name, _ in self._seats]

    def set_clock(self, seat: int, control: TimeControl | None) -> None:
        """Give a seat other limits, before its first decision; the record has those of the others.

        control  None is without limits
        """
        self._limits[seat] = self._time_left[seat] = limits = _limits(control)
        self._banks[seat] = Bank(*limits)

    def info(self, seat: int) -> GameInfo:
        """What a bot gets when the game begins."""
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
        """How long the seat's next decision may take."""
        return self._time_left[seat]

    def answer(
        self,
        question: Question,
        action: str,
        us: int = 0,
        error: str | None = None,
        note: Note | None = None,
    ) -> FaultReport | None:
        """Play what a bot answered after so many microseconds; a report if that is a fault.

        error  without an action: what the bot raised, such as a traceback; beside one: why it is
               not legal
        """
        over = us > self._limits[question.seat].budget_us
        if over and us > (limit_us := self._banks[question.seat].limit_us):
            return self.fault(question, Fault.TIMEOUT, overrun(limit_us), us)
        if note is not None:
            self._noted[question.seat] += note.size
            if self._noted[question.seat] <= GAME_BYTES:
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
            came = one_line(error, LONGEST_SUMMARY) if error else public
            return self.fault(question, Fault.ILLEGAL_ACTION, came, us, public=public)
        if over:
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
        """Count a fault and play the default action.

        came   what the bot did instead of answering, in a few words
        error  the text that it sent about it, such as a traceback
        public  `came` without words of the bot, for a record that others read; "": it has none
        """
        seat = question.seat
        self._spend(seat, us)
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
        """Play a decision of an earlier game as it was, with the time that it took.

        Raises RulesError for one that the position does not allow.
        """
        action, us, fault, came = decision[1:]
        self.game.decide(action, us=us, fault=fault, came=came)
        self._spend(decision.seat, us)

    def _spend(self, seat: int, us: int) -> None:
        bank = self._banks[seat]
        bank.spend(us)
        self._time_left[seat] = TimeLeft(self._limits[seat].budget_us, bank.left_us)

    def notice(self, report: FaultReport, request_id: int) -> FaultNotice:
        """The notice of a fault for the bot."""
        return FaultNotice(
            self.shown_id, request_id, report.fault, report.explanation(), report.forfeit
        )

    def end(self, seat: int) -> GameEnd:
        """What a bot gets when the game is over."""
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
        """What a finished game came to."""
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
    return TimeLeft(control.budget_us, control.bank_us) if control else NO_CLOCK


def _as_it_is(_seat: int, text: str) -> str:
    return text
