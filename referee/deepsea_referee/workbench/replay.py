"""The course of a recorded game: every decision with what its seat knew and the time it had.

Laws: views and events are those that the seat got when the game was played, made by the same code
from the re-run; the record is not trusted: what cannot have happened raises InvalidRecord.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deepsea_referee.errors import UserError
from deepsea_referee.timing.clock import Bank, TimeControl
from deepsea_rules.errors import InvalidRecord
from deepsea_rules.events import Event
from deepsea_rules.game import Decision, Game
from deepsea_rules.record import GameRecord, verify
from deepsea_rules.view import View
from deepsea_sdk.bot import NO_CLOCK, Bot, GameEnd, GameInfo, TimeLeft


@dataclass(frozen=True, slots=True)
class ReplayedDecision:
    """One decision of a seat."""

    number: int
    """Its index among the game's decisions."""
    view: View
    """What the seat saw."""
    events: list[Event]
    """What it had been told since its last decision."""
    time_left: TimeLeft
    """What it had."""
    decision: Decision
    """What it did."""
    bank_us: int
    """What was left of its bank after that."""


class Replay:
    """A verified record, seen from one seat."""

    def __init__(self, record: GameRecord, seat: int) -> None:
        """Raises InvalidRecord if a re-run differs, UserError if there is no such seat."""
        if not 0 <= seat < len(record.seats):
            raise UserError(f"the game has seats A to {'ABCDEF'[len(record.seats) - 1]}")
        self.record = record
        self.seat = seat
        self.game = verify(record)
        """The finished game."""
        self._control = control_of(record)
        self._last_events: list[Event] = []

    def moments(self) -> Iterator[ReplayedDecision]:
        """The seat's decisions, in order."""
        game = Game(self.record.rules, len(self.record.seats), self.record.seed)
        bank = Bank(self._control) if self._control else None
        mark = 0
        for number, decision in enumerate(self.record.decisions):
            question = game.pending()
            if question is None:  # verify() has seen to it that there is one
                raise InvalidRecord(f"the game is over before decision {number}")
            if question.seat == self.seat:
                left = NO_CLOCK
                if bank is not None and self._control is not None:
                    left = TimeLeft(self._control.budget_us, bank.left_us)
                    bank.spend(decision.us)
                events = game.events_for(self.seat, mark)
                mark = len(game.events)
                yield ReplayedDecision(
                    number=number,
                    view=game.view(self.seat),
                    events=events,
                    time_left=left,
                    decision=decision,
                    bank_us=bank.left_us if bank else 0,
                )
            apply(game, decision)
        self._last_events = self.game.events_for(self.seat, mark)

    def info(self) -> GameInfo:
        """What the seat was told when the game began."""
        return GameInfo(
            game_id=self.record.game_id,
            seat=self.seat,
            players=len(self.record.seats),
            rules=self.record.rules,
            budget_us=self._control.budget_us if self._control else NO_CLOCK.budget_us,
            bank_us=self._control.bank_us if self._control else NO_CLOCK.bank_us,
            commitment=self.game.commitment,
        )

    def end(self) -> GameEnd:
        """What it was told when the game was over."""
        result = self.game.result()
        return GameEnd(
            game_id=self.record.game_id,
            seat=self.seat,
            points=result.points,
            placements=result.placements,
            seed=self.game.seed,
            values=self.game.state.values,
            forfeits=tuple(self.game.forfeits),
            void=False,
        )

    def feed(self, bot: Bot) -> Iterator[tuple[ReplayedDecision, str]]:
        """Put the bot into the seat: each decision with what it would do now.

        It is called as in the game, but its answers change nothing. What it raises comes out.
        """
        bot.on_game_start(self.info())
        for moment in self.moments():
            for event in moment.events:
                bot.on_event(event)
            bot.time_left = moment.time_left
            yield moment, bot.decide(moment.view)
        for event in self._last_events:
            bot.on_event(event)
        bot.on_game_end(self.end())


def apply(game: Game, decision: Decision) -> None:
    """Play a recorded decision again."""
    action = decision.action if decision.fault is None else None
    game.decide(action, us=decision.us, fault=decision.fault, came=decision.came)


def control_of(record: GameRecord) -> TimeControl | None:
    """The clock of a recorded game; None if the record, which may say anything, names none."""
    try:
        return TimeControl.parse(record.clock)
    except UserError:
        return None
