"""Write bots for Deep Sea Adventure.

    from deepsea_sdk import LEAVE, TAKE, Bot, run

    class TwoChips(Bot):
        def search(self, view):
            return TAKE if view.can_take and view.me.load < 2 else LEAVE

        def turn_back(self, view):
            return view.me.load == 2

    run(TwoChips)

Start reading at `Bot`, which lists the decisions, and `View`, which is what a bot sees.
"""

import atexit
import gc
import os
import sys

from deepsea_rules.actions import BACK, BLANK, DOWN, LEAVE, TAKE, Unit, drop, order
from deepsea_rules.events import Event
from deepsea_rules.faults import Fault
from deepsea_rules.ruleset import RuleSet
from deepsea_rules.state import GameState
from deepsea_rules.view import Diver, View

from . import bot as _bot
from . import launch as _launch
from .bot import AnyBot, Bot, Clock, FaultNotice, GameEnd, GameInfo, NewBot
from .errors import ConnectionRejected, IllegalAnswer, NotInMatch, SdkError, WireError
from .policies import (
    MANY_TURNS,
    ROLLS,
    Policy,
    TurnDice,
    home_chance,
    roll_out,
    steady,
    turns_left,
)
from .table import LocalGame, play

__version__ = "1.0.0"

__all__ = [
    "BACK",
    "BLANK",
    "DOWN",
    "LEAVE",
    "MANY_TURNS",
    "ROLLS",
    "TAKE",
    "AnyBot",
    "Bot",
    "Clock",
    "ConnectionRejected",
    "Diver",
    "Event",
    "Fault",
    "FaultNotice",
    "GameEnd",
    "GameInfo",
    "GameState",
    "IllegalAnswer",
    "LocalGame",
    "NewBot",
    "NotInMatch",
    "Policy",
    "RuleSet",
    "SdkError",
    "TurnDice",
    "Unit",
    "View",
    "WireError",
    "drop",
    "home_chance",
    "order",
    "play",
    "roll_out",
    "run",
    "steady",
    "turns_left",
]


def run(bot: NewBot) -> None:
    """Play for the referee that started this program, until the referee sends Goodbye.

    bot  a class, or a function that makes a bot: every game gets an object of its own. Games of a
         class with `concurrent_games = True` may run at once

    An exception of the bot is one fault, and play continues. The program exits with status 2 if no
    referee started it, 1 if the referee refused it.
    """
    _bot.check_new_bot(bot)
    # At the exit the system takes back all memory at once. `gc.freeze` keeps Python from
    # searching it for garbage before that.
    atexit.register(gc.freeze)
    if text := os.environ.get(_launch.PARAMETERS, ""):
        try:
            bot = _launch.apply_parameters(text, bot, sys.modules["__main__"])
        except (TypeError, ValueError) as error:
            raise SystemExit(f"parameters {text!r}: {error}") from None
    # gRPC takes a tenth of a second to import, and bots that play in-process never need it.
    from .client import features_of
    from .client import run as run_client

    run_client(_bot.with_hints(bot), features_of(bot))
