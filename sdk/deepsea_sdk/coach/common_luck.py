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

from deepsea_rules.constants import DIVES, FACES
from deepsea_rules.scoring import final_result, halves_ahead
from deepsea_rules.state import GameState
from deepsea_sdk.rollout import Policy

_ROLLS: Final = tuple([(d1, d2) for d1 in FACES for d2 in FACES])
_DRAWS: Final = 28
"""To deal eight chips takes seven numbers, and there are four levels."""
_TURNS: Final = 32
"""More turns than a seat has in a dive; those of a longer one repeat others' dice."""
_ROLL_OF_BYTE: Final = bytes([byte % 9 for byte in range(256)])
_TOO_LARGE: Final = bytes(range(252, 256))
"""Bytes that would favour some rolls."""


class Luck:
    """The luck of one trial: a source of numbers to deal with, and `dice` for `play_on`."""

    __slots__ = ("_numbers", "dice")

    def __init__(self, digest: bytes) -> None:
        self._numbers: Iterator[int] = iter(unpack(f"<{_DRAWS}I", digest[: 4 * _DRAWS]))
        self.dice = digest[4 * _DRAWS :].translate(_ROLL_OF_BYTE, _TOO_LARGE)

    def random(self) -> float:
        """A number from 0 up to, but not including, 1; enough of them for one deal."""
        return next(self._numbers) / 2**32


class Stream:
    """The luck of trials under a label, for a number of players."""

    def __init__(self, label: str, players: int) -> None:
        self._hash = shake_256(f"{label}:".encode())
        self._length = 4 * _DRAWS + DIVES * players * _TURNS

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


def play_on(state: GameState, dice: bytes, policy: Policy, last: int = DIVES) -> None:
    """Play a state to the end of the game, or of the dive `last`; all seats decide by the policy.

    dice  of a trial's luck; turns count from the position on
    """
    # Written out, because an analysis spends nearly all its time here.
    players = state.players
    declare, move, search = state.unchecked_declare, state.unchecked_move, state.unchecked_search
    count = len(dice)
    dive = 0
    turns: list[int] = []
    while (phase := state.phase) != "over" and state.dive <= last:
        legal = state.legal
        if phase == "search":
            search(policy(state) if len(legal) > 1 else legal[0])
        elif phase == "order":
            state.unchecked_order(policy(state))
        else:
            if phase == "declare":
                declare(policy(state) if len(legal) > 1 else legal[0] if legal else None)
            if state.dive != dive:
                dive = state.dive
                turns = [_TURNS * (players * (dive - 1) + seat) for seat in range(players)]
            seat = state.to_move
            d1, d2 = _ROLLS[dice[turns[seat] % count]]
            turns[seat] += 1
            move(d1, d2)


def halves(state: GameState) -> Sequence[int]:
    """For each seat of a finished game a 2 for every seat that it is ahead of, a 1 for a tie.

    Nobody has forfeited: in a future that was tried out all play to the end.
    """
    points = state.points()
    order = sorted(points)
    if len(set(order)) == len(order):
        return [2 * order.index(own) for own in points]
    return halves_ahead(final_result(state.rules.tiebreak, state.bank, state.values).placements)
