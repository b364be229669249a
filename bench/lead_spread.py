"""How much a lead at the end of a dive is worth: python bench/lead_spread.py.

Games of the steady policy give leads of one seat over another at the ends of dives, and who was
ahead in the end. It prints the spread that fits best: a lead of so many points wins 73 of 100
games. `deepsea_sdk.coach.luck` has these numbers.
"""

from __future__ import annotations

import argparse
from itertools import combinations
from math import exp

from deepsea_rules.events import CleanedUp
from deepsea_rules.randomness import deal, seed_from_text
from deepsea_rules.ruleset import DIVES, PRESETS
from deepsea_rules.state import GameState
from deepsea_sdk.coach.decisions import Stream
from deepsea_sdk.policies import play_on, steady

Race = tuple[int, float]
"""A lead, and 1, 0.5 or 0 for who led: ahead at the end of the game, level, behind."""


def races(rules: str, seats: int, games: int) -> dict[int, list[Race]]:
    """The leads at the end of each dive but the last, between any two seats."""
    stream = Stream("lead", seats)
    found: dict[int, list[Race]] = {dive: [] for dive in range(1, DIVES)}
    for number in range(games):
        values = deal(seed_from_text(f"lead {number}"))
        state = GameState.opening(PRESETS[rules], values, seats, number % seats, log=[])
        play_on(state, stream.luck(number).dice, steady)
        points = [0] * seats
        final = state.points()
        for item in state.log or []:
            if isinstance(item, CleanedUp) and item.dive in found:
                for seat, chips in enumerate(item.banked):
                    points[seat] += sum(values[chip] for chip in chips)
                for one, two in combinations(range(seats), 2):
                    won = ((final[one] > final[two]) + (final[one] >= final[two])) / 2
                    found[item.dive].append((points[one] - points[two], won))
    return found


def misfit(found: list[Race], spread: float) -> float:
    """The mean squared error of the chance to win that a spread gives."""
    return sum((won - 1 / (1 + exp(-lead / spread))) ** 2 for lead, won in found) / len(found)


def main() -> None:
    """Print the best spread by rules, seats and dive."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=1200)
    given = parser.parse_args()
    for rules in ("manual", "publisher"):
        for seats in range(2, 7):
            for dive, found in races(rules, seats, given.games).items():
                best = min((half / 2 for half in range(2, 80)), key=lambda s: misfit(found, s))
                explained = 1 - misfit(found, best) / misfit(found, 1e9)
                print(f"{rules}, {seats} seats, dive {dive}: {best:g}, explains {explained:.0%}")


if __name__ == "__main__":
    main()
