"""Games in this process: the same bots and rules as with a referee, without processes and gRPC.

Laws: a bot gets the same calls with the same views and events as over the wire, so that bots that
decide by these alone make the same record; faults are counted by the same rules; nothing is read
of a clock that was not passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, TypeVar

from deepsea_rules.actions import shown
from deepsea_rules.errors import RulesError
from deepsea_rules.faults import Fault
from deepsea_rules.game import Decision, Game, Question
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import DEFAULT, RuleSet, preset
from deepsea_rules.scoring import Result

from .bot import NO_CLOCK, Bot, FaultNotice, GameEnd, GameInfo, TimeLeft, is_own

OnError = Literal["raise", "forfeit"]
OnFault = Callable[[Question, int, Decision], object]
"""Gets what was asked, the index of the decision, and the decision."""
_T = TypeVar("_T")
_LONGEST_TOLD: Final = 200


@dataclass(frozen=True, slots=True)
class Timer:
    """What a decision may take, all in microseconds. A bot that takes longer is not stopped: its
    answer is dropped when it comes, and counted as a timeout."""

    now_us: Callable[[], int]
    budget_us: int
    """For each decision."""
    bank_us: int
    """For each seat and game, for what goes beyond."""


def play(
    bots: Sequence[Bot | type[Bot]],
    rules: RuleSet | str = DEFAULT,
    seed: bytes | str = "table",
    *,
    game_id: str = "table",
    on_error: OnError = "raise",
    timer: Timer | None = None,
    opening: Sequence[Decision] = (),
    on_fault: OnFault | None = None,
) -> Game:
    """Play one game to its end; `.result()`, `.decisions`, `.events_for(None)` tell about it.

    bots      one per seat, seat A first; a class gives a fresh object, an object may play on
    rules     a rule set or a preset's name
    seed      32 bytes, or a text as after `--seed` (of which the game itself is played, not game 0)
    on_error  "raise" lets a bot's exception out, for debugging; "forfeit" counts it as a crash
    timer     limits, and a clock to note decision times with; without one they are 0
    opening   decisions that are played as they are: bots are asked, but their answers are dropped
    on_fault  is told of every fault that is counted
    """
    if isinstance(rules, str):
        rules = preset(rules)
    if isinstance(seed, str):
        seed = seed_from_text(seed)
    game = Game(rules, len(bots), seed)
    return _Table(game, bots, game_id, on_error, timer, opening, on_fault).play()


class _Chair:
    """One seat: the bot in it, what it has been told, and what is left of its time."""

    def __init__(self, bot: Bot | type[Bot], bank_us: int) -> None:
        self.bot = bot() if isinstance(bot, type) else bot
        self.seen = 0
        self.bank_us = bank_us
        self.crash: str | None = None
        """What the bot raised: as with a process that ended, it is not called again."""
        self.hears_start = is_own(self.bot.on_game_start, Bot.on_game_start)
        self.hears_events = is_own(self.bot.on_event, Bot.on_event)
        self.hears_end = is_own(self.bot.on_game_end, Bot.on_game_end)


class _Table:
    """One game and the bots that sit at it."""

    def __init__(
        self,
        game: Game,
        bots: Sequence[Bot | type[Bot]],
        game_id: str,
        on_error: OnError,
        timer: Timer | None,
        opening: Sequence[Decision],
        on_fault: OnFault | None,
    ) -> None:
        self.game = game
        self.game_id = game_id
        self.raises = on_error == "raise"
        self.timer = timer
        self.opening = opening
        self.on_fault = on_fault
        self.chairs = [_Chair(bot, timer.bank_us if timer else 0) for bot in bots]

    def play(self) -> Game:
        game = self.game
        for seat, chair in enumerate(self.chairs):
            if chair.hears_start:
                self._call(chair, partial(chair.bot.on_game_start, self._info(seat)))
        while (question := game.pending()) is not None:
            self._ask(question)
        result = game.result()
        for seat, chair in enumerate(self.chairs):
            if chair.hears_events:
                self._call(chair, partial(self._tell, seat))
            if chair.hears_end:
                self._call(chair, partial(chair.bot.on_game_end, self._end(seat, result)))
        return game

    def _ask(self, question: Question) -> None:
        game = self.game
        timer = self.timer
        seat = question.seat
        chair = self.chairs[seat]
        if timer is None:
            us = limit_us = 0
            answer = self._answer(chair, seat, NO_CLOCK)
        else:
            limit_us = timer.budget_us + chair.bank_us
            began = timer.now_us()
            answer = self._answer(chair, seat, TimeLeft(timer.budget_us, chair.bank_us))
            us = timer.now_us() - began
        if self.opening and len(game.decisions) < len(self.opening):
            self._play_as_given(self.opening[len(game.decisions)])
            return
        if us:
            self._spend(chair, us)
        if answer is None:
            self._count(question, Fault.CRASH, us, chair.crash or "")
        elif us > limit_us:
            self._count(question, Fault.TIMEOUT, us, f"it had {limit_us} us for the decision")
        else:
            try:
                game.decide(answer, us)
            except RulesError:
                came = f"it answered {shown(answer)}, which is not legal"
                self._count(question, Fault.ILLEGAL_ACTION, us, came)

    def _answer(self, chair: _Chair, seat: int, time_left: TimeLeft) -> str | None:
        """What the bot decides; None if it raised, now or before."""
        if chair.crash is not None:
            return None
        try:
            if chair.hears_events:
                self._tell(seat)
            bot = chair.bot
            bot.time_left = time_left
            answer: object = bot.decide(self.game.view(seat))
            if not isinstance(answer, str):
                raise TypeError(f"decide() returned {answer!r:.60}, which is no action")
            return answer
        except (Exception, SystemExit) as error:
            if self.raises:
                raise
            chair.crash = _told(error)
            return None

    def _play_as_given(self, given: Decision) -> None:
        action = given.action if given.fault is None else None
        self.game.decide(action, us=given.us, fault=given.fault, came=given.came)
        self._spend(self.chairs[given.seat], given.us)

    def _spend(self, chair: _Chair, us: int) -> None:
        """Draw on the bank for what went beyond the budget."""
        if self.timer is not None and us > self.timer.budget_us:
            chair.bank_us = max(0, chair.bank_us - (us - self.timer.budget_us))

    def _count(self, question: Question, fault: Fault, us: int, came: str) -> None:
        seat = question.seat
        decision = self.game.decide(None, us=us, fault=fault, came=came)
        if self.on_fault is not None:
            self.on_fault(question, len(self.game.decisions) - 1, decision)
        forfeit = self.game.has_forfeited(seat)
        message = (
            f"{fault} after {us} us: asked to {question.kind} ({', '.join(question.legal)}), "
            f"{came}; played {decision.action}{'; the seat forfeits' if forfeit else ''}"
        )
        number = len(self.game.decisions)
        notice = FaultNotice(self.game_id, number, fault, message, forfeit)
        chair = self.chairs[seat]
        self._call(chair, partial(chair.bot.on_fault, notice))

    def _call(self, chair: _Chair, call: Callable[[], _T]) -> _T | None:
        """Run the bot's code; None if it raised, now or before."""
        if chair.crash is not None:
            return None
        try:
            return call()
        except (Exception, SystemExit) as error:
            if self.raises:
                raise
            chair.crash = _told(error)
            return None

    def _tell(self, seat: int) -> None:
        chair = self.chairs[seat]
        for event in self.game.events_for(seat, chair.seen):
            chair.bot.on_event(event)
        chair.seen = len(self.game.events)

    def _info(self, seat: int) -> GameInfo:
        game = self.game
        return GameInfo(
            game_id=self.game_id,
            seat=seat,
            players=game.players,
            rules=game.rules,
            budget_us=self.timer.budget_us if self.timer else NO_CLOCK.budget_us,
            bank_us=self.timer.bank_us if self.timer else NO_CLOCK.bank_us,
            commitment=game.commitment,
        )

    def _end(self, seat: int, result: Result) -> GameEnd:
        game = self.game
        return GameEnd(
            game_id=self.game_id,
            seat=seat,
            points=result.points,
            placements=result.placements,
            seed=game.seed,
            values=game.state.values,
            forfeits=tuple(game.forfeits),
            void=False,
        )


def _told(error: BaseException) -> str:
    """What a bot raised, in one line."""
    return " ".join(f"it raised {type(error).__name__}: {error}".split())[:_LONGEST_TOLD]
