"""The seat of a person: its place in a game, and its decisions in words.

`PersonSeat` has the same views, events and legal actions as a bot's seat. `choices`, `rules_of` and
`hint` say a decision in words: choices with their keys, the rules that matter, and hints.

Invariants: a person is shown nothing but the view and events of the seat, and has one decision at a
time, in a thread: the event loop never waits for a person, so that the clocks and the freezer of
bots continue. An answer that comes after a timeout is dropped. The words follow from the view.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import (
    Callable,
    Mapping,
    Sequence,
)
from functools import partial
from typing import NamedTuple, Protocol

from deepsea_referee.clock import Alarm, Clock
from deepsea_referee.errors import BotFault, RefereeError
from deepsea_referee.session import OnAnswer, TimedAnswer
from deepsea_rules.actions import BACK, DOWN, LEAVE, TAKE, Unit, drop, order
from deepsea_rules.events import Event
from deepsea_rules.faults import Fault
from deepsea_rules.ruleset import OPTIONS
from deepsea_rules.time_control import TimeControl, overrun
from deepsea_rules.view import View
from deepsea_sdk.bot import NO_CLOCK, TimeLeft
from deepsea_sdk.coach.decisions import Effort, PlayedDecision, judge
from deepsea_sdk.coach.roll_outs import LuckSource
from deepsea_sdk.table import RefereedGame

LATE = "the time is up: the default action was played"


class Person(Protocol):
    """The user interface of a person who plays.

    The event loop calls `begin` and `wake`; a thread calls `decide`.
    """

    def begin(self, game: RefereedGame, seat: int) -> None:
        """Begin a game; the person may be shown nothing that the seat does not know."""

    def decide(self, request: PersonRequest) -> str | None:
        """Return an action, after any time. Return None if it is no longer wanted, or to leave."""

    def wake(self, why: str) -> None:
        """Make `decide` return: its decision is no longer wanted, for this reason."""


class PersonRequest(NamedTuple):
    """The request for a decision of a person."""

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
        """Ask the person for the pending decision of the game, and return the request's id at once.

        A thread waits for the person; the event loop calls `on_answer` later. The message `request`
        is not read, since the view and the events in it are taken from the game instead.
        """
        view = self._game.view(self._seat)
        events = self._game.events_for(self._seat, self._seen_events)
        self._seen_events = len(self._game.events)
        self._request_id += 1
        self._request_us = self._clock.now_us()
        self._on_answer = on_answer
        limit_us = sum(time_left)
        if time_left != NO_CLOCK:
            deadline_us = self._request_us + limit_us + 1  # exactly at the limit is in time
            self._alarm = self._clock.at(deadline_us, partial(self._time_out, limit_us))
        is_wanted = partial(self._is_wanted, self._request_id)
        person_request = PersonRequest(view, events, time_left, is_wanted)
        # A daemon thread: a read from a terminal that nothing can end must not keep the program
        # from exiting.
        threading.Thread(
            target=self._decide, args=(self._request_id, person_request), daemon=True
        ).start()
        return self._request_id

    def _is_wanted(self, request_id: int) -> bool:
        """Return True while the request with this id is the newest one and has no answer."""
        return request_id == self._request_id and self._on_answer is not None

    def _decide(self, request_id: int, request: PersonRequest) -> None:
        """Wait for the person's decision, and pass it to the event loop; runs in a thread.

        An exception of the user interface is an error of the referee, so it voids the game. Without
        a decision, since the request is not open any more, nothing is passed on.
        """
        outcome: str | RefereeError | None
        try:
            outcome = self._person.decide(request)
        except Exception as error:  # noqa: BLE001  (an error of the program, not of the person)
            outcome = RefereeError(f"{type(error).__name__}: {error}")
            outcome.__cause__ = error
        if outcome is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._answer, request_id, outcome)

    def _answer(self, request_id: int, outcome: str | RefereeError) -> None:
        """Report the outcome of a request: the action, or an error; runs in the event loop.

        It is dropped if it comes after the request's timeout.
        """
        on_answer = self._on_answer
        if request_id != self._request_id or on_answer is None:
            return
        self._on_answer = None
        if self._alarm is not None:
            self._alarm.cancel()
        us = self._clock.now_us() - self._request_us
        on_answer(TimedAnswer(outcome, us) if isinstance(outcome, str) else outcome)

    def _time_out(self, limit_us: int) -> None:
        """Report a timeout of the newest request, unless it has its answer already.

        The thread that waits for the person is woken, so that the dialog of the decision ends.
        """
        on_answer = self._on_answer
        if on_answer is None:
            return
        self._on_answer = None
        self._person.wake(LATE)
        us = self._clock.now_us() - self._request_us
        on_answer(BotFault(Fault.TIMEOUT, overrun(limit_us), us))


ITEM_KEYS = "123456789ABCDEFGIJKMNOPRSTUVWXYZ"
"""The keys of units.

H, L and Q are left out: in a terminal they ask for a hint, the last turns, and the end of the
program.
"""
HINTED = 3
"""The number of actions that a hint names."""
HINT_EFFORT = Effort.to()
LAST_TURNS = 18
"""The number of past turns that a person at the table sees."""
BOARD = (
    "The dice show 2 to 6, less one step for each piece that you carry.",
    "Each of these takes one air from all, too, at the start of your turn.",
    "Spaces with a diver are skipped and not counted.",
    "A stack, such as [12], is one piece: one step, one air, taken and laid as a whole.",
    "A number is the level of a piece: 1 has 0 to 3 points, 2 4 to 7, 3 8 to 11, 4 12 to 15.",
    "Only what you bring home counts. The turn that uses the last air is still played to its end.",
    "A dive also ends when all are home, or when nothing changes in a turn of each diver outside.",
)
MOMENTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "declare": (
        "Before you roll you say which way you go; you turn once.",
        ("turn_needs_treasure", "forced_turn", "home_empty_handed", "barred_release"),
    ),
    "search": (
        "You may take what lies here, or on a blank lay a piece down.",
        ("drop_last_after_turn", "reveal", "owner_peek"),
    ),
    "order": (
        "The air is used up: what you carry sinks, in your order.",
        ("drop_sequence", "drop_order", "top_up_tail_piles", "relost_stack"),
    ),
}
"""An explanation of each kind of decision, and the names of the options that matter."""
QUESTIONS = {"declare": "which way?", "search": "what do you do?", "order": "what sinks first?"}


class Choice(NamedTuple):
    """A possible answer of a person: its key, the action that it stands for, and its meaning."""

    key: str
    action: str
    meaning: str


class ChoiceDialog:
    """A decision of a person in progress.

    Most decisions need a single choice. For the order of cargo the person chooses one unit after
    the other, until the order of the remaining units does not matter.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._remaining = list(view.items) if view.kind == "order" else []
        self._laid: list[Unit] = []
        self.offered = _unit_choices(view, self._remaining) if self._remaining else choices(view)
        """The choices of the moment."""

    @property
    def note(self) -> list[str]:
        """A line that names the units chosen so far; empty if there are none."""
        return [f"laid so far: {', '.join(map(_name, self._laid))}"] if self._laid else []

    def choose(self, answer: str) -> str | None:
        """Make a choice by its key; return the complete action, or None if more must be chosen.

        A complete legal action is accepted too. The name of a unit is not, because it may be the
        key of another unit. Raises ValueError for any other answer.
        """
        actions_by_key = {choice.key: choice.action for choice in self.offered}
        if answer not in actions_by_key:
            if self._view.is_legal(answer):
                return answer
            raise ValueError(f"not one of {' '.join(actions_by_key)}")
        action = actions_by_key[answer]
        if not self._remaining:
            return action
        # The order of cargo: the choice is the name of the unit that is laid down next.
        unit = next(unit for unit in self._remaining if unit.name == action)
        self._laid.append(unit)
        self._remaining.remove(unit)
        names_left = {unit.name for unit in self._remaining}
        if len(names_left) > 1:
            self.offered = _unit_choices(self._view, self._remaining)
            return None
        return order([*self._laid, *self._remaining])


def choices(view: View) -> list[Choice]:
    """Return the legal actions of a declaration or a search, with their keys and meanings.

    A meaning ends with the air that the diver will use in each turn: one for each carried unit.
    """
    load = view.me.load
    same_air = f"you breathe {load} a turn"
    spaces = "1 space" if view.distance_home == 1 else f"{view.distance_home} spaces"
    # All actions that there can be; the legal ones among them are returned.
    keys_and_meanings = {
        DOWN: ("d", f"down: go on, {same_air}"),
        BACK: ("b", f"back: {spaces} to go, {same_air}"),
        LEAVE: ("n", f"nothing: {same_air}"),
        TAKE: ("t", f"take {_with_value(view, view.unit_here)}: you breathe {load + 1} a turn"),
    }
    for number, unit in enumerate(view.droppable):
        meaning = f"drop {_with_value(view, unit)}: you breathe {load - 1} a turn"
        keys_and_meanings[drop(unit)] = (ITEM_KEYS[number], meaning)
    legal_choices = []
    for action in view.legal:
        key, meaning = keys_and_meanings[action]
        legal_choices.append(Choice(key, action, meaning))
    return legal_choices


def _unit_choices(view: View, units: list[Unit]) -> list[Choice]:
    """Return the choices for the unit of these that is laid down next, with keys from 1 on.

    Units of the same name are interchangeable, so there is one choice for each name.
    """
    first_of_name: dict[str, Unit] = {}
    for unit in units:
        first_of_name.setdefault(unit.name, unit)
    return [
        Choice(key, unit.name, _with_value(view, unit))
        for key, unit in zip(ITEM_KEYS, first_of_name.values(), strict=False)
    ]


def _with_value(view: View, unit: Unit) -> str:
    """Return a unit in words, with its expected value by what the seat knows."""
    return f"{_name(unit)}, worth {view.expected_value(unit):.1f}"


def _name(unit: Unit) -> str:
    return _name_in_words(unit.name)


def _name_in_words(name: str) -> str:
    """Return the name of a unit in words, since a bare number could be mistaken for a key.

    "2" becomes "level 2", and the stack "[12]" becomes "levels 1, 2".
    """
    levels = ", ".join(name.strip("[]"))
    return f"level {levels}" if len(name) == 1 else f"levels {levels}"


def action_words(action: str) -> str:
    """Return an action in the words of the choices, such as "drop level 2"."""
    verb, _, names = action.partition(":")
    if not names:
        return "take nothing" if action == LEAVE else action
    return f"{verb} {', then '.join(map(_name_in_words, names.split(',')))}"


def rules_of(view: View) -> list[str]:
    """Return lines that explain the pending decision, the board, and the rules that matter for it.

    Each option of the rules that matters for this kind of decision has a line with its value.
    """
    assert view.kind is not None, "a decision is pending"
    explanation, option_names = MOMENTS[view.kind]
    lines = [explanation, "", *BOARD, ""]
    for option in OPTIONS:
        if option.name in option_names:
            value = getattr(view.rules, option.name)
            lines.append(f"{option.about}: {option.in_words(value)}")
    return lines


def hint(view: View, effort: Effort = HINT_EFFORT) -> list[str]:
    """Return lines with the best actions and the scores that the coach expects of them.

    This takes a second or more. The random numbers follow from the view, so that the same question
    gets the same hint.

    effort  how many games the coach plays on from this position
    """
    # The coach judges a played action in comparison with all others. None is played yet, and any
    # legal one will do.
    random_numbers = LuckSource(f"hint/{view}", view.players)
    judgement = judge(PlayedDecision(view, view.legal[0], random_numbers), effort)
    options = sorted(judgement.options, key=lambda option: option.score.mean, reverse=True)
    scores = ", ".join(
        f"{action_words(option.action)} {option.score.mean:.2f}" for option in options[:HINTED]
    )
    return [f"hint: {scores}", "  (placement score to be expected: 1 wins, 0 is last)"]
