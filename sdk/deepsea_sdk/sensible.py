"""A sensible way to play, for the futures that a search bot tries out."""

from __future__ import annotations

from typing import Final

from deepsea_rules.actions import BACK, LEAVE, TAKE
from deepsea_rules.state import GameState
from deepsea_rules.view import View

from .chances import home_chance, turns_left

_MEAN_ROLL: Final = 4
_SAFE: Final = 0.8
"""A diver goes on down while its chance to get home is better than this,"""
_RISKY: Final = 0.9
"""and takes more while the chance is better than this for a big load, or for a small load"""
_FIRST_RISK: Final = 0.3
"""less, and this for the first unit."""


def sensible(position: View | GameState) -> str:
    """The action of a careful diver: take what is likely to get home, turn back in time.

    A policy for `roll_out`, quick enough for thousands of dives. It looks at public facts only,
    so it answers for a view as well.
    """
    legal = position.legal
    if position.phase == "search":
        return TAKE if TAKE in legal and _likely_to_bring_it_home(position) else LEAVE
    if position.phase == "declare" and BACK in legal and _time_to_turn(position):
        return BACK
    return legal[0]


def _time_to_turn(position: View | GameState) -> bool:
    """Whether one more move down is too much of a risk."""
    seat = position.to_move
    load = len(position.cargo[seat])
    if not load:
        return False
    deeper = position.place[seat] + max(1, _MEAN_ROLL - load)
    return home_chance(deeper, load, turns_left(position, load) - 1) < _SAFE


def _likely_to_bring_it_home(position: View | GameState) -> bool:
    """Whether one more unit is likely to get home; the more is at stake, the surer it has to be."""
    seat = position.to_move
    load = len(position.cargo[seat])
    chance = home_chance(position.place[seat], load + 1, turns_left(position, load + 1))
    return chance > _RISKY * load / (load + 1) + _FIRST_RISK * (load == 0)
