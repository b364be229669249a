"""Units as numbers, so that trails, cargos and banks of many games are arrays.

Invariants: a unit is one 64-bit number and a blank is 0; no chip lies twice in a game, so chips and
worth of several units add up. In one, from the lowest bit on:

    32 bits  its chips, chip 1 first
    22 bits  the order in which they lie: levels, or chips where stacks that are lost fall apart
     1 bit   a stranded diver laid it and nobody has carried it since
     9 bits  twice its mean worth
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
"""An array; what it holds says whoever makes it."""

U64 = np.uint64
CHIP_BITS = U64(2**32 - 1)
ORDER_AT = U64(32)
ORDER_BITS = U64((2**22 - 1) << 32)
LAID = U64(1 << 54)
WORTH_AT = U64(55)
WORTH_BITS = U64(511 << 55)
SUMMED = CHIP_BITS | WORTH_BITS
"""The parts of a unit that add up."""

_LEVEL_BITS = 2
_CHIP_BITS = 6
LONGEST = 9
"""Chips of a stack that may be carried: three stacks of three in one pile."""
LONGEST_APART = 3
"""The same where stacks that are lost fall apart."""


def checked(answers: Array, asked: Array, kinds: str, what: str) -> Array:
    """The answers, if there is one for each that was asked: booleans ("b") or whole numbers ("i").

    what  begins the message of the ValueError that is raised else
    """
    if answers.shape != asked.shape or answers.dtype.kind not in kinds:
        name = "bool" if kinds == "b" else "int"
        raise ValueError(
            f"{what} an array of {answers.dtype} {answers.shape}, not of {name} {asked.shape}"
        )
    return answers


def chip_bits(ids: Iterable[int]) -> int:
    """A set of chips as bits, chip 1 the lowest one."""
    return sum(1 << chip - 1 for chip in ids)


@lru_cache(maxsize=4096)
def pack(unit: tuple[int, ...], by_chip: bool, laid: bool = False) -> int:
    """A unit as a number. Raises ValueError for a stack that has no room in it."""
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
    worth = sum(8 * LEVEL_OF[chip] - 5 for chip in unit)
    return chip_bits(unit) | order << 32 | laid << 54 | worth << 55


def unpack(number: int, by_chip: bool) -> Unit:
    """The unit of a number; chips of one level lie in it by their ids, unless `by_chip`."""
    ids = [chip for chip in CHIPS if number >> chip - 1 & 1]
    order = number >> 32 & 2**22 - 1
    if by_chip:
        return Unit([(order >> _CHIP_BITS * i & 31) + 1 for i in range(len(ids))])
    by_place = [(order >> _LEVEL_BITS * i & 3) + 1 for i in range(len(ids))]
    left = {level: [chip for chip in ids if LEVEL_OF[chip] == level] for level in LEVELS}
    return Unit([left[level].pop(0) for level in reversed(by_place)])


def unpack_trail(numbers: Array, by_chip: bool) -> tuple[list[Unit], frozenset[Unit]]:
    """The units of a trail, and those that stranded divers laid."""
    trail = [unpack(number, by_chip) for number in numbers.tolist()]
    laid = (numbers & LAID != 0).tolist()
    return trail, frozenset(compress(trail, laid))


@cache
def singles(by_chip: bool) -> Array:
    """The opening trail: a blank for the submarine, and the 32 chips."""
    return np.array([0, *(pack((chip,), by_chip) for chip in CHIPS)], U64)


def name_bits(by_chip: bool) -> np.uint64:
    """The bits in which units with different names differ, and equal ones do not."""
    # Of a chip the two highest of its five bits are its level, as eight have one level.
    order = 0b111000111000111000 if by_chip else 2**22 - 1
    return U64(order << 32) | WORTH_BITS


def joined(below: Array, above: Array, by_chip: bool) -> Array:
    """Units that lie on others, as one each; either may be blank."""
    lower, upper = (below & ORDER_BITS) >> ORDER_AT, (above & ORDER_BITS) >> ORDER_AT
    if by_chip:
        order = lower | upper << (np.bitwise_count(below & CHIP_BITS) * U64(_CHIP_BITS))
    else:
        order = lower << (np.bitwise_count(above & CHIP_BITS) * U64(_LEVEL_BITS)) | upper
    total: Array = (below & SUMMED) + (above & SUMMED)
    total |= order << ORDER_AT & ORDER_BITS
    return total


def apart(units: Array) -> tuple[Array, Array]:
    """The chips of stacks, in their order, as units of one; and how many each stack had.

    The units know their chips (`by_chip`).
    """
    order = (units & ORDER_BITS) >> ORDER_AT
    shifts = np.arange(LONGEST_APART, dtype=U64) * U64(_CHIP_BITS)
    chips = order[:, None] >> shifts & U64(2**_CHIP_BITS - 1)
    there = chips != 0
    return _SINGLES_BY_CHIP[(chips[there] - U64(31)).astype(np.int64)], there.sum(axis=1)


_SINGLES_BY_CHIP = singles(by_chip=True)


def levels(units: Array) -> Array:
    """How many chips of level 1, 2, 3 and 4 units have: one more dimension of 4; a blank has none.

    units  of a batch: what `take` gets, `trail`, `cargo`, `carried`, or a `bank`
    """
    octets: Array = units.astype("<u4")[..., None].view(np.uint8)
    counts: Array = np.bitwise_count(octets).view(np.int8)
    return counts


def chips(units: Array) -> Array:
    """How many chips units have, as `levels`: 0 is a blank, more than 1 a stack."""
    counts: Array = np.bitwise_count(units & CHIP_BITS).view(np.int8)
    return counts


def worth(units: Array) -> Array:
    """What units are worth on average, by the levels of their chips; not for a `bank`."""
    points: Array = (units >> WORTH_AT) * 0.5
    return points


assert CHIPS_PER_LEVEL == 8  # so a level is a byte of the chips
