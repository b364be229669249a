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
_pack_head = Struct(f"{HEAD}f").pack
_SPACE = Struct(f"{PER_SPACE}f")
_DIVER_BYTES = calcsize(f"{PER_DIVER}f")
_LEVEL_SUMS = (0, *(sum(values_of_level(level)) for level in LEVELS))
_LEVEL_COUNTS = (0, *(len(values_of_level(level)) for level in LEVELS))


def features(view: View) -> Features:
    """Return a seat's view as an array of `LENGTH` numbers for a neural net.

    First come numbers of the game, then those of each space, from the submarine outward, and then
    those of each diver, the seat's own one first. docs/pettingzoo.md describes each number.
    """
    own_seat = view.seat
    if own_seat is None:
        raise ValueError("a watcher's view has no diver of its own")
    players = view.players
    known = view.known
    game_numbers = view.dive, view.air, players, view.quiet_turns, own_seat
    decision_flags = view.to_move == own_seat, view.kind == "declare", view.kind == "search"
    # Bytes are joined, because those of spaces and cargos come from caches.
    parts = [
        _pack_head(*game_numbers, *decision_flags, *_unknown_means(known)),
        _trail_bytes(view.trail, view.laid),
    ]
    for seat in (*range(own_seat, players), *range(own_seat)):
        bank = view.bank[seat]
        known_points = sum([known[chip] for chip in bank if chip in known])
        parts += (
            _place_bytes(view.place[seat], view.homeward[seat], view.barred[seat]),
            _cargo_bytes(view.cargo[seat]),
            _bank_bytes(bank),
            pack("f", known_points),
        )
    # The numbers of seats that this game does not have are 0.
    parts.append(bytes(_DIVER_BYTES * (MAX_PLAYERS - players)))
    # An array of a bytearray can be written to; one of bytes cannot.
    return np.frombuffer(bytearray().join(parts), np.float32)


def numbered(view: View) -> dict[int, str]:
    """Return the legal actions by their numbers; {} if the view's seat is not to move.

    Numbers 0 to 3 are `down`, `back`, `leave` and `take`. The next `DROPS` numbers drop the unit at
    that place of the cargo, and the numbers after these are the orders of `view.legal`.
    """
    if view.seat != view.to_move:
        return {}
    first_drop = len(WORDS)
    if view.kind == "order":
        return dict(enumerate(view.legal, start=first_drop + DROPS))
    by_number = {number: word for number, word in enumerate(WORDS) if word in view.legal}
    own_cargo = view.cargo[view.to_move]
    for number, unit in enumerate(own_cargo[:DROPS], start=first_drop):
        action = drop(unit)
        # Units of the same name have the same action, which has the number of the first of them.
        if action in view.legal and action not in by_number.values():
            by_number[number] = action
    return by_number


def action_number(number: SupportsIndex | None) -> int:
    """Return the number of an action as an int.

    Raise InvalidAction for anything but a whole number, such as 2.0, None or True.
    """
    # For `index` a bool of Python is a whole number, and one of numpy is not: refuse both.
    if number is not None and not isinstance(number, bool):
        try:
            return index(number)
        except TypeError:
            pass
    given = "None" if number is None else f"a {type(number).__name__}"
    raise InvalidAction(f"an action is one whole number, not {given}")


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
    """Return the number of a legal action: the one for which `action_of` returns the action.

    Raise IllegalAction for an action that is not legal, and for a legal order that `view.legal`
    does not list, since only listed orders have numbers.
    """
    legal = numbered(view)
    for number, legal_action in legal.items():
        if legal_action == action:
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
    """Return the mean value of the unknown chips of each level; 0 for a level without any.

    known  the values of the known chips, by chip
    """
    # Take the known chips away from all chips of their level; index 0 is no level.
    sums, counts = [*_LEVEL_SUMS], [*_LEVEL_COUNTS]
    for chip, value in known.items():
        level = LEVEL_OF[chip]
        sums[level] -= value
        counts[level] -= 1
    return [sums[level] / counts[level] if counts[level] else 0.0 for level in LEVELS]


@lru_cache(_KEPT)
def _trail_bytes(trail: tuple[Unit, ...], laid: frozenset[Unit]) -> bytes:
    """Return the bytes of all spaces, from the submarine outward."""
    spaces = [_space_bytes(unit, unit in laid) for unit in trail[1:]]
    return b"".join(spaces).ljust(SPACES * _SPACE.size, b"\0")


@lru_cache(_KEPT)
def _space_bytes(unit: Unit, laid: bool) -> bytes:
    """Return the bytes of a space.

    laid  True if a stranded diver laid the unit there as a pile
    """
    return _SPACE.pack(1, laid, *count_levels(unit))


@lru_cache(_KEPT)
def _place_bytes(place: int, homeward: bool, barred: bool) -> bytes:
    """Return the bytes of a diver's place, direction and state."""
    return pack("5f", 1, max(place, 0), homeward, place == HOME, barred)


@lru_cache(_KEPT)
def _cargo_bytes(cargo: tuple[Unit, ...]) -> bytes:
    """Return the bytes of a diver's load and the levels of its chips."""
    return pack("5f", len(cargo), *count_levels([chip for unit in cargo for chip in unit]))


@lru_cache(_KEPT)
def _bank_bytes(bank: tuple[int, ...]) -> bytes:
    """Return the bytes of the levels of a bank's chips."""
    return pack("4f", *count_levels(bank))
