"""Games in this process: the same bots and rules as with a referee, without processes and gRPC.

Laws: a bot gets the same calls with the same views and events as over the wire, so that bots that
decide by these alone make the same record; faults are counted by the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from deepsea_rules.errors import RulesError
from deepsea_rules.faults import Fault
from deepsea_rules.game import Game, Question
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import DEFAULT, RuleSet, preset

from .bot import Bot, FaultNotice, GameEnd, GameInfo

OnError = Literal["raise", "forfeit"]


def play(
    bots: Sequence[Bot | type[Bot]],
    rules: RuleSet | str = DEFAULT,
    seed: bytes | str = "table",
    *,
    game_id: str = "table",
    on_error: OnError = "raise",
    now_us: Callable[[], int] | None = None,
) -> Game:
    """Play one game to its end; `.result()`, `.decisions`, `.events_for(None)` tell about it.

    bots      one per seat, seat A first; a class gives a fresh object, an object may play on
    rules     a rule set or a preset's name
    seed      32 bytes, or a text as after `--seed` (of which the game itself is played, not game 0)
    on_error  "raise" lets a bot's exception out, for debugging; "forfeit" counts it as a crash
    now_us    a clock to note decision times with; without one they are 0
    """
    if isinstance(rules, str):
        rules = preset(rules)
    if isinstance(seed, str):
        seed = seed_from_text(seed)
    players = [bot() if isinstance(bot, type) else bot for bot in bots]
    table = _Table(Game(rules, len(players), seed), players, game_id, on_error, now_us)
    return table.play()


class _Table:
    """One game and the bots that sit at it."""

    def __init__(
        self,
        game: Game,
        bots: list[Bot],
        game_id: str,
        on_error: OnError,
        now_us: Callable[[], int] | None,
    ) -> None:
        self.game = game
        self.bots = bots
        self.game_id = game_id
        self.on_error = on_error
        self.now_us = now_us or (lambda: 0)
        self.seen = [0] * len(bots)
        # Most bots do not listen, and then no event has to be made for them.
        self.listens = [type(bot).on_event is not Bot.on_event for bot in bots]

    def play(self) -> Game:
        game = self.game
        for seat, bot in enumerate(self.bots):
            bot.on_game_start(
                GameInfo(
                    game_id=self.game_id,
                    seat=seat,
                    players=game.players,
                    rules=game.rules,
                    budget_us=bot.time_left.budget_us,
                    bank_us=bot.time_left.bank_us,
                    commitment=game.commitment,
                )
            )
        while (question := game.pending()) is not None:
            self._ask(question)
        for seat, bot in enumerate(self.bots):
            self._tell(seat)
            bot.on_game_end(self._end(seat))
        return game

    def _ask(self, question: Question) -> None:
        seat = question.seat
        bot = self.bots[seat]
        began = self.now_us()
        try:
            self._tell(seat)
            action = bot.decide(self.game.view(seat))
        except Exception as error:
            if self.on_error == "raise":
                raise
            us = self.now_us() - began
            self._fault(question, Fault.CRASH, us, f"raised {type(error).__name__}: {error}")
            return
        us = self.now_us() - began
        try:
            self.game.decide(action, us=us)
        except RulesError:
            self._fault(question, Fault.ILLEGAL_ACTION, us, str(action))

    def _fault(self, question: Question, fault: Fault, us: int, came: str) -> None:
        seat = question.seat
        decision = self.game.decide(None, us=us, fault=fault, came=came[:200])
        message = (
            f"asked to {question.kind} ({', '.join(question.legal)}), came {came!r:.200}; "
            f"counted as {fault}, {decision.action} was played"
        )
        forfeit = self.game.has_forfeited(seat)
        self.bots[seat].on_fault(
            FaultNotice(self.game_id, len(self.game.decisions), fault, message, forfeit)
        )

    def _tell(self, seat: int) -> None:
        if self.listens[seat]:
            for event in self.game.events_for(seat, self.seen[seat]):
                self.bots[seat].on_event(event)
            self.seen[seat] = len(self.game.events)

    def _end(self, seat: int) -> GameEnd:
        game = self.game
        result = game.result()
        return GameEnd(
            game_id=self.game_id,
            seat=seat,
            scores=result.scores,
            placements=result.placements,
            seed=game.seed,
            values=game.state.values,
            forfeits=tuple(game.forfeits),
            void=False,
        )
