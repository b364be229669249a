"""Playing a position on to its end, the smallest building block of search."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import shake_256
from typing import Final, Literal, TypeAlias

from deepsea_rules.randomness import NumberSource
from deepsea_rules.ruleset import DIVES, FACES
from deepsea_rules.state import GameState

Policy: TypeAlias = Callable[[GameState], str]
"""Chooses one of `state.legal` for the seat to move."""

_ROLLS: Final = tuple([(d1, d2) for d1 in FACES for d2 in FACES])
_TURNS: Final = 32
"""More turns than a seat has in a dive; those of a longer one repeat others' dice."""
_ROLL_OF_BYTE: Final = bytes([byte % len(_ROLLS) for byte in range(256)])
_TOO_LARGE: Final = bytes(range(256 - 256 % len(_ROLLS), 256))
"""Bytes that would favour some rolls."""


class TurnDice:
    """Dice that belong to a seat's turn in a dive, for `roll_out`.

    Positions that are played on with the same ones differ in what is done, and not in who rolls
    what: comparing actions takes fewer trials than with one stream of dice for all.
    """

    __slots__ = ("rolls",)

    def __init__(self, rng: NumberSource, players: int) -> None:
        """Draw the dice for a number of players; takes one number from `rng`."""
        label = b"%d" % int(rng.random() * 2**53)
        self.rolls = dice_of(shake_256(label).digest(dice_length(players)))


def dice_length(players: int) -> int:
    """The number of random bytes that `dice_of` needs for a game."""
    return DIVES * players * _TURNS


def dice_of(random_bytes: bytes) -> bytes:
    """Dice for `play_on`: a byte from 0 to 8 for each turn, one of the nine rolls."""
    return random_bytes.translate(_ROLL_OF_BYTE, _TOO_LARGE)


def roll_out(
    state: GameState,
    rng: NumberSource | TurnDice,
    policy: Policy | None = None,
    *,
    to_end_of: Literal["game", "dive"] = "game",
) -> tuple[int, ...]:
    """Play `state` to the end of the game, or of the dive; the points of each seat then.

    rng     gives the dice: a `random.Random`, whatever has its `random()`, or `TurnDice`, which
            need a policy
    policy  chooses for all seats wherever there is more than one action, such as `steady`; without
            one all choose at random

    The state is used up: pass a `clone()` of what is still needed, as a rule of `view.sample(rng)`.
    Raises `IllegalAction` if the policy returns what is not legal.
    """
    if isinstance(rng, TurnDice):
        if policy is None:
            raise TypeError("with TurnDice a policy chooses, such as `steady`")
        play_on(state, rng.rolls, policy, state.dive if to_end_of == "dive" else DIVES)
        return state.points()
    random = rng.random
    if policy is not None or to_end_of == "dive":
        last = state.dive if to_end_of == "dive" else DIVES
        policy = policy or (lambda state: state.legal[int(random() * len(state.legal))])
        _play_on(state, rng, policy, last)
        return state.points()
    # The same with the choice written out, which takes 4 % less time.
    while (phase := state.phase) != "over":
        legal = state.legal
        if phase == "search":
            state.unchecked_search(legal[int(random() * len(legal))])
        elif phase == "order":
            state.unchecked_order(legal[int(random() * len(legal))])
        else:
            if phase == "declare":
                state.unchecked_declare(legal[int(random() * len(legal))] if legal else None)
            d1, d2 = _ROLLS[int(random() * 9)]
            state.unchecked_move(d1, d2)
    return state.points()


def _play_on(state: GameState, rng: NumberSource, policy: Policy, last: int) -> None:
    random = rng.random
    while (phase := state.phase) != "over" and state.dive <= last:
        legal = state.legal
        if len(legal) > 1:
            state.apply(policy(state))
        elif phase == "search":
            state.unchecked_search(legal[0])
        elif phase == "order":
            state.unchecked_order(legal[0])
        else:
            if phase == "declare":
                state.unchecked_declare(legal[0] if legal else None)
            d1, d2 = _ROLLS[int(random() * 9)]
            state.unchecked_move(d1, d2)


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
        if phase == "declare" or phase == "roll":
            if phase == "declare":
                legal = state.legal
                declare(policy(state) if len(legal) > 1 else legal[0] if legal else None)
            if state.dive != dive:
                dive = state.dive
                turns = [_TURNS * (players * (dive - 1) + seat) for seat in range(players)]
            seat = state.to_move
            d1, d2 = _ROLLS[dice[turns[seat] % count]]
            turns[seat] += 1
            move(d1, d2)
            phase = state.phase
        if phase == "search":
            legal = state.legal
            search(policy(state) if len(legal) > 1 else legal[0])
        elif phase == "order":
            state.unchecked_order(policy(state))
