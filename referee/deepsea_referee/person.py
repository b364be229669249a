"""A seat for a person: the same views, events and legal actions as a bot's, decided in a thread.

Invariants: a decision is asked for with nothing but the view and events of the seat; the event loop
never waits for it, so that clocks of bots and the freezer go on; one decision at a time; an answer
that comes after a timeout is dropped.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from deepsea_referee.errors import BotFault, RefereeError
from deepsea_referee.timing.clock import Alarm, Clock
from deepsea_referee.transport.session import OnAnswer, TimedAnswer
from deepsea_rules.events import Event
from deepsea_rules.faults import Fault
from deepsea_rules.time_control import TimeControl, overrun
from deepsea_rules.view import View
from deepsea_sdk.clock import NO_CLOCK, TimeLeft
from deepsea_sdk.refereed_game import RefereedGame

LATE = "the time is up: the default action was played"


class Person(Protocol):
    """Somebody who decides; `begin` and `wake` are called by the event loop, `decide` is not."""

    def begin(self, game: RefereedGame, seat: int) -> None:
        """A game begins, of which nothing is shown but what the seat knows."""

    def decide(self, asked: Asked) -> str | None:
        """An action, which may take any time; None once it is not wanted, or to leave for good."""

    def wake(self, why: str) -> None:
        """A decision is not wanted any more: `decide` has to look and to return."""


class Asked(NamedTuple):
    """A decision that a person has to make."""

    view: View
    events: Sequence[Event]
    """What happened since the last one."""
    time_left: TimeLeft
    is_wanted: Callable[[], bool]
    """False after the timeout."""


class PersonSeat:
    """The seat of a person in one game."""

    features: frozenset[str] = frozenset()

    def __init__(
        self,
        person: Person,
        control: TimeControl | None,
        clock: Clock,
        game: RefereedGame,
        seat: int,
        _session: object = None,
    ) -> None:
        """`control` is the person's own clock; None: it takes the time that it wants."""
        game.set_clock(seat, control)
        self._person = person
        self._clock = clock
        self._game = game.game
        self._seat = seat
        self._loop = asyncio.get_running_loop()
        self._mark = 0
        self._asked = 0
        self._since_us = 0
        self._on_answer: OnAnswer | None = None
        self._alarm: Alarm | None = None
        person.begin(game, seat)

    def send(self, message: bytes) -> None:
        """Do nothing: what bots get as messages, a person is shown otherwise."""

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Ask for the decision that is due in the game; the same as is in the request."""
        view, events = self._game.view(self._seat), self._game.events_for(self._seat, self._mark)
        self._mark = len(self._game.events)
        self._asked += 1
        self._since_us = self._clock.now_us()
        self._on_answer = on_answer
        limit_us = sum(time_left)
        if time_left != NO_CLOCK:
            due_us = self._since_us + limit_us + 1
            self._alarm = self._clock.at(due_us, partial(self._give_up, limit_us))
        wanted = partial(self._is_wanted, self._asked)
        asked = Asked(view, events, time_left, wanted)
        # A daemon: a read that nothing can end must not keep the program from ending.
        threading.Thread(target=self._think, args=(self._asked, asked), daemon=True).start()
        return self._asked

    def _is_wanted(self, number: int) -> bool:
        return number == self._asked and self._on_answer is not None

    def _think(self, number: int, asked: Asked) -> None:
        outcome: str | RefereeError | None
        try:
            outcome = self._person.decide(asked)
        except Exception as error:  # noqa: BLE001  (of the program, not the person's)
            outcome = RefereeError(f"{type(error).__name__}: {error}")
            outcome.__cause__ = error
        if outcome is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._answer, number, outcome)

    def _answer(self, number: int, outcome: str | RefereeError) -> None:
        if number != self._asked or (on_answer := self._on_answer) is None:
            return
        self._on_answer = None
        if self._alarm is not None:
            self._alarm.cancel()
        us = self._clock.now_us() - self._since_us
        on_answer(TimedAnswer(outcome, us) if isinstance(outcome, str) else outcome)

    def _give_up(self, limit_us: int) -> None:
        if (on_answer := self._on_answer) is not None:
            self._on_answer = None
            self._person.wake(LATE)
            us = self._clock.now_us() - self._since_us
            on_answer(BotFault(Fault.TIMEOUT, overrun(limit_us), us))
