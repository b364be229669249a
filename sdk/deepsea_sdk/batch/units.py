"""Units as numbers, so that trails, cargos and banks of many games are arrays.

Invariants: a unit is one 64-bit number and a blank is 0. No chip is in a game twice, so the chips
and the worth of several units can be added up. The number has these fields, from the lowest bit on:

    32 bits  the chips, chip 1 first
    22 bits  the chips' order in a stack: their levels, or the chips where lost stacks fall apart
     1 bit   set if a stranded diver laid the unit and nobody has carried it since
     9 bits  twice the mean worth
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import compress
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deepsea_rules.actions import CHIPS, CHIPS_PER_LEVEL, LEVEL_OF, LEVELS, Unit

Array: TypeAlias = NDArray[Any]
"""A numpy array; its shape and contents are documented where it is made."""

U64 = np.uint64
CHIP_BITS = U64(2**32 - 1)
ORDER_AT = U64(32)
ORDER_BITS = U64((2**22 - 1) << 32)
LAID = U64(1 << 54)
WORTH_AT = U64(55)
WORTH_BITS = U64(511 << 55)
SUMMED = CHIP_BITS | WORTH_BITS
"""Mask of the parts of a unit that can be added up."""

_LEVEL_BITS = 2
_CHIP_BITS = 6
LONGEST = 9
"""Most chips of a stack that may be carried: three stacks of three in one pile."""
LONGEST_APART = 3
"""Most chips of a stack under rules by which lost stacks fall apart into chips."""


def checked(answers: Array, requested: Array, kinds: str, subject: str) -> Array:
    """Return `answers` if they have the shape of `requested` and one of the dtype kinds in `kinds`.

    Otherwise raise ValueError with a message that begins with `subject`. The kinds are numpy's: "b"
    for booleans, "i" and "u" for whole numbers.
    """
    if answers.shape != requested.shape or answers.dtype.kind not in kinds:
        expected_type = "bool" if kinds == "b" else "int"
        raise ValueError(
            f"{subject} an array of {answers.dtype} {answers.shape}, "
            f"not of {expected_type} {requested.shape}"
        )
    return answers


def chip_bits(ids: Iterable[int]) -> int:
    """Return a set of chips as bits; chip 1 is the lowest bit."""
    return sum(1 << chip - 1 for chip in ids)


@lru_cache(maxsize=4096)
def pack(unit: tuple[int, ...], by_chip: bool, laid: bool = False) -> int:
    """Return a unit as a number. Raise ValueError for a stack with too many chips for its fields.

    With `by_chip`, the order field holds the chips themselves instead of their levels. `laid` sets
    the bit of units that a stranded diver laid.
    """
    longest = LONGEST_APART if by_chip else LONGEST
    if len(unit) > longest:
        raise ValueError(f"a stack of {len(unit)} chips; up to {longest} are possible")
    order = 0
    for i, chip in enumerate(unit):
        if by_chip:
            # The highest bit of each six says that there is one.
            order |= (32 + chip - 1) << _CHIP_BITS * i
        else:
            order = order << _LEVEL_BITS | LEVEL_OF[chip] - 1
    # Twice the mean value of a chip: level 1 has the values 0 to 3, each level 4 points more.
    twice_worth = sum(8 * LEVEL_OF[chip] - 5 for chip in unit)
    return chip_bits(unit) | order << 32 | laid << 54 | twice_worth << 55


def unpack(number: int, by_chip: bool) -> Unit:
    """Return the unit of a number.

    Without `by_chip`, the number knows only the order of the levels, so chips of one level come by
    their ids.
    """
    ids = [chip for chip in CHIPS if number >> chip - 1 & 1]
    order = number >> 32 & 2**22 - 1
    if by_chip:
        return Unit([(order >> _CHIP_BITS * i & 31) + 1 for i in range(len(ids))])
    # The last chip of the stack has the lowest bits.
    levels_from_last = [(order >> _LEVEL_BITS * i & 3) + 1 for i in range(len(ids))]
    unused = {level: [chip for chip in ids if LEVEL_OF[chip] == level] for level in LEVELS}
    return Unit([unused[level].pop(0) for level in reversed(levels_from_last)])


def unpack_trail(numbers: Array, by_chip: bool) -> tuple[list[Unit], frozenset[Unit]]:
    """Return the units of a trail, and the set of those that stranded divers laid."""
    trail = [unpack(number, by_chip) for number in numbers.tolist()]
    is_laid = (numbers & LAID != 0).tolist()
    return trail, frozenset(compress(trail, is_laid))


@cache
def singles(by_chip: bool) -> Array:
    """Return the opening trail: a blank for the submarine, then each of the 32 chips as a unit."""
    return np.array([0, *(pack((chip,), by_chip) for chip in CHIPS)], U64)


def name_bits(by_chip: bool) -> np.uint64:
    """Return the mask of the bits that tell units with different names apart.

    Units with one name are equal under this mask.
    """
    # A name shows levels alone. There are eight chips of a level, so the upper two of the five
    # bits of a chip are its level; the sixth bit says that there is a chip.
    order = 0b111000111000111000 if by_chip else 2**22 - 1
    return U64(order << 32) | WORTH_BITS


def join_units(below: Array, above: Array, by_chip: bool) -> Array:
    """Return units that lie on other units, each pair as one unit. Both may be blank."""
    lower, upper = (below & ORDER_BITS) >> ORDER_AT, (above & ORDER_BITS) >> ORDER_AT
    if by_chip:
        # The first chip has the lowest bits, so the upper ones come above them.
        order = lower | upper << (np.bitwise_count(below & CHIP_BITS) * U64(_CHIP_BITS))
    else:
        # The last chip has the lowest bits.
        order = lower << (np.bitwise_count(above & CHIP_BITS) * U64(_LEVEL_BITS)) | upper
    units: Array = (below & SUMMED) + (above & SUMMED)
    units |= order << ORDER_AT & ORDER_BITS
    return units


def split_stacks(units: Array) -> tuple[Array, Array]:
    """Take stacks apart: return their chips as units of one, and the number of chips of each stack.

    Only for units that were packed with `by_chip`; the chips come in their order in the stack.
    """
    order = (units & ORDER_BITS) >> ORDER_AT
    shifts = np.arange(LONGEST_APART, dtype=U64) * U64(_CHIP_BITS)
    chip_codes = order[:, None] >> shifts & U64(2**_CHIP_BITS - 1)
    is_chip = chip_codes != 0
    # `pack` writes chip N as 32 + N - 1.
    chip_ids = (chip_codes[is_chip] - U64(31)).astype(np.int64)
    return _SINGLES_BY_CHIP[chip_ids], is_chip.sum(axis=1)


_SINGLES_BY_CHIP = singles(by_chip=True)


def levels(units: Array) -> Array:
    """Return how many chips of levels 1, 2, 3 and 4 each unit has, in a further dimension of 4.

    A blank has none.

    units  the units that `take` gets, or a batch's `trail`, `cargo`, `carried` or `bank`
    """
    # Chips lie by their ids, eight to a level: a byte of the chip bits is a level.
    octets: Array = units.astype("<u4")[..., None].view(np.uint8)
    counts: Array = np.bitwise_count(octets).view(np.int8)
    return counts


def chips(units: Array) -> Array:
    """Return how many chips each unit has: 0 for a blank, more than 1 for a stack.

    The units are those that `levels` reads.
    """
    counts: Array = np.bitwise_count(units & CHIP_BITS).view(np.int8)
    return counts


def worth(units: Array) -> Array:
    """Return the mean worth in points of each unit, by the levels of its chips.

    A `bank` does not hold its worth, so it gives 0 here.
    """
    points: Array = (units >> WORTH_AT) * 0.5
    return points


assert CHIPS_PER_LEVEL == 8  # so a level is a byte of the chips
