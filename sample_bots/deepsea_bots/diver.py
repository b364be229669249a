"""Lesson 5: a bot that tries things out. This one plays each action on, many times, in its head.

What it cannot see it deals at random (`view.sample`), the same for every action, and the same dice
as well: then actions are compared on equal luck. This is flat Monte Carlo search.
"""

import math
import random
import time

from deepsea_rules import GameState
from deepsea_sdk import Bot, GameInfo, View, home_chance, run

TRIALS = 100
"""How often each action is tried, if the clock allows."""
SHARE_OF_TIME = 0.5
"""How much of the time for a decision is used at most; the rest is for a busy machine."""
SPREAD = (0.0, 16.0, 12.0, 3.0)
"""By dive, how many points make a lead: early ones can still be lost."""
DICE = [(d1, d2) for d1 in (1, 2, 3) for d2 in (1, 2, 3)]
MEAN_ROLL = 4
PLENTY = 20
"""More turns than any way home takes."""
SAFE = 0.8
"""In its trials a diver goes on down while its chance to get home is better than this,"""
RISKY = 0.9
"""and takes more while the chance is better than this for a big load, or for a small load"""
FIRST_RISK = 0.3
"""less, and this for the first unit."""


class Searcher(Bot):
    """Chooses what did best in its trials."""

    name = "diver"

    def on_game_start(self, info: GameInfo) -> None:
        # The same game is thought through in the same way, as long as the clock allows.
        self.random = random.Random(f"{info.commitment}/{info.seat}")

    def decide(self, view: View) -> str:
        deadline = time.monotonic() + SHARE_OF_TIME * self.time_left.budget_us / 1e6
        totals = dict.fromkeys(view.legal, 0.0)
        for _ in range(TRIALS):
            position = view.sample(self.random)
            luck = self.random.random()
            for action in totals:
                trial = position.clone()
                trial.apply(action)
                totals[action] += outcome(trial, view.me.seat, random.Random(luck))
            if time.monotonic() > deadline:
                break
        return max(totals, key=lambda action: totals[action])


def outcome(state: GameState, seat: int, rng: random.Random) -> float:
    """Play to the end of the dive; the share of the others that this seat is ahead of then."""
    dive = state.dive
    while state.dive == dive and state.phase != "over":
        if state.phase == "search":
            state.apply(sensible_search(state))
        elif state.phase == "order":
            state.apply(state.legal_actions()[0])
        else:
            if "back" in state.legal_actions() and time_to_turn(state):
                state.apply("back")
            state.roll(*DICE[int(9 * rng.random())])
    points = [sum(state.values[chip] for chip in bank) for bank in state.bank]
    spread = SPREAD[dive]
    return sum(
        1 / (1 + math.exp((other - points[seat]) / spread))
        for rival, other in enumerate(points)
        if rival != seat
    )


def time_to_turn(state: GameState) -> bool:
    """Whether a sensible diver turns back here: when one more move down is too much of a risk."""
    seat = state.to_move
    load = len(state.cargo[seat])
    if not load:
        return False
    deeper = state.place[seat] + max(1, MEAN_ROLL - load)
    return home_chance(deeper, load, turns_left(state, load) - 1) < SAFE


def sensible_search(state: GameState) -> str:
    """What a sensible diver does here: it takes what it is likely to bring home."""
    seat = state.to_move
    load = len(state.cargo[seat])
    place = state.place[seat]
    if not state.trail[place]:
        return "leave"
    chance = home_chance(place, load + 1, turns_left(state, load + 1))
    # The more is at stake, the surer it has to be.
    return "take" if chance > RISKY * load / (load + 1) + FIRST_RISK * (load == 0) else "leave"


def turns_left(state: GameState, load: int) -> int:
    """How many more turns the diver to move gets with this load."""
    others = sum(map(len, state.cargo)) - len(state.cargo[state.to_move])
    air = state.air - (others if state.phase == "search" else 0)
    breath = others + load
    return max(0, min(-(-air // breath), PLENTY)) if breath else PLENTY


if __name__ == "__main__":
    run(Searcher)
