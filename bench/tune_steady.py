"""Search for the numbers of the steady policy: python bench/tune_steady.py [--seats 2 3 4 5 6].

For each number of seats by itself, by the cross-entropy method: candidates are drawn around a
centre and play against the centre of some generations ago, on the same luck with seats swapped; the
worse half drops out and the rest plays on; the mean of the best is the next centre. One candidate's
lead is noisy, the mean of the best is less so. The search begins with the numbers of
`START`. In the end what was found plays other games against those, and against the SDK's numbers;
with `--check` only these games are played, by the SDK's numbers against `START`. What it prints
depends on the options alone, but for the CPU time.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from math import sqrt
from statistics import fmean, pstdev, stdev
from typing import Final

from deepsea_rules.randomness import deal, seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.state import GameState
from deepsea_sdk.coach.common_luck import Stream, halves
from deepsea_sdk.rollout import Policy, play_on
from deepsea_sdk.steady import STEADY, Numbers, policy

RULES: Final = PRESETS["manual"]
START: Final = Numbers((1.0, 0.99, 0.89), 5, (1.812, 5.4, 5.004), 0.685, 1.194)
"""The numbers of the first version, which were the same for all numbers of seats."""
RANGES: Final = (
    *((0.2, 1.0),) * 3,
    (2.0, 7.99),
    *((0.0, 12.0),) * 3,
    (0.3, 2.0),
    (0.5, 2.5),
)
"""The least and the largest value of each number, in the order of `flat`."""
FIRST_SPREAD: Final = 0.1
LAST_SPREAD: Final = 0.015
"""How far candidates are from the centre at first, and at least, as shares of these ranges."""


def flat(numbers: Numbers) -> list[float]:
    """The numbers in one row; a whole one stands for those from it up to the next."""
    move = numbers.next_move + 0.5
    return [*numbers.turn_back, move, *numbers.first_unit, numbers.next_unit, numbers.drop_unit]


def numbers_of(row: Sequence[float]) -> Numbers:
    """The numbers of such a row, kept within their ranges."""
    x, y, z, move, u, v, w, more, drop = [
        round(min(high, max(low, value)), 3) for value, (low, high) in zip(row, RANGES, strict=True)
    ]
    return Numbers((x, y, z), int(move), (u, v, w), more, drop)


class Lead:
    """How far a policy is ahead of another one in placement score, at tables of one size."""

    def __init__(self, seats: int, ours: Policy, theirs: Policy, label: str) -> None:
        self.found: list[float] = []
        self._seats, self._sides, self._label = seats, (ours, theirs), label
        self._stream = Stream(label, seats)

    def play(self, pairs: int) -> None:
        """Play so many more pairs of games; those of a label are the same for all."""
        seats, sides = self._seats, self._sides
        for number in range(len(self.found), len(self.found) + pairs):
            values = deal(seed_from_text(f"{self._label} {number}"))
            dice = self._stream.luck(number).dice
            total = 0
            for swap in (0, 1):

                def choose(now: GameState, swap: int = swap) -> str:
                    return sides[(now.to_move + swap) % 2](now)

                state = GameState.opening(RULES, values, seats, number % seats)
                play_on(state, dice, choose)
                placed = halves(state)
                total += sum(placed[swap::2]) - sum(placed[1 - swap :: 2])
            self.found.append(total / seats / (2 * (seats - 1)))

    @property
    def mean(self) -> float:
        return fmean(self.found)

    @property
    def error(self) -> float:
        """Half an interval of 95 %."""
        return 1.96 * stdev(self.found) / sqrt(len(self.found))


def search(seats: int, seed: str, generations: int, candidates: int, pairs: int) -> Numbers:
    """The centre after so many generations."""
    rng = random.Random(f"{seed}/{seats}")
    centre = flat(START)
    spread = [FIRST_SPREAD * (high - low) for low, high in RANGES]
    rival = START
    for number in range(generations):
        field = []
        for _ in range(candidates):
            row = [value + by * rng.gauss(0, 1) for value, by in zip(centre, spread, strict=True)]
            row = [
                min(high, max(low, value)) for value, (low, high) in zip(row, RANGES, strict=True)
            ]
            ours = policy(numbers_of(row))
            field.append((row, Lead(seats, ours, policy(rival), f"{seed}/{seats}/{number}")))
        for _, lead in field:
            lead.play(pairs)
        field.sort(key=lambda entry: -entry[1].mean)
        field = field[: candidates // 2]
        for _, lead in field:
            lead.play(pairs)
        field.sort(key=lambda entry: -entry[1].mean)
        best = [row for row, _ in field[: candidates // 4]]
        centre = [fmean(column) for column in zip(*best, strict=True)]
        spread = [
            max(LAST_SPREAD * (high - low), 0.5 * (old + pstdev(column)))
            for old, column, (low, high) in zip(
                spread, zip(*best, strict=True), RANGES, strict=True
            )
        ]
        if number % 4 == 3:
            rival = numbers_of(centre)
    return numbers_of(centre)


def held_out(seats: int, ours: Numbers, theirs: Numbers, pairs: int) -> str:
    """The lead in games that no search has seen."""
    lead = Lead(seats, policy(ours), policy(theirs), f"held out/{seats}")
    lead.play(pairs)
    return f"{lead.mean:+.4f} ±{lead.error:.4f}"


def main() -> None:
    """Search, and say how far what was found is ahead of what there is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seats", type=int, nargs="+", default=[2, 3, 4, 5, 6])
    parser.add_argument("--seed", default="steady")
    parser.add_argument("--generations", type=int, default=16)
    parser.add_argument("--candidates", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=400, help="of a candidate, before the half")
    parser.add_argument("--held-out", type=int, default=4000, help="pairs of games in the end")
    parser.add_argument("--check", action="store_true", help="do not search")
    given = parser.parse_args()
    for seats in given.seats:
        if given.check:
            lead = held_out(seats, STEADY[seats], START, given.held_out)
            print(f"{seats} seats: the SDK's numbers against the start {lead}", flush=True)
            continue
        found = search(seats, given.seed, given.generations, given.candidates, given.pairs)
        print(f"{seats}: {found}", flush=True)
        for name, rival in (("the start", START), ("the SDK's numbers", STEADY[seats])):
            print(f"   against {name} {held_out(seats, found, rival, given.held_out)}", flush=True)
    print(f"{time.process_time():.0f} s of CPU time")


if __name__ == "__main__":
    main()
