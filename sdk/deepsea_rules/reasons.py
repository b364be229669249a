"""Reasons in words: why an action is not legal, and which rule stops a diver on its way.

Invariants: the engine decides what is legal (`state.py`). This module only explains it, and no
decision depends on it. The reason of an option names it, so that it can be looked up in
docs/rules.md.
"""

from __future__ import annotations

from collections.abc import Container

from .actions import DOWN, TAKE, drop, kind_of
from .cleanup import items_of
from .position import Position
from .ruleset import ABOARD, RuleSet

NO_TREASURE_NO_TURN = "only a diver with treasure may turn back (turn_needs_treasure)"
NO_TREASURE_NO_ENTRY = "a diver without treasure may not board (home_empty_handed)"
OUT_FOR_THIS_DIVE = "a diver that was turned away stays out for this dive (barred_release)"


def why_illegal(position: Position, action: str) -> str:
    """Return the reason why the seat to move may not do this. The action must not be legal.

    Raise `InvalidAction` for a text that is no action.
    """
    kind, phase = kind_of(action), position.phase
    if phase == "over":
        return "the game is over"
    if phase == "roll" or (phase == "declare" and not position.legal):
        return "the dice are next"
    if kind != phase:
        return {
            "declare": "the diver declares before it rolls",
            "search": "a space is searched after the move",
            "order": "cargo is ordered when the dive has ended",
        }[kind]
    if phase == "declare":
        return _why_not_declare(position, action)
    if phase == "search":
        return _why_not_search(position, action)
    items = items_of(position.rules, position.cargo[position.to_move])
    return f"an order names each item once: {','.join(item.name for item in items)}"


def why_outside(
    rules: RuleSet, origin: int, others: Container[int], steps: int, *, has_treasure: bool
) -> str | None:
    """Return the rule that kept a homeward diver outside; None if it was too far away to board.

    origin  its place before the move
    others  the places of the other divers
    """
    free_spaces = sum(space not in others for space in range(1, origin))
    if rules.home_empty_handed != "barred" or steps <= free_spaces:
        return None
    return OUT_FOR_THIS_DIVE if has_treasure else NO_TREASURE_NO_ENTRY


def _why_not_declare(position: Position, action: str) -> str:
    """Return the reason why a declaration is not legal."""
    if action == DOWN:
        return "a diver with no free space deeper has to turn back (forced_turn)"
    if position.place[position.to_move] == ABOARD:
        return "a diver in the submarine goes down first"
    return NO_TREASURE_NO_TURN


def _why_not_search(position: Position, action: str) -> str:
    """Return the reason why a search is not legal."""
    seat = position.to_move
    cargo = position.cargo[seat]
    if action == TAKE:
        return "nothing lies on a blank"
    if position.trail[position.place[seat]]:
        return "a unit is dropped on a blank only, and here lies one"
    if action not in map(drop, cargo):
        return f"the diver carries {' '.join(unit.name for unit in cargo) or 'nothing'}"
    return "having turned back, a diver keeps its last unit (drop_last_after_turn)"
