"""Exact chances for planning: nothing here is estimated.

A roll of two dice moves a diver max(0, roll - load) spaces, each turn on its own.
"""

from __future__ import annotations

from functools import cache
from typing import Final

ROLLS: Final = {2: 1 / 9, 3: 2 / 9, 4: 3 / 9, 5: 2 / 9, 6: 1 / 9}
"""How likely each sum of the two dice is."""


@cache
def home_chance(distance: int, load: int, turns: int) -> float:
    """The chance to swim `distance` spaces with `load` units in at most `turns` turns.

    Spaces of other divers are hopped over at no cost, so with some of them on the way the true
    chance is better.
    """
    if distance <= 0:
        return 1.0
    if turns <= 0:
        return 0.0
    return sum(
        chance * home_chance(distance - max(0, roll - load), load, turns - 1)
        for roll, chance in ROLLS.items()
    )
