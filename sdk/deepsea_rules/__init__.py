"""The rules of Deep Sea Adventure: pure, explicit, standard library only.

Start reading at `game.py` (the loop), then `position.py` (the parts of a position), `state.py` (the
moves and what is legal), `cleanup.py` (between dives), `view.py` (what a seat may know),
`ruleset.py` (the differences of the rule texts).
"""

from .actions import BACK, BLANK, DOWN, LEAVE, TAKE, Unit, drop, level_of, order
from .errors import (
    IllegalAction,
    InvalidAction,
    InvalidPosition,
    InvalidRecord,
    InvalidRules,
    InvalidTimeControl,
    RulesError,
)
from .faults import Fault
from .game import Decision, Forfeit, Game, GameRecord, Question, replay, verify
from .notation import format_position, parse_position
from .position import Position
from .randomness import NumberSource
from .ruleset import DEFAULT, PRESETS, RuleSet
from .scoring import Result
from .state import GameState, UncheckedMoves
from .time_control import TimeControl
from .view import Diver, View, view_for

__all__ = [
    "BACK",
    "BLANK",
    "DEFAULT",
    "DOWN",
    "LEAVE",
    "PRESETS",
    "TAKE",
    "Decision",
    "Diver",
    "Fault",
    "Forfeit",
    "Game",
    "GameRecord",
    "GameState",
    "IllegalAction",
    "InvalidAction",
    "InvalidPosition",
    "InvalidRecord",
    "InvalidRules",
    "InvalidTimeControl",
    "NumberSource",
    "Position",
    "Question",
    "Result",
    "RuleSet",
    "RulesError",
    "TimeControl",
    "UncheckedMoves",
    "Unit",
    "View",
    "drop",
    "format_position",
    "level_of",
    "order",
    "parse_position",
    "replay",
    "verify",
    "view_for",
]
