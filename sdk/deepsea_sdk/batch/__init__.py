"""Thousands of games at once, in numpy arrays: pip install 'deepsea-sdk[learn]'.

`engine` has the games and what a policy is, `policies` some policies, `luck` deals and dice,
`roll_out` roll-outs, `positions` the way from a position of the reference engine and back, `units`
what cargos, trails and banks hold.
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
