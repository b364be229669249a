"""Lesson 5: a bot that tries things out. This one plays each action on, many times, in its head.

What it cannot see it deals at random (`view.sample`), the same for every action, and the same dice
as well: then actions are compared on equal luck. In these futures all divers play sensibly, which
the SDK knows how to do. This is flat Monte Carlo search.
"""

import math
import random
from collections.abc import Sequence

from deepsea_sdk import Bot, GameInfo, View, roll_out, run, sensible

TRIALS = 100
"""How often each action is tried, if the clock allows."""
SHARE_OF_TIME = 0.5
"""How much of the time for a decision is used at most; the rest is for a busy machine."""
SPREAD = (0.0, 16.0, 12.0, 3.0)
"""By dive, how many points make a lead: early ones can still be lost."""


class Searcher(Bot):
    """Chooses what did best in its trials."""

    name = "diver"
    concurrent_games = True

    def __init__(self, trials: int = TRIALS) -> None:
        self.trials = trials

    def on_game_start(self, info: GameInfo) -> None:
        # The same game is thought through in the same way, as long as the clock allows.
        self.random = random.Random(f"{info.commitment}/{info.seat}")

    def decide(self, view: View) -> str:
        deadline = self.clock.deadline(SHARE_OF_TIME)
        totals = dict.fromkeys(view.legal, 0.0)
        for _ in range(self.trials):
            position = view.sample(self.random)
            luck = self.random.random()
            for action in totals:
                trial = position.clone()
                trial.apply(action)
                spread = SPREAD[trial.dive]
                points = roll_out(trial, random.Random(luck), sensible, to_end_of="dive")
                totals[action] += lead(points, view.me.seat, spread)
            if self.clock.now() > deadline:
                break
        return max(totals, key=lambda action: totals[action])


def lead(points: Sequence[int], seat: int, spread: float) -> float:
    """The share of the others that this seat is ahead of: a close race counts by halves."""
    return sum(
        1 / (1 + math.exp((other - points[seat]) / spread))
        for rival, other in enumerate(points)
        if rival != seat
    )


if __name__ == "__main__":
    run(Searcher)
