"""Search for better numbers of the steady policy, at random: python bench/tune_steady.py.

Candidates near the best numbers so far play against them on the same luck with seats swapped, at
tables of two, four and six; the worse half drops out, the rest plays twice as many games. The best
one of a round takes over if its lead is twice its error. What it prints depends on the seed alone,
but for the CPU time.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from math import sqrt

from deepsea_rules.randomness import deal, seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.state import GameState
from deepsea_sdk.coach.common_luck import Stream, halves
from deepsea_sdk.rollout import Policy, play_on
from deepsea_sdk.sensible import sensible
from deepsea_sdk.steady import STEADY, Numbers, policy

RULES = PRESETS["manual"]
TABLES = (2, 4, 6)


class Lead:
    """How far a policy is ahead of another one, in placement score."""

    def __init__(self, ours: Policy, theirs: Policy, label: str) -> None:
        self.found: list[float] = []
        self._ours, self._theirs = ours, theirs
        self._streams = {seats: Stream(f"{label}/{seats}", seats) for seats in TABLES}

    def play(self, pairs: int) -> None:
        """Play so many more pairs of games."""
        for _ in range(pairs):
            number = len(self.found)
            seats = TABLES[number % len(TABLES)]
            values = deal(seed_from_text(f"tune {number}"))
            dice = self._streams[seats].luck(number).dice
            total = 0.0
            for swap in (0, 1):
                state = GameState.opening(RULES, values, seats, number % seats)
                sides = (self._ours, self._theirs)

                def choose(
                    now: GameState, swap: int = swap, sides: tuple[Policy, Policy] = sides
                ) -> str:
                    return sides[(now.to_move + swap) % 2](now)

                play_on(state, dice, choose)
                placed = halves(state)
                total += sum(placed[swap::2]) - sum(placed[1 - swap :: 2])
            self.found.append(total / seats / (2 * (seats - 1)))

    @property
    def mean(self) -> float:
        return sum(self.found) / len(self.found)

    @property
    def error(self) -> float:
        mean, count = self.mean, len(self.found)
        return sqrt(sum((one - mean) ** 2 for one in self.found) / (count - 1) / count)


def near(numbers: Numbers, by: float, rng: random.Random) -> Numbers:
    """Other numbers, some of them changed by about this share."""

    def some(value: float, low: float, high: float) -> float:
        if rng.random() < 0.5:
            return value
        return round(min(high, max(low, value + by * (high - low) * rng.gauss(0, 1))), 3)

    x, y, z = numbers.turn_back
    u, v, w = numbers.first_unit
    move = numbers.next_move
    return Numbers(
        (some(x, 0.2, 1.0), some(y, 0.2, 1.0), some(z, 0.2, 1.0)),
        move if rng.random() < 0.7 else rng.choice((3, 4, 5, 6, 7)),
        (some(u, 0.0, 12.0), some(v, 0.0, 12.0), some(w, 0.0, 12.0)),
        some(numbers.next_unit, 0.5, 2.0),
        some(numbers.drop_unit, 0.5, 2.0),
    )


def rounds(seed: str, count: int, candidates: int, pairs: int) -> Iterator[tuple[Numbers, Lead]]:
    """The best numbers after each round, with the lead that they took over by, or did not."""
    rng = random.Random(seed)
    best = STEADY
    for number in range(count):
        by = 0.25 * 0.75**number
        field = [
            (numbers, Lead(policy(numbers), policy(best), f"{seed}/{number}"))
            for numbers in (near(best, by, rng) for _ in range(candidates))
        ]
        size = pairs
        while True:
            for _, lead in field:
                lead.play(size)
            field.sort(key=lambda entry: -entry[1].mean)
            if len(field) <= 2:
                break
            field = field[: len(field) // 2]
            size *= 2
        numbers, lead = field[0]
        if lead.mean > 2 * lead.error:
            best = numbers
        yield best, lead


def main() -> None:
    """Search, and print the numbers of each round and the lead of the last ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", default="steady")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--candidates", type=int, default=32)
    parser.add_argument("--pairs", type=int, default=60)
    given = parser.parse_args()
    best = STEADY
    for best, lead in rounds(given.seed, given.rounds, given.candidates, given.pairs):
        print(f"{lead.mean:+.4f} ± {2 * lead.error:.4f}  {best}", flush=True)
    for name, other in (("the numbers as they are", policy(STEADY)), ("sensible", sensible)):
        lead = Lead(policy(best), other, f"{given.seed}/last")
        lead.play(20 * given.pairs)
        print(f"against {name}: {lead.mean:+.4f} ± {2 * lead.error:.4f}")
    print(f"{time.process_time():.0f} s of CPU time")


if __name__ == "__main__":
    main()
