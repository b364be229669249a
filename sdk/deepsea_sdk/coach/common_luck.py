"""Trials: positions dealt from what is known, and played on to the end of the game by a policy.

Invariants: the luck of a trial follows from its stream's label and its number alone; a roll of it
belongs to a seat's turn in a dive, so that positions which are played on with the same luck differ
in what is done and not in who rolls what; what is compared or summed are whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import shake_256
from struct import unpack
from typing import Final

from deepsea_rules.scoring import final_result, halves_ahead
from deepsea_rules.state import GameState
from deepsea_sdk.policies import dice_length, dice_of

_DRAWS: Final = 28
"""To deal eight chips takes seven numbers, and there are four levels."""


class Luck:
    """The luck of one trial: a source of numbers to deal with, and `dice` for `play_on`."""

    __slots__ = ("_numbers", "dice")

    def __init__(self, digest: bytes) -> None:
        self._numbers: Iterator[int] = iter(unpack(f"<{_DRAWS}I", digest[: 4 * _DRAWS]))
        self.dice = dice_of(digest[4 * _DRAWS :])

    def random(self) -> float:
        """A number from 0 up to, but not including, 1; enough of them for one deal."""
        return next(self._numbers) / 2**32


class Stream:
    """The luck of trials under a label, for a number of players."""

    def __init__(self, label: str, players: int) -> None:
        self._hash = shake_256(f"{label}:".encode())
        self._length = 4 * _DRAWS + dice_length(players)

    def luck(self, number: int) -> Luck:
        """The luck of a trial, by its number."""
        hashed = self._hash.copy()
        hashed.update(b"%d" % number)
        return Luck(hashed.digest(self._length))


def apply(state: GameState, action: str) -> None:
    """Make a choice that is known to be legal."""
    phase = state.phase
    if phase == "search":
        state.unchecked_search(action)
    elif phase == "order":
        state.unchecked_order(action)
    else:
        state.unchecked_declare(action)


def halves(state: GameState) -> Sequence[int]:
    """For each seat of a finished game a 2 for every seat that it is ahead of, a 1 for a tie.

    Nobody has forfeited: in a future that was tried out all play to the end.
    """
    points = state.points()
    order = sorted(points)
    if len(set(order)) == len(order):
        return [2 * order.index(own) for own in points]
    return halves_ahead(final_result(state.rules.tiebreak, state.bank, state.values).placements)
