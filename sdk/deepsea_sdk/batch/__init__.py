"""Thousands of games at once, in numpy arrays: pip install 'deepsea-sdk[learn]'.

Start reading at `engine`, which has the games and what a policy is. `policies` has some policies,
`units` the numbers that stand for cargos, trails and banks, and the clean-up between two dives.
`roll_out` has roll-outs, deals and dice, and the conversion of positions of the reference engine.
"""

from .engine import Batch, Dice, Policy, Results, Turn
from .policies import BySeat, RandomPolicy, SteadyPolicy
from .roll_out import (
    GivenDice,
    Luck,
    RandomDice,
    deal_many,
    draw_luck,
    end_dives_many,
    given_luck,
    open_random,
    play_on_many,
    put,
    roll_out_many,
    state_of,
)
from .units import Orders, chips, levels, worth

__all__ = [
    "Batch",
    "BySeat",
    "Dice",
    "GivenDice",
    "Luck",
    "Orders",
    "Policy",
    "RandomDice",
    "RandomPolicy",
    "Results",
    "SteadyPolicy",
    "Turn",
    "chips",
    "deal_many",
    "draw_luck",
    "end_dives_many",
    "given_luck",
    "levels",
    "open_random",
    "play_on_many",
    "put",
    "roll_out_many",
    "state_of",
    "worth",
]
