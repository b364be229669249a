"""The class `Bot`: three decisions and four hooks with sensible defaults; its clock and notes.

Start reading at `Bot`. `Clock` is the time for a decision, `Note` a text and named numbers beside a
decision for the bot's author, and `SeatedBot` a bot in one seat of one game.

Invariants: a bot is asked only where it has a choice. It gets all information through its views and
hooks. An illegal answer is refused at once, with the name of the method that returned it. An
exception of the bot's own code ends nothing: it is printed, and is the answer to the request, or to
the next one. Hints for its author are lines on stderr, and change nothing about how a bot plays.

Times are seconds on one monotonic clock, which is a parameter; they are counted from the arrival of
the request, not from the call of the bot. No other module of the SDK reads a clock.

A note is one line that is safe to print: texts that are too long are cut and numbers that are not
finite are left out, so that a note is never a fault. Notes are in no record.
"""

from __future__ import annotations

import difflib
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf, isfinite
from typing import NamedTuple, TypeAlias, TypeVar

from deepsea_rules.actions import BACK, DOWN, LEAVE, Kind, Unit, order_by_name
from deepsea_rules.events import Event, new_tuple
from deepsea_rules.faults import Fault
from deepsea_rules.game import Decision, Forfeit
from deepsea_rules.printable import one_line, quoted
from deepsea_rules.ruleset import RuleSet
from deepsea_rules.view import View

from .errors import IllegalAnswer, WireError, own_traceback

monotonic = time.monotonic


def now_us() -> int:
    """Return the time of the monotonic clock in whole microseconds."""
    return time.monotonic_ns() // 1000


class TimeLeft(NamedTuple):
    """The time left for a decision, in microseconds."""

    budget_us: int
    """Time for this decision; what is not used is lost."""
    bank_us: int
    """Time for all further decisions of the game, where they go beyond their budgets."""


NO_CLOCK = TimeLeft(2**62, 0)
"""Time left where time is not measured."""


class Clock:
    """The time for the current decision: `Bot.clock`, a new one for each decision.

        deadline = self.clock.deadline(share=0.5)
        while self.clock.now() < deadline:
            ...  # try out some more

    `budget` and `bank` are the seconds that were left when the request arrived.
    """

    __slots__ = ("_arrived", "_now", "bank", "budget")

    def __init__(
        self,
        budget: float = math.inf,
        bank: float = 0.0,
        *,
        now: Callable[[], float] = monotonic,
        arrived: float | None = None,
    ) -> None:
        """Make a clock for one decision, without a limit by default.

        budget   seconds for this decision
        bank     seconds for the rest of the game, where decisions go beyond their budgets
        now      function that returns the time in seconds, from any origin
        arrived  time when the request arrived; by default the time of this call
        """
        self.budget = budget
        self.bank = bank
        self._now = now
        self._arrived = now() if arrived is None else arrived

    @classmethod
    def of(cls, time_left: TimeLeft, *, now: Callable[[], float], arrived: float) -> Clock:
        """Return the clock of a request that arrived with so much time left."""
        budget_us, bank_us = time_left
        if budget_us == NO_CLOCK.budget_us:
            return cls(now=now, arrived=arrived)
        return cls(budget_us / 1e6, bank_us / 1e6, now=now, arrived=arrived)

    def now(self) -> float:
        """Return the time in seconds, to be compared with a deadline."""
        return self._now()

    def remaining(self) -> float:
        """Return the seconds until a timeout, bank included; infinity without a limit."""
        return max(0.0, self._arrived + self.budget + self.bank - self._now())

    def deadline(self, share: float = 0.5) -> float:
        """Return the time, as of `now()`, when this share of budget and bank is used up.

        The rest is a reserve for a busy machine. With a share of 0.5, a decision takes at most half
        of the budget and half of what is left in the bank, so the bank never runs out.
        """
        if not 0 < share <= 1:
            raise ValueError(f"a share of the time is more than 0 and at most 1, not {share}")
        return self._arrived + share * (self.budget + self.bank)


NO_LIMIT = Clock(now=lambda: 0.0)
"""A clock without a limit, for example in a bot's own tests."""


# ----- Notes

TEXT_BYTES = 200
"""Most bytes of a note's text."""
NAME_BYTES = 40
"""Most bytes of a number's name."""
MOST_NUMBERS = 8
"""Most numbers of a note."""
MOST_READ = 4 * MOST_NUMBERS
"""Numbers of a note that are read at most, so that a flood of them costs the referee nothing."""
GAME_BYTES = 16 * 1024
"""Most bytes of all notes of a seat in a game; later notes are dropped."""
_NUMBER_BYTES = 8


class Note(NamedTuple):
    """Note of a bot at a decision."""

    text: str
    numbers: Mapping[str, float]

    @property
    def size(self) -> int:
        """The bytes that it counts towards `GAME_BYTES`."""
        names = sum(len(name.encode()) + _NUMBER_BYTES for name in self.numbers)
        return len(self.text.encode()) + names

    def line(self) -> str:
        """Return the numbers and the text in one line, as listings show them."""
        numbers = [f"{name} {value:.4g}" for name, value in self.numbers.items()]
        return "; ".join(filter(None, [*numbers, self.text]))


def note_of(text: str, numbers: Iterable[tuple[str, float]] = ()) -> Note:
    """Return a note with this text and these numbers, shortened to the limits of a note.

    A text or a name that is too long is cut. Infinite numbers and NaN are left out. Of several
    numbers with the same name the last one counts; there is no room for new names once there are
    MOST_NUMBERS of them.
    """
    by_name: dict[str, float] = {}
    for name, value in islice(numbers, MOST_READ):  # a bot may send a flood of numbers
        label = _cut(name, NAME_BYTES)
        has_room = label in by_name or len(by_name) < MOST_NUMBERS
        if has_room and isfinite(value):
            by_name[label] = value
    return Note(_cut(text, TEXT_BYTES), by_name)


def rows_of(notes: Mapping[int, Note], decisions: Sequence[Decision]) -> list[dict[str, object]]:
    """Return the notes of a game as JSON objects, in the order of the decisions.

    notes      notes by the number of their decision
    decisions  all decisions of the game
    """
    rows: list[dict[str, object]] = []
    for number, note in sorted(notes.items()):
        seat = decisions[number].seat
        rows.append({"decision": number, "seat": seat, "text": note.text, "numbers": note.numbers})
    return rows


def _cut(text: str, limit: int) -> str:
    """Return the beginning of a text in one printable line, as UTF-8 of at most `limit` bytes."""
    return one_line(text[:limit]).encode()[:limit].decode(errors="ignore")


# ----- The class Bot

HINT = "deepsea-sdk: hint: "
"""Beginning of a hint on stderr."""
_ALIKE = 0.8
"""Similarity of two names, from 0 to 1, from which on one may be the other misspelt."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class GameInfo:
    """The start of a game, as a bot receives it."""

    game_id: str
    """The first 16 digits of `commitment`, by which the game's record can be found."""
    seat: int
    """The bot's own seat, 0 = A."""
    players: int
    rules: RuleSet
    """The rules.

    If the referee is newer they may have `unknown_options`: then the game cannot be simulated.
    """
    budget_us: int
    """The budget of each decision, in microseconds."""
    bank_us: int
    """The bank of the whole game, in microseconds, for longer decisions."""
    commitment: str
    """SHA-256 of the game's seed in hex; differs from game to game, and is good for seeding."""


@dataclass(frozen=True, slots=True)
class GameEnd:
    """The end of a game, as a bot receives it."""

    game_id: str
    seat: int
    points: tuple[int, ...]
    """Points per seat."""
    placements: tuple[int, ...]
    """Placement per seat, 1 is best; tied seats share one."""
    seed: bytes
    """The 32 bytes from which deal and dice are derived."""
    values: tuple[int, ...]
    """The value of every chip, indexed by chip id; index 0 is no chip."""
    forfeits: tuple[Forfeit, ...]
    """The seats that forfeited."""
    is_void: bool
    """The referee or the host failed and the game does not count; points and the rest are empty."""


@dataclass(frozen=True, slots=True)
class FaultNotice:
    """A fault that was counted against this bot; the default action was played instead."""

    game_id: str
    request_id: int
    fault: Fault
    """The kind of fault.

    It is the text "unknown", which is no `Fault`, if a newer referee counts another kind.
    """
    message: str
    """Text with the request, what the bot did, and the action that was played."""
    forfeit: bool
    """True if the seat forfeited with this fault, and gets no more requests in this game."""


class Bot:
    """A player: override the decisions that you want to make.

    The smallest bot is one method:

        class TwoChips(Bot):
            def search(self, view):
                return TAKE if view.can_take and view.me.load < 2 else LEAVE
    """

    name: str = ""
    """The name in messages; by default the name of its class."""
    clock: Clock = NO_LIMIT
    """The time for the current decision, set before each decision."""
    concurrent_games: bool = False
    """Set this to True if games of this class may run at once.

    That is so if everything that a bot knows of its game is in `self`, and nothing in its class or
    module. Long matches are several times faster then.
    """
    _note: Note | None = None

    # Decisions

    def turn_back(self, view: View) -> bool:
        """Decide whether to turn back now; a diver that has turned back cannot turn again."""
        return False

    def search(self, view: View) -> str:
        """Decide what to do on the space reached: `LEAVE`, `TAKE` or `drop(unit)`.

        Legal are `TAKE` if `view.can_take`, and `drop(unit)` for each unit of `view.droppable`.
        """
        return LEAVE

    def stack_order(self, view: View) -> str | Sequence[str | Unit]:
        """Decide the order in which a stranded diver's `view.items` are laid, nearest first.

        Return the items in that order, or `order(items)`, or one of `view.legal`.
        """
        return view.items

    def note(self, text: str, number: float | None = None) -> None:
        """Note a text, or a named number such as `self.note("chance home", 0.7)`, for the author.

        The note is shown beside the next decision, in the viewer and in `show`. A number with the
        same name at each decision makes a line over the game. A decision has at most one text and 8
        numbers, the last one of each name. Texts are cut after 200 bytes.
        """
        note_so_far = self._note or note_of("")
        if number is None:
            self._note = note_of(text, note_so_far.numbers.items())
            return
        try:
            value = float(number)
        except OverflowError:  # an int that is too large for a float
            value = inf  # `note_of` leaves it out
        numbers = [*note_so_far.numbers.items(), (text, value)]
        self._note = note_of(note_so_far.text, numbers)

    # Hooks

    def on_game_start(self, info: GameInfo) -> None:
        """Called when a game begins. Reset here whatever a class or module stores about a game."""

    def on_event(self, event: Event) -> None:
        """Called for each event since the last decision: a dive, a turn, a clean-up, the end.

        A referee sends no events to a class that does not define this.
        """

    def on_fault(self, notice: FaultNotice) -> None:
        """Called when a fault was counted against this bot. By default, prints it to stderr."""
        sys.stderr.write(f"{self.name or type(self).__name__}: {notice.message}\n")

    def on_game_end(self, end: GameEnd) -> None:
        """Called when a game is over, with all hidden values."""

    # What the SDK calls

    def decide(self, view: View) -> str:
        """Call the method for the decision that the view asks for, and return its action.

        Raise `IllegalAnswer` if the method returned an illegal action.
        """
        kind = view.kind
        if kind == "declare":
            return legal_action(view, self.turn_back(view), self, "turn_back")
        if kind == "search":
            return legal_action(view, self.search(view), self, "search")
        if kind == "order":
            return legal_action(view, self.stack_order(view), self, "stack_order")
        raise ValueError(f"there is no decision in phase {view.phase!r}")


NewBot: TypeAlias = Callable[[], Bot]
"""A class, or a function that makes a bot: each game gets an object of its own."""
AnyBot: TypeAlias = Bot | NewBot
"""A `NewBot`, or a bot object, which plays all games."""


def check_new_bot(bot: object) -> None:
    """Raise TypeError unless `run` accepts this argument: a class of bots, or a function."""
    if isinstance(bot, Bot):
        name = type(bot).__name__
        raise TypeError(
            "run() takes a class or a function that makes a bot, not an object: every game gets "
            f"a bot of its own; write run({name}), or run(lambda: {name}(...))"
        )
    is_accepted = issubclass(bot, Bot) if isinstance(bot, type) else callable(bot)
    if not is_accepted:
        raise TypeError(f"run() takes a class or a function that makes a bot, not {quoted(bot)}")


def make_bot(new_bot: NewBot) -> Bot:
    """Return a new bot. Raise TypeError for a function that makes something else."""
    bot: object = new_bot()
    if isinstance(bot, Bot):
        return bot
    name = getattr(new_bot, "__name__", type(new_bot).__name__)
    raise TypeError(f"{name} returned {quoted(bot)}; it has to return a bot, such as Bot()")


def is_own(method: Callable[..., object], inherited: object) -> bool:
    """Return True if a bot overrides a method; otherwise its arguments need not be made."""
    return getattr(method, "__func__", None) is not inherited


def take_note(bot: Bot) -> Note | None:
    """Return the note that a bot has made since its last decision, and clear it."""
    # The attribute is private because a public name would be in the author's way.
    note, bot._note = bot._note, None  # noqa: SLF001
    return note


def legal_action(view: View, answer: object, bot: Bot, method: str) -> str:
    """Return the action that a bot's method has chosen. Raise `IllegalAnswer` if it is not legal.

    answer       the method's result: an action as text, a bool for `turn_back`, or units in an
                 order for `stack_order`
    bot, method  bot and name of its method, for the error
    """
    action = answer if isinstance(answer, str) else _action_of(view.kind, answer)
    # `view.legal` lists only some of the orders when there are very many.
    if action is not None and (action in view.legal or view.is_legal(action)):
        return action
    if view.kind == "order":
        expected = f"an order of {', '.join(item.name for item in view.items)}"
    else:
        expected = f"one of {', '.join(view.legal)}"
    shown_answer = quoted(answer)
    message = f"{type(bot).__name__}.{method} returned {shown_answer}, which is not {expected}"
    raise IllegalAnswer(message, action=action or shown_answer)


def _action_of(kind: Kind | None, answer: object) -> str | None:
    """Return the action that an answer other than a text stands for, or None if it is no answer.

    Declarations are answered by a bool, True to turn back. Orders are answered by the units, or
    their names, in that order.
    """
    if kind == "declare" and answer is not None:  # None: the author forgot the return statement
        return BACK if answer else DOWN
    if kind == "order" and isinstance(answer, Iterable):
        return order_by_name(item.name if isinstance(item, Unit) else str(item) for item in answer)
    return None


# A bot in one seat of one game, the same over the wire and in this process


class BotAnswer(NamedTuple):
    """A bot's answer to a request: an action, or the text of an exception with an empty action.

    With the id of its request it is a `wire.RequestAnswer`.
    """

    action: str
    error: str | None
    """Text of an exception; with an illegal action, the name of the method that returned it."""
    note: Note | None = None


class SeatedBot:
    """A bot at a game. Its object may sit at other games too, if the author gave an object.

    raises  raise the author's exceptions, for debugging
    """

    def __init__(self, bot: AnyBot, *, raises: bool = False) -> None:
        self.hears_events = False
        """True if the bot listens to events; otherwise they need not be made."""
        self.hears_end = False
        self._raises = raises
        self._error: str | None = None
        """The first exception since its last decision, as text."""
        self._bot: Bot | None = bot if isinstance(bot, Bot) else self._call(make_bot, bot)
        """None if the bot could not be made: then every decision fails."""
        if self._bot is not None:
            self.hears_events = is_own(self._bot.on_event, Bot.on_event)
            self.hears_end = is_own(self._bot.on_game_end, Bot.on_game_end)

    def start(self, info: GameInfo) -> None:
        """Tell the bot that its game begins."""
        if self._bot is not None:
            self._call(self._bot.on_game_start, info)

    def decide(self, view: View, clock: Clock, events: Iterable[Event]) -> BotAnswer:
        """Pass the new events to the bot, ask it for a decision, and return its answer.

        If a hook of the bot has raised an exception since its last decision, the bot is not asked,
        and the answer is that exception.
        """
        bot = self._bot
        if bot is None:  # it could not be made: each decision fails with that error
            return BotAnswer("", self._error)
        bot.clock = clock
        for event in events:
            self._call(bot.on_event, event)
        if self._error is None:
            answer = self._call(self._ask, bot, view)
            if answer is not None:
                return answer
        error, self._error = self._error, None
        return BotAnswer("", error)

    def _ask(self, bot: Bot, view: View) -> BotAnswer:
        """Return the bot's action and its note, or an illegal action with the reason."""
        legal = view.legal
        if view.kind is None:
            # A newer referee asks for another kind of decision: play its default action.
            return BotAnswer(legal[0], None)
        try:
            action = bot.decide(view)
            if action not in legal:  # an order that is not listed, or the author's own `decide`
                action = legal_action(view, action, bot, "decide")
            # `new_tuple` makes a NamedTuple faster than its constructor.
            return new_tuple(BotAnswer, (action, None, take_note(bot)))
        except IllegalAnswer as error:
            if self._raises:
                raise
            return BotAnswer(error.action, str(error))

    def fault(self, notice: FaultNotice) -> None:
        """Tell the bot that a fault was counted against it."""
        if self._bot is not None:
            self._call(self._bot.on_fault, notice)

    def end(self, end: GameEnd, events: Iterable[Event]) -> None:
        """Tell the bot that its game is over. An exception in this hook is no fault any more."""
        if self._bot is not None:
            for event in events:
                self._call(self._bot.on_event, event)
            self._call(self._bot.on_game_end, end)

    def _call(self, method: Callable[..., _T], *arguments: object) -> _T | None:
        """Call a method with the author's own code, and return its result.

        If it raises, the traceback is printed and the result is None. The first traceback since the
        last decision is stored in `_error`, as the answer to the next request.
        """
        try:
            return method(*arguments)
        except WireError:  # the view's message is invalid: an error of the referee
            raise
        except Exception as error:
            if self._raises:
                raise
            traceback_text = own_traceback(error)
            sys.stderr.write(traceback_text + "\n")
            if self._error is None:
                self._error = traceback_text
            return None


# Hints for the author

_METHODS = {
    name.replace("_", ""): name
    for name, value in vars(Bot).items()
    if callable(value) and not name.startswith("_")
}
"""Public methods of `Bot`, by their names without underscores."""


def with_hints(new_bot: Callable[[], Bot]) -> Callable[[], Bot]:
    """Return a function that makes the same bots, and prints hints for their author.

    The hints are about methods with misspelt names. They are printed to stderr when the first bot
    of a class is made.
    """
    classes_seen: set[type[Bot]] = set()

    def make() -> Bot:
        bot = make_bot(new_bot)
        if type(bot) not in classes_seen:
            classes_seen.add(type(bot))
            sys.stderr.writelines(f"{HINT}{hint}\n" for hint in misspelt(type(bot)))
        return bot

    return make


def misspelt(bot: type[Bot]) -> Iterator[str]:
    """Yield a hint for each method of a bot's class whose name looks like a misspelt one."""
    for cls in bot.__mro__[: bot.__mro__.index(Bot)]:
        for name, value in vars(cls).items():
            hint = misspelling_hint(cls.__name__, name) if callable(value) else None
            if hint is not None:
                yield hint


def misspelling_hint(class_name: str, method: str) -> str | None:
    """Return a hint if the name of a bot's method is nearly, but not quite, that of one of `Bot`.

    Return None for all other names, such as the author's own. Case and underscores do not matter:
    for `StackOrder` the hint asks whether `stack_order` was meant.
    """
    if method.startswith("_") or hasattr(Bot, method):
        return None
    plain_name = method.replace("_", "").lower()
    matches = difflib.get_close_matches(plain_name, _METHODS, n=1, cutoff=_ALIKE)
    if not matches:
        return None
    return f"the SDK never calls {class_name}.{method}; did you mean {_METHODS[matches[0]]}?"
