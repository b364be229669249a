"""Chips and units.

Invariants: a chip is its id, 1 to 32, its place on the opening trail; its level follows from the
id, its value never does. A unit is carried and laid as one: a chip, or a stack of chips.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Final

LEVELS: Final = (1, 2, 3, 4)
CHIPS_PER_LEVEL: Final = 8
CHIPS: Final = range(1, 33)
LEVEL_OF: Final = (0, *((chip - 1) // CHIPS_PER_LEVEL + 1 for chip in CHIPS))
"""The level of each chip, indexed by chip id; index 0 is no chip."""


def level_of(chip: int) -> int:
    """The level of a chip, 1 to 4."""
    return LEVEL_OF[chip]


@cache
def values_of_level(level: int) -> tuple[int, ...]:
    """The eight values of a level, ascending: 4(L-1) .. 4(L-1)+3, two of each."""
    lowest = 4 * (level - 1)
    return tuple(value for value in range(lowest, lowest + 4) for _ in range(2))


class Unit(tuple[int, ...]):
    """The ids of the chips that count as one: one for a chip, more for a stack, none for a blank.

    A unit is immutable and its chips are unique in a game, so positions and views share it.
    """

    __slots__ = ()

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels of its chips, in the order in which they lie."""
        return tuple(LEVEL_OF[chip] for chip in self)

    @property
    def name(self) -> str:
        """As in step notation: "2" for a chip, "[12]" for a stack, "x" for a blank."""
        return name_of_chips(self)

    def __repr__(self) -> str:
        return f"Unit({', '.join(map(str, self))})"


BLANK: Final = Unit()
"""An empty space of the trail: a unit without chips."""


@lru_cache(maxsize=4096)
def name_of_chips(chips: tuple[int, ...]) -> str:
    """The name of the unit with these chips; equal for units that nobody can tell apart."""
    if not chips:
        return "x"
    digits = "".join(str(LEVEL_OF[chip]) for chip in chips)
    return digits if len(chips) == 1 else f"[{digits}]"


def count_levels(chips: Iterable[int]) -> tuple[int, int, int, int]:
    """How many of the chips are of level 1, 2, 3 and 4."""
    counts = [0, 0, 0, 0, 0]
    for chip in chips:
        counts[LEVEL_OF[chip]] += 1
    return counts[1], counts[2], counts[3], counts[4]
