"""A seat for a person: the same views, events and legal actions as a bot's, decided in a thread.

Invariants: a person is shown nothing but the view and events of the seat; the event loop never
waits for a person, so that the clocks and the freezer of bots continue; a person has one decision
at a time; an answer that comes after a timeout is dropped.
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
    """The user interface of a person who plays.

    The event loop calls `begin` and `wake`; a thread calls `decide`.
    """

    def begin(self, game: RefereedGame, seat: int) -> None:
        """Begin a game; the person may be shown nothing that the seat does not know."""

    def decide(self, asked: Asked) -> str | None:
        """Return an action, after any time. Return None if it is no longer wanted, or to leave."""

    def wake(self, why: str) -> None:
        """Make `decide` return: its decision is no longer wanted, for this reason."""


class Asked(NamedTuple):
    """A decision that a person has to make."""

    view: View
    events: Sequence[Event]
    """The events since the person's last decision."""
    time_left: TimeLeft
    is_wanted: Callable[[], bool]
    """Returns False after the timeout, when the decision is no longer wanted."""


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
        """Begin a game; `control` is the person's own clock, None gives unlimited time."""
        game.set_clock(seat, control)
        self._person = person
        self._clock = clock
        self._game = game.game
        self._seat = seat
        self._loop = asyncio.get_running_loop()
        self._seen_events = 0
        """The number of the game's events that the person has been shown."""
        self._request_id = 0
        """The number of the newest request."""
        self._request_us = 0
        """The time of the newest request."""
        self._on_answer: OnAnswer | None = None
        """Receives the answer to the newest request; None once it has one, or a timeout."""
        self._alarm: Alarm | None = None
        person.begin(game, seat)

    def send(self, message: bytes) -> None:
        """Ignore a message for bots: the user interface shows the game to the person."""

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Ask the person in a thread for the pending decision of the game; return the request's id.

        The request is not read, as it has the same view and events. `on_answer` is called later, by
        the event loop.
        """
        view = self._game.view(self._seat)
        events = self._game.events_for(self._seat, self._seen_events)
        self._seen_events = len(self._game.events)
        self._request_id += 1
        self._request_us = self._clock.now_us()
        self._on_answer = on_answer
        limit_us = sum(time_left)
        if time_left != NO_CLOCK:
            deadline_us = self._request_us + limit_us + 1
            self._alarm = self._clock.at(deadline_us, partial(self._time_out, limit_us))
        asked = Asked(view, events, time_left, partial(self._is_wanted, self._request_id))
        # A daemon thread: a read from a terminal that nothing can end must not keep the program
        # from exiting.
        threading.Thread(target=self._decide, args=(self._request_id, asked), daemon=True).start()
        return self._request_id

    def _is_wanted(self, request_id: int) -> bool:
        """Return True while the request with this id is the newest one and has no answer."""
        return request_id == self._request_id and self._on_answer is not None

    def _decide(self, request_id: int, asked: Asked) -> None:
        """Wait for the person's decision, and pass it to the event loop; runs in a thread.

        An exception of the user interface is an error of the referee, so it voids the game.
        """
        outcome: str | RefereeError | None
        try:
            outcome = self._person.decide(asked)
        except Exception as error:  # noqa: BLE001  (an error of the program, not of the person)
            outcome = RefereeError(f"{type(error).__name__}: {error}")
            outcome.__cause__ = error
        if outcome is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._answer, request_id, outcome)

    def _answer(self, request_id: int, outcome: str | RefereeError) -> None:
        """Report the outcome of a request, unless it comes after its timeout."""
        on_answer = self._on_answer
        if request_id != self._request_id or on_answer is None:
            return
        self._on_answer = None
        if self._alarm is not None:
            self._alarm.cancel()
        us = self._clock.now_us() - self._request_us
        on_answer(TimedAnswer(outcome, us) if isinstance(outcome, str) else outcome)

    def _time_out(self, limit_us: int) -> None:
        """Report a timeout of the newest request, unless it has its answer; end the decision."""
        on_answer = self._on_answer
        if on_answer is not None:
            self._on_answer = None
            self._person.wake(LATE)
            us = self._clock.now_us() - self._request_us
            on_answer(BotFault(Fault.TIMEOUT, overrun(limit_us), us))
