"""Units on the wire: blanks, chips and stacks as numbers.

Invariants: 0 is a blank, 1 to 32 a chip, 33 + i the stack i of the same message; a laid pile is a
stack even if it is a single chip, because only stacks say that they are laid.

Nothing else comes as often; `numbers[:]` is a list, which is read twice as fast as protobuf's own
container.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from deepsea_rules.actions import BLANK, CHIPS, Unit
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.errors import WireError

from .framing import framed, small_fields, small_tags, tag

FIRST_STACK: Final = len(CHIPS) + 1

_STACK_CHIPS: Final = tag(pb.Stack.DESCRIPTOR, "chips")
(_TAIL_PILE,) = small_tags(pb.Stack.DESCRIPTOR, "tail_pile")
_CHIP, _VALUE = small_tags(pb.KnownValue.DESCRIPTOR, "chip", "value")
_SINGLES: Final = (BLANK, *(Unit((chip,)) for chip in CHIPS))
_NUMBER_OF_SINGLE: Final = {unit: number for number, unit in enumerate(_SINGLES)}
_NOTHING_LAID: Final[frozenset[Unit]] = frozenset()


# Writing


def units_to_wire(
    units: Sequence[Unit], laid: frozenset[Unit] = _NOTHING_LAID, first: int = FIRST_STACK
) -> tuple[bytes, list[bytes]]:
    """The units as numbers, one byte each, and the `pb.Stack`s that they refer to, as bytes.

    first  the number of the first of these stacks
    """
    if not laid:
        try:
            return bytes([*map(_NUMBER_OF_SINGLE.__getitem__, units)]), []
        except KeyError:
            pass  # there is a stack among them
    numbers: list[int] = []
    stacks: list[bytes] = []
    for unit in units:
        if len(unit) > 1 or unit in laid:
            numbers.append(first + len(stacks))
            stacks.append(_stack(unit, unit in laid))
        else:
            numbers.append(unit[0] if unit else 0)
    return bytes(numbers), stacks


@lru_cache(maxsize=4096)
def _stack(unit: Unit, tail_pile: bool) -> bytes:
    return framed(_STACK_CHIPS, bytes(unit)) + small_fields(_TAIL_PILE, tail_pile)


@lru_cache(maxsize=1024)
def known_value(chip: int, value: int) -> bytes:
    """The bytes of a `pb.KnownValue`."""
    return small_fields(_CHIP, chip, _VALUE, value)


# Reading


def stacks_from_wire(stacks: Sequence[pb.Stack]) -> tuple[tuple[Unit, ...], frozenset[Unit]]:
    """The stacks of a message, and which of them are tail piles."""
    if not stacks:
        return (), _NOTHING_LAID
    units, laid = [], []
    for stack in stacks:
        unit = _stacked(tuple(stack.chips[:]))
        units.append(unit)
        if stack.tail_pile:
            laid.append(unit)
    return tuple(units), frozenset(laid)


@lru_cache(maxsize=4096)
def _stacked(chips: tuple[int, ...]) -> Unit:
    if not chips or any(chip not in CHIPS for chip in chips):
        raise WireError(f"a stack of the chips {list(chips)}, which are not all from 1 to 32")
    return Unit(chips)


def units_from_wire(numbers: Sequence[int], stacks: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """The units that the numbers stand for; `stacks` are those of the same message."""
    units = (_SINGLES + stacks) if stacks else _SINGLES
    try:
        return tuple([units[number] for number in numbers[:]])
    except IndexError:
        raise WireError("a unit refers to a stack that is not in its message") from None


def trail_from_wire(numbers: Sequence[int], stacks: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """A trail with the submarine in front."""
    return (BLANK, *units_from_wire(numbers, stacks))
