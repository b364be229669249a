"""A bot in one seat of one game, the same over the wire and in this process.

Invariants: what the bot's own code raises ends nothing: it is printed, and is the answer to the
request, or to the next one; the game's other decisions are asked as if nothing had happened.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from deepsea_rules.events import Event, new_tuple
from deepsea_rules.view import View

from .author_error import own_traceback
from .bot import AnyBot, Bot, FaultNotice, GameEnd, GameInfo, is_own, legal_action
from .clock import Clock
from .errors import IllegalAnswer, WireError

_T = TypeVar("_T")


class Answered(NamedTuple):
    """What a bot decided: an action, or what it raised."""

    action: str
    error: str | None
    """What it raised, or, beside an action that is not legal, which method returned that."""


class SeatedBot:
    """A bot that sits at a game; the object of the author may sit at others too.

    raises  let the author's exceptions out, for debugging
    """

    def __init__(self, bot: AnyBot, *, raises: bool = False) -> None:
        self.hears_events = False
        """Whether it wants events: what nobody listens to need not be made."""
        self.hears_end = False
        self._raises = raises
        self._error: str | None = None
        """What it raised since its last decision."""
        self._bot: Bot | None = bot if isinstance(bot, Bot) else self._call(bot)
        """None if it could not be made: then every decision fails."""
        if self._bot is not None:
            self.hears_events = is_own(self._bot.on_event, Bot.on_event)
            self.hears_end = is_own(self._bot.on_game_end, Bot.on_game_end)

    def start(self, info: GameInfo) -> None:
        """Its game begins."""
        if self._bot is not None:
            self._call(self._bot.on_game_start, info)

    def decide(self, view: View, clock: Clock, events: Iterable[Event]) -> Answered:
        """Ask for a decision; `events` is what happened since the last one."""
        bot = self._bot
        if bot is None:
            return Answered("", self._error)
        bot.clock = clock
        for event in events:
            self._call(bot.on_event, event)
        if self._error is None and (answered := self._call(self._ask, bot, view)) is not None:
            return answered
        error, self._error = self._error, None
        return Answered("", error)

    def _ask(self, bot: Bot, view: View) -> Answered:
        legal = view.legal
        if view.kind is None:
            # What a newer referee asks, and we do not know, has a default action too.
            return Answered(legal[0], None)
        try:
            action = bot.decide(view)
            if action not in legal:
                action = legal_action(view, action, bot, "decide")
            return new_tuple(Answered, (action, None))
        except IllegalAnswer as wrong:
            if self._raises:
                raise
            return Answered(wrong.action, str(wrong))

    def fault(self, notice: FaultNotice) -> None:
        """A fault was counted against it."""
        if self._bot is not None:
            self._call(self._bot.on_fault, notice)

    def end(self, end: GameEnd, events: Iterable[Event]) -> None:
        """Its game is over; what it raises now costs nothing."""
        if self._bot is not None:
            for event in events:
                self._call(self._bot.on_event, event)
            self._call(self._bot.on_game_end, end)

    def _call(self, method: Callable[..., _T], *arguments: object) -> _T | None:
        try:
            return method(*arguments)
        except WireError:  # in a field of the view: the referee's
            raise
        except Exception as error:
            if self._raises:
                raise
            text = own_traceback(error)
            sys.stderr.write(text + "\n")
            self._error = self._error or text
            return None
