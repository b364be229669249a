"""Lesson 6: a bot that tries things out. This one plays each action on, many times, in its head.

What it cannot see it deals at random (`view.sample`), the same for every action, and in each of its
turns a seat rolls the same dice: then actions are compared on equal luck. In these futures all
divers play steadily, which the SDK knows how to do. An action that is clearly behind is tried no
more. This is flat Monte Carlo search with racing.
"""

import math
import random
from collections.abc import Sequence

from deepsea_sdk import Bot, GameInfo, TurnDice, View, roll_out, run, steady

TRIALS = 60
"""How often an action is tried at most, if the clock allows."""
ROUND = 10
"""After so many trials of each, the actions that are clearly behind are dropped."""
BEHIND = 3.0
"""How many standard errors are clearly behind."""
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
        found: dict[str, list[float]] = {action: [] for action in view.legal}
        for trial in range(1, self.trials + 1):
            position = view.sample(self.random)
            dice = TurnDice(self.random, view.players)
            for action, leads in found.items():
                future = position.clone()
                future.apply(action)
                spread = SPREAD[future.dive]
                points = roll_out(future, dice, steady, to_end_of="dive")
                leads.append(lead(points, view.me.seat, spread))
            if trial % ROUND == 0:
                drop_those_behind(found)
            if len(found) == 1 or self.clock.now() > deadline:
                break
        return max(found, key=lambda action: sum(found[action]))


def lead(points: Sequence[int], seat: int, spread: float) -> float:
    """The share of the others that this seat is ahead of: a close race counts by halves."""
    ahead = [
        1 / (1 + math.exp((other - points[seat]) / spread))
        for rival, other in enumerate(points)
        if rival != seat
    ]
    return sum(ahead) / len(ahead)


def drop_those_behind(found: dict[str, list[float]]) -> None:
    """Remove the actions that are clearly behind the best one, by trials on the same luck."""
    best = max(found.values(), key=sum)
    trials = len(best)
    for action, leads in list(found.items()):
        gaps = [one - other for one, other in zip(best, leads, strict=True)]
        mean = sum(gaps) / trials
        # As if there had been one more trial: a few that agree do not make it certain.
        variance = (sum(gap * gap for gap in gaps) + 0.5) / trials - mean * mean
        if mean > BEHIND * math.sqrt(variance / trials):
            del found[action]


if __name__ == "__main__":
    run(Searcher)
