"""Playing a position on at random, the smallest building block of search."""

from __future__ import annotations

from deepsea_rules.randomness import NumberSource
from deepsea_rules.state import GameState


def roll_out(state: GameState, rng: NumberSource) -> tuple[int, ...]:
    """Play `state` to the end of the game, random actions for all; the points of each seat.

    The state is used up: pass a `clone()` of what is still needed, as a rule of `view.sample(rng)`.
    """
    while state.phase != "over":
        legal = state.legal_actions()
        if legal:
            state.apply(legal[rng.randrange(len(legal))])
        else:
            state.roll(1 + rng.randrange(3), 1 + rng.randrange(3))
    return state.result().scores
