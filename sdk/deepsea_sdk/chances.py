"""Exact probabilities for planning.

A roll of two dice moves a diver max(0, roll - load) spaces, independently each turn.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from deepsea_rules.state import GameState
from deepsea_rules.view import View

ROLLS: Final = {2: 1 / 9, 3: 2 / 9, 4: 3 / 9, 5: 2 / 9, 6: 1 / 9}
"""The probability of each sum of the two dice."""
MANY_TURNS: Final = 20
"""The largest result of `turns_left`: no way home takes longer."""


@cache
def home_chance(distance: int, load: int, turns: int) -> float:
    """The probability to swim `distance` spaces with `load` units in at most `turns` turns.

    Spaces of other divers are skipped and not counted, so with divers on the way the true
    probability is higher.
    """
    if distance <= 0:
        return 1.0
    if turns <= 0:
        return 0.0
    return sum(
        chance * home_chance(distance - max(0, roll - load), load, turns - 1)
        for roll, chance in ROLLS.items()
    )


def turns_left(position: View | GameState, load: int) -> int:
    """The number of rolls that the seat to move still gets if it carries `load` units from now on.

    Assumes that the others keep their cargo. The current roll counts if it is still to be made, and
    so does the turn that uses the last air. At most `MANY_TURNS`.
    """
    others = sum(map(len, position.cargo)) - len(position.cargo[position.to_move])
    breath = others + load
    if not breath:
        return MANY_TURNS
    # Before its declaration the air is all for the seat; later the others breathe before it does.
    air = position.air if position.phase == "declare" else position.air - others
    later = max(0, -(-air // breath)) + (position.phase == "roll")
    return min(later, MANY_TURNS)
