"""The class `Bot`: three decisions and four hooks, each with a sensible default.

Invariants: a bot is asked only where it has a choice; it gets all information through its views and
hooks; an answer that is not legal is refused at once, with the name of the method that returned it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from deepsea_rules.actions import BACK, DOWN, LEAVE, Kind, Unit, order_by_name
from deepsea_rules.events import Event
from deepsea_rules.faults import Fault
from deepsea_rules.game import Forfeit
from deepsea_rules.printable import quoted
from deepsea_rules.ruleset import RuleSet
from deepsea_rules.view import View

from .clock import NO_LIMIT, Clock
from .errors import IllegalAnswer


@dataclass(frozen=True, slots=True)
class GameInfo:
    """The start of a game, as a bot receives it."""

    game_id: str
    seat: int
    """The bot's own seat, 0 = A."""
    players: int
    rules: RuleSet
    """With `unknown_options` if the referee is newer: such a game cannot be simulated."""
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
    """"unknown", which is no `Fault`, if the referee is newer and counts faults of another kind."""
    message: str
    """The request, what the bot did, and the action that was played."""
    forfeit: bool
    """Whether the seat forfeited with it, and gets no more requests in this game."""


class Bot:
    """A player: override the decisions that you want to make.

    The smallest bot is one method:

        class TwoChips(Bot):
            def search(self, view):
                return TAKE if view.can_take and view.me.load < 2 else LEAVE
    """

    name: str = ""
    """The name in messages; the name of its class if empty."""
    clock: Clock = NO_LIMIT
    """The time for the current decision, set before each decision."""
    concurrent_games: bool = False
    """Whether games of this class may run at once: set it to True if all that a bot knows of its
    game is in `self`, and nothing in its class or module. Long matches are several times faster."""

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

    # Hooks

    def on_game_start(self, info: GameInfo) -> None:
        """Called when a game begins. Reset here what a class or module keeps from the last game."""

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
        """Call the method for a decision, and return its action.

        Raises `IllegalAnswer` if the method returned an illegal one.
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
"""The same, or an object, which plays all games."""


def check_new_bot(bot: object) -> None:
    """Raise TypeError for an argument that `run` does not accept, such as a bot object."""
    if not callable(bot) and not isinstance(bot, Bot):
        raise TypeError(f"run() takes a class or a function that makes a bot, not {quoted(bot)}")
    if isinstance(bot, Bot):
        name = type(bot).__name__
        raise TypeError(
            "run() takes a class or a function that makes a bot, not an object: every game gets "
            f"a bot of its own; write run({name}), or run(lambda: {name}(...))"
        )


def is_own(method: Callable[..., object], inherited: object) -> bool:
    """Whether a bot overrides a method: for others, arguments need not be made."""
    return getattr(method, "__func__", None) is not inherited


def legal_action(view: View, answer: object, bot: Bot, method: str) -> str:
    """Convert a method's answer to an action.

    bot, method  what answered, for the error
    Raises `IllegalAnswer` if it is not an action, or not legal here.
    """
    action = answer if isinstance(answer, str) else _action_of(view.kind, answer)
    if action is not None and (action in view.legal or view.is_legal(action)):
        return action
    if view.kind == "order":
        wanted = f"an order of {', '.join(item.name for item in view.items)}"
    else:
        wanted = f"one of {', '.join(view.legal)}"
    shown = quoted(answer)
    source = f"{type(bot).__name__}.{method}"
    raise IllegalAnswer(f"{source} returned {shown}, which is not {wanted}", action or shown)


def _action_of(kind: Kind | None, answer: object) -> str | None:
    """The action of an answer that is no text."""
    if kind == "declare" and answer is not None:  # None is a forgotten return
        return BACK if answer else DOWN
    if kind == "order" and isinstance(answer, Iterable):
        return order_by_name(item.name if isinstance(item, Unit) else str(item) for item in answer)
    return None
