"""By how much shared seeds and swapped seats shrink the variance of a comparison.

    python bench/variance.py [BLOCKS] [PAIR...]     such as  400 heuristic/greedy

Invariants: the same number of games is spent in three ways: on independent games with seats by lot,
on games with seats swapped but a seed each, and on blocks; everything follows from the seed in
here.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence

from deepsea_bots.greedy import Greedy
from deepsea_referee.bots.loading import load
from deepsea_referee.bots.resolve import BotSpec, resolve
from deepsea_referee.workbench.blocks import seated
from deepsea_rules.randomness import Stream, game_seed, seed_from_text
from deepsea_rules.scoring import placement_scores
from deepsea_rules.view import View
from deepsea_sdk.bot import AnyBot
from deepsea_sdk.table import play
from figures import described

SEED = seed_from_text("variance")
PAIRS = ("greedy/tweaked", "greedy/cautious", "heuristic/greedy")
SEATS = (2, 4, 6)


class Tweaked(Greedy):
    """What an author tries out: greedy, but in its first dive it takes nothing of level 1."""

    def search(self, view: View) -> str:
        if view.dive == 1 and not view.me.homeward and view.unit_here.levels == (1,):
            return "leave"
        return super().search(view)


def differences(
    players: Sequence[AnyBot], line_up: Sequence[int], ours: Sequence[int], number: int
) -> tuple[float, float]:
    """A's lead over B in one game, in placement score and in points."""
    game = play([players[bot] for bot in line_up], seed=game_seed(SEED, number))
    scores, placements = game.result()
    a = [seat for seat, bot in enumerate(line_up) if bot in ours]
    b = [seat for seat, bot in enumerate(line_up) if bot not in ours]
    placed = placement_scores(placements)
    return (
        statistics.fmean(placed[s] for s in a) - statistics.fmean(placed[s] for s in b),
        statistics.fmean(scores[s] for s in a) - statistics.fmean(scores[s] for s in b),
    )


def measure(pair: str, seats: int, blocks: int) -> tuple[float, list[tuple[float, float]]]:
    """The mean difference, and the variances per pair of games for the three ways of playing."""
    names = pair.split("/")
    loaded: dict[str, AnyBot] = {
        name: Tweaked if name == "tweaked" else load(resolve(name)) for name in names
    }
    a, b = (BotSpec(name, (), None, "") for name in names)
    bots, line_ups, ours, _ = seated(a, b, [], seats)
    players = [loaded[bot.name] for bot in bots]
    lots = Stream(SEED, f"lots {pair} {seats}")
    ways: list[list[tuple[float, float]]] = [[], [], []]
    for block in range(blocks):
        first = 2 * block
        for way, numbers, order in (
            (0, (first, first + 1), (lots.uniform(2), lots.uniform(2))),
            (1, (first, first + 1), (0, 1)),
            (2, (block, block), (0, 1)),
        ):
            games = [
                differences(players, line_ups[i], ours, number)
                for number, i in zip(numbers, order, strict=True)
            ]
            ways[way].append(
                (statistics.fmean(g[0] for g in games), statistics.fmean(g[1] for g in games))
            )
    mean = statistics.fmean(lead[0] for lead in ways[2])
    return mean, [
        (statistics.variance(v[0] for v in way), statistics.variance(v[1] for v in way))
        for way in ways
    ]


def main(blocks: int, *pairs: str) -> None:
    print(f"# {described()}")
    print(f"variance of A's lead over two games, {blocks} times; in placement score, in points")
    print(f"{'A/B':18} seats   lead   independent     seats swapped   blocks          saved")
    for pair in pairs or PAIRS:
        for seats in SEATS:
            mean, (alone, swapped, block) = measure(pair, seats, blocks)
            cells = "  ".join(f"{v[0]:.4f} {v[1]:7.1f}" for v in (alone, swapped, block))
            saved = " ".join(f"x{alone[i] / max(block[i], 1e-9):.1f}" for i in range(2))
            print(f"{pair:18} {seats:5}  {mean:+.3f}  {cells}  {saved}", flush=True)


if __name__ == "__main__":
    blocks, *pairs = sys.argv[1:] or ["200"]
    main(int(blocks), *pairs)
