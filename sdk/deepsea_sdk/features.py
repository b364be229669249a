"""A seat's view and its actions as numbers, for training: pip install 'deepsea-sdk[pettingzoo]'.

Invariants: the features come from the seat's view and nothing else. None is scaled. Their number is
the same in every position. docs/pettingzoo.md lists them and the numbers of the actions.

The array is joined from bytes; those of units, cargos and banks are cached.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from operator import index
from struct import Struct, calcsize, pack
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from deepsea_rules.actions import (
    BACK,
    CHIPS,
    DOWN,
    LEAVE,
    LEVEL_OF,
    LEVELS,
    TAKE,
    Unit,
    count_levels,
    drop,
    values_of_level,
)
from deepsea_rules.cleanup import LISTED_ORDERS
from deepsea_rules.errors import IllegalAction, InvalidAction
from deepsea_rules.printable import quoted
from deepsea_rules.ruleset import HOME, MAX_PLAYERS
from deepsea_rules.view import View

__all__ = [
    "ACTIONS",
    "LENGTH",
    "Features",
    "Mask",
    "action_of",
    "features",
    "mask",
    "number_of",
    "numbered",
]

SPACES = len(CHIPS)
HEAD = 12
PER_SPACE = 6
PER_DIVER = 15
LENGTH = HEAD + SPACES * PER_SPACE + MAX_PLAYERS * PER_DIVER
"""Number of features."""
LARGEST = 500.0
"""No feature is larger: all chips together are worth 240. The true air may fall below 0."""

Features = NDArray[np.float32]
"""An array of `LENGTH` numbers."""

WORDS = (DOWN, BACK, LEAVE, TAKE)
DROPS = 8
"""Places for carried units. Six units are the most: with them a diver cannot move any more."""
ACTIONS = len(WORDS) + DROPS + LISTED_ORDERS
"""Number of the actions of all decisions together."""

Mask = NDArray[np.int8]
"""An array of `ACTIONS` numbers: 1 for each legal action, else 0."""

_KEPT = 4096
"""Entries of each cache; all of them take at most 4 MB, for the bytes of some games."""
_HEAD = Struct(f"{HEAD}f").pack
_SPACE = Struct(f"{PER_SPACE}f")
_DIVER_BYTES = calcsize(f"{PER_DIVER}f")
_VALUES = (0, *(sum(values_of_level(level)) for level in LEVELS))
_CHIPS = (0, *(len(values_of_level(level)) for level in LEVELS))


def features(view: View) -> Features:
    """Return a seat's view as numbers, with its own diver first."""
    own = view.seat
    if own is None:
        raise ValueError("a watcher's view has no diver of its own")
    players = view.players
    known = view.known
    game_numbers = view.dive, view.air, players, view.quiet, own
    decision_flags = view.to_move == own, view.kind == "declare", view.kind == "search"
    parts = [
        _HEAD(*game_numbers, *decision_flags, *_unknown_means(known)),
        _trail(view.trail, view.laid),
    ]
    for seat in (*range(own, players), *range(own)):
        bank = view.bank[seat]
        parts += (
            _way(view.place[seat], view.homeward[seat], view.barred[seat]),
            _cargo(view.cargo[seat]),
            _bank(bank),
            pack("f", sum([known[chip] for chip in bank if chip in known])),
        )
    parts.append(bytes(_DIVER_BYTES * (MAX_PLAYERS - players)))
    # Unlike that of bytes, the array of a bytearray can be written to.
    return np.frombuffer(bytearray().join(parts), np.float32)


def numbered(view: View) -> dict[int, str]:
    """Return the legal actions of the view's seat by their numbers; none if it is not to move."""
    if view.seat != view.to_move:
        return {}
    if view.kind == "order":
        first = len(WORDS) + DROPS
        return {first + number: action for number, action in enumerate(view.legal)}
    by_number = {number: word for number, word in enumerate(WORDS) if word in view.legal}
    for number, unit in enumerate(view.cargo[view.to_move][:DROPS]):
        # Units of the same name are the same; the first one stands for them.
        if drop(unit) in view.legal and drop(unit) not in by_number.values():
            by_number[len(WORDS) + number] = drop(unit)
    return by_number


def action_number(number: SupportsIndex | None) -> int:
    """Return the number of an action as an int.

    Raise InvalidAction for anything but a whole number.
    """
    try:
        # Python takes a bool for a number, and numpy does not.
        return index(None if isinstance(number, bool) else number)  # type: ignore[arg-type]
    except TypeError:
        given = "None" if number is None else f"a {type(number).__name__}"
        raise InvalidAction(f"an action is one whole number, not {given}") from None


def action_of(number: SupportsIndex | None, view: View) -> str:
    """Return the legal action with this number. Raise IllegalAction if there is none.

    Raise InvalidAction for anything but a whole number, such as 2.0.
    """
    number = action_number(number)
    legal = numbered(view)
    if number not in legal:
        raise IllegalAction(f"action {number} is not legal here; {_listed(legal)}: {view}")
    return legal[number]


def number_of(action: str, view: View) -> int:
    """Return the number of a legal action, as `action_of` reads it.

    Raise IllegalAction for an action that is not legal, and for a legal order that `view.legal`
    does not list, since only listed orders have numbers.
    """
    legal = numbered(view)
    for number, name in legal.items():
        if name == action:
            return number
    raise IllegalAction(f"{quoted(action)} has no number here; {_listed(legal)}: {view}")


def _listed(legal: Mapping[int, str]) -> str:
    """Return some of the legal actions, for a message."""
    if not legal:
        return "this seat is not asked"
    shown = [f"{number} {action}" for number, action in legal.items()][:DROPS]
    return f"legal are {', '.join(shown)}" + ", ..." * (len(legal) > DROPS)


def mask(view: View) -> Mask:
    """Return which actions are legal, by their numbers."""
    legal = np.zeros(ACTIONS, np.int8)
    legal[list(numbered(view))] = 1
    return legal


def _unknown_means(known: Mapping[int, int]) -> list[float]:
    """Return the mean value of an unknown chip of each level; 0 if none is unknown."""
    sums, counts = [*_VALUES], [*_CHIPS]
    for chip, value in known.items():
        level = LEVEL_OF[chip]
        sums[level] -= value
        counts[level] -= 1
    return [sums[level] / counts[level] if counts[level] else 0.0 for level in LEVELS]


@lru_cache(_KEPT)
def _trail(trail: tuple[Unit, ...], laid: frozenset[Unit]) -> bytes:
    """Return the bytes of all spaces, from the submarine outward."""
    spaces = [_space(unit, unit in laid) for unit in trail[1:]]
    return b"".join(spaces).ljust(SPACES * _SPACE.size, b"\0")


@lru_cache(_KEPT)
def _space(unit: Unit, laid: bool) -> bytes:
    """Return the bytes of a space.

    laid  True if a stranded diver laid the unit there as a pile
    """
    return _SPACE.pack(1, laid, *count_levels(unit))


@lru_cache(_KEPT)
def _way(place: int, homeward: bool, barred: bool) -> bytes:
    """Return the bytes of a diver's place, direction and state."""
    return pack("5f", 1, max(place, 0), homeward, place == HOME, barred)


@lru_cache(_KEPT)
def _cargo(cargo: tuple[Unit, ...]) -> bytes:
    """Return the bytes of a diver's load and the levels of its chips."""
    return pack("5f", len(cargo), *count_levels([chip for unit in cargo for chip in unit]))


@lru_cache(_KEPT)
def _bank(bank: tuple[int, ...]) -> bytes:
    """Return the bytes of the levels of a bank's chips."""
    return pack("4f", *count_levels(bank))
