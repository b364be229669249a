"""How long an analysis takes and whether its marks repeat: python bench/analysis.py.

Games of sample bots are analysed twice, with two random streams. It prints CPU seconds of one
process for each game, and how many of the mistakes (? and ??) of one analysis have a mark in the
other one too; the goals are 1.5 s with numpy and 9 of 10 for four seats.
"""

from __future__ import annotations

import argparse
from time import process_time

from deepsea_arena.analysis import LUCK_ROLLOUTS, Analysis, AnalysisSettings, GameAnalysis
from deepsea_bots.cautious import Cautious
from deepsea_bots.greedy import Greedy
from deepsea_bots.heuristic import Heuristic
from deepsea_rules.game import GameRecord
from deepsea_rules.randomness import game_seed, seed_from_text
from deepsea_sdk.coach.decisions import Effort
from deepsea_sdk.table import play

BOTS = (Heuristic, Greedy, Cautious, Heuristic, Greedy, Cautious)
GRAVE = ("?", "??")


def record(seats: int, number: int) -> GameRecord:
    """A game of sample bots, which move by one seat from game to game."""
    bots = [BOTS[(seat + number) % seats] for seat in range(seats)]
    return play(bots, seed=game_seed(seed_from_text("analysis"), number)).record()


def analysed(game: GameRecord, settings: AnalysisSettings) -> tuple[GameAnalysis, float]:
    """The analysis of a game and its CPU seconds."""
    began = process_time()
    (found,) = Analysis([("", game)], settings).run()
    return found, process_time() - began


def repeated(one: GameAnalysis, other: GameAnalysis) -> tuple[int, int]:
    """How many decisions have a grave mark in the one, and how many of these any in the other."""
    marks = {decision.number: decision.judged.mark for decision in other.decisions}
    grave = [entry.number for entry in one.decisions if entry.judged.mark in GRAVE]
    return len(grave), sum(bool(marks[number]) for number in grave)


def main() -> None:
    """Measure, and print a line for each game and one for all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seats", type=int, default=4)
    parser.add_argument("--games", type=int, default=6)
    parser.add_argument("--precision", type=float, default=0.03)
    given = parser.parse_args()
    analysed(record(2, 0), AnalysisSettings(Effort.of(2)))  # tables are made once
    seconds: list[float] = []
    counts = [0, 0]
    for number in range(given.games):
        game = record(given.seats, number)
        found = []
        for seed in ("one", "other"):
            analysis, took = analysed(game, AnalysisSettings(Effort.to(given.precision), seed=seed))
            found.append(analysis)
            seconds.append(took)
        pairs = (repeated(*found), repeated(*found[::-1]))
        for grave, again in pairs:
            counts[0] += grave
            counts[1] += again
        print(
            f"game {number}: {len(game.decisions)} decisions, {seconds[-2]:.1f} and "
            f"{seconds[-1]:.1f} s; mistakes {pairs[0][0]} and {pairs[1][0]}, of them marked in the "
            f"other analysis {pairs[0][1]} and {pairs[1][1]}",
            flush=True,
        )
    _, luck = analysed(record(given.seats, 0), AnalysisSettings(Effort.of(2), luck=LUCK_ROLLOUTS))
    seconds.sort()
    print(
        f"median {seconds[len(seconds) // 2]:.1f} s of CPU time for a game, "
        f"luck {luck:.1f} s more; "
        f"{counts[1]} of {counts[0]} mistakes repeat"
    )


if __name__ == "__main__":
    main()
