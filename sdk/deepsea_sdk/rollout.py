"""Playing a position on at random, the smallest building block of search."""

from __future__ import annotations

from typing import Final

from deepsea_rules.constants import FACES
from deepsea_rules.randomness import NumberSource
from deepsea_rules.state import GameState

_ROLLS: Final = tuple([(d1, d2) for d1 in FACES for d2 in FACES])


def roll_out(state: GameState, rng: NumberSource) -> tuple[int, ...]:
    """Play `state` to the end of the game, random actions for all; the points of each seat.

    The state is used up: pass a `clone()` of what is still needed, as a rule of `view.sample(rng)`.
    """
    random = rng.random
    while (phase := state.phase) != "over":
        legal = state.legal
        if phase == "search":
            state.search(legal[int(random() * len(legal))])
        elif phase == "order":
            state.choose_order(legal[int(random() * len(legal))])
        else:
            if phase == "declare":
                state.declare(legal[int(random() * len(legal))] if legal else None)
            d1, d2 = _ROLLS[int(random() * 9)]
            state.move(d1, d2)
    return state.points()
