"""Search for the numbers of the steady policy: python bench/tune_steady.py [--seats 2 3 4 5 6].

For each number of seats by itself, by stochastic approximation (SPSA), as chess engines are tuned.
For each pair of games all numbers are shifted at random from where the search is, and the policy
with this shift plays against the one with the opposite shift, on the same luck with seats swapped.
A lead is a little evidence for the direction of its shift: after a thousand pairs the search goes a
step in their mean direction. So every game counts, and no candidate is thrown away. Steps and
shifts become smaller; what was found is the mean of the last third of the course. The search begins
with the numbers of `START`. In the end what was found plays other games against those, and against
the SDK's numbers; with `--check` only these games are played, by the SDK's numbers against `START`.
What it finds depends on the options alone and not on `--workers`; progress is on standard error.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import sqrt
from statistics import fmean, stdev
from typing import Final, NamedTuple, TypeAlias

from deepsea_rules.randomness import deal, seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.state import GameState
from deepsea_sdk.coach.decisions import Luck, Stream, halves
from deepsea_sdk.policies import STEADY, Numbers, play_on, policy

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
SHIFT: Final = (0.1, 0.04)
"""The standard deviation of shifts, as shares of these ranges, at first and in the end."""
RATE: Final = (0.15, 0.05)
"""How far a step goes, as a multiple of the gradient, at first and in the end."""
CHUNK: Final = 500
"""Pairs of games of one call, which a worker plays."""


def flat(numbers: Numbers) -> list[float]:
    """The numbers in one row; a whole one stands for those from it up to the next."""
    move = numbers.next_move + 0.5
    return [*numbers.turn_back, move, *numbers.first_unit, numbers.next_unit, numbers.drop_unit]


def within(row: Iterable[float]) -> list[float]:
    """The row, kept within the ranges."""
    return [min(high, max(low, value)) for value, (low, high) in zip(row, RANGES, strict=True)]


def numbers_of(row: Sequence[float]) -> Numbers:
    """The numbers of such a row."""
    x, y, z, move, u, v, w, more, drop = [round(value, 3) for value in within(row)]
    return Numbers((x, y, z), int(move), (u, v, w), more, drop)


def moved(row: Sequence[float], by: Sequence[float], times: float) -> list[float]:
    """The row, further by so many times these shares of the ranges."""
    return [
        value + times * share * (high - low)
        for value, share, (low, high) in zip(row, by, RANGES, strict=True)
    ]


def lead(seats: int, ours: Numbers, theirs: Numbers, seed: str, luck: Luck, first: int) -> float:
    """How far ours is ahead of theirs in placement score, in two games on the same luck."""
    sides = policy(ours), policy(theirs)
    values = deal(seed_from_text(seed))
    total = 0
    for swap in (0, 1):

        def choose(now: GameState, swap: int = swap) -> str:
            return sides[(now.to_move + swap) % 2](now)

        state = GameState.opening(RULES, values, seats, first)
        play_on(state, luck.dice, choose)
        placed = halves(state)
        total += sum(placed[swap::2]) - sum(placed[1 - swap :: 2])
    return total / seats / (2 * (seats - 1))


class Games(NamedTuple):
    """Pairs of games for `leads` or `directions`; those of a label are always the same."""

    seats: int
    label: str
    pairs: range


def leads(ours: Numbers, theirs: Numbers, games: Games) -> list[float]:
    """The lead in each of them."""
    seats, label, pairs = games
    stream = Stream(label, seats)
    return [
        lead(seats, ours, theirs, f"{label} {number}", stream.luck(number), number % seats)
        for number in pairs
    ]


def direction(centre: Sequence[float], shift: float, games: Games) -> list[float]:
    """The sum of the directions that were tried, each times the lead that it had."""
    seats, label, pairs = games
    stream = Stream(label, seats)
    total = [0.0] * len(RANGES)
    for number in pairs:
        rng = random.Random(f"{label} {number}")
        tried = [rng.gauss(0, 1) for _ in RANGES]
        ours, theirs = (numbers_of(moved(centre, tried, side * shift)) for side in (1, -1))
        luck = stream.luck(number)
        ahead = lead(seats, ours, theirs, f"{label} {number}", luck, number % seats)
        total = [old + ahead * one for old, one in zip(total, tried, strict=True)]
    return total


Play: TypeAlias = Callable[[Callable[[Games], list[float]], Iterable[Games]], Iterable[list[float]]]
"""`map`, here or in processes."""


def chunks(seats: int, label: str, pairs: int) -> list[Games]:
    """So many pairs of games, for several workers."""
    firsts = range(0, pairs, CHUNK)
    return [Games(seats, label, range(first, min(first + CHUNK, pairs))) for first in firsts]


def search(seats: int, seed: str, steps: int, pairs: int, play: Play) -> Iterator[Numbers]:
    """Where the search is after each step, and last of all what it found."""
    centre = flat(START)
    course = []
    for number in range(steps):
        shift, rate = (first * (last / first) ** (number / steps) for first, last in (SHIFT, RATE))
        jobs = chunks(seats, f"{seed}/{seats}/{number}", pairs)
        tried = play(partial(direction, centre, shift), jobs)
        found = [sum(column) for column in zip(*tried, strict=True)]
        gradient = [value / pairs / (2 * shift) for value in found]
        centre = within(moved(centre, gradient, rate))
        course.append(centre)
        yield numbers_of(centre)
    yield numbers_of([fmean(column) for column in zip(*course[2 * steps // 3 :], strict=True)])


def held_out(seats: int, ours: Numbers, theirs: Numbers, pairs: int, play: Play) -> str:
    """The lead in games that no search has seen, with an interval of 95 %."""
    parts = play(partial(leads, ours, theirs), chunks(seats, f"held out/{seats}", pairs))
    found = [one for part in parts for one in part]
    return f"{fmean(found):+.4f} ±{1.96 * stdev(found) / sqrt(len(found)):.4f}"


def main() -> None:
    """Search, and say how far what was found is ahead of what there is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seats", type=int, nargs="+", default=[2, 3, 4, 5, 6])
    parser.add_argument("--seed", default="steady")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=1000, help="of games, for a step")
    parser.add_argument("--held-out", type=int, default=6000, help="pairs of games in the end")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--check", action="store_true", help="do not search")
    given = parser.parse_args()
    with ProcessPoolExecutor(given.workers) as pool:
        run(given, pool.map if given.workers > 1 else map)
    print(f"{sum(os.times()[:4]):.0f} s of CPU time")


def run(given: argparse.Namespace, play: Play) -> None:
    """Print a row for each number of seats, and its leads."""
    for seats in given.seats:
        if given.check:
            ahead = held_out(seats, STEADY[seats], START, given.held_out, play)
            print(f"{seats} seats: the SDK's numbers against the start {ahead}", flush=True)
            continue
        found = START
        for number, found in enumerate(search(seats, given.seed, given.steps, given.pairs, play)):
            if number % 10 == 0:
                print(f"{seats} seats, step {number} of {given.steps}: {found}", file=sys.stderr)
        print(f"{seats}: {found}", flush=True)
        for name, rival in (("the start", START), ("the SDK's numbers", STEADY[seats])):
            ahead = held_out(seats, found, rival, given.held_out, play)
            print(f"   against {name} {ahead}", flush=True)


if __name__ == "__main__":
    main()
