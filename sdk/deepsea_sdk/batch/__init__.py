"""Thousands of games at once, in numpy arrays: pip install 'deepsea-sdk[learn]'.

`engine` has the games and what a policy is, `policies` some policies, `luck` deals and dice,
`roll_out` roll-outs, `positions` the way from a position of the reference engine and back, `units`
what cargos, trails and banks hold.
"""

from .clean_up import Orders
from .engine import Batch, Dice, Policy, Results, Turn
from .luck import GivenDice, Luck, RandomDice, deal_many, draw_luck, given_luck, open_random
from .policies import BySeat, RandomPolicy, SteadyPolicy
from .positions import put, state_of
from .roll_out import end_dives_many, play_on_many, roll_out_many
from .units import chips, levels, worth

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
