"""Games in this process: the same bots and rules as with a referee, without processes and gRPC.

Invariants: a bot gets the same calls with the same views and events as over the wire, so that bots
that decide by these alone make the same record; faults are counted by the same code; nothing is
read of a clock that was not passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, TypeVar

from deepsea_rules.events import Event
from deepsea_rules.faults import Fault, FaultReport
from deepsea_rules.game import Decision, Game, Question
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import DEFAULT, RuleSet, preset
from deepsea_rules.time_control import TimeControl

from .author_error import summary
from .bot import AnyBot, TimeLeft
from .refereed_game import RefereedGame
from .seated_bot import Answered, SeatedBot

OnError = Literal["raise", "forfeit"]
_T = TypeVar("_T")


def play(
    bots: Sequence[AnyBot],
    rules: RuleSet | str = DEFAULT,
    seed: bytes | str = "table",
    *,
    game_id: str = "table",
    on_error: OnError = "raise",
    control: TimeControl | None = None,
    now_us: Callable[[], int] | None = None,
) -> Game:
    """Play one game to its end; `.result()`, `.decisions`, `.events_for(None)` tell about it.

    bots      one per seat, seat A first; a class gives a fresh object, an object may play on
    rules     a rule set or a preset's name
    seed      32 bytes, or a text as after `--seed` (of which the game itself is played, not game 0)
    on_error  "raise" lets a bot's exception out, for debugging; "forfeit" counts it as a fault
    control   what decisions may take. A bot that takes longer is not stopped: its answer is dropped
              when it comes, and counted as a timeout
    now_us    a clock to measure decisions with, in microseconds; without one they take 0
    """
    if isinstance(rules, str):
        rules = preset(rules)
    if isinstance(seed, str):
        seed = seed_from_text(seed)
    refereed = RefereedGame(Game(rules, len(bots), seed), game_id, control)
    play_to_end(refereed, bots, on_error=on_error, now_us=now_us)
    return refereed.game


def play_to_end(
    refereed: RefereedGame,
    bots: Sequence[AnyBot],
    *,
    on_error: OnError = "raise",
    now_us: Callable[[], int] | None = None,
    opening: Sequence[Decision] = (),
) -> None:
    """Play a game to its end, as `play` does.

    opening  decisions that are played as they are: bots are asked, but their answers are dropped
    """
    _Table(refereed, bots, on_error, now_us, opening).play()


class _Chair:
    """One seat: the bot in it and what it has been told."""

    def __init__(self, bot: AnyBot, *, raises: bool) -> None:
        self.bot = SeatedBot(bot, raises=raises)
        self.seen = 0
        self.crash: str | None = None
        """How the bot ended its own program: as with a process, it is not called again."""


class _Table:
    """One game and the bots that sit at it."""

    def __init__(
        self,
        refereed: RefereedGame,
        bots: Sequence[AnyBot],
        on_error: OnError,
        now_us: Callable[[], int] | None,
        opening: Sequence[Decision],
    ) -> None:
        self.refereed = refereed
        self.game = refereed.game
        self.raises = on_error == "raise"
        self.now_us = now_us
        self.opening = opening
        self.chairs = [_Chair(bot, raises=self.raises) for bot in bots]

    def play(self) -> None:
        game, refereed = self.game, self.refereed
        for seat, chair in enumerate(self.chairs):
            self._call(chair, partial(chair.bot.start, refereed.info(seat)))
        while (question := game.pending()) is not None:
            self._ask(question)
        for seat, chair in enumerate(self.chairs):
            if chair.bot.hears_end or chair.bot.hears_events:
                end = refereed.end(seat)
                self._call(chair, partial(chair.bot.end, end, self._events(chair, seat)))

    def _ask(self, question: Question) -> None:
        seat = question.seat
        chair = self.chairs[seat]
        refereed = self.refereed
        now_us = self.now_us
        if now_us is None:
            us = 0
            answer = self._answer(chair, seat, refereed.time_left(seat))
        else:
            began = now_us()
            answer = self._answer(chair, seat, refereed.time_left(seat))
            us = now_us() - began
        if self.opening and (number := len(self.game.decisions)) < len(self.opening):
            refereed.repeat(self.opening[number])
        elif answer is None:
            self._notify(chair, refereed.fault(question, Fault.CRASH, chair.crash or "", us))
        elif (report := refereed.answer(question, answer.action, us, answer.error)) is not None:
            self._notify(chair, report)

    def _answer(self, chair: _Chair, seat: int, time_left: TimeLeft) -> Answered | None:
        """What the bot decides; None if it ended its program, now or before."""
        events = self._events(chair, seat)
        decide = partial(chair.bot.decide, self.game.view(seat), time_left, events)
        return self._call(chair, decide)

    def _notify(self, chair: _Chair, report: FaultReport) -> None:
        notice = self.refereed.notice(report, len(self.game.decisions))
        self._call(chair, partial(chair.bot.fault, notice))

    def _call(self, chair: _Chair, call: Callable[[], _T]) -> _T | None:
        """Run the bot's code, unless it has ended its program before."""
        if chair.crash is not None:
            return None
        try:
            return call()
        except SystemExit as error:
            if self.raises:
                raise
            chair.crash = summary(f"{type(error).__name__}: {error}")
            return None

    def _events(self, chair: _Chair, seat: int) -> list[Event]:
        """What the bot has not been told yet."""
        if not chair.bot.hears_events:
            return []
        events = self.game.events_for(seat, chair.seen)
        chair.seen = len(self.game.events)
        return events
