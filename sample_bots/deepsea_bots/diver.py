"""Lesson 8: a bot that looks ahead. This one tries each action many times, for a round of turns.

It begins with the values of the SDK's evaluation, as Pearl does (lesson 7). In the trials all
divers play on as Pearl would, and the evaluation values the positions that they reach. Hidden
values are dealt at random, the same for every action, and a seat rolls the same dice in each of its
turns. So actions are compared with equal luck, and the bot changes its mind only where the trials
clearly say so. `deepsea_sdk.evaluation.arrays` plays all trials at once in arrays. Without numpy
this bot is Pearl.
"""

import math
import random
from statistics import fmean, pstdev

from deepsea_sdk import Bot, GameInfo, View, run
from deepsea_sdk.evaluation import choices

try:
    from deepsea_sdk.evaluation.arrays import look_ahead
except ModuleNotFoundError:  # no numpy
    look_ahead = None  # type: ignore[assignment]

TRIALS = 32
"""Number of trials of each action."""
SURE = 2.0
"""Standard errors by which an action has to be better."""
CLOSE = 0.1
"""Actions are tried only if their value is at most this far below the best one."""
ENOUGH_TIME = 0.02
"""Seconds that trials need; with less time, the evaluation alone decides."""


class Searcher(Bot):
    """Chooses the action with the highest value, unless trials say otherwise."""

    name = "diver"
    concurrent_games = True

    def __init__(self, trials: int = TRIALS) -> None:
        self.trials = trials

    def on_game_start(self, info: GameInfo) -> None:
        # The same game is thought through in the same way.
        self.random = random.Random(f"{info.commitment}/{info.seat}")

    def decide(self, view: View) -> str:
        """Return the action with the best value, or a close one that trials show to be better."""
        values = choices(view)
        best = max(values, key=lambda action: values[action])
        close_values = [value for value in values.values() if value > values[best] - CLOSE]
        is_short = self.clock.remaining() < ENOUGH_TIME
        if view.kind == "order" or len(close_values) == 1 or is_short or look_ahead is None:
            return best
        outcomes = look_ahead(view, self.trials, self.random.getrandbits(64))
        gains = {
            action: (trial_values - outcomes[best]).tolist()
            for action, trial_values in outcomes.items()
        }
        better = [action for action, gain in gains.items() if is_sure(gain)]
        return max(better, key=lambda action: fmean(gains[action]), default=best)


def is_sure(gains: list[float]) -> bool:
    """Return True if the gains of an action over another, trial by trial, are clearly above 0."""
    return fmean(gains) * math.sqrt(len(gains)) > SURE * pstdev(gains)


if __name__ == "__main__":
    run(Searcher)
