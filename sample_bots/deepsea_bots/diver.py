"""Lesson 8: a bot that looks ahead. This one tries each action many times, for a round of turns.

It begins with what the SDK's evaluation says, as Pearl does (lesson 7). In the trials all divers go
on as Pearl would, and the evaluation says what comes of it. What the bot cannot see is dealt at
random, the same for every action, and in each of its turns a seat rolls the same dice: then actions
are compared on equal luck, and the bot changes its mind only where the trials clearly say so.
`deepsea_sdk.evaluation.ahead` plays all of them at once in arrays. Where numpy is not installed,
this bot is Pearl.
"""

import math
import random
from statistics import fmean, pstdev

from deepsea_sdk import Bot, GameInfo, View, run
from deepsea_sdk.evaluation import choices

try:
    from deepsea_sdk.evaluation.ahead import look_ahead
except ModuleNotFoundError:  # no numpy
    look_ahead = None  # type: ignore[assignment]

TRIALS = 32
"""How often each action is tried."""
SURE = 2.0
"""An action has to be better by so many standard errors."""
CLOSE = 0.1
"""Only actions that the evaluation values so nearly as much as the best one are worth trials."""
ENOUGH_TIME = 0.02
"""In seconds; with less, the evaluation alone decides."""


class Searcher(Bot):
    """Chooses what the evaluation values most, unless trials say otherwise."""

    name = "diver"
    concurrent_games = True

    def __init__(self, trials: int = TRIALS) -> None:
        self.trials = trials

    def on_game_start(self, info: GameInfo) -> None:
        # The same game is thought through in the same way.
        self.random = random.Random(f"{info.commitment}/{info.seat}")

    def decide(self, view: View) -> str:
        worth = choices(view)
        best = max(worth, key=lambda action: worth[action])
        close = [value for value in worth.values() if value > worth[best] - CLOSE]
        short = self.clock.remaining() < ENOUGH_TIME
        if view.kind == "order" or len(close) == 1 or short or look_ahead is None:
            return best
        found = look_ahead(view, self.trials, self.random.getrandbits(64))
        gains = {action: (values - found[best]).tolist() for action, values in found.items()}
        better = [action for action, gain in gains.items() if is_sure(gain)]
        return max(better, key=lambda action: fmean(gains[action]), default=best)


def is_sure(gain: list[float]) -> bool:
    """Whether the trials of an action were clearly better than those of another."""
    return fmean(gain) * math.sqrt(len(gain)) > SURE * pstdev(gain)


if __name__ == "__main__":
    run(Searcher)
