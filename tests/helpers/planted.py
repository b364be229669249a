"""A game with one known blunder: a bot of the steady policy turns back one turn too late."""

from __future__ import annotations

from deepsea_rules.actions import BACK, DOWN
from deepsea_rules.view import View
from deepsea_sdk.bot import Bot, GameInfo
from deepsea_sdk.policies import steady
from deepsea_sdk.table import LocalGame, play

SEAT = 1
"""Where the bot sits that makes the blunder."""


class Steady(Bot):
    """Plays the policy."""

    def decide(self, view: View) -> str:
        return steady(view)


class OneTurnLate(Steady):
    """Goes on when it should turn back, once, in the last dive."""

    def on_game_start(self, info: GameInfo) -> None:
        self.missed = False

    def decide(self, view: View) -> str:
        action = steady(view)
        if action == BACK and view.dive == 3 and not self.missed:
            self.missed = True
            return DOWN
        return action


def planted() -> LocalGame:
    """The game; in its third dive to go on costs more than half of the placement score."""
    return play([Steady, OneTurnLate, Steady], seed="planted 21")
