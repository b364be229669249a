"""How many games a final takes, and whether it keeps the best bot: python bench/finals.py.

    python bench/finals.py [--runs N] [--bots N] [--seats N] [--most GAMES]

Simulated games of bots with drawn strengths, raced as `ladder tournament final` does, and beside it
a round robin of the same certainty: everybody plays on until the same intervals say who is best.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Sequence

from deepsea_arena.tournament_state import Race
from deepsea_ladder.rating import SeatResult

NOISE = 1.5
"""Standard deviation of a bot's form in a game; that of strengths is 1."""


def game(
    strengths: Sequence[float], seats: Sequence[int], chance: random.Random
) -> list[SeatResult]:
    """A simulated game."""
    form = {bot: strengths[bot] + chance.gauss(0, NOISE) for bot in seats}
    order = sorted(seats, key=lambda bot: -form[bot])
    return [
        SeatResult(bot, 0, 1 + order.index(bot), decisions=1, faults=0, forfeit=None)
        for bot in seats
    ]


def race(strengths: Sequence[float], seats: int, most: int, number: int, *, leave: bool) -> Race:
    """Race until it is decided; without `leave` all play to the end."""
    chance = random.Random(number)
    bots = range(len(strengths))
    found, everybody = Race(bots, 1), Race(bots, 1)
    while not found.decided and found.games < most:
        everybody.games = found.games
        for table in (found if leave else everybody).tables(seats, number.to_bytes(8)):
            found.add([game(strengths, seating, chance) for seating in table.seatings()])
    return found


def main() -> None:
    """Print a line for each run, and what they come to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("runs", 20), ("bots", 20), ("seats", 4), ("most", 40_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    right, ratios, games = 0, [], []
    for number in range(given.runs):
        strengths = [random.Random(f"{number} {bot}").gauss(0, 1) for bot in range(given.bots)]
        final, whole = (
            race(strengths, given.seats, given.most, number, leave=leave) for leave in (True, False)
        )
        best = max(range(given.bots), key=strengths.__getitem__)
        gap = strengths[best] - sorted(strengths)[-2]
        right += best in final.left
        ratios.append(final.games / whole.games)
        games.append(final.games)
        print(
            f"{number}: gap {gap:.2f}, final {final.games:,} games, {len(final.left)} left, "
            f"best {'among them' if best in final.left else 'LEFT'}; "
            f"round robin {whole.games:,} games, {len(whole.left)} left",
            flush=True,
        )
    print(
        f"the best among the winners in {right} of {given.runs}; games of the final: median "
        f"{statistics.median(games):,.0f}; of those of the round robin: median "
        f"{statistics.median(ratios):.2f}, mean {statistics.mean(ratios):.2f}"
    )


if __name__ == "__main__":
    main()
