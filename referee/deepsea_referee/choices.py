"""The decisions of a person: choices with their keys in words, the rules that bear on them, hints.

Invariants: which actions there are and what they do, the view says; all is made of the view alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from deepsea_rules.actions import BACK, DOWN, LEAVE, TAKE, Unit, drop, order
from deepsea_rules.ruleset import OPTIONS
from deepsea_rules.view import View
from deepsea_sdk.coach.decisions import Effort, PlayedDecision, judge
from deepsea_sdk.coach.roll_outs import Stream

ITEM_KEYS = "123456789ABCDEFGIJKMNOPRSTUVWXYZ"
HINTED = 3
HINT_EFFORT = Effort.to()
LAST_TURNS = 18
"""How many of the last turns a person at the table sees."""
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
"""For each kind of decision what it is, and the options of the rules that bear on it."""
QUESTIONS = {"declare": "which way?", "search": "what do you do?", "order": "what sinks first?"}


class Choice(NamedTuple):
    """An answer, the action that it stands for, and what it means here."""

    key: str
    action: str
    meaning: str


class Choosing:
    """A decision under way: one choice, or for the order of cargo one after the other."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._left = list(view.items) if view.kind == "order" else []
        self._laid: list[Unit] = []
        self.offered = _items(view, self._left) if self._left else choices(view)
        """The choices that there are now."""

    @property
    def note(self) -> list[str]:
        """What was chosen before."""
        return [f"laid so far: {', '.join(map(_name, self._laid))}"] if self._laid else []

    def choose(self, answer: str) -> str | None:
        """The whole action after a choice, by its key; None if more is to be chosen.

        A whole action is taken too. Raises ValueError for what is no choice. The name of an item
        is none: it may be the key of another one.
        """
        action = {one.key: one.action for one in self.offered}.get(answer)
        if action is None and self._view.is_legal(answer):
            return answer
        if action is None:
            raise ValueError(f"not one of {' '.join(one.key for one in self.offered)}")
        if not self._left:
            return action
        item = next(item for item in self._left if item.name == action)
        self._laid.append(item)
        self._left.remove(item)
        if len({item.name for item in self._left}) > 1:
            self.offered = _items(self._view, self._left)
            return None
        return order([*self._laid, *self._left])


def choices(view: View) -> list[Choice]:
    """The legal actions of a declaration or a search, with their keys."""
    load = view.me.load
    breathe = f"you breathe {load} a turn"
    home = view.distance_home
    known = {
        DOWN: ("d", f"down: go on, {breathe}"),
        BACK: ("b", f"back: {home} space{'' if home == 1 else 's'} to go, {breathe}"),
        LEAVE: ("n", f"nothing: {breathe}"),
        TAKE: ("t", f"take {_worth(view, view.unit_here)}: you breathe {load + 1} a turn"),
    }
    for number, unit in enumerate(view.droppable):
        means = f"drop {_worth(view, unit)}: you breathe {load - 1} a turn"
        known[drop(unit)] = (ITEM_KEYS[number], means)
    return [Choice(known[action][0], action, known[action][1]) for action in view.legal]


def _items(view: View, left: list[Unit]) -> list[Choice]:
    """What may sink first; items of one name are alike."""
    firsts = {item.name: item for item in reversed(left)}
    names = dict.fromkeys(item.name for item in left)
    return [
        Choice(key, name, f"{_worth(view, firsts[name])}")
        for key, name in zip(ITEM_KEYS, names, strict=False)
    ]


def _worth(view: View, unit: Unit) -> str:
    return f"{_name(unit)}, worth {view.expected_value(unit):.1f}"


def _name(unit: Unit) -> str:
    return _name_words(unit.name)


def _name_words(name: str) -> str:
    """The name of a unit in words: a bare number could be taken for a key."""
    levels = ", ".join(name.strip("[]"))
    return f"level {levels}" if len(name) == 1 else f"levels {levels}"


def action_words(action: str) -> str:
    """An action in the words of the choices."""
    verb, _, names = action.partition(":")
    if not names:
        return "take nothing" if action == LEAVE else action
    return f"{verb} {', then '.join(map(_name_words, names.split(',')))}"


def rules_of(view: View) -> list[str]:
    """The rules that bear on the decision."""
    assert view.kind is not None
    what, names = MOMENTS[view.kind]
    lines = [what, "", *BOARD, ""]
    return lines + [
        f"{option.about}: {option.in_words(getattr(view.rules, option.name))}"
        for option in OPTIONS
        if option.name in names
    ]


def hint(view: View, effort: Effort = HINT_EFFORT) -> list[str]:
    """The best actions with the scores that the coach expects of them; takes a second or more."""
    found = judge(PlayedDecision(view, view.legal[0], Stream(f"hint/{view}", view.players)), effort)
    best = sorted(found.options, key=lambda option: -option.score.mean)[:HINTED]
    scores = ", ".join(f"{action_words(option.action)} {option.score.mean:.2f}" for option in best)
    return [f"hint: {scores}", "  (placement score to be expected: 1 wins, 0 is last)"]
