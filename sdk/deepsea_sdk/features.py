"""A seat's view as an array of numbers, for training: pip install 'deepsea-sdk[pettingzoo]'.

Invariants: the features come from the seat's view and nothing else; none is scaled; their number is
the same in every position. docs/pettingzoo.md lists them.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from deepsea_rules.constants import MAX_PLAYERS
from deepsea_rules.units import CHIPS, LEVELS, count_levels
from deepsea_rules.view import Diver, View

__all__ = ["LENGTH", "Features", "features"]

SPACES: Final = len(CHIPS)
HEAD: Final = 12
PER_SPACE: Final = 6
PER_DIVER: Final = 15
LENGTH: Final = HEAD + SPACES * PER_SPACE + MAX_PLAYERS * PER_DIVER
"""The number of features."""
LARGEST: Final = 500.0
"""No feature is larger: all chips together are worth 240. The true air may fall below 0."""

Features = NDArray[np.float32]
"""An array of `LENGTH` numbers."""


def features(view: View) -> Features:
    """A seat's view as numbers, its own diver first."""
    own = view.me.seat
    row: list[float] = [
        view.dive,
        view.air,
        view.players,
        view.quiet,
        own,
        view.to_move == own,
        *(view.kind == kind for kind in ("declare", "search")),
        # The mean value of an unknown chip of each level.
        *(sum(unseen) / len(unseen) if (unseen := view.unseen(n)) else 0.0 for n in LEVELS),
    ]
    for space in range(1, SPACES + 1):
        if space < len(view.trail):
            unit = view.trail[space]
            row += [1.0, unit in view.laid, *count_levels(unit)]
        else:
            row += [0.0] * PER_SPACE
    for diver in (view.me, *view.others):
        row += _diver(view, diver)
    row += [0.0] * (LENGTH - len(row))
    return np.array(row, np.float32)


def _diver(view: View, diver: Diver) -> list[float]:
    return [
        1.0,
        diver.place,
        diver.homeward,
        diver.home,
        diver.barred,
        diver.load,
        *count_levels(chip for unit in diver.cargo for chip in unit),
        *count_levels(diver.bank),
        sum(view.known.get(chip, 0) for chip in diver.bank),
    ]
