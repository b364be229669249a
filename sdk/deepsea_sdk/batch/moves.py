"""Tables of how divers move, so that many of them move by one look-up.

Invariants: in `taken` space n is bit n + BELOW_TRAIL, and all bits beyond the trail's end are set.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np

from deepsea_rules.ruleset import ABOARD, FACES

from .clean_up import WIDTH
from .units import U64, Array

AHEAD = 11
"""Spaces that a diver may have to look at: six free ones and five with other divers."""
MOST_STEPS = 2 * max(FACES)
BELOW_TRAIL = 15
"""In `taken` space n is bit n + 15, so that what is ahead of any space is inside."""
TRAIL_BITS = U64(2**64 - 2 ** (BELOW_TRAIL + 1))
BEYOND = np.array([2**64 - 2 ** (BELOW_TRAIL + 1 + last) for last in range(WIDTH)], U64)
"""By the last space: the bits of all spaces beyond it."""


def taken_bits(last: int, places: Iterable[int]) -> int:
    """`taken` of a game with this last space, and divers in these places."""
    divers = sum(1 << place + BELOW_TRAIL for place in places if place > ABOARD)
    return divers + int(BEYOND[last])


def _moves() -> Array:
    """By direction, steps, and which of the spaces ahead are taken: how far a diver comes."""
    windows = np.arange(2**AHEAD)
    table = np.zeros((2, MOST_STEPS + 1, 2**AHEAD), np.int8)
    for homeward in (0, 1):
        free = np.zeros(2**AHEAD, np.int8)
        for ahead in range(1, AHEAD + 1):
            bit = AHEAD - ahead if homeward else ahead - 1
            is_free = windows >> bit & 1 == 0
            free += is_free
            for steps in range(1, MOST_STEPS + 1):
                table[homeward, steps, is_free & (free <= steps)] = -ahead if homeward else ahead
    return table.ravel()


@cache
def next_seats(players: int) -> Array:
    """By 8 × the seats that are home, as bits, + the seat that has moved: who is next."""
    table = np.zeros(8 << players, np.int64)
    for homes in range((1 << players) - 1):
        for seat in range(players):
            ring = [(seat + i) % players for i in range(1, players + 1)]
            table[8 * homes + seat] = next(other for other in ring if not homes >> other & 1)
    return table


MOVES = _moves()
LOWEST_FREE = np.array(
    [next(n for n in range(1, AHEAD + 2) if not w >> n - 1 & 1) for w in range(2**AHEAD)], np.int8
)
"""By which of the first spaces are taken: the first one that is not."""
