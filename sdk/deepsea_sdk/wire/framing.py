"""Common parts of all messages: bytes of protobuf's encoding, the numbers of enums, units.

Invariants: a message is the bytes of its fields in a row, in any order, so that parts are made once
and used again; tests read everything back with protobuf itself. A number that a newer peer has
added is read as "unknown": a message that a bot does not understand must not end its game. As a
unit, 0 is a blank, 1 to 32 a chip, and 33 + i the stack i of the same message. A laid pile is a
stack even if it is a single chip, because only stacks say that they are laid.

To make the nested messages of a request field by field takes more than half as long again
(docs/dev/performance.md). Nothing comes as often as units; `numbers[:]` is a list, which is read
twice as fast as protobuf's own container.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeVar, cast, get_args

from google.protobuf.descriptor import Descriptor

from deepsea_rules.actions import BLANK, CHIPS, Kind, Unit
from deepsea_rules.events import EndReason
from deepsea_rules.faults import Fault
from deepsea_rules.position import Phase
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.errors import WireError

NUMBER = 0
"""Wire type of numbers, which are varints."""
_NESTED = 2
"""Wire type of messages, bytes and texts: their length, then their contents."""

_ONE_BYTE = tuple(bytes((number,)) for number in range(0x80))
"""The varints of one byte, by their number."""


def varint(number: int) -> bytes:
    """Return a number of 0 or more in protobuf's form for numbers, a varint.

    Each byte has seven bits of the number, the lowest bits first. The eighth bit is set in each
    byte but the last one.
    """
    # Nearly all numbers have up to three bytes, 7, 14 or 21 bits, and need no recursion.
    # `& 0x7F` takes the lowest seven bits, and `| 0x80` sets the eighth: more bytes follow.
    if number < 0x80:
        return _ONE_BYTE[number]
    if number < 0x4000:
        return bytes(((number & 0x7F) | 0x80, number >> 7))
    if number < 0x20_0000:
        return bytes(((number & 0x7F) | 0x80, ((number >> 7) & 0x7F) | 0x80, number >> 14))
    return bytes(((number & 0x7F) | 0x80,)) + varint(number >> 7)


def tag(message: Descriptor, field: str, wire_type: int = _NESTED) -> bytes:
    """Return the bytes with which a field of a message begins: its number and its wire type."""
    field_number = message.fields_by_name[field].number
    return varint((field_number << 3) | wire_type)  # the lowest three bits are the wire type


def framed(tag: bytes, content: bytes) -> bytes:
    """Return a field that is a message, bytes or a text."""
    size = len(content)
    return tag + (_ONE_BYTE[size] if size < 0x80 else varint(size)) + content


def small_tags(message: Descriptor, *fields: str) -> tuple[int, ...]:
    """Return the tags of number fields of a message, as `small_fields` expects them.

    A tag is an int that fits into one byte. Raise ValueError if a field's number is too high for
    that.
    """
    tags = b"".join([tag(message, field, NUMBER) for field in fields])
    if len(tags) != len(fields):
        raise ValueError(f"a field of {message.name} has too high a number for one byte")
    return tuple(tags)


def small_fields(*tags_and_numbers: int) -> bytes:
    """Return number fields in a row; arguments are in turn a one-byte tag and a number to 127."""
    data = bytes(tags_and_numbers)
    if not data.isascii():
        raise ValueError(f"a number above 127 among {tags_and_numbers}")
    return data


def zigzag(number: int) -> int:
    """Return a `sint32` as a number from 0 up: 0, -1, 1, -2, ... become 0, 1, 2, 3, ..."""
    return 2 * number if number >= 0 else -2 * number - 1


# Enums

UNKNOWN = "unknown"
"""Name of a number that a newer peer has added."""

PHASES: dict[Phase, pb.Phase.ValueType] = {
    phase: pb.Phase.Value(f"PHASE_{phase.upper()}") for phase in get_args(Phase)
}
KINDS: dict[Phase | None, pb.DecisionKind.ValueType] = {
    kind: pb.DecisionKind.Value(f"DECISION_KIND_{kind.upper()}") for kind in get_args(Kind)
}
END_REASONS: dict[EndReason, pb.EndReason.ValueType] = {
    reason: pb.EndReason.Value(f"END_REASON_{reason.upper()}") for reason in get_args(EndReason)
}
FAULTS = {fault: pb.Fault.Value(f"FAULT_{fault.name}") for fault in Fault}

PHASE_NAMES = {number: name for name, number in PHASES.items()}
END_REASON_NAMES = {number: name for name, number in END_REASONS.items()}
FAULT_NAMES = {number: fault for fault, number in FAULTS.items()}

_Number = TypeVar("_Number", bound=int)
_T = TypeVar("_T")


def name_of(names: Mapping[_Number, _T], number: _Number) -> _T:
    """Return the name of a number, or "unknown", which the type does not show."""
    return names.get(number, cast(_T, UNKNOWN))


# Units

FIRST_STACK = len(CHIPS) + 1

_STACK_CHIPS = tag(pb.Stack.DESCRIPTOR, "chips")
(_TAIL_PILE,) = small_tags(pb.Stack.DESCRIPTOR, "tail_pile")
_CHIP, _VALUE = small_tags(pb.KnownValue.DESCRIPTOR, "chip", "value")
_SINGLES = (BLANK, *(Unit((chip,)) for chip in CHIPS))
_NUMBER_OF_SINGLE = {unit: number for number, unit in enumerate(_SINGLES)}
NOTHING_LAID: frozenset[Unit] = frozenset()


def units_to_wire(
    units: Sequence[Unit], laid: frozenset[Unit] = NOTHING_LAID, first: int = FIRST_STACK
) -> tuple[bytes, list[bytes]]:
    """Return the numbers of units, one byte each, and each stack among them as a `pb.Stack`.

    A blank has the number 0, and a chip its own. Stacks are numbered in their order, from `first`.

    laid   units that a stranded diver laid down: they are stacks even with a single chip
    first  the number of the first of these stacks in its message
    """
    if not laid:
        # Usually there is no stack: then the numbers only have to be looked up, which is fast.
        try:
            return bytes([*map(_NUMBER_OF_SINGLE.__getitem__, units)]), []
        except KeyError:
            pass  # there is a stack among the units
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
    """Return the bytes of a `pb.Stack`."""
    return framed(_STACK_CHIPS, bytes(unit)) + small_fields(_TAIL_PILE, tail_pile)


@lru_cache(maxsize=1024)
def known_value(chip: int, value: int) -> bytes:
    """Return the bytes of a `pb.KnownValue`."""
    return small_fields(_CHIP, chip, _VALUE, value)


def stacks_from_wire(stacks: Sequence[pb.Stack]) -> tuple[tuple[Unit, ...], frozenset[Unit]]:
    """Return the stacks of a message as units, and the set of those that stranded divers laid.

    Raise WireError for a stack of anything but chips.
    """
    if not stacks:
        return (), NOTHING_LAID
    units, laid_units = [], []
    for stack in stacks:
        unit = _stacked(tuple(stack.chips[:]))
        units.append(unit)
        if stack.tail_pile:
            laid_units.append(unit)
    return tuple(units), frozenset(laid_units)


@lru_cache(maxsize=4096)
def _stacked(chips: tuple[int, ...]) -> Unit:
    """Return a stack of these chips. Raise WireError unless each is a chip."""
    if not chips or any(chip not in CHIPS for chip in chips):
        raise WireError(f"a stack of the chips {list(chips)}, which are not all from 1 to 32")
    return Unit(chips)


def units_from_wire(numbers: Sequence[int], stacks: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """Return the units of these numbers: 0 is a blank, 1 to 32 a chip, from 33 on the stacks.

    Raise WireError for a number without a unit.

    stacks  the stacks of the same message
    """
    units = (_SINGLES + stacks) if stacks else _SINGLES
    try:
        # The copy `[:]` is a list, which is read faster than protobuf's own container.
        return tuple([units[number] for number in numbers[:]])
    except IndexError:
        raise WireError("a unit refers to a stack that is not in its message") from None


def trail_from_wire(numbers: Sequence[int], stacks: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """Return a trail, with a blank for the submarine in front."""
    return (BLANK, *units_from_wire(numbers, stacks))
